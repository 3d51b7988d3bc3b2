package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// The contract is that of toolbox.md §2, over testdata/contract in each language.
var languages = []struct {
	name, file string
}{{"js", "contract.tool.js"}, {"py", "tool.py"}}

// contract is the tool of testdata in a home of its own.
func contract(t testing.TB, s sandbox.Runner, file string, change func(*bench)) *bench {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"package.json", "local.js", "local.py", "lib/beside.py", "contract.tool.js", "tool.py"} {
		text, err := os.ReadFile(filepath.Join("testdata/contract", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	return newBench(t, s, "contract", file, files, change)
}

// each runs a test in each language, side by side.
func each(t *testing.T, change func(*bench), f func(t *testing.T, b *bench)) {
	s := box(t)
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) { f(t, contract(t, s, l.file, change)) })
	}
}

func TestDescribe(t *testing.T) {
	s := box(t)
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			got := contract(t, s, l.file, nil).describe()
			for _, m := range []string{"getMetadata", "getSchema", "getDependencies", "getBusinessErrors", "getRuntimeConfig", "generateManual", "execute", "title"} {
				if !slices.Contains(got.Methods, m) {
					t.Errorf("methods %q have no %s", got.Methods, m)
				}
			}
			want := &definition.Definition{
				Metadata: definition.Metadata{
					ID: "contract", Name: "Contract", Description: "shows what a tool may use", Version: "1.2.3", Category: "test", Author: "us",
					Tags: []string{"a", "b"}, Scenarios: []string{"in tests"}, Limitations: []string{"only there"},
				},
				Dependencies: []definition.Dependency{{Kind: definition.Local, Name: "./local.js"}, {Kind: definition.Command, Name: "docker", Range: ">=20"}, {Kind: definition.Package, Name: "lodash", Range: "^4.17.21"}},
				BusinessErrors: []definition.BusinessError{
					{Code: "OUT_OF_STOCK", Description: "nothing is left", Match: `nothing\s+left`, Flags: "i", Solution: "Order more.", Retryable: true},
					{Code: "PATH_OUTSIDE", Description: "a path outside", Match: "路径越权", Solution: "Stay inside."},
				},
				Runtime: definition.Runtime{
					SandboxType: map[string]string{"js": "nodejs", "py": "python"}[l.name], MaxMemory: 256 << 20, MaxExecutionTime: 10 * time.Second,
					Directories: []string{"~/.prompt-manager/toolbox/{toolname}/data"}, Network: definition.Network{Domains: []string{"example.org"}},
					Environment: map[string]string{"NODE_ENV": "production", "N": "1"}, ConcurrencySafe: true,
				},
				Manual: "# contract\nmade by contract",
			}
			if !strings.Contains(string(got.Parameters), `"required":["method"]`) || host.SchemaDefaults(got.Environment)["LIMIT"] != "3" {
				t.Errorf("schemas %s and %s", got.Parameters, got.Environment)
			}
			got.Methods, got.Raw, got.Parameters, got.Environment = nil, nil, nil, nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("definition (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExecute holds what is the same in both languages: %[1]s is the tool's
// folder, %[2]s the home. To add one: a method in testdata/contract and a row here.
func TestExecute(t *testing.T) {
	each(t, nil, func(t *testing.T, b *bench) {
		for _, c := range []struct{ name, params, want string }{
			{"identity", `{"method":"identity"}`, `{"dir":"%[1]s","name":"contract","mode":"execute","cwd":"%[1]s"}`},
			{"state of the module", `{"method":"count"}`, `{"calls":1,"shared":1,"own":1}`},
			{"state lives on, this does not", `{"method":"count"}`, `{"calls":2,"shared":2,"own":1}`},
			{"functions are bound", `{"method":"bound"}`, `made by contract 1.2.3`},
			{"environment", `{"method":"environment"}`, `{"get":"hello","process":"hello","none":true,"names":["GREETING","PATH"]}`},
			{"set environment", `{"method":"setEnvironment","value":"bye"}`, `bye`},
			{"it stays set", `{"method":"environment"}`, `{"get":"bye","process":"bye","none":true,"names":["GREETING","PATH"]}`},
			{"directories", `{"method":"directories"}`, `["%[1]s/data","%[2]s/shared"]`},
			{"a relative path", `{"method":"resolve","path":"new.txt"}`, `%[1]s/data/new.txt`},
			{"a path in the folder that exists", `{"method":"resolve","path":"./local.js"}`, `%[1]s/local.js`},
			{"no path", `{"method":"resolve"}`, `%[1]s/data`},
			{"an absolute path", `{"method":"resolve","path":"%[2]s/shared/a/../b"}`, `%[2]s/shared/b`},
			{"the older name", `{"method":"resolve","old":true,"path":"new.txt"}`, `%[1]s/data/new.txt`},
			{"the older home", `{"method":"resolve","path":"~/.prompt-manager/shared/x"}`, `%[2]s/shared/x`},
			{"the older home in full", `{"method":"resolve","path":"/home/someone/.prompt-manager/toolbox/contract/data"}`, `%[1]s/data`},
			{"a good value", `{"method":"validate","params":{"method":"x","n":1}}`, `{"valid":true,"errors":[]}`},
			{"bad values", `{"method":"validate","params":{"n":0}}`, `{"valid":false,"errors":["parameters.method: is required","parameters.n: expected at least 1, got 0"]}`},
			{"nothing stored", `{"method":"get","key":"a"}`, `{"none":true}`},
			{"store", `{"method":"set","key":"a","value":{"l":[1,"ü"]}}`, `true`},
			{"stored", `{"method":"get","key":"a"}`, `{"value":{"l":[1,"ü"]},"none":false}`},
			{"store null", `{"method":"set","key":"n","value":null}`, `true`},
			{"stored null", `{"method":"get","key":"n"}`, `{"value":null,"none":false}`},
			{"store oddly", `{"method":"set","key":"__proto__","value":[1]}`, `true`},
			{"stored oddly", `{"method":"get","key":"__proto__"}`, `{"value":[1],"none":false}`},
			{"what is got is a copy", `{"method":"copy","key":"__proto__"}`, `[1]`},
			{"remove", `{"method":"remove","key":"a"}`, `true`},
			{"removed", `{"method":"get","key":"a"}`, `{"none":true}`},
			{"clear", `{"method":"clear"}`, `true`},
			{"cleared", `{"method":"get","key":"n"}`, `{"none":true}`},
		} {
			t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
				fill := strings.NewReplacer("%[1]s", b.setup.Dir, "%[2]s", b.setup.Home)
				r, err := b.call(fill.Replace(c.params))
				if err != nil {
					t.Fatalf("execute(%s): %s %s %v", c.params, err.Code, err.Message, err.Details)
				}
				got, want := r.TextContent(), fill.Replace(c.want)
				if got != want && !sameJSON(got, want) {
					t.Errorf("execute(%s) = %s, want %s", c.params, got, want)
				}
			})
		}
	})
}

