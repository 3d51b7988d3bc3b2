package sandbox_test

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
	"github.com/toolyard/toolyard/tool"
)

// socketpair is two ends of a stream; the first can be given a deadline.
func socketpair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		t.Fatal(err)
	}
	ours, theirs = os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	t.Cleanup(func() { ours.Close() })
	if err := ours.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// TestControl: descriptor 3 is the command's, and it is the only one besides the
// first three.
func TestControl(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.L2, sandbox.L2b, sandbox.L1, sandbox.L0} {
		t.Run(string(level), func(t *testing.T) {
			s := sandbox.New(sandbox.Config{}.AtMost(level))
			defer s.Close()
			if got := s.Probe(t.Context()).Level; got != level {
				t.Skipf("level %s cannot be had here, only %s", level, got)
			}
			ours, theirs := socketpair(t)
			// A shell's own test tells which are open: at L2b there is no /proc.
			script := `read -r x <&3; open=; for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do { (: <&$i) 2>/dev/null; } && open="$open $i"; done; echo "$x:$open" >&3`
			p, err := s.Start(t.Context(), sandbox.Cmd{
				Args: []string{"/bin/bash", "-c", script}, Control: theirs,
				Profile: sandbox.Profile{Read: sandboxtest.System(), MinLevel: sandbox.L0},
			})
			theirs.Close()
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if _, err := ours.WriteString("ping\n"); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(ours)
			line, err := reader.ReadString('\n')
			if want := "ping: 0 1 2 3\n"; line != want {
				t.Errorf("got %q, %v, want %q", line, err, want)
			}
			if rest, err := reader.ReadString('\n'); rest != "" || err == nil || strings.Contains(err.Error(), "timeout") {
				t.Errorf("after the end of the command: %q, %v, want the end of the stream: somebody holds the other end", rest, err)
			}
			if r := p.Wait(t.Context()); r.Ending.Reason != sandbox.EndExit || r.Ending.Code != 0 {
				t.Errorf("ended with %+v", r.Ending)
			}
		})
	}
}

// TestControlOfNothing: a command that cannot be executed is reported over the
// launcher's own socket, not over the command's.
func TestControlOfNothing(t *testing.T) {
	for _, level := range []sandbox.Level{sandbox.L2, sandbox.L1} {
		t.Run(string(level), func(t *testing.T) {
			s := sandbox.New(sandbox.Config{}.AtMost(level))
			defer s.Close()
			ours, theirs := socketpair(t)
			p, err := s.Start(t.Context(), sandbox.Cmd{Args: []string{"/no/such/program"}, Control: theirs})
			theirs.Close()
			if err == nil {
				p.Close()
				t.Fatal("a program that does not exist was started")
			}
			if e := tool.AsError(err); e.Code != tool.NotFound {
				t.Errorf("got %s %q, want %s", e.Code, e.Message, tool.NotFound)
			}
			if n, err := ours.Read(make([]byte, 1)); n != 0 {
				t.Errorf("%d bytes were written to the command's descriptor, %v", n, err)
			}
		})
	}
}
