package toolbox_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/tool"
)

// canary stands in every file that a tool must not read.
const canary = "CANARY-"

// ownCanary stands in the tool's own .env: it gets the value, not the file.
const ownCanary = "CANARY_OWN"

// world is a home with a hostile tool in it, and what lies around it. The attacks
// run in one, and without a sandbox in another.
type world struct {
	root, home, own string
	files           map[string]string // of the tool, by those of testdata/hostile
	args            map[string]any
	victim          *exec.Cmd
	peers           *peers
	said, changed   string // by the last try
	caged           bool
}

// peers listen on the machine and count who comes.
type peers struct {
	reached atomic.Int64
	args    map[string]any
}

// listen opens everything that a tool must not reach.
func listen(t *testing.T, dir string) *peers {
	t.Helper()
	p := &peers{args: map[string]any{"abstract": "toolyard-test-" + strings.ReplaceAll(dir, "/", "-"), "socket": filepath.Join(dir, "socket")}}
	count := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				p.reached.Add(1)
				_, _ = c.Write([]byte("HTTP/1.0 200 OK\r\n\r\n"))
				_ = c.Close()
			}
		}()
		return l
	}
	p.args["port"] = count("tcp4", "0.0.0.0:0").Addr().(*net.TCPAddr).Port
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil { // where there is IPv6
		_ = l.Close()
		p.args["port6"] = count("tcp6", "[::1]:0").Addr().(*net.TCPAddr).Port
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			p.args["address"] = ip.IP.String()
		}
	}
	name := "@" + p.args["abstract"].(string)
	count("unix", name)
	count("unix", name+strings.Repeat("\x00", 108-len(name))) // as Node writes it
	count("unix", p.args["socket"].(string))
	u, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	go func() {
		for buf := make([]byte, 1500); ; {
			if _, _, err := u.ReadFrom(buf); err != nil {
				return
			}
			p.reached.Add(1)
		}
	}()
	p.args["udp"] = u.LocalAddr().(*net.UDPAddr).Port
	return p
}

// newWorld makes a home around a hostile tool of testdata/hostile.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	root, err := os.MkdirTemp("/var/tmp", "toolyard-hostile-") // a sandbox has a /tmp of its own anyway
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	w := &world{root: root, home: filepath.Join(root, "home"), files: files}
	w.own = filepath.Join(w.home, "toolbox", "hostile")
	w.populate(t)
	w.peers = listen(t, filepath.Join(root, "user"))
	w.args = map[string]any{
		"home": w.home, "own": w.own, "out": filepath.Join(root, "user/out"), "pid": os.Getpid(), "mark": "mark-" + filepath.Base(root), "free": free(t),
	}
	maps.Copy(w.args, w.peers.args)
	t.Cleanup(w.endVictim)
	return w
}

