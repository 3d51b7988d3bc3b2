package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestToolchainsShowNoSecrets: whatever PATH says, a home is not shown.
func TestToolchainsShowNoSecrets(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if dir := filepath.Join(home, "go/bin"); os.MkdirAll(dir, 0o755) != nil {
		t.Fatal("mkdir")
	}
	for _, dir := range []string{".ssh/bin", ".config/tool/bin", ".cargo/bin"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := home + ":/:relative:/etc:" + filepath.Dir(home) + ":" + home + "/.ssh/bin:" + home + "/.config/tool/bin:" + home + "/go/bin:/usr/bin"
	got := Toolchains(path, home)
	for _, m := range got.Mounts {
		if m.Source == "/" || m.Source == "/etc" || inside(home, m.Source) ||
			inside(m.Source, filepath.Join(home, ".ssh")) || inside(m.Source, filepath.Join(home, ".config")) {
			t.Errorf("%s is shown", m.Source)
		}
		if m.Write {
			t.Errorf("%s can be written", m.Source)
		}
	}
	if slices.Contains(got.Path, home) || !slices.Contains(got.Path, "/usr/bin") {
		t.Errorf("path %v", got.Path)
	}
}

// TestToolchainOnline: with a network the operator's modules are the first place
// to look in, and not where new ones are put.
func TestToolchainOnline(t *testing.T) {
	chain := Toolchain{Mounts: []Mount{{Source: "/h/go/pkg/mod"}}}
	env := chain.Online(chain.Env("/private"), "/private")
	for name, want := range map[string]string{
		"GOMODCACHE": "/private/.cache/go-mod", "GOPROXY": "file:///h/go/pkg/mod/cache/download,https://proxy.golang.org,direct", "GOSUMDB": "",
		"npm_config_fetch_retries": "", "PIP_RETRIES": "",
	} {
		if got := lookupEnv(env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"npm_config_fetch_retries", "PIP_RETRIES"} {
		if got := lookupEnv(chain.Env("/private"), name); got != "0" {
			t.Errorf("without a network %s is %q, want 0", name, got)
		}
	}
	if got := (Toolchain{}).Online([]string{"A=1"}, "/private"); !slices.Equal(got, []string{"A=1"}) {
		t.Errorf("without a cache: %q", got)
	}
}
