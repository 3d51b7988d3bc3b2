package host_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// TestBrowser: a tool that drives the system's browser, which stays open from call
// to call as its module's state does.
func TestBrowser(t *testing.T) {
	t.Parallel()
	need(t, "npm")
	need(t, "chromium")
	b := newBench(t, box(t), "browser", "browser.tool.js", map[string]string{
		"package.json": `{"name":"browser","private":true,"type":"module","dependencies":{"playwright-core":"1.56.1"}}`,
		"browser.tool.js": `const open = new Map()
export default {
  getRuntimeConfig () { return { maxMemory: 2048, maxExecutionTime: 60 } },
  async page () {
    if (!open.has(this.__toolName)) {
      const { chromium } = await this.importToolModule('playwright-core')
      const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] })
      open.set(this.__toolName, { browser, page: await browser.newPage() })
    }
    return open.get(this.__toolName).page
  },
  async execute ({ method, text }) {
    const page = await this.page()
    switch (method) {
      case 'set': await page.setContent('<title>' + text + '</title><button onclick="document.title += 1">b</button>'); return page.title()
      case 'click': await page.click('button'); return page.title()
      case 'shot': return { base64: (await page.screenshot()).toString('base64'), mimeType: 'image/png' }
      case 'close': await open.get(this.__toolName).browser.close(); open.clear(); return 'closed'
    }
  }
}`}, func(b *bench) {
		b.config.Profile.Memory, b.config.Profile.PIDs, b.config.Profile.Files = 2048*sandbox.MiB, 256, 4096
		b.config.Profile.Read = append(b.config.Profile.Read, "/etc/fonts", "/etc/chromium.d", "/etc/chromium")
		b.setup.Environment["HOME"] = b.setup.Data
		install := exec.CommandContext(t.Context(), "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		install.Dir = b.setup.Dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm install: %v\n%s", err, out)
		}
	})
	for _, c := range []struct{ params, want string }{
		{`{"method":"set","text":"hello"}`, "hello"}, {`{"method":"click"}`, "hello1"}, {`{"method":"click"}`, "hello11"},
	} {
		if got := b.text(c.params); got != c.want {
			t.Errorf("%s: got %s, want %s", c.params, got, c.want)
		}
	}
	r, err := b.call(`{"method":"shot"}`)
	if err != nil || r.Content[0].Kind != tool.KindImage || !strings.HasPrefix(string(r.Content[0].Data), "\x89PNG") {
		t.Errorf("a picture: %+v, %v", r, err)
	}
	if got := b.text(`{"method":"close"}`); got != "closed" {
		t.Errorf("got %s", got)
	}
}
