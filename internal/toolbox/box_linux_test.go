package toolbox_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/internal/toolbox/templates"
	"github.com/toolyard/toolyard/tool"
)

// open makes a box over a home with tools, given as path and content.
func open(t *testing.T, home string, change func(*toolbox.Config), files ...string) *toolbox.Box {
	t.Helper()
	write(t, home, files...)
	runner := sandbox.New(sandbox.Config{})
	packages, err := pkgs.Open(pkgs.Config{Home: filepath.Join(home, "toolbox"), Runner: runner})
	if err != nil {
		t.Fatal(err)
	}
	c := toolbox.Config{
		Packages: packages,
		Home:     home, UserHome: t.TempDir(), Runner: runner, Preload: "off",
		Runtimes: runtimes.New(runtimes.Config{Dir: filepath.Join(home, "runtimes"), Path: os.Getenv("PATH"), Home: os.Getenv("HOME"), Runner: runner}),
	}
	if change != nil {
		change(&c)
	}
	b := toolbox.New(c)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := runner.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func write(t *testing.T, home string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(home, "toolbox", files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// call calls a tool as it is now.
func call(t *testing.T, b *toolbox.Box, name, session, args string) (*tool.Result, error) {
	t.Helper()
	if _, _, err := b.Lookup(t.Context(), name); err != nil {
		return nil, err
	}
	tools, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tools {
		if one.Spec().Name == name {
			return one.Call(t.Context(), &tool.Request{Arguments: json.RawMessage(args), Session: session, CallID: "call_1"})
		}
	}
	t.Fatalf("no tool %s on the list", name)
	return nil, nil
}

const counter = `
let n = 0
export default {
  getMetadata () { return { id: 'counter', name: 'Counter', description: 'Counts. Use it to count.', version: '1.0.0', scenarios: ['counting'], limitations: ['counts only'] } },
  getSchema () { return { parameters: { type: 'object', properties: { by: { type: 'integer', default: 1 } } } } },
  async execute ({ by = 1 }) { n += by; this.api.logger.info('counted', { n, session: this.api.context.sessionId }); return { n } }
}
`

func TestCall(t *testing.T) {
	home := t.TempDir()
	b := open(t, home, nil, "counter/counter.tool.js", counter)
	for i, want := range []string{`{"n":1}`, `{"n":3}`} {
		r, err := call(t, b, "counter", "one", `{"by":`+[]string{"1", "2"}[i]+`}`)
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Structured) != want {
			t.Errorf("got %s, want %s", r.Structured, want)
		}
	}
	r, err := call(t, b, "counter", "two", `{}`)
	if err != nil || string(r.Structured) != `{"n":1}` {
		t.Errorf("another session: got %v %v, want its own state", r, err)
	}
	log, err := os.ReadFile(filepath.Join(home, "toolbox", "counter", "run.log"))
	if err != nil || strings.Count(string(log), "\"session\":\"one\"}") != 2 || strings.Count(string(log), "call finished") != 3 {
		t.Errorf("run.log: %v\n%s", err, log)
	}
}

func TestEdit(t *testing.T) {
	home := t.TempDir()
	b := open(t, home, nil, "counter/tool.js", counter)
	if _, err := call(t, b, "counter", "s", `{}`); err != nil {
		t.Fatal(err)
	}
	write(t, home, "counter/tool.js", strings.Replace(counter, "n += by", "n += 10 * by", 1))
	r, err := call(t, b, "counter", "s", `{}`)
	if err != nil || string(r.Structured) != `{"n":10}` {
		t.Errorf("after an edit: got %v %v, want the new code", r, err)
	}
	write(t, home, "counter/tool.js", "export default {{{")
	def, broken, err := b.Lookup(t.Context(), "counter")
	if err != nil || broken == nil || def.Metadata.Version != "1.0.0" {
		t.Fatalf("a broken edit: got %v, %v, %v, want the last good version and what is wrong", def, broken, err)
	}
	if r, err := call(t, b, "counter", "t", `{}`); err != nil || string(r.Structured) != `{"n":10}` {
		t.Errorf("after a broken edit: got %v %v, want the last good version, in a new worker too", r, err)
	}
}

// TestBrokenAtStart: a start that finds a broken edit has the last good version,
// and keeps it. Its first call once took in what lay in the folder.
func TestBrokenAtStart(t *testing.T) {
	home := t.TempDir()
	if r, err := call(t, open(t, home, nil, "counter/tool.js", counter), "counter", "s", `{}`); err != nil || string(r.Structured) != `{"n":1}` {
		t.Fatalf("got %v %v", r, err)
	}
	write(t, home, "counter/tool.js", "export default {{{")
	for range 2 {
		b := open(t, home, nil)
		if r, err := call(t, b, "counter", "s", `{}`); err != nil || string(r.Structured) != `{"n":1}` {
			t.Errorf("got %v %v, want the last good version", r, err)
		}
		if _, broken, err := b.Lookup(t.Context(), "counter"); err != nil || broken == nil {
			t.Errorf("got %v %v, want what is wrong", broken, err)
		}
	}
}

func TestValidate(t *testing.T) {
	home := t.TempDir()
	b := open(t, home, nil, "counter/counter.tool.js", counter)
	for _, lang := range []string{"js", "py"} {
		if _, err := templates.New(filepath.Join(home, "toolbox"), "made-"+lang, lang, templates.Options{}); err != nil {
			t.Fatal(err)
		}
		r, err := b.Validate(t.Context(), "made-"+lang, check.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed > 0 || r.Warnings > 0 {
			t.Errorf("%s", r.Text("en"))
		}
		for _, layer := range r.Layers {
			for _, c := range layer.Checks {
				if c.State == check.Skipped {
					t.Logf("layer %d, %s: not checked: %s", layer.Number, c.ID, c.Reason)
				}
			}
		}
	}
}