func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return cmp.Equal(x, y)
}

func TestLog(t *testing.T) {
	each(t, nil, func(t *testing.T, b *bench) {
		b.text(`{"method":"log"}`)
		want := []string{
			"DEBUG a debug", `INFO an info {"n":1}`, `WARN a warning ["x"]`, `ERROR an error {"error":"inner"}`, "INFO printed { a: 1 }", "WARN raw error",
		}
		got := b.log()
		for i, line := range got {
			got[i] = strings.ReplaceAll(line, `": `, `":`)
		}
		slices.Sort(want)
		slices.Sort(got) // what is printed comes another way than what is logged
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

func TestOutside(t *testing.T) {
	each(t, nil, func(t *testing.T, b *bench) {
		b.describe()
		if err := os.Symlink("/etc", filepath.Join(b.setup.Data, "link")); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/etc/passwd", "../../../x", b.setup.Shared + "x", "~/x", "link/passwd", b.setup.Dir + "/../other"} {
			_, err := b.call(fmt.Sprintf(`{"method":"resolve","path":%q}`, path))
			if err == nil || err.Code != tool.PermissionDenied || !strings.Contains(err.Message, path) || err.Hint != "Stay inside." {
				t.Errorf("%s: got %+v, want %s", path, err, tool.PermissionDenied)
			}
		}
	})
}

func TestModules(t *testing.T) {
	t.Run("js", func(t *testing.T) {
		b := contract(t, box(t), "contract.tool.js", nil)
		lay(t, b.setup.Dir, map[string]string{
			"node_modules/plain/index.js":         `module.exports = { a: 1 }`,
			"node_modules/callable/index.js":      `module.exports = function f () {}; module.exports.extra = 'more'`,
			"node_modules/esm/package.json":       `{"name":"esm","type":"module","exports":{"import":"./index.js"}}`,
			"node_modules/esm/index.js":           `export const esm = 'only by import'`,
			"node_modules/waits/package.json":     `{"name":"waits","type":"module","main":"index.js"}`,
			"node_modules/waits/index.js":         `export const waited = await Promise.resolve('top-level')`,
			"node_modules/broken/index.js":        `throw new Error('broken at load')`,
			"node_modules/@scope/in/package.json": `{"name":"@scope/in","main":"in.js"}`,
			"node_modules/@scope/in/in.js":        `exports.deep = require('plain').a`,
		})
		for _, c := range []struct{ params, want string }{
			{`{"method":"require","name":"plain"}`, "object"},
			{`{"method":"require","name":"callable"}`, "function"},
			{`{"method":"require","name":"node:fs"}`, "object"},
			{`{"method":"import","name":"plain","field":"a"}`, `{"keys":["a","default"],"value":1}`},
			{`{"method":"import","name":"callable"}`, `{"keys":["default","extra"],"value":"function"}`},
			{`{"method":"import","name":"esm","field":"esm"}`, `{"keys":["esm"],"value":"only by import"}`},
			{`{"method":"import","name":"waits","field":"waited"}`, `{"keys":["waited"],"value":"top-level"}`},
			{`{"method":"import","name":"@scope/in","field":"deep"}`, `{"keys":["deep","default"],"value":1}`},
			{`{"method":"import","name":"./local.js","field":"local"}`, `{"keys":["default","local"],"value":"a file beside"}`},
		} {
			if got := b.text(c.params); got != c.want {
				t.Errorf("%s: got %s, want %s", c.params, got, c.want)
			}
		}
		for method, name := range map[string]string{"require": "not-there", "import": "not-there-either"} {
			_, err := b.call(fmt.Sprintf(`{"method":%q,"name":%q}`, method, name))
			if err == nil || err.Code != tool.DependencyError || !strings.Contains(err.Message, "the module "+name+" is not installed for the tool contract") {
				t.Errorf("%s %s: got %+v", method, name, err)
			}
		}
		if _, err := b.call(`{"method":"import","name":"broken"}`); err == nil || err.Message != "broken at load" {
			t.Errorf("a broken module: got %+v", err)
		}
	})
	t.Run("py", func(t *testing.T) {
		b := contract(t, box(t), "tool.py", nil)
		for _, c := range []struct{ params, want string }{
			{`{"method":"require","name":"json"}`, "module"},
			{`{"method":"import","name":"local"}`, "a file beside from lib"},
			{`{"method":"import","name":"./local.py"}`, "a file beside from lib"},
		} {
			if got := b.text(c.params); got != c.want {
				t.Errorf("%s: got %s, want %s", c.params, got, c.want)
			}
		}
		_, err := b.call(`{"method":"require","name":"not_there"}`)
		if err == nil || err.Code != tool.DependencyError || !strings.Contains(err.Message, "the module not_there is not installed for the tool contract") {
			t.Errorf("got %+v", err)
		}
	})
}

// TestReachBack: progress, questions, other tools, artifacts.
func TestReachBack(t *testing.T) {
	each(t, nil, func(t *testing.T, b *bench) {
		var mu sync.Mutex
		var got []string
		answer := func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			var compact any
			if err := json.Unmarshal(params, &compact); err != nil {
				return nil, err
			}
			text, err := json.Marshal(compact)
			if err != nil {
				return nil, err
			}
			got = append(got, method+" "+string(text))
			switch {
			case method == "ask":
				return json.RawMessage(`{"option":"yes","text":"","by":"a person"}`), nil
			case method == "artifact":
				return json.RawMessage(`{"uri":"artifact://art_1"}`), nil
			case strings.Contains(string(params), "forbidden"):
				return nil, tool.Errorf(tool.PermissionDenied, "that is not allowed")
			case strings.Contains(string(params), "fails"):
				return json.Marshal(tool.ErrorResult(tool.Errorf(tool.NotFound, "no such thing")))
			}
			return json.Marshal(tool.Text("greeted"))
		}
		call := func(params string) (*tool.Result, *tool.Error) {
			c := host.Execute(json.RawMessage(params), "")
			c.OnRequest = answer
			c.OnProgress = func(p worker.Progress) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprintf("progress %g/%g %s", p.Done, p.Total, p.Text))
			}
			return b.do(c)
		}
		for _, c := range []struct{ params, want, text, code string }{
			{`{"method":"progress"}`, "progress 1/2 half;progress 2/2 ", "done", ""},
			{`{"method":"ask","question":"really?"}`, `ask {"text":"really?"}`, `{"option":"yes","text":"","by":"a person"}`, ""},
			{`{"method":"ask","question":{"question":"which?","options":[{"id":"a"}]}}`, `ask {"options":[{"id":"a"}],"question":"which?","text":"which?"}`, `"yes"`, ""},
			{`{"method":"artifact","path":"data/x.png"}`, `artifact {"path":"` + b.setup.Dir + `/data/x.png"}`, "artifact://art_1", ""},
			{`{"method":"tool","name":"files:read","args":{"path":"a"}}`, `call {"args":{"path":"a"},"name":"files:read"}`, "greeted", ""},
			{`{"method":"tools"}`, `call {"args":{"who":"a"},"name":"greet"}`, "greeted", ""},
			{`{"method":"tool","name":"fails"}`, `call {"args":{},"name":"fails"}`, "no such thing", "NOT_FOUND"},
			{`{"method":"tool","name":"forbidden"}`, `call {"args":{},"name":"forbidden"}`, "that is not allowed", "PERMISSION_DENIED"},
		} {
			got = nil
			r, err := call(c.params)
			text, code := "", ""
			if err != nil {
				text, code = err.Message, string(err.Code)
			} else {
				text = r.TextContent()
			}
			if strings.Join(got, ";") != c.want || code != c.code || !strings.Contains(strings.ReplaceAll(text, `": `, `":`), c.text) {
				t.Errorf("%s: asked %q and gave %s %q, want %q and %s %q", c.params, got, code, text, c.want, c.code, c.text)
			}
		}
	})
}

