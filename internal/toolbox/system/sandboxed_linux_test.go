package system_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// confined is a tool in a sandbox as the runtime makes it.
type confined struct {
	t    *testing.T
	dir  string
	pool *worker.Pool
	def  *definition.Definition
}

// confine puts a tool into a sandbox, with its dependencies, these hosts and
// this environment.
func confine(t *testing.T, name string, network []string, env map[string]string) *confined {
	t.Helper()
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { box.Close() })
	if report := box.Probe(t.Context()); !report.Level.AtLeast(sandbox.L2) {
		t.Skipf("level L2 cannot be had here, only %s: %v", report.Level, report.Missing)
	}
	dir := unpack(t, name)
	install(t, dir)
	home := filepath.Dir(dir)
	data, files := filepath.Join(dir, "data"), filepath.Join(home, "run")
	for _, d := range []string{data, files} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	adapters, err := host.Write(files)
	if err != nil {
		t.Fatal(err)
	}
	rt := runtimes.New(runtimes.Config{Dir: filepath.Join(home, "runtimes"), Path: os.Getenv("PATH"), Home: os.Getenv("HOME"), Runner: box})
	js, err := rt.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mounts, path := rt.Mounts(js), []string{}
	if name == "playwright" {
		command, err := rt.Command(t.Context(), "chromium")
		if err != nil {
			t.Skipf("no chromium: %v", err)
		}
		for _, m := range command.Mounts {
			mounts = appendMount(mounts, m)
		}
		path = command.Dirs
	}
	setup := host.Setup{Name: name, Dir: dir, Data: data, Home: home, Shared: filepath.Join(home, "shared"), UserHome: home, Directories: []string{data}, Environment: env}
	c := &confined{t: t, dir: dir}
	c.pool = worker.New(worker.Config{
		Runner: box, Host: worker.Node{Program: js.Program}, Module: filepath.Join(dir, name+".tool.js"), Adapter: adapters.JS, Files: files, Dir: dir, Max: 1,
		Profile: sandbox.Profile{
			Kind: "toolbox", Mounts: mounts, Read: []string{dir, files}, Write: []string{data},
			Network: sandbox.NetworkOf(network), Memory: 1536 << 20, PIDs: 256, MinLevel: sandbox.L1,
		},
		Setup: setup.JSON(), Env: setup.Env(map[string]string{"HOME": data, "TMPDIR": "/tmp", "LANG": "C.UTF-8", "PATH": strings.Join(path, ":")}),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.pool.Close(ctx); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	r, err := c.pool.Call(t.Context(), host.Describe())
	if err != nil {
		t.Fatalf("describe: %v", err)
	}
	if c.def, err = definition.Decode(r.Value); err != nil || len(c.def.Problems) > 0 {
		t.Fatalf("describe: %v %v", err, c.def.Problems)
	}
	return c
}

func appendMount(list []sandbox.Mount, m sandbox.Mount) []sandbox.Mount {
	for _, have := range list {
		if have == m {
			return list
		}
	}
	return append(list, m)
}

// call gives the text of a result, or the text of its error with the code of the
// business error.
func (c *confined) call(params map[string]any) (text string, r *tool.Result) {
	c.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	call := host.Execute(raw, "")
	call.Limits = worker.Limits{Wall: time.Minute, CPU: time.Minute}
	value, err := c.pool.Call(ctx, call)
	if err != nil {
		return "failed: " + host.Failure(err, c.def).Text(), nil
	}
	r, failure := host.Result(value.Value, c.def)
	if failure != nil {
		return "failed: " + failure.Text(), nil
	}
	return r.TextContent(), r
}

// says calls and wants each of these texts in what comes.
func (c *confined) says(params map[string]any, wants ...string) *tool.Result {
	c.t.Helper()
	got, r := c.call(params)
	for _, want := range wants {
		if !strings.Contains(got, want) {
			c.t.Errorf("%v: got %.500s, want %q in it", params, got, want)
		}
	}
	return r
}

// site is a server on this machine's loopback, and its port.
func site(t *testing.T, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", http.DetectContentType([]byte(body)))
		_, _ = w.Write([]byte(body)) // a client that is gone shows in the test
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestPDFReaderInTheSandbox(t *testing.T) {
	t.Parallel()
	c := confine(t, "pdf-reader", nil, nil)
	script := `import { pdf } from './make-pdf.js'; import { writeFileSync } from 'node:fs'; writeFileSync('data/a.pdf', pdf({ pages: [{ text: ['one'] }, { chinese: '你好', image: { width: 3, height: 2, rgb: Buffer.alloc(18, 9) } }] }))`
	if out, err := run(t, c.dir, "--input-type=module", "-e", script); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.says(map[string]any{"method": "read_pdf", "pdfPath": "a.pdf", "pages": "1-2"}, "=== Page 1 ===\none", "你好", "2 pages in all", "page-2-img-0.png")
	c.says(map[string]any{"method": "read_pdf", "pdfPath": "lib/example.pdf"}, `"totalPages":2`, `"title":"Example"`)
	if images, _ := filepath.Glob(filepath.Join(c.dir, "data", "images", "*", "page-2-img-0.png")); len(images) != 1 {
		t.Errorf("images %v, want one", images)
	}
	c.says(map[string]any{"method": "read_pdf", "pdfPath": "/etc/passwd"}, "failed: ", "not in the allowed directories", "configure ALLOWED_DIRECTORIES")
	c.says(map[string]any{"method": "read_pdf", "pdfPath": "https://example.org/a.pdf"}, "failed: ", "grant pdf-reader --net example.org")
	c.says(map[string]any{"method": "read_pdf"}, "failed: ", "pdfPath")
}

func TestOllamaRemoteInTheSandbox(t *testing.T) {
	t.Parallel()
	port := site(t, `{"models":[{"name":"tiny","size":1000}]}`)
	c := confine(t, "ollama-remote", []string{"ai.test:" + port + "=127.0.0.1:" + port}, map[string]string{"OLLAMA_HOST": "ai.test:" + port})
	c.says(map[string]any{"method": "list_models"}, `"name":"tiny"`)
	if got := c.def.Runtime.Network.Domains; len(got) != 1 || got[0] != "ai.test:"+port {
		t.Errorf("it asks for %v, want the configured host", got)
	}
	c = confine(t, "ollama-remote", nil, map[string]string{"OLLAMA_HOST": "127.0.0.1:" + port})
	c.says(map[string]any{"method": "list_models"}, "failed: ", "grant ollama-remote --net 127.0.0.1:"+port)
}

func TestPlaywrightInTheSandbox(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("no chromium on PATH")
	}
	port := site(t, "<!doctype html><title>Inside</title><h1>hello</h1><script>document.body.append(6 * 7)</script>")
	c := confine(t, "playwright", []string{"site.test:80=127.0.0.1:" + port}, map[string]string{"CHROMIUM": "/usr/bin/chromium"})
	c.says(map[string]any{"method": "getText", "url": "http://site.test/"}, `"title":"Inside"`, `hello\n42`)
	c.says(map[string]any{"method": "evaluate", "script": "document.title"}, `"result":"Inside"`)
	r := c.says(map[string]any{"method": "screenshot"}, `"success":true`)
	if r == nil || len(r.Content) == 0 || r.Content[0].Kind != tool.KindImage {
		t.Errorf("a screenshot gave %+v, want an image", r)
	}
	c.says(map[string]any{"method": "navigate", "url": "http://other.test/"}, "failed: ", "grant playwright --net other.test")
	c.says(map[string]any{"method": "navigate", "url": "https://other.test/"}, "failed: ")
	c.says(map[string]any{"method": "navigate", "url": "file:///etc/passwd"}, "failed: ", "no http or https")
	c.says(map[string]any{"method": "close"}, "is closed")
}
