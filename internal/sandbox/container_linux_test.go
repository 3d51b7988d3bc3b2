package sandbox_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

// TestAttacksForAnother runs the attacks where root works in the directory of
// somebody else: without a user namespace, and as that user.
func TestAttacksForAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root")
	}
	dir, err := os.MkdirTemp("/tmp", "sandboxtest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	copyProgram(t, filepath.Join(dir, "sandbox.test"))
	for _, level := range []sandbox.Level{sandbox.L2, sandbox.L1} {
		t.Run(string(level), func(t *testing.T) {
			corpus := sandboxtest.NewCorpus(t)
			corpus.User = 12345
			corpus.Self = filepath.Join(dir, "sandbox.test")
			corpus.Skip = func(a *sandboxtest.Attack) string {
				if level == sandbox.L2 && slices.Contains(a.Uncovered, "L1 user limits") {
					return "without a user namespace what the kernel counts for a user is counted for all of the user's processes"
				}
				return ""
			}
			s := sandbox.New(sandbox.Config{}.AtMost(level))
			defer s.Close()
			corpus.Attack(t, s, level)
		})
	}
}