// TestSignal: a tool that listens stops by itself, and its worker stays.
func TestSignal(t *testing.T) {
	patient := func(b *bench) { b.config.Grace = 20 * time.Second }
	each(t, patient, func(t *testing.T, b *bench) {
		b.text(`{"method":"count"}`)
		ctx, cancel := context.WithCancel(t.Context())
		c := host.Execute(json.RawMessage(`{"method":"wait"}`), "")
		c.OnProgress = func(worker.Progress) { cancel() }
		_, err := b.pool.Call(ctx, c)
		if e := tool.AsError(err); e == nil || e.Code != tool.Cancelled {
			t.Errorf("got %+v, want %s", err, tool.Cancelled)
		}
		if got := b.text(`{"method":"count"}`); !strings.Contains(strings.ReplaceAll(got, " ", ""), `"calls":2`) {
			t.Errorf("after it: %s", got)
		}
	})
}

// TestConcurrent: calls side by side in one worker do not see each other.
func TestConcurrent(t *testing.T) {
	b := contract(t, box(t), "contract.tool.js", func(b *bench) { b.config.Concurrent = 8 })
	b.text(`{"method":"count"}`)
	var calls sync.WaitGroup
	for n := range 8 {
		calls.Go(func() {
			var progress []float64
			var lines []string
			c := host.Execute(json.RawMessage(fmt.Sprintf(`{"method":"concurrent","n":%d}`, n)), "")
			c.OnProgress = func(p worker.Progress) { progress = append(progress, p.Done) }
			c.OnLine = func(l worker.Line) { lines = append(lines, l.Text) }
			r, err := b.pool.Call(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			want := fmt.Sprintf(`{"n":%d,"mine":%[1]d,"same":true,"base":"contract"}`, n)
			if string(r.Value) != want || !slices.Equal(progress, []float64{float64(n)}) || !slices.Equal(lines, []string{fmt.Sprint("call ", n)}) {
				t.Errorf("call %d: %s, progress %v, lines %q", n, r.Value, progress, lines)
			}
		})
	}
	calls.Wait()
}
