//go:build amd64 || arm64

package seccomp

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNames compares the names with those of golang.org/x/sys.
func TestNames(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(out))
	text, err := os.ReadFile(filepath.Join(dir, "unix", "zsysnum_linux_"+runtime.GOARCH+".go"))
	if err != nil {
		t.Fatal(err)
	}
	// The kernel's own names where the package has others.
	renamed := map[string]string{"fstatat": "newfstatat"}
	names := Names()
	checked := 0
	for _, m := range regexp.MustCompile(`(?m)^\s*SYS_(\w+)\s*=\s*(\d+)$`).FindAllStringSubmatch(string(text), -1) {
		nr, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if nr > lastKnown {
			continue
		}
		want := strings.ToLower(m[1])
		if r, ok := renamed[want]; ok {
			want = r
		}
		if got := names[uintptr(nr)]; got != want {
			t.Errorf("system call %d is %q, want %q", nr, got, want)
		}
		checked++
	}
	if checked < 300 || len(names) < checked || names[lastKnown] != "file_setattr" {
		t.Errorf("%d names were compared of %d, the last is %q", checked, len(names), names[lastKnown])
	}
}

// answer is what a profile does with a call.
func answer(p *dockerProfile, name string, args [6]uint64) (allowed bool, errno uint) {
	for _, r := range p.Syscalls {
		for _, n := range r.Names {
			if n != name {
				continue
			}
			meets := true
			for _, a := range r.Args {
				meets = meets && a.Op == "SCMP_CMP_MASKED_EQ" && args[a.Index]&a.Value == a.ValueTwo
			}
			switch {
			case meets && r.Action == dockerAllow:
				return true, 0
			case meets:
				return false, *r.ErrnoRet
			}
		}
	}
	return false, p.DefaultErrnoRet
}

// TestDockerJSON asks both forms of the filter about every system call with many
// arguments: what one allows the other allows, but for what only Docker closes.
func TestDockerJSON(t *testing.T) {
	const high = 1 << 40
	values := []uint64{
		0, 1, 2, 3, 5, 6, 10, 16, 17, 40, 136, 262, 0o644, 0o755, 0o4755, 0o2755, 0o4755 | high, 0xffffffff,
		unix.O_CREAT, unix.O_TMPFILE, unix.O_DIRECTORY, unix.O_RDWR | unix.O_CREAT | unix.O_EXCL,
		unix.TIOCSTI, unix.TIOCSTI | high, unix.TIOCSTI + 1, unix.TIOCSETD, 0x541c, unix.TIOCGWINSZ,
		unix.CLONE_NEWUSER, unix.CLONE_VM | unix.CLONE_THREAD, unix.CLONE_NEWNS | high, unix.SOCK_STREAM | unix.SOCK_CLOEXEC,
	}
	for _, o := range []Options{{Sockets: OwnSockets}, {Shared: true}} {
		text, err := DockerJSON(o)
		if err != nil {
			t.Fatal(err)
		}
		var p dockerProfile
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		filter := Filter(o)
		asked := 0
		for nr, name := range Names() {
			for i, a := range values {
				for j, b := range values {
					// Three arguments that differ from each other, each with each.
					c := values[(i+j)%len(values)]
					args := [6]uint64{a, b, c, a, b, c}
					want := !slices.Contains(closed, name) && eval(t, filter, call(auditArch, uint32(nr), args[:]...)) == allow
					if got, _ := answer(&p, name, args); got != want {
						t.Fatalf("%s(%#x): the profile allows it: %v, the filter: %v", name, args, got, want)
					}
					asked++
				}
			}
		}
		if asked < 300*len(values)*len(values) {
			t.Errorf("only %d calls were asked about", asked)
		}
		if allowed, errno := answer(&p, "clone3", [6]uint64{}); allowed || errno != uint(unix.ENOSYS) {
			t.Errorf("clone3: allowed %v, errno %d, want ENOSYS", allowed, errno)
		}
	}
}

func TestOthers(t *testing.T) {
	denied := []uint32{unix.TIOCSTI, 0x541c, unix.TIOCSETD}
	cubes := others(denied...)
	covered := func(n uint32) (count int) {
		for _, c := range cubes {
			if n&c.mask == c.value {
				count++
			}
		}
		return count
	}
	size := uint64(0)
	for _, c := range cubes {
		free := 0
		for bit := range 32 {
			if c.mask>>bit&1 == 0 {
				free++
			}
		}
		size += 1 << free
	}
	if size != 1<<32-uint64(len(denied)) {
		t.Errorf("%d numbers are covered, want all but %d", size, len(denied))
	}
	for _, n := range denied {
		if covered(n) != 0 {
			t.Errorf("%#x is covered", n)
		}
		if covered(n^1) != 1 {
			t.Errorf("%#x is covered %d times, want once", n^1, covered(n^1))
		}
	}
}
