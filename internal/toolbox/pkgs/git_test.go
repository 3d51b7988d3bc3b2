package pkgs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/tool"
)

// repo makes a repository of commits, and returns the path and the commits.
func repo(t *testing.T, commits ...func(dir string)) (string, []string) {
	t.Helper()
	dir := t.TempDir()
	var ids []string
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	for i, commit := range commits {
		commit(dir)
		git("add", "-A")
		git("commit", "-q", "-m", "x")
		ids = append(ids, git("rev-parse", "HEAD"))
		git("tag", "v"+string(rune('1'+i)))
	}
	return dir, ids
}

func sandboxed(t *testing.T) func(*pkgs.Config) {
	t.Helper()
	s := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { s.Close() })
	return func(c *pkgs.Config) { c.Runner = s }
}

// TestGit: a repository at a branch, a tag and a commit; nothing of it runs.
func TestGit(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	put := func(version string) func(string) { return func(dir string) { plant(t, dir, hello(version)) } }
	dir, ids := repo(t, put("1.0.0"), put("2.0.0"))
	// What would run if git obeyed the repository or the user.
	hook := "#!/bin/sh\ntouch " + marker + "\n"
	plant(t, dir, map[string]string{".git/hooks/post-checkout*": hook, ".git/hooks/pre-upload*": hook})
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
	t.Setenv("GIT_CONFIG_VALUE_0", "touch "+marker)
	p := open(t, sandboxed(t))
	for _, c := range []struct{ ref, version, commit string }{
		{"", "2.0.0", ids[1]}, {"#main", "2.0.0", ids[1]}, {"#v1", "1.0.0", ids[0]}, {"#" + ids[0], "1.0.0", ids[0]},
	} {
		t.Run("ref_"+strings.TrimPrefix(c.ref, "#"), func(t *testing.T) {
			f, err := p.Fetch(t.Context(), "git+file://"+dir+c.ref, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if f.Kind != pkgs.KindGit || f.Version != c.version || f.Resolved != c.commit || f.Source != "git+file://"+dir+c.ref || len(f.Left) > 0 {
				t.Errorf("fetched %+v", f)
			}
			want := hello(c.version)
			want["lib/"] = ""
			if diff := cmp.Diff(want, tree(t, f.Dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("something of the repository or the environment ran")
	}
	noStage(t, p)
}

// TestGitRefused: what is wrong with a repository is said, and nothing is left.
func TestGitRefused(t *testing.T) {
	p := open(t, sandboxed(t))
	good, _ := repo(t, func(dir string) { plant(t, dir, hello("1.0.0")) })
	linked, _ := repo(t, func(dir string) {
		plant(t, dir, hello("1.0.0"))
		if err := os.Symlink("/etc/passwd", filepath.Join(dir, "lib", "users")); err != nil {
			t.Fatal(err)
		}
	})
	modules, _ := repo(t, func(dir string) {
		plant(t, dir, map[string]string{".gitmodules": "[submodule \"x\"]\n\tpath = x\n\turl = " + good + "\n", "README": ""})
	})
	for _, c := range []struct {
		name, source string
		code         tool.Code
		part         string
	}{
		{"ext", "git+ext::sh -c touch% x", tool.ParameterError, "cannot be fetched by"},
		{"git protocol", "git://example.org/x.git", tool.ParameterError, "cannot be fetched by"},
		{"http", "git+http://example.org/x.git", tool.ParameterError, "cannot be fetched by"},
		{"host like an option", "ssh://-oProxyCommand=x/y.git", tool.ParameterError, "names no host"},
		{"user like an option", "ssh://-oProxyCommand=x@host/y.git", tool.ParameterError, "a user that begins"},
		{"ref like an option", "git+file://" + good + "#--upload-pack=touch", tool.ParameterError, "no branch"},
		{"ref is a refspec", "git+file://" + good + "#a:b", tool.ParameterError, "no branch"},
		{"no such ref", "git+file://" + good + "#nothing", tool.NotFound, "nothing"},
		{"no such repository", "git+file://" + t.TempDir() + "/none", tool.NotFound, "no repository"},
		{"no repository", "git+file://" + t.TempDir(), tool.DependencyError, "git fetch"},
		{"symlink", "git+file://" + linked, tool.ParameterError, `"lib/users" is a symlink, to "/etc/passwd"`},
		{"no tool", "git+file://" + modules, tool.ParameterError, "has no tool"},
		{"nobody answers", "https://user:secret@127.0.0.1:1/x.git", tool.DependencyError, "git fetch git+https://user@127.0.0.1:1/x.git"},
		{"nobody answers by ssh", "ssh://git@127.0.0.1:1/x.git", tool.DependencyError, "Connection reset by"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			f, err := p.Fetch(t.Context(), c.source, nil)
			if err == nil {
				f.Close()
			}
			wantError(t, err, c.code, c.part)
			if e := tool.AsError(err); e != nil && strings.Contains(e.Text(), "secret") {
				t.Errorf("the password is in %q", e.Text())
			}
			noStage(t, p)
		})
	}
}
