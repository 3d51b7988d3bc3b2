package sandboxtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// runAbilities checks what must work: a sandbox that lets nothing happen would
// pass every attack.
func runAbilities(t *testing.T, s sandbox.Runner) {
	t.Setenv("SANDBOXTEST_SECRET", "of the host")
	for _, c := range []struct{ name, script, want string }{
		{"write and read", "echo hello > file && cat file", "hello"},
		{"directories", "mkdir -p a/b && mv a c && touch c/b/x && rm -r c && ls", ""},
		{"pipes", "seq 1 1000 | wc -l", "1000"},
		{"process substitution", "test ! -e /proc/self || cat <(echo one) <(echo two) | wc -l", ""},
		{"devices", "head -c 3 /dev/zero | wc -c; echo x > /dev/null; head -c 4 /dev/urandom | wc -c", "3\n4"},
		{"environment", "echo ${SANDBOXTEST_SECRET:-none}", "none"},
		{"umask and mode", "touch m && stat -c %a m && mkdir d && stat -c %a d", "644\n755"},
		{"fork", "for i in 1 2 3 4 5; do (echo $i) & done; wait", ""},
		{"signals inside", "sleep 100 & kill $!; wait $!; echo $?", "143"},
		{"temporary files", "f=$(mktemp) && echo tmp > $f && cat $f", "tmp"},
		{"stderr", "echo err >&2", "err"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			got := Shell(t, s, sandbox.Profile{Write: []string{t.TempDir()}}, c.script)
			if got.Ending.Code != 0 || c.want != "" && got.Output != c.want {
				t.Errorf("%s\nended %+v with %q, want %q", c.script, got.Ending, got.Output, c.want)
			}
		})
	}
	t.Run("owner", func(t *testing.T) {
		ws := t.TempDir()
		Shell(t, s, sandbox.Profile{Write: []string{ws}}, "echo x > made")
		made, err := os.Stat(filepath.Join(ws, "made"))
		dir, err2 := os.Stat(ws)
		if err != nil || err2 != nil || owner(made) != owner(dir) {
			t.Errorf("made by %v, the workspace is of %v (%v)", owner(made), owner(dir), err)
		}
	})
	t.Run("loader_variables", func(t *testing.T) {
		got := Command(t, s, sandbox.Cmd{
			Args: []string{"env"}, Env: []string{"PATH=/usr/bin", "LD_PRELOAD=/x.so", "BASH_ENV=/x", "NODE_OPTIONS=-r x", "PYTHONPATH=/x", "KEEP=1"},
			Profile: sandbox.Profile{Read: System()},
		})
		for _, gone := range []string{"LD_PRELOAD", "BASH_ENV", "NODE_OPTIONS", "PYTHONPATH"} {
			if strings.Contains(got.Output, gone) {
				t.Errorf("%s came through:\n%s", gone, got.Output)
			}
		}
		if !strings.Contains(got.Output, "KEEP=1") {
			t.Errorf("KEEP did not come through:\n%s", got.Output)
		}
	})
	t.Run("no_program", func(t *testing.T) {
		_, err := s.Start(t.Context(), sandbox.Cmd{Args: []string{"/usr/bin/no-such-program"}, Profile: sandbox.Profile{Read: System()}})
		if err == nil || !strings.Contains(err.Error(), "no-such-program") {
			t.Errorf("got %v, want an error that names the program", err)
		}
	})
	t.Run("terminal", func(t *testing.T) { terminal(t, s) })
	t.Run("background", func(t *testing.T) {
		// The best of three: a busy machine may be slow once.
		best := time.Hour
		for range 3 {
			got := Shell(t, s, sandbox.Profile{}, "sleep 100 & echo hi")
			if got.Output != "hi" {
				t.Errorf("answered %q, want hi", got.Output)
			}
			best = min(best, got.Took)
		}
		limit := 200 * time.Millisecond
		if s.Probe(t.Context()).Level == sandbox.Docker {
			limit = 2 * time.Second // a container alone takes a quarter of one
		}
		if best > limit {
			t.Errorf("answered after %v, want within %v", best, limit)
		}
	})
}

func terminal(t *testing.T, s sandbox.Runner) {
	p, err := s.Start(t.Context(), sandbox.Cmd{
		Args: []string{"/bin/bash", "-c", "test -t 0; read line; echo got $line; stty size; echo x > /dev/tty"},
		Env:  []string{"PATH=/usr/bin:/bin"}, TTY: &sandbox.TTY{Columns: 100, Rows: 30}, Profile: sandbox.Profile{Read: System()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.PTY().Write([]byte("typed\n")); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	buf := make([]byte, 1024)
	for {
		n, err := p.PTY().Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			break // EIO: the last of the other side is gone
		}
	}
	if r := p.Wait(t.Context()); r.Ending.Code != 0 {
		t.Errorf("ended with %+v", r.Ending)
	}
	for _, want := range []string{"30 100", "got typed"} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("the terminal showed %q, want %q in it", seen.String(), want)
		}
	}
}
