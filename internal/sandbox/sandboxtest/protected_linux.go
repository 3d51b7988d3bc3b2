package sandboxtest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// runProtected checks that protected paths are after a command what they were
// before, whatever it did, and that nothing is left in the workspace for it.
func runProtected(t *testing.T, s sandbox.Runner, level sandbox.Level) {
	for _, c := range []struct{ name, script string }{
		{"write", "echo x > .git/config"},
		{"append", "echo x >> .git/hooks/pre-commit"},
		{"new hook", "echo x > .git/hooks/post-commit"},
		{"remove", "rm -rf .git/hooks .git/config"},
		{"rename", "mv .git/hooks .git/hooks2; mkdir .git/hooks; echo x > .git/hooks/pre-commit"},
		{"rename the parent", "mv .git .git2; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; echo y > .git/config"},
		{"exchange", "echo evil > other; mv -f other .git/config"},
		{"hard link", "ln .git/config alias && echo x > alias"},
		{"symlink in the way", "rm -f .mcp.json; ln -s /etc/passwd .mcp.json"},
		{"truncate", ": > .env"},
		{"chmod", "chmod 777 .env"},
		{"new secret file", "echo SECRET=1 > .env.local"},
		{"new directory", "mkdir -p .vscode && echo '{}' > .vscode/tasks.json"},
		{"new symlink", "ln -s /tmp .idea"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			ws := repository(t)
			before := snapshot(t, ws)
			if out := bare(ws, c.script); cmp.Equal(before, snapshot(t, ws)) {
				t.Fatalf("without a sandbox it changes nothing either: %s", out)
			}
			ws = repository(t)
			before = snapshot(t, ws)
			got := Shell(t, s, sandbox.Profile{Write: []string{ws}}, c.script+"; true")
			if diff := cmp.Diff(before, snapshot(t, ws)); diff != "" {
				t.Errorf("%s\nchanged protected paths (-before +after):\n%s\n%s\n%v", c.script, diff, got.Output, got.Violations)
			}
		})
	}
	t.Run("what_is_not_protected", func(t *testing.T) {
		ws := repository(t)
		got := Shell(t, s, sandbox.Profile{Write: []string{ws}}, "echo x > .git/index && echo y > main.go && mkdir .github && ls .github main.go .git/index && cat .env .git/config")
		if got.Ending.Code != 0 {
			t.Errorf("ended %+v: %s", got.Ending, got.Output)
		}
		if len(got.Violations) > 0 {
			t.Errorf("violations %v", got.Violations)
		}
	})
	t.Run("a_new_repository", func(t *testing.T) {
		for _, c := range []struct {
			script     string
			violations int
		}{
			{"mkdir -p .git/hooks; touch .git/hooks/pre-push.sample; printf '[core]\n\tbare = false\n\tfilemode = true\n' > .git/config", 0},
			{"mkdir -p .git/hooks; touch .git/hooks/pre-push; printf '[core]\n\tfsmonitor = evil\n' > .git/config", 2},
			{"mkdir -p .git; printf '[core]\n\tbare = false\n[include]\n\tpath = evil\n' > .git/config", 1},
		} {
			got := Shell(t, s, sandbox.Profile{Write: []string{t.TempDir()}}, c.script)
			if len(got.Violations) != c.violations {
				t.Errorf("%s: %d violations %v, want %d", c.script, len(got.Violations), got.Violations, c.violations)
			}
		}
	})
	t.Run("reported", func(t *testing.T) {
		got := Shell(t, s, sandbox.Profile{Write: []string{repository(t)}}, "mkdir .idea")
		if len(got.Violations) != 1 || filepath.Base(got.Violations[0].Target) != ".idea" {
			t.Errorf("violations %v, want the new .idea", got.Violations)
		}
	})
	t.Run("home_is_free", func(t *testing.T) {
		home := t.TempDir()
		got := Shell(t, s, sandbox.Profile{Write: []string{t.TempDir()}, Home: home}, "cd "+home+" && echo x > .bashrc && cat .bashrc")
		if got.Output != "x" || len(got.Violations) > 0 {
			t.Errorf("ended %+v with %q, violations %v", got.Ending, got.Output, got.Violations)
		}
	})
	t.Run("denied", func(t *testing.T) {
		ws := repository(t)
		got := Shell(t, s, sandbox.Profile{Write: []string{ws}, Deny: []string{".env", "private"}}, "cat .env private/key; ls private; cat go.mod")
		if strings.Contains(got.Output, "SECRET") || !strings.Contains(got.Output, "module") {
			t.Errorf("level %s showed\n%s", level, got.Output)
		}
	})
}

func repository(t *testing.T) string {
	t.Helper()
	ws := t.TempDir()
	for name, text := range map[string]string{
		".git/hooks/pre-commit": "#!/bin/sh\n", ".git/config": "[core]\n", ".git/HEAD": "ref: refs/heads/main\n",
		".env": "SECRET=0\n", ".mcp.json": "{}", ".claude/settings.json": "{}", "go.mod": "module x\n", "private/key": "SECRET",
	} {
		path := filepath.Join(ws, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return ws
}

// snapshot is the kind, mode and content of every protected path.
func snapshot(t *testing.T, ws string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(ws, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(ws, path)
		for _, p := range sandbox.DefaultProtected() {
			first, _, _ := strings.Cut(rel, "/")
			direct, _ := filepath.Match(p, first)
			if !direct && rel != p && !strings.HasPrefix(rel, p+"/") {
				continue
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			found[rel] = info.Mode().String()
			if info.Mode().IsRegular() {
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				found[rel] += " " + string(text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// bare runs a script without a sandbox: the positive control.
func bare(dir, script string) string {
	cmd := exec.Command("/bin/bash", "-c", script)
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput()
	return string(out)
}
