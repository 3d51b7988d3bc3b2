package toolbox_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox"
)

// TestBrowserByItself: a tool that leaves it to Playwright to find its browser, and
// asks for nothing, gets the machine's once it is granted the memory for one.
func TestBrowserByItself(t *testing.T) {
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Fatal("this test needs chromium: apt-get install chromium")
	}
	home := t.TempDir()
	write(t, home, "surf/package.json", `{"name":"surf","version":"1.0.0","private":true,"type":"module","dependencies":{"playwright-core":"1.56.1"}}`,
		"surf/surf.tool.js", `let open
export default {
  getMetadata: () => ({ name: 'surf', version: '1.0.0', description: 'Shows a page.' }),
  getDependencies: () => ({ 'playwright-core': '1.56.1' }),
  async execute ({ html }) {
    const { chromium } = await this.importToolModule('playwright-core')
    open = open || await chromium.launch({ headless: true })
    const page = await open.newPage()
    await page.setContent(html)
    await page.click('button')
    return { title: await page.title(), picture: (await page.screenshot()).length > 100 }
  }
}`)
	install := exec.CommandContext(t.Context(), "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	install.Dir = filepath.Join(home, "toolbox", "surf")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	b := open(t, home, nil)
	if _, _, err := b.Lookup(t.Context(), "surf"); err != nil {
		t.Fatal(err)
	}
	_, asked, err := b.Grants("surf")
	if err != nil || asked.Memory == 0 {
		t.Fatalf("it asks for %+v, %v", asked, err)
	}
	if err := b.Grant("surf", toolbox.Grant{Memory: asked.Memory, Time: 2 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	r, err := call(t, b, "surf", "s", `{"html":"<title>a</title><button onclick=\"document.title += 1\">b</button>"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Content[0].Text; !strings.Contains(got, `"a1"`) || !strings.Contains(got, "true") {
		t.Errorf("got %s", got)
	}
}
