package deps

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOrigin: the token of a registry is found below its address and below what
// holds that, and no other's is.
func TestOrigin(t *testing.T) {
	npmrc := filepath.Join(t.TempDir(), "npmrc")
	text := "registry=\"https://npm.test/team/\"\n//npm.test/:_authToken=${NPM_TOKEN}\n//other.test/:_auth=abc\n"
	if err := os.WriteFile(npmrc, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name            string
		config          Config
		address, header string
	}{
		{"nothing", Config{NPMRC: []string{}}, "https://registry.npmjs.org/", ""},
		{"from .npmrc, with a variable", Config{NPMRC: []string{npmrc}, Env: []string{"NPM_TOKEN=t"}}, "https://npm.test/team/", "Bearer t"},
		{"from the configuration", Config{NPMRC: []string{npmrc}, Registry: "https://other.test"}, "https://other.test/", "Basic abc"},
		{"from the environment", Config{NPMRC: []string{}, Env: []string{"npm_config_registry=https://third.test/x"}}, "https://third.test/x/", ""},
		{"credentials in the address", Config{NPMRC: []string{}, Registry: "https://me:word@fourth.test/x"}, "https://fourth.test/x/", "Basic bWU6d29yZA=="},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, header, err := New(c.config).Origin(t.Context())
			if err != nil || address != c.address || header != c.header {
				t.Errorf("got %q, %q, %v, want %q, %q", address, header, err, c.address, c.header)
			}
		})
	}
}
