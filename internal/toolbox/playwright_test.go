package toolbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlaywrightPaths(t *testing.T) {
	const list = `{"browsers":[{"name":"chromium","revision":"1200"},{"name":"chromium-headless-shell","revision":"1201"},{"name":"firefox","revision":"9"}]}`
	want := []string{
		"chromium-1200/chrome-linux-arm64/chrome", "chromium-1200/chrome-linux/chrome", "chromium-1200/chrome-linux64/chrome",
		"chromium_headless_shell-1201/chrome-headless-shell-linux-arm64/chrome-headless-shell",
		"chromium_headless_shell-1201/chrome-headless-shell-linux64/chrome-headless-shell", "chromium_headless_shell-1201/chrome-linux/headless_shell",
	}
	for _, c := range []struct {
		name, path, text string
		want             []string
	}{
		{"of npm", "playwright-core", list, want},
		{"of npm, below another", "playwright/node_modules/playwright-core", list, want},
		{"of pnpm", ".pnpm/playwright-core@1.50.0/node_modules/playwright-core", list, want},
		{"another package", "other", list, nil},
		{"no JSON", "playwright-core", `{"browsers`, nil},
		{"a number", "playwright-core", `{"browsers":[{"name":"chromium","revision":12}]}`, []string{
			"chromium-12/chrome-linux-arm64/chrome", "chromium-12/chrome-linux/chrome", "chromium-12/chrome-linux64/chrome",
		}},
		{"a path", "playwright-core", `{"browsers":[{"name":"chromium","revision":"../../x"}]}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			modules := t.TempDir()
			dir := filepath.Join(modules, filepath.FromSlash(c.path))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "browsers.json"), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, playwrightPaths(modules)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
