package sandboxtest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/workspace"
)

// state is what is compared before and after an attack.
type state map[string]string

// before notes what an attack must not change.
func (m *aim) before(a *Attack) state {
	switch kind, arg, _ := strings.Cut(a.Evidence, " "); kind {
	case "outside":
		return merge(tree(m.vars["OUT"]), tree(m.vars["RO"]), tree(filepath.Join(m.dir, "s")))
	case "protected":
		return m.protected()
	case "denied":
		return tree(filepath.Join(m.vars["WS"], arg))
	case "victim":
		return m.victimState(arg)
	}
	return nil
}

// look looks for the success of an attack, as far as that is possible from
// outside. It returns what it saw, or "".
func (c *Corpus) look(t *testing.T, m *aim, a *Attack, before state, run ran) string {
	kind, arg, _ := strings.Cut(a.Evidence, " ")
	arg = os.Expand(arg, func(name string) string { return m.vars[name] })
	switch kind {
	case "leak":
		for _, token := range []string{m.token, c.secret} {
			if strings.Contains(run.output, token) {
				return "the token was printed"
			}
		}
	case "outside", "protected", "denied", "victim":
		if m.victim != nil && kind == "victim" {
			time.Sleep(20 * time.Millisecond) // a signal is on its way
		}
		return cmp.Diff(before, m.before(a))
	case "trap":
		return traps(m.vars["WS"])
	case "received", "listens":
		time.Sleep(10 * time.Millisecond) // a packet is on its way
		m.mu.Lock()
		defer m.mu.Unlock()
		return strings.Join(m.received, ", ")
	case "survivor":
		if left := m.carriers(); len(left) > 0 {
			return fmt.Sprintf("processes %v live on", left)
		}
	case "appears":
		if queue, ok := strings.CutPrefix(arg, "/dev/mqueue/"); ok {
			if fd, err := openQueue(strings.TrimSuffix(queue, "*"), unix.O_RDONLY); err == nil {
				unix.Close(fd)
				return "there is the queue " + queue
			}
		}
		if found, _ := filepath.Glob(arg); len(found) > 0 {
			return fmt.Sprintf("there is %v", found)
		}
	case "counts":
		text, _ := os.ReadFile(filepath.Join(m.vars["WS"], "count"))
		got, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if want, wantErr := strconv.Atoi(arg); err == nil && wantErr == nil && got > want {
			return fmt.Sprintf("it counted %d, over %d", got, want)
		}
	case "reason":
		if run.Ending.Reason == arg {
			return "the ending is reported as " + arg
		}
	case "says":
		if run.Ending.Code == succeeded && strings.Contains(run.output, mark) {
			return "it says that it succeeded"
		}
	}
	return ""
}

func merge(states ...state) state {
	all := state{}
	for _, s := range states {
		for k, v := range s {
			all[k] = v
		}
	}
	return all
}

// tree is all that can be known of a directory and what is below it, but for
// when it was read.
func tree(root string) state {
	found := state{}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			found[path] = err.Error()
			return nil
		}
		found[path] = describe(path)
		return nil
	})
	return found
}

func describe(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("mode %o, owner %d:%d, links %d, modified %d.%09d", st.Mode, st.Uid, st.Gid, st.Nlink, st.Mtim.Sec, st.Mtim.Nsec)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		b, _ := os.ReadFile(path)
		text += fmt.Sprintf(", content %x", sha256.Sum256(b))
	case unix.S_IFLNK:
		to, _ := os.Readlink(path)
		text += ", to " + to
	}
	names := make([]byte, 4096)
	if n, err := unix.Llistxattr(path, names); err == nil && n > 0 {
		for name := range bytes.SplitSeq(bytes.TrimRight(names[:n], "\x00"), []byte{0}) {
			value := make([]byte, 4096)
			n, _ := unix.Lgetxattr(path, string(name), value)
			text += fmt.Sprintf(", %s=%x", name, value[:max(n, 0)])
		}
	}
	return text
}

// protected is the state of the protected paths of the workspace, and of those
// that git takes for them.
func (m *aim) protected() state {
	found := state{}
	ws := m.vars["WS"]
	for path, what := range tree(ws) {
		rel, _ := filepath.Rel(ws, path)
		// All these names begin so; deeper down they are the policy's to protect.
		if strings.HasPrefix(rel, ".") && workspace.Protected(rel) {
			// Putting a file back makes it new.
			what, _, _ = strings.Cut(what, ", links")
			found[rel] = what
			if strings.HasPrefix(what, "mode 100") {
				text, _ := os.ReadFile(path)
				found[rel] += " " + string(text)
			}
		}
	}
	return found
}

// traps lists what nobody should find in a workspace.
func traps(ws string) string {
	var list []string
	_ = filepath.WalkDir(ws, func(path string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err != nil || unix.Lstat(path, &st) != nil {
			return nil
		}
		if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFBLK || kind == unix.S_IFCHR {
			list = append(list, path+" is a device")
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
			list = append(list, fmt.Sprintf("%s has mode %o", path, st.Mode))
		}
		if n, err := unix.Lgetxattr(path, "security.capability", nil); err == nil && n > 0 {
			list = append(list, path+" has capabilities")
		}
		return nil
	})
	return strings.Join(list, ", ")
}

// victimState is whether and how the victim lives, and the signals that it got.
func (m *aim) victimState(only string) state {
	if m.victim == nil {
		return nil
	}
	dir := fmt.Sprintf("/proc/%d/", m.victim.Process.Pid)
	s := state{}
	stat, _ := os.ReadFile(dir + "stat")
	if _, rest, ok := strings.Cut(string(stat), ") "); ok {
		f := strings.Fields(rest)
		s["dead or stopped"] = fmt.Sprint(strings.Contains("ZXTt", f[0]))
		s["priority"], s["nice"], s["rt_priority"], s["policy"], s["group"], s["session"] = f[15], f[16], f[37], f[38], f[2], f[3]
	}
	for _, name := range []string{"limits", "oom_score_adj", "comm", "cgroup"} {
		text, _ := os.ReadFile(dir + name)
		s[name] = string(text)
	}
	status, _ := os.ReadFile(dir + "status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cpus_allowed_list") || strings.HasPrefix(line, "TracerPid") || strings.HasPrefix(line, "Mems_allowed_list") {
			name, value, _ := strings.Cut(line, ":")
			s[name] = value
		}
	}
	io, _, _ := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(m.victim.Process.Pid), 0)
	s["ioprio"] = fmt.Sprint(io)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.signals {
		// Somebody may send everybody this one.
		if (name == "window changed") == (only == "window changed") {
			s["signals"] += name + " "
		}
	}
	return s
}
