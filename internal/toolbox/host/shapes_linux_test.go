package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// TestShapes: whatever a module exports as a tool is called in the same way. To
// add one: a row.
func TestShapes(t *testing.T) {
	s := box(t)
	const body = `{ getMetadata() { return { name: 'shape' } }, async execute(p, mode) { return [p.a, mode, this.api.environment.get('GREETING'), this.__toolName, this.word ? this.word() : ''].join(' ') }, word() { return 'w:' + this.__toolName } }`
	const class = `class T { #n = 0; count = 0; getMetadata() { return { name: 'shape' } }
		execute(p, mode) { this.#n++; this.count++; const { word } = this; return [p.a, mode, this.api.environment.get('GREETING'), this.__toolName, word(), this.#n, this.count].join(' ') }
		word() { return 'w:' + this.__toolName } }`
	for _, c := range []struct{ name, file, text, want, again string }{
		{"an ES module", "shape.tool.mjs", `export default ` + body, "1 execute hello shape w:shape", ""},
		{"an ES module in .js", "shape.tool.js", `import path from 'path'; export default ` + body, "1 execute hello shape w:shape", ""},
		{"a top-level await", "shape.tool.mjs", `await Promise.resolve(); export default ` + body, "1 execute hello shape w:shape", ""},
		{"named exports", "shape.tool.mjs", `export function getMetadata() { return { name: 'shape' } }
			export function execute(p, mode) { return [p.a, mode, this.api.environment.get('GREETING'), this.__toolName].join(' ') }`, "1 execute hello shape", ""},
		{"CommonJS", "shape.tool.cjs", `module.exports = ` + body, "1 execute hello shape w:shape", ""},
		{"CommonJS exports", "shape.tool.cjs", `exports.getMetadata = () => ({ name: 'shape' }); exports.execute = function (p, mode) { return p.a + mode + this.__toolName }`, "1executeshape", ""},
		{"compiled to CommonJS", "shape.tool.cjs", `Object.defineProperty(exports, '__esModule', { value: true }); exports.default = ` + body, "1 execute hello shape w:shape", ""},
		{"a class", "shape.tool.mjs", `export default ` + class, "1 execute hello shape w:shape 1 1", "1 execute hello shape w:shape 2 2"},
		{"a class in CommonJS", "shape.tool.cjs", `module.exports = ` + class, "1 execute hello shape w:shape 1 1", "1 execute hello shape w:shape 2 2"},
		{"an object of a class", "shape.tool.mjs", class + `; export default new T()`, "1 execute hello shape w:shape 1 1", "1 execute hello shape w:shape 2 2"},
		{"a class that inherits", "shape.tool.mjs", `class Base { word() { return 'w:' + this.__toolName } }
			export default class extends Base { getMetadata() { return { name: 'shape' } } execute(p) { return p.a + super.word() + this.word() } }`, "1w:shapew:shape", ""},
		{"a function", "shape.tool.mjs", `export default function (p, mode) { return [p.a, mode, this.api.environment.get('GREETING'), this.__toolName].join(' ') }`, "1 execute hello shape", ""},
		{"a function with more", "shape.tool.cjs", `module.exports = async function (p) { return p.a + this.word() }; module.exports.word = function () { return this.__toolName }; module.exports.getMetadata = () => ({ name: 'shape' })`, "1shape", ""},
		{"an arrow function", "shape.tool.mjs", `export default (p, mode) => p.a + mode`, "1execute", ""},
		{"a frozen object", "shape.tool.mjs", `export default Object.freeze(` + body + `)`, "1 execute hello shape w:shape", ""},
		{"an object without a prototype", "shape.tool.mjs", `export default Object.assign(Object.create(null), ` + body + `)`, "1 execute hello shape w:shape", ""},
		{"a property that has a getter", "shape.tool.mjs", `export default { get word() { return () => 'got' }, execute(p) { return p.a + this.word() } }`, "1got", ""},
		{"state on the object", "shape.tool.mjs", `export default { n: 0, list: [], execute(p) { this.n++; this.list.push(p.a); this.temporary = (this.temporary || 0) + 1; return [this.n, this.list.length, this.temporary].join() } }`, "1,1,1", "2,2,1"},
		{"an own helper goes before ours", "shape.tool.mjs", `export default { resolvePath(p) { return 'own ' + p }, getAllowedDirectories() { return ['/own'] },
			async execute() { await this.initializeFilesystem(); return this.resolvePath('x') + this._allowedDirectories } }`, "own x/own", ""},
		{"a promise of a tool", "shape.tool.mjs", `export default Promise.resolve(` + body + `)`, "1 execute hello shape w:shape", ""},
		{"a thenable as result", "shape.tool.mjs", `export default { execute() { return { then(ok) { ok('then') } } } }`, "then", ""},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			b := newBench(t, s, "shape", c.file, map[string]string{"package.json": `{"type":"module"}`, c.file: c.text}, nil)
			d := b.describe()
			if !slices.Contains(d.Methods, "execute") || strings.Contains(c.text, "getMetadata") && d.Metadata.Name != "shape" {
				t.Errorf("described as %+v", d)
			}
			if c.again == "" {
				c.again = c.want
			}
			for i, want := range []string{c.want, c.again} {
				if got := b.text(`{"a":1}`); got != want {
					t.Errorf("call %d: got %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

// TestShapesPython does the same for Python.
func TestShapesPython(t *testing.T) {
	s := box(t)
	for _, c := range []struct{ name, file, text, want, again string }{
		{"a function of one", "tool.py", "def execute(params):\n    return params['a']\n", "1", ""},
		{"a function of two", "tool.py", "def execute(params, ctx):\n    return [params['a'], ctx.mode, ctx.tool_name]\n", `[1,"execute","shape"]`, ""},
		{"a function of three", "tool.py", "async def execute(params, ctx, mode):\n    return [params['a'], mode]\n", `[1,"execute"]`, ""},
		{"a class", "shape.tool.py", "class Tool:\n    def __init__(self):\n        self.n = 0\n    def get_metadata(self):\n        return {'name': 'shape'}\n" +
			"    async def execute(self, params, ctx):\n        self.n += 1\n        return [self.n, ctx.tool_name, self.api.environment.get('GREETING'), ctx.word()]\n    def word(self):\n        return 'w'\n", `[1,"shape","hello","w"]`, `[2,"shape","hello","w"]`},
		{"imported", "tool.py", "from beside import execute\n", `"imported"`, ""},
		{"assigned in a branch", "tool.py", "import sys\nif sys.version_info > (3,):\n    def execute(params): return 'branch'\n", `"branch"`, ""},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			b := newBench(t, s, "shape", c.file, map[string]string{c.file: c.text, "lib/beside.py": "def execute(params): return 'imported'\n"}, nil)
			if d := b.describe(); !slices.Contains(d.Methods, "execute") || d.Script {
				t.Errorf("described as %+v", d)
			}
			if c.again == "" {
				c.again = c.want
			}
			for i, want := range []string{c.want, c.again} {
				r, err := b.pool.Call(t.Context(), host.Execute(json.RawMessage(`{"a":1}`), ""))
				if err != nil {
					t.Fatalf("%+v", err)
				}
				if string(r.Value) != want {
					t.Errorf("call %d: got %s, want %s", i+1, r.Value, want)
				}
			}
		})
	}
}

// TestScript: a tool.py without execute is a program.
func TestScript(t *testing.T) {
	s := box(t)
	const program = `"""Adds numbers."""
import json, os, sys
print("to stderr", file=sys.stderr)
params = json.loads(sys.argv[1])
if "exit" in params:
    sys.exit(params["exit"])
if "raise" in params:
    raise ValueError(params["raise"])
if params.get("kill"):
    os.kill(os.getpid(), 9)
if params.get("sleep"):
    import time
    time.sleep(params["sleep"])
    open("data/" + params["then"], "w").close()
if params.get("flood"):
    while True:
        print("x" * 100000)
if params.get("text"):
    print("only", "text")
elif __name__ == "__main__" and params.get("n"):
    print(json.dumps({"sum": sum(params["n"]), "argv": sys.argv[0], "control": os.path.exists("/proc/self/fd/3")}))
`
	b := newBench(t, s, "adds", "tool.py", map[string]string{"tool.py": program}, nil)
	if d := b.describe(); !d.Script || d.Metadata.Description != "Adds numbers." || len(d.Methods) != 0 || len(d.Problems) != 0 {
		t.Errorf("described as %+v", d)
	}
	if lines := b.log(); len(lines) != 0 {
		t.Errorf("describing it ran it: %q", lines)
	}
	for _, c := range []struct {
		params, want string
		code         tool.Code
	}{
		{`{"n":[1,2,3]}`, `{"sum": 6, "argv": "` + b.setup.Dir + `/tool.py", "control": false}`, ""},
		{`{"text":true}`, "only text\n", ""},
		{`{}`, "The tool returned nothing.", ""},
		{`{"exit":0}`, "The tool returned nothing.", ""},
		{`{"exit":3}`, "the program ended with exit code 3: to stderr", tool.ExecutionError},
		{`{"exit":"so not"}`, "the program ended with exit code 1: so not", tool.ExecutionError},
		{`{"raise":"bad value"}`, "the program ended with exit code 1: ValueError: bad value", tool.ExecutionError},
		{`{"kill":true}`, "the program was ended by SIGKILL", tool.ResourceExhausted},
		{`{"flood":true}`, "the program printed more than 16777216 bytes", tool.ExecutionError},
	} {
		r, err := b.call(c.params)
		got, code := "", tool.Code("")
		if err != nil {
			got, code = err.Message, err.Code
		} else {
			got = r.TextContent()
		}
		if code != c.code || !strings.Contains(got, c.want) && !sameJSON(got, c.want) {
			t.Errorf("%s: got %s %q, want %s %q", c.params, code, got, c.code, c.want)
		}
	}
	if lines := b.log(); !slices.Contains(lines, "WARN to stderr") {
		t.Errorf("logged %q", lines)
	}

	// A call that is cancelled ends the program, and its worker stays.
	before, err := b.pool.Call(t.Context(), host.Execute(json.RawMessage(`{}`), ""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := host.Execute(json.RawMessage(`{"sleep":0.4,"then":"cancelled"}`), "")
	c.OnLine = func(worker.Line) { cancel() }
	if _, err := b.pool.Call(ctx, c); err == nil || tool.AsError(err).Code != tool.Cancelled {
		t.Errorf("cancelled: %+v", err)
	}
	after, err := b.pool.Call(t.Context(), host.Execute(json.RawMessage(`{"sleep":0.5,"then":"slept"}`), ""))
	if err != nil || after.PID != before.PID {
		t.Errorf("after it: %+v, %v, want process %d", after, err, before.PID)
	}
	if names, err := os.ReadDir(b.setup.Data); err != nil || len(names) != 1 || names[0].Name() != "slept" {
		t.Errorf("the cancelled program ran on: %v, %v", names, err)
	}

	told := newBench(t, s, "tells", "tool.py", map[string]string{
		"tool.py": "import sys\ndef get_metadata(): return {'name': 'Tells'}\nif __name__ == '__main__':\n    print('ran')\n",
	}, nil)
	if d := told.describe(); !d.Script || d.Metadata.Name != "Tells" {
		t.Errorf("described as %+v", d)
	}
	if got := told.text(`{}`); got != "ran\n" {
		t.Errorf("got %q", got)
	}
}

// TestMisbehaving: describe tells of each fault and of all that is right.
func TestMisbehaving(t *testing.T) {
	t.Parallel()
	s := box(t)
	for _, c := range []struct {
		name, file, text string
		methods          []string
		problems         []string
	}{
		{
			"js", "bad.tool.mjs", `const loop = { a: 1 }; loop.self = loop
export default {
  title: 'no function',
  getMetadata() { throw new Error('no metadata today') },
  getSchema() { return { parameters: { type: 'object', f() {}, u: undefined, n: 10n, nan: NaN, loop, get g() { throw new Error('gotcha') }, m: new Map() } } },
  getDependencies() {},
  getBusinessErrors() { return new Promise(() => {}) },
  async getRuntimeConfig() { await null; throw 'just text' },
  generateManual() { return { toJSON() { throw new Error('no json') } } },
  execute() {}
}`,
			[]string{"getMetadata", "getSchema", "getDependencies", "getBusinessErrors", "getRuntimeConfig", "generateManual", "execute"},
			[]string{
				"getMetadata: no metadata today (threw)",
				"getSchema: parameters.f is a function, which is no JSON", "getSchema: parameters.u is undefined", "getSchema: parameters.n is a bigint, which is no JSON",
				"getSchema: parameters.nan is NaN, which is no JSON", "getSchema: parameters.loop.self contains itself", "getSchema: parameters.g cannot be read: gotcha",
				"getSchema: parameters.m is a Map, which is no JSON", "getDependencies: it returned nothing", "getBusinessErrors: it did not answer within 2 s (threw)",
				"getRuntimeConfig: just text (threw)", "generateManual: the result cannot be read: no json",
			},
		},
		{
			"py", "tool.py", `import time
loop = {"a": 1}
loop["self"] = loop
def get_metadata(): raise ValueError("no metadata today")
def get_schema(): return {"parameters": {"type": "object", "f": time.sleep, "s": {1}, "nan": float("nan"), "loop": loop, 1: 2}}
def get_dependencies(): pass
def get_business_errors():
    while True: pass
async def get_runtime_config(): raise KeyError("k")
def execute(params): pass
`,
			[]string{"execute", "getBusinessErrors", "getDependencies", "getMetadata", "getRuntimeConfig", "getSchema"},
			[]string{
				"getMetadata: no metadata today (threw)",
				"getSchema: parameters.f is a builtin_function_or_method, which is no JSON", "getSchema: parameters.s is a set, which is no JSON",
				"getSchema: parameters.nan is nan, which is no JSON", "getSchema: parameters.loop.self contains itself", "getSchema: parameters has a key 1, which is no text",
				"getDependencies: it returned nothing", "getBusinessErrors: it did not answer within 2 s (threw)", "getRuntimeConfig: 'k' (threw)",
			},
		},
		{"a text", "text.tool.mjs", `export default 'a text'`, nil, []string{`: the module exports "a text" instead of a tool`}},
		{"nothing", "none.tool.cjs", ``, nil, nil},
		{"null", "null.tool.cjs", `module.exports = null`, nil, []string{`: the module exports null instead of a tool`}},
		{"a method that is none", "x.tool.mjs", `export default { getMetadata: { name: 'x' }, execute() {} }`, []string{"execute"}, nil},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel() // they wait
			b := newBench(t, s, "bad", c.file, map[string]string{c.file: c.text}, nil)
			d := b.describe()
			var problems []string
			for _, p := range d.Problems {
				line := p.Method + ": " + p.Message
				if p.Threw {
					line += " (threw)"
				}
				problems = append(problems, line)
			}
			if !slices.Equal(d.Methods, c.methods) || !slices.Equal(problems, c.problems) {
				t.Errorf("methods %q\nwant    %q\nproblems %s\nwant     %s", d.Methods, c.methods, strings.Join(problems, "\n         "), strings.Join(c.problems, "\n         "))
			}
			if len(c.methods) > 0 {
				return
			}
			if _, err := b.call(`{}`); err == nil || err.Code != tool.ExecutionError || !strings.Contains(err.Message, "the tool bad has no function execute") {
				t.Errorf("execute: got %+v", err)
			}
		})
	}
}

// TestBroken: a module that does not load says where.
func TestBroken(t *testing.T) {
	s := box(t)
	for _, c := range []struct {
		name, file, text, want string
		code                   tool.Code
	}{
		{"a mistake in an ES module", "b.tool.mjs", "import fs from 'fs'\nimport {\n  join\n} from 'path'\nexport const a = import.meta.url\nexport default {\n  execute () {\n    foo bar\n  }\n}\n", "the tool's module does not load: SyntaxError: Unexpected identifier 'bar' (b.tool.mjs:8)", tool.ExecutionError},
		{"a mistake in CommonJS", "b.tool.cjs", "module.exports = {\n  execute () {\n    foo bar\n", "the tool's module does not load: SyntaxError: Unexpected identifier 'bar' (b.tool.cjs:3)", tool.ExecutionError},
		{"a throw", "b.tool.mjs", "\nnull.x\n", "the tool's module does not load: TypeError: Cannot read properties of null (reading 'x') (b.tool.mjs:2)", tool.ExecutionError},
		{"a throw in a file beside", "b.tool.mjs", "import './beside.mjs'\n", "the tool's module does not load: beside is wrong (beside.mjs:3)", tool.ExecutionError},
		{"a package that is not there", "b.tool.mjs", "import x from 'not-there'\n", "the tool's module does not load: Cannot find package 'not-there' imported from ", tool.DependencyError},
		{"a constructor that throws", "b.tool.mjs", "export default class {\n  constructor () { throw new Error('not today') }\n}\n", "the tool's module does not load: not today (b.tool.mjs:2)", tool.ExecutionError},
		{"a mistake in Python", "tool.py", "def execute(params):\n    foo bar\n", "the tool's module does not load: SyntaxError: invalid syntax (tool.py, line 2)", tool.ExecutionError},
		{"a package of Python", "tool.py", "import not_there\ndef execute(params): pass\n", "the tool's module does not load: ModuleNotFoundError: No module named 'not_there'", tool.DependencyError},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			b := newBench(t, s, "broken", c.file, map[string]string{c.file: c.text, "beside.mjs": "\n\nthrow new Error('beside is wrong')\n"}, nil)
			_, err := b.call(`{}`)
			if err == nil || err.Code != c.code || !strings.HasPrefix(err.Message, c.want) || err.Details["stack"] != nil {
				t.Errorf("got %+v, want %s %q", err, c.code, c.want)
			}
		})
	}
}

// TestClassConcurrent: an object of a class has its own api in each call.
func TestClassConcurrent(t *testing.T) {
	const text = `export default class {
  async execute ({ n }) {
    for (let i = 0; i < 5; i++) {
      await new Promise(resolve => setTimeout(resolve, n))
      this.api.logger.info('call ' + n)
    }
    return n
  }
}`
	b := newBench(t, box(t), "class", "class.tool.mjs", map[string]string{"class.tool.mjs": text}, func(b *bench) { b.config.Concurrent = 4 })
	b.describe()
	var calls sync.WaitGroup
	for n := range 4 {
		calls.Go(func() {
			c := host.Execute(json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), "")
			var got []string
			c.OnLine = lines(&got)
			if _, err := b.pool.Call(t.Context(), c); err != nil {
				t.Error(err)
			}
			want := slices.Repeat([]string{fmt.Sprint("call ", n)}, 5)
			if !slices.Equal(got, want) {
				t.Errorf("call %d logged %q", n, got)
			}
		})
	}
	calls.Wait()
}
