package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

// TestToolchains runs the operator's own tools inside, without a network.
func TestToolchains(t *testing.T) {
	home, ws := t.TempDir(), t.TempDir()
	tc := sandbox.Toolchains(os.Getenv("PATH"), os.Getenv("HOME"))
	files := map[string]string{
		"go.mod":    "module example.org/x\n\ngo 1.26.0\n\nrequire github.com/google/go-cmp v0.7.0\n",
		"x_test.go": "package x\n\nimport (\n\t\"testing\"\n\n\t\"github.com/google/go-cmp/cmp\"\n)\n\nfunc TestX(t *testing.T) {\n\tif cmp.Diff(1, 1) != \"\" {\n\t\tt.Fatal()\n\t}\n}\n",
	}
	sum, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	files["go.sum"] = string(sum)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(ws, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A cold build of the standard library takes half a minute; the cache is the
	// one thing here that is not as in use.
	cache := filepath.Join(home, ".cache", "go-build")
	if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
		cache = strings.TrimSpace(string(out))
	}
	p := sandbox.Profile{Write: []string{ws}, Home: home, Mounts: append(tc.Mounts, sandbox.Mount{Source: cache, Write: true})}
	s := sandbox.New(sandbox.Config{})
	defer s.Close()
	env := append(tc.Env(home), "HOME="+home, "GOCACHE="+cache)

	for _, c := range []struct{ program, script, want string }{
		{"go", "go test ./...", "ok"},
		{"node", "node -e 'console.log(40+2)'", "42"},
		{"python3", "python3 -c 'import multiprocessing, sys; print(multiprocessing.Pool(2).map(abs, [-4, 2]))'", "[4, 2]"},
		{"git", "git init -q . && git add go.mod && git -c user.name=x -c user.email=x@example.org commit -qm first && git log --oneline", "first"},
	} {
		t.Run(c.program, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skip("no", c.program)
			}
			got := sandboxtest.Command(t, s, sandbox.Cmd{Args: []string{"bash", "-c", c.script}, Env: env, Dir: ws, Profile: p})
			if got.Ending.Code != 0 || !strings.Contains(got.Output, c.want) {
				t.Errorf("%s\ngot %+v\n%s\nwant %q", c.script, got.Ending, got.Output, c.want)
			}
		})
	}
}