// populate makes everything in the world as it was at the beginning.
func (w *world) populate(t *testing.T) {
	t.Helper()
	root := w.root
	for _, name := range []string{"home", "user/out", "user/key"} {
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"home/toolbox/hostile/data", "home/toolbox/.state", "home/shared", "user/out/deep"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(root, "user/out"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"home/token": canary + "token", "home/toolyard.db": canary + "db", "home/config.yaml": "# " + canary + "config\n",
		"home/toolbox/other/.env": "KEY=" + canary + "other\n", "home/toolbox/other/data/secret.txt": canary + "data",
		"home/toolbox/other/tool.js": "export default { execute: ({ n }) => ({ n }), getMetadata: () => ({ id: 'other', name: 'Other', description: 'Says a number back.', version: '1.0.0' }) }\n",
		"home/toolbox/hostile/.env":  "KEY=" + ownCanary + "\n", "user/key": canary + "user", "user/out/victim": "victim", "user/out/deep/file": "victim",
		"user/script": "#!/bin/sh\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for to, from := range w.files {
		data, err := os.ReadFile(filepath.Join("testdata", "hostile", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.own, to), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// free is a port that nobody listens on.
func free(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startVictim starts a process that attacks are aimed at.
func (w *world) startVictim(t *testing.T) {
	t.Helper()
	w.endVictim()
	w.victim = exec.Command("sleep", "600")
	if err := w.victim.Start(); err != nil {
		t.Fatal(err)
	}
	w.args["victim"] = w.victim.Process.Pid
}

func (w *world) endVictim() {
	if w.victim != nil {
		_ = w.victim.Process.Kill()
		_ = w.victim.Wait()
		w.victim = nil
	}
}

// victimHarmed reports whether the victim is dead, dying, or slower.
func (w *world) victimHarmed() bool {
	if w.victim == nil {
		return false
	}
	pid := w.victim.Process.Pid
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	if strings.HasPrefix(rest, "Z") {
		return true
	}
	nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, pid)
	own, _ := syscall.Getpriority(syscall.PRIO_PROCESS, os.Getpid())
	return err != nil || nice != own
}

// print is what everything around the tool looks like: its own data, its log, and
// what the program keeps are left out, except for what no tool may leave in its
// data.
func (w *world) print(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(w.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(w.root, path)
		info, err := e.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		switch {
		case rel == "home/cache", rel == "home/runtimes", strings.HasPrefix(rel, "home/toolbox/.state/") && e.IsDir(), rel == "home/toolbox/.state/index.json", strings.Contains(rel, "run.log"), e.Name() == "__pycache__", rel == "user/socket":
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case strings.HasSuffix(rel, ".lock"), strings.HasPrefix(rel, "home/toolbox/.state/") && !strings.Contains(rel, "grants"):
			return nil
		case within(rel, "home/toolbox/hostile/data"):
			if rel == "home/toolbox/hostile/data/flood" {
				return fs.SkipDir
			}
			if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice) != 0 || info.Mode().IsRegular() && st.Nlink > 1 {
				found[rel] = fmt.Sprint(info.Mode(), st.Nlink)
			}
			return nil
		}
		text := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = fmt.Sprintf("%x %d", sha256.Sum256(data), st.Nlink)
		}
		found[rel] = fmt.Sprintf("%v %d:%d %s", info.Mode(), st.Uid, st.Gid, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// differences between two prints, "" if there is none.
func differences(before, after map[string]string) string {
	var list []string
	for name := range after {
		if before[name] != after[name] {
			list = append(list, fmt.Sprintf("%s: %q, was %q", name, after[name], before[name]))
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			list = append(list, name+": gone")
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// marked are the processes of the machine whose arguments hold a text.
func marked(text string) []int {
	var pids []int
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if raw, err := os.ReadFile(path); err == nil && strings.Contains(string(raw), text) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// harm is a way to see from outside that an attack worked.
type harm int

const (
	reads   harm = iota // what it says has the canary, or REACHED
	writes              // something around it changed
	reaches             // somebody who listens heard of it
	kills               // the victim is not as it was
	stays               // a process of it is there
	opens               // somebody outside can connect to it
	fills               // its data are too large
	claims              // what it says is REACHED; by itself that is no harm, what counts are the next calls
)

// attack is one try. To add one: a function in testdata/hostile/attacks.* and a
// row here.
type attack struct {
	name   string
	harm   harm
	paths  []string // below the root of the world, one try each
	target string
	fresh  bool // the control's process is broken by it
	root   bool // needs root, as control
}

var (
	secrets = []string{
		"home/token", "home/toolyard.db", "home/config.yaml", "home/toolbox/other/.env", "home/toolbox/other/data/secret.txt", "home/toolbox/hostile/.env", "user/key",
	}
	one        = []string{"home/token"}
	someone    = []string{"user/out/victim", "home/token", "home/toolbox/other/tool.js"}
	javaScript = []attack{
		{name: "read", harm: reads, paths: secrets}, {name: "readStream", harm: reads, paths: one}, {name: "readAsync", harm: reads, paths: one},
		{name: "readSymlink", harm: reads, paths: secrets}, {name: "readLinkedDir", harm: reads, paths: secrets}, {name: "readHardlink", harm: reads, paths: secrets},
		{name: "readProc", harm: reads, paths: secrets}, {name: "readDescriptors", harm: reads, paths: one}, {name: "readRequire", harm: reads, paths: one},
		{name: "readBinding", harm: reads, paths: one}, {name: "readWorker", harm: reads, paths: one}, {name: "readChild", harm: reads, paths: secrets},
		{name: "readArtifact", harm: reads, paths: secrets}, {name: "readArtifactAbove", harm: reads, paths: secrets},
		{name: "environment", harm: reads}, {name: "environmentOf", harm: reads},

		{name: "write", harm: writes}, {name: "overwrite", harm: writes, paths: someone}, {name: "append", harm: writes, paths: someone},
		{name: "truncate", harm: writes, paths: someone}, {name: "unlink", harm: writes, paths: someone}, {name: "chmod", harm: writes, paths: someone},
		{name: "chown", harm: writes, paths: someone, root: true}, {name: "rmrf", harm: writes}, {name: "writeSymlink", harm: writes},
		{name: "rename", harm: writes}, {name: "copy", harm: writes}, {name: "linkOut", harm: writes}, {name: "symlinkOut", harm: writes}, {name: "mkdir", harm: writes},
		{name: "writeDescriptor", harm: writes}, {name: "writeChild", harm: writes}, {name: "writeWorker", harm: writes}, {name: "writeShell", harm: writes},
		{name: "writeBinding", harm: writes}, {name: "dlopen", harm: writes}, {name: "setuid", harm: writes}, {name: "setuidOpen", harm: writes},
		{name: "source", harm: writes}, {name: "newSource", harm: writes}, {name: "ownEnv", harm: writes}, {name: "movePlace", harm: writes, fresh: true},
		{name: "grantItself", harm: writes},

		{name: "kill", harm: kills}, {name: "debugProcess", harm: kills}, {name: "priority", harm: kills},
		{name: "shell", harm: reads}, {name: "commands", harm: reads}, {name: "stay", harm: stays}, {name: "threads", harm: reads, fresh: true},

		{name: "tcp", harm: reaches}, {name: "tcp6", harm: reaches}, {name: "address", harm: reaches}, {name: "http", harm: reaches}, {name: "fetch", harm: reaches},
		{name: "udp", harm: reaches}, {name: "dns", harm: reaches}, {name: "abstract", harm: reaches}, {name: "unix", harm: reaches},
		{name: "metadata", harm: reads}, {name: "listen", harm: opens}, {name: "inspector", harm: opens},

		{name: "pollute", harm: claims, target: "polluted", fresh: true}, {name: "pollute", harm: claims, target: "toJSON", fresh: true},
		{name: "pollute", harm: claims, target: "id", fresh: true}, {name: "accessor", harm: claims, fresh: true},
		{name: "scribble", harm: claims, fresh: true}, {name: "closeAll", harm: claims, fresh: true},
		{name: "storage", harm: fills}, {name: "inodes", harm: reads},
	}
	// patched are what the program that loads tools, or Node beneath it, might use.
	patched = []string{
		"JSON.stringify", "JSON.parse", "Promise.prototype.then", "Promise.resolve", "globalThis.Promise", "Buffer.from", "Buffer.prototype.toString",
		"Function.prototype.call", "Function.prototype.bind", "Reflect.apply", "process.exit", "process.stdout.write", "fs.writeSync", "fs.readSync",
		"events.prototype.emit", "Array.prototype.push", "Map.prototype.set", "Object.assign", "globalThis.setTimeout", "module._load",
	}
	python = []attack{
		{name: "read", harm: reads, paths: secrets}, {name: "readSymlink", harm: reads, paths: secrets}, {name: "readProc", harm: reads, paths: secrets},
		{name: "readLibc", harm: reads, paths: one}, {name: "environment", harm: reads}, {name: "write", harm: writes}, {name: "writeSymlink", harm: writes},
		{name: "setuid", harm: writes}, {name: "mount", harm: reads, root: true}, {name: "shell", harm: reads}, {name: "kill", harm: kills}, {name: "stay", harm: stays},
		{name: "forks", harm: reads}, {name: "threads", harm: reads}, {name: "tcp", harm: reaches}, {name: "udp", harm: reaches}, {name: "abstract", harm: reaches},
		{name: "patch", harm: claims, target: "json.dumps", fresh: true}, {name: "patch", harm: claims, target: "json.loads", fresh: true},
		{name: "patch", harm: claims, target: "os.write", fresh: true}, {name: "patch", harm: claims, target: "os.read", fresh: true},
		{name: "patch", harm: claims, target: "sys.exit", fresh: true}, {name: "patch", harm: claims, target: "builtins.open", fresh: true},
		{name: "patch", harm: claims, target: "builtins.len", fresh: true}, {name: "patch", harm: claims, target: "threading.Thread", fresh: true},
	}
)

// TestHostile: a tool that tries everything harms nothing outside its folder, and
// the next calls work. Each try is made without a sandbox first, where it must
// succeed: else the case proves nothing.
func TestHostile(t *testing.T) {
	t.Setenv("TOOLYARD_TEST_SECRET", canary+"environment")
	t.Setenv("NODE_OPTIONS", "--trace-event-file-pattern="+canary+"pattern")
	t.Setenv("LD_TOOLYARD", canary+"ld")
	for _, target := range patched {
		javaScript = append(javaScript, attack{name: "patch", harm: claims, target: target, fresh: true})
	}
	for _, l := range []struct {
		name    string
		files   map[string]string
		control []string
		attacks []attack
	}{
		{"js", map[string]string{"hostile.tool.js": "hostile.tool.js", "attacks.cjs": "attacks.cjs"}, []string{"node", "control.cjs", "attacks.cjs"}, javaScript},
		{"py", map[string]string{"tool.py": "tool.py", "attacks.py": "attacks.py"}, []string{"python3", "control.py", "attacks.py"}, python},
	} {
		t.Run(l.name, func(t *testing.T) { hostile(t, l.files, l.control, l.attacks) })
	}
}

func hostile(t *testing.T, files map[string]string, program []string, attacks []attack) {
	bare, caged := newWorld(t, files), newWorld(t, files)
	caged.caged = true
	native(t, bare)
	native(t, caged)
	c := &controlled{program: program, home: bare.home}
	defer c.end()
	b := open(t, caged.home, func(c *toolbox.Config) { c.UserHome = filepath.Join(caged.root, "user") })
	s := &caller{b: b, host: &attachments{}}
	for _, name := range []string{"hostile", "other"} {
		if _, _, err := b.Lookup(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	whole := caged.print(t)
	for _, a := range attacks {
		if a.root && os.Getuid() != 0 {
			continue
		}
		paths := a.paths
		if len(paths) == 0 {
			paths = []string{""}
		}
		for _, path := range paths {
			name := a.name
			if what := cmp.Or(a.target, path); what != "" {
				name += " " + strings.ReplaceAll(what, "/", "_")
			}
			t.Run(name, func(t *testing.T) {
				if skipHere(bare, a) {
					t.Logf("there is no such address here")
					return
				}
				if !bare.try(t, a, path, c.ask) {
					t.Fatalf("without a sandbox it does no harm: the case proves nothing (it said %.300q)", bare.said)
				}
				if a.fresh {
					c.end()
				}
				if s.session = ""; a.harm == claims {
					s.session = name // what the others find would come from this one
				}
				if caged.try(t, a, path, s.attack) && a.harm != claims {
					t.Errorf("it worked in the sandbox too: %.500q\n%s", caged.said, caged.changed)
				}
				s.well(t)
			})
		}
	}
	if n := caged.peers.reached.Load(); n > 0 {
		t.Errorf("%d connections came out of the sandbox", n)
	}
	if d := differences(whole, caged.print(t)); d != "" {
		t.Errorf("changed outside of its data:\n%s", d)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
	c.end()
	for _, pid := range slices.Concat(marked(caged.root), marked(caged.args["mark"].(string))) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		t.Errorf("process %d is left: %q", pid, line)
	}
}

func skipHere(w *world, a attack) bool {
	return a.name == "address" && w.args["address"] == nil || a.name == "tcp6" && w.args["port6"] == nil
}

// native compiles a module for process.dlopen, whose constructor writes a file.
func native(t *testing.T, w *world) {
	t.Helper()
	dir := t.TempDir()
	source, module := filepath.Join(dir, "m.c"), filepath.Join(dir, "m.so")
	code := fmt.Sprintf("#include <fcntl.h>\n#include <unistd.h>\n__attribute__((constructor)) static void f(void) { int fd = open(%q, O_CREAT|O_WRONLY, 0644); if (fd >= 0) close(fd); }\n",
		filepath.Join(w.root, "user/out/native"))
	if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", module, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	w.args["native"] = base64.StdEncoding.EncodeToString(data)
}

// try makes one attack and reports whether it did harm, seen from outside.
func (w *world) try(t *testing.T, a attack, path string, run func(t *testing.T, name string, args map[string]any) string) bool {
	t.Helper()
	if !w.caged && (a.harm == writes || a.harm == fills) {
		w.populate(t)
	}
	args := maps.Clone(w.args)
	if path != "" {
		args["path"] = filepath.Join(w.root, path)
	}
	args["target"], args["metadata"], args["metadataPort"], args["wait"] = a.target, "127.0.0.1", args["port"], 20_000
	args["linger"] = 0
	if w.caged {
		args["metadata"], args["metadataPort"], args["wait"], args["linger"] = "169.254.169.254", 80, 800, 20_000
	}
	if a.name != "dlopen" {
		delete(args, "native")
	}
	if a.harm == kills || a.name == "environmentOf" {
		w.startVictim(t)
		args["victim"] = w.args["victim"]
	}
	before, reached := w.print(t), w.peers.reached.Load()
	opened := func() bool { return false }
	if a.harm == opens {
		opened = knock(t, args["free"].(int))
	}
	w.said = run(t, a.name, args)
	// Without a sandbox what is to be seen may come a little later.
	patient := func(seen func() bool) bool {
		if w.caged {
			return seen()
		}
		for deadline := time.Now().Add(10 * time.Second); !seen(); {
			if time.Now().After(deadline) {
				return false
			}
			<-time.After(10 * time.Millisecond)
		}
		return true
	}
	switch a.harm {
	case reads, claims:
		if a.harm == claims && !w.caged && strings.HasPrefix(w.said, "it died") {
			return true
		}
		want := canary
		if strings.HasSuffix(path, "hostile/.env") {
			want = ownCanary
		}
		return strings.Contains(w.said, want) || strings.Contains(w.said, "REACHED")
	case writes:
		w.changed = differences(before, w.print(t))
		return w.changed != ""
	case reaches:
		return patient(func() bool { return w.peers.reached.Load() > reached })
	case kills:
		return patient(w.victimHarmed)
	case opens:
		return opened()
	case fills:
		info, err := os.Stat(filepath.Join(w.own, "data", "storage.json"))
		return err == nil && info.Size() > 10<<20
	case stays:
		if w.caged {
			return false // its processes may live as long as its worker: see the end
		}
		found := patient(func() bool { return len(marked(args["mark"].(string))) > 0 })
		for _, pid := range marked(args["mark"].(string)) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return found
	}
	return false
}

// knock connects to a port of the machine until it is asked whether it got in.
func knock(t *testing.T, port int) (opened func() bool) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool, 1)
	go func() {
		for ctx.Err() == nil {
			if c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), time.Second); err == nil {
				_ = c.Close()
				done <- true
				return
			}
			<-time.After(20 * time.Millisecond)
		}
		done <- false
	}()
	return func() bool { cancel(); return <-done }
}

// controlled runs attacks without a sandbox, in one process for as long as it
// lives.
type controlled struct {
	program []string
	home    string
	cmd     *exec.Cmd
	in      interface{ Write([]byte) (int, error) }
	out     *bufio.Reader
}

func (c *controlled) ask(t *testing.T, name string, args map[string]any) string {
	t.Helper()
	if c.cmd == nil {
		dir, err := filepath.Abs(filepath.Join("testdata", "hostile"))
		if err != nil {
			t.Fatal(err)
		}
		c.cmd = exec.Command(c.program[0], filepath.Join(dir, c.program[1]), filepath.Join(dir, c.program[2]))
		c.cmd.Dir = filepath.Dir(c.home)
		c.cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		home, err := os.Open(c.home)
		if err != nil {
			t.Fatal(err)
		}
		defer home.Close()
		c.cmd.ExtraFiles = []*os.File{home}
		in, err := c.cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.in, c.out = in, bufio.NewReader(out)
		if err := c.cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	line, err := json.Marshal(map[string]any{"name": name, "w": args})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		c.end()
		return "it died: " + err.Error()
	}
	timer := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	answer, err := c.out.ReadBytes('\n')
	var said string
	if err != nil || json.Unmarshal(answer, &said) != nil {
		c.end()
		return fmt.Sprintf("it died: %v %s", err, answer)
	}
	return said
}

func (c *controlled) end() {
	if c.cmd != nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.cmd = nil
	}
}

// caller calls the tools of a box.
type caller struct {
	b       *toolbox.Box
	host    *attachments
	session string
}

// attack makes one attack. A failure has to be a typed one.
func (c *caller) attack(t *testing.T, name string, args map[string]any) string {
	t.Helper()
	r, err := c.do(t, "hostile", map[string]any{"name": name, "w": args})
	if err != nil {
		e := tool.AsError(err)
		if e.Code.Class() == "unknown_error" || e.Message == "" {
			t.Errorf("%s fails with %v, want a typed error", name, err)
		}
		t.Logf("%s: %s %s", name, e.Code, e.Message)
		return string(e.Code) + ": " + e.Message + c.host.take()
	}
	return r.TextContent() + string(r.Structured) + c.host.take()
}

func (c *caller) do(t *testing.T, name string, args map[string]any) (*tool.Result, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return toolNamed(t, c.b, name).Call(ctx, &tool.Request{Arguments: raw, Session: c.session, CallID: "call_1", Host: c.host})
}

// well calls the hostile tool and another one, which both have to work.
func (c *caller) well(t *testing.T) {
	t.Helper()
	for _, one := range []struct {
		name, want string
		args       map[string]any
	}{
		{"hostile", `{"said":"pong"}`, map[string]any{"name": "ping"}},
		{"other", `{"n":7}`, map[string]any{"n": 7}},
	} {
		if r, err := c.do(t, one.name, one.args); err != nil || string(r.Structured) != one.want {
			t.Errorf("the next call of %s: %v %v, want %s", one.name, r, err, one.want)
		}
	}
}

// toolNamed is a tool as the box lists it now.
func toolNamed(t *testing.T, b *toolbox.Box, name string) tool.Tool {
	t.Helper()
	tools, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tools {
		if one.Spec().Name == name {
			return one
		}
	}
	t.Fatalf("no tool %s on the list", name)
	return nil
}

// attachments is a host that keeps what tools attach.
type attachments struct {
	tool.Host
	mu   sync.Mutex
	data []byte
}

func (h *attachments) Emit(tool.Event)   {}
func (h *attachments) Report(tool.Usage) {}
func (h *attachments) Ask(context.Context, tool.Question) (tool.Answer, error) {
	return tool.Answer{}, tool.ErrNoChannel
}
func (h *attachments) Attach(_ context.Context, a tool.Artifact) (tool.ArtifactRef, error) {
	data, err := io.ReadAll(a.Data)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.data = append(h.data, data...)
	return tool.ArtifactRef{}, err
}

// take is what was attached since.
func (h *attachments) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	data := string(h.data)
	h.data = nil
	return data
}
