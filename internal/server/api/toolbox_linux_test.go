package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
)

// boxed is an API with a toolbox in a home of its own.
func boxed(t *testing.T) (f *front, home string) {
	t.Helper()
	home = t.TempDir()
	runner := sandbox.New(sandbox.Config{})
	packages, err := pkgs.Open(pkgs.Config{Home: filepath.Join(home, "toolbox"), Runner: runner})
	if err != nil {
		t.Fatal(err)
	}
	b := toolbox.New(toolbox.Config{
		Home: home, UserHome: t.TempDir(), Runner: runner, Packages: packages,
		Runtimes: runtimes.New(runtimes.Config{Dir: filepath.Join(home, "runtimes"), Path: os.Getenv("PATH"), Home: os.Getenv("HOME"), Runner: runner}),
	})
	reg := registry.New(registry.Config{})
	f = &front{Server: httptest.NewServer(New(Config{Registry: reg, Toolbox: b, Version: "1.2.3"}))}
	t.Cleanup(func() {
		f.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for _, err := range []error{b.Close(ctx), runner.Close(), reg.Close(ctx)} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return f, home
}

const keeper = `export default {
  getMetadata () { return { id: 'keeper', name: 'Keeper', description: 'Keeps a key.', version: '1.0.0' } },
  getSchema () { return { parameters: { type: 'object', properties: {} }, environment: { type: 'object', properties: { API_KEY: { type: 'string' }, PLACE: { type: 'string', default: 'here' } }, required: ['API_KEY'] } } },
  getRuntimeConfig () { return { networkAccess: ['api.example.org'] } },
  execute () { return 1 }
}
`

func TestToolbox(t *testing.T) {
	f, home := boxed(t)
	other := filepath.Join(t.TempDir(), "keeper")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []struct{ path, text string }{
		{filepath.Join(other, "keeper.tool.js"), strings.ReplaceAll(keeper, "1.0.0", "2.0.0")},
		{filepath.Join(other, "package.json"), `{"name":"@toolyard/keeper","version":"2.0.0","type":"module"}`},
	} {
		if err := os.WriteFile(file.path, []byte(file.text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The first version comes as an upload.
	source := filepath.Join(t.TempDir(), "keeper")
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"keeper.tool.js": keeper, "package.json": `{"name":"@toolyard/keeper","version":"1.0.0","type":"module"}`} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	packed, err := packOf(t, source)
	if err != nil {
		t.Fatal(err)
	}
	const octets = "application/octet-stream"
	from := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	secret := "sk-very-" + "secret-4711"
	steps := []struct {
		name, method, path, body, kind string
		status                         int
		has, hasNot                    string
	}{
		{name: "an empty toolbox", method: "GET", path: "/toolbox", status: 200, has: `{"tools":[]}`},
		{name: "new", method: "POST", path: "/toolbox/new", body: `{"name":"hello","lang":"py"}`, status: 201, has: `hello.tool.py`},
		{name: "new in the usual language", method: "POST", path: "/toolbox/new", body: `{"name":"hallo"}`, status: 201, has: `hallo.tool.js`},
		{name: "new with a name that is none", method: "POST", path: "/toolbox/new", body: `{"name":"../x"}`, status: 400, has: `no name of a tool`},
		{name: "new over another", method: "POST", path: "/toolbox/new", body: `{"name":"hello"}`, status: 409, has: `hello`},
		{name: "new with an unknown field", method: "POST", path: "/toolbox/new", body: `{"name":"x","language":"js"}`, status: 400, has: `language`},
		{name: "list", method: "GET", path: "/toolbox", status: 200, has: `"name":"hello"`},
		{name: "one", method: "GET", path: "/toolbox/hello", status: 200, has: `"state":"ready"`},
		{name: "none", method: "GET", path: "/toolbox/helo", status: 404, has: `Did you mean hello?`},

		{name: "upload, not confirmed", method: "POST", path: "/toolbox/upload?filename=keeper.tgz", body: packed, kind: octets, status: 200, has: `asks for: network api.example.org`, hasNot: `"installed"`},
		{name: "not there yet", method: "GET", path: "/toolbox/keeper", status: 404},
		{name: "upload without a name", method: "POST", path: "/toolbox/upload", body: packed, kind: octets, status: 400, has: `filename`},
		{name: "upload of another kind", method: "POST", path: "/toolbox/upload?filename=keeper.tgz", body: packed, kind: "text/plain", status: 415},
		{name: "upload of rubbish", method: "POST", path: "/toolbox/upload?filename=keeper.tgz&confirm=true", body: "rubbish", kind: octets, status: 400},
		{name: "upload with a name that leads out", method: "POST", path: "/toolbox/upload?filename=../../keeper.tgz", body: packed, kind: octets, status: 200, has: `"proposal"`},
		{name: "upload", method: "POST", path: "/toolbox/upload?filename=keeper.tgz&confirm=true", body: packed, kind: octets, status: 200, has: `"version":"1.0.0"`, hasNot: `"proposal"`},
		{name: "there", method: "GET", path: "/toolbox/keeper", status: 200, has: `"kind":"archive"`},
		{name: "upload again", method: "POST", path: "/toolbox/upload?filename=keeper.tgz&confirm=true", body: packed, kind: octets, status: 409, has: `there is a tool keeper already`},

		{name: "update, not confirmed", method: "POST", path: "/toolbox/keeper/update", body: from(boxUpdate{Source: other}), status: 200, has: `replaces version 1.0.0`},
		{name: "update", method: "POST", path: "/toolbox/keeper/update", body: from(boxUpdate{Source: other, Confirm: true}), status: 200, has: `"version":"2.0.0"`},
		{name: "versions", method: "GET", path: "/toolbox/keeper", status: 200, has: `"version":"2.0.0"`},
		{name: "rollback", method: "POST", path: "/toolbox/keeper/rollback", body: `{}`, status: 200, has: `"version":"1.0.0"`},
		{name: "rollback to nothing", method: "POST", path: "/toolbox/keeper/rollback", body: `{"to":99}`, status: 404, has: `there is no version 99`},
		{name: "rollback of nothing", method: "POST", path: "/toolbox/kept/rollback", body: `{}`, status: 404},
		{name: "install of nothing", method: "POST", path: "/toolbox", body: `{"source":""}`, status: 400, has: `source is empty`},
		{name: "install of what is not there", method: "POST", path: "/toolbox", body: `{"source":"/nowhere/x"}`, status: 404},
		{name: "verify", method: "GET", path: "/toolbox/keeper/verify", status: 200, has: `"ok":true`},
		{name: "package", method: "GET", path: "/toolbox/keeper/package", status: 200, has: "\x1f\x8b"},

		{name: "environment", method: "GET", path: "/toolbox/keeper/environment", status: 200, has: `API_KEY`},
		{name: "set", method: "PATCH", path: "/toolbox/keeper/environment", body: from(map[string]string{"API_KEY": secret}), status: 200, has: `••••••`, hasNot: secret},
		{name: "masked", method: "GET", path: "/toolbox/keeper/environment?language=zh", status: 200, has: `••••••`, hasNot: secret},
		{name: "an unknown variable", method: "PATCH", path: "/toolbox/keeper/environment", body: `{"API_KEYS":"x"}`, status: 400, has: `API_KEY`, hasNot: secret},
		{name: "null takes out", method: "PATCH", path: "/toolbox/keeper/environment", body: `{"API_KEY":null}`, status: 200, hasNot: `••••••`},
		{name: "manual", method: "GET", path: "/toolbox/keeper/manual", status: 200, has: `Keeps a key.`},

		{name: "grants", method: "GET", path: "/toolbox/keeper/grants", status: 200, has: `"asks":{"network":["api.example.org"]}`},
		{name: "grant", method: "POST", path: "/toolbox/keeper/grants", body: `{"network":["api.example.org"],"time_ms":60000}`, status: 200, has: `{"granted":{"network":["api.example.org"],"time_ms":60000},"asks":{}}`},
		{name: "grant nothing", method: "POST", path: "/toolbox/keeper/grants", body: `{}`, status: 400},
		{name: "grant the home", method: "POST", path: "/toolbox/keeper/grants", body: from(boxGrant{Read: []string{home}}), status: 403, has: `it belongs to the runtime`},
		{name: "grant a relative directory", method: "POST", path: "/toolbox/keeper/grants", body: `{"read":["x"]}`, status: 400, has: `must be absolute`},
		{name: "grant to nothing", method: "POST", path: "/toolbox/kept/grants", body: `{"time_ms":1}`, status: 404},
		{name: "take back", method: "DELETE", path: "/toolbox/keeper/grants", status: 200, has: `"granted":{}`},

		{name: "validate", method: "POST", path: "/toolbox/validate", body: `{"tool":"hello"}`, status: 200, has: `"failed":0`},
		{name: "validate nothing", method: "POST", path: "/toolbox/validate", body: `{"tool":"nothing"}`, status: 404},
		{name: "log", method: "GET", path: "/toolbox/hello/log?lines=5", status: 200, has: `"entries":`},
		{name: "log with a bad pattern", method: "GET", path: "/toolbox/hello/log?action=grep&pattern=(", status: 400},
		{name: "log with a bad action", method: "GET", path: "/toolbox/hello/log?action=tale", status: 400, has: `tale`},
		{name: "log of nothing", method: "GET", path: "/toolbox/nothing/log", status: 404},
		{name: "runtimes", method: "GET", path: "/toolbox/runtimes", status: 200, has: `"name":"node"`},
		{name: "migrate from nowhere", method: "POST", path: "/toolbox/migrate", body: `{"dir":"/nowhere"}`, status: 404},

		{name: "remove", method: "DELETE", path: "/toolbox/keeper", status: 204},
		{name: "removed", method: "GET", path: "/toolbox/keeper", status: 404},
		{name: "remove nothing", method: "DELETE", path: "/toolbox/nothing", status: 404},
		{name: "purge", method: "DELETE", path: "/toolbox/hello?purge=true", status: 204},
	}
	for _, s := range steps {
		if s.kind == "" {
			s.kind = "application/json"
		}
		status, body, _ := f.do(t, s.method, s.path, s.body, "Content-Type", s.kind)
		if status != s.status || !strings.Contains(body, s.has) || s.hasNot != "" && strings.Contains(body, s.hasNot) {
			t.Errorf("%s: got %d %.600s, want %d, with %q, without %q", s.name, status, body, s.status, s.has, s.hasNot)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "toolbox", "hello")); err == nil {
		t.Error("hello is still there")
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "toolyard-upload-*")); err != nil || len(left) > 0 {
		t.Logf("uploads: %v %v", left, err) // others may be uploading too
	}
}

// packOf is an archive of a folder.
func packOf(t *testing.T, dir string) (string, error) {
	t.Helper()
	p, err := pkgs.Open(pkgs.Config{Home: filepath.Join(t.TempDir(), "toolbox")})
	if err != nil {
		return "", err
	}
	packed, err := p.Pack(t.Context(), dir, filepath.Join(t.TempDir(), "keeper.tgz"))
	if err != nil {
		return "", err
	}
	f, err := os.Open(packed.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return string(data), err
}
