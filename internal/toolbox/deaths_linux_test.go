package toolbox_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/tool"
)

const mortalJS = `export default {
  getMetadata () { return { id: 'mortal', name: 'Mortal', description: 'Dies.', version: '1.0.0' } },
  getSchema () { return { parameters: { type: 'object', properties: { how: { type: 'string' } }, required: ['how'] } } },
  getRuntimeConfig () { return { maxMemory: 128, maxExecutionTime: 2 } },
  getBusinessErrors () { return [{ code: 'NO_LUCK', description: 'No luck', match: /unlucky/, solution: 'Try tomorrow.', retryable: true }] },
  execute ({ how }) {
    switch (how) {
      case 'live': return { lives: true }
      case 'throw': throw new TypeError('thrown')
      case 'business': throw new Error('unlucky you')
      case 'exit': process.exit(3); break
      case 'exit well': process.exit(0); break
      case 'abort': process.abort(); break
      case 'late': setTimeout(() => { throw new Error('thrown late') }, 1); return new Promise(() => {})
      case 'reject': Promise.reject(new Error('nobody cares')); return new Promise(() => {})
      case 'loop': for (;;);
      case 'never': return new Promise(() => {})
      case 'heap': { const all = []; for (;;) all.push(new Array(10000).fill(Math.random())) }
      case 'buffers': { const all = []; for (let i = 0; i < 20; i++) all.push(Buffer.alloc(100 << 20, 1)); return all.length }
      case 'stack': { const f = n => f(n + 1) + 1; return f(0) }
      case 'large': return 'x'.repeat(5e6)
      case 'cycle': { const o = {}; o.o = o; return o }
      case 'bigint': return { n: 10n }
      case 'function': return () => 1
      case 'symbol': return Symbol('s')
      case 'undefined': return undefined
      case 'binary': process.stdout.write(Buffer.from([0, 255, 10, 1, 2, 0, 200])); return 'printed'
      case 'pollute': Object.prototype.polluted = 1; return 'polluted'
      case 'throw nothing': throw undefined // eslint-disable-line no-throw-literal
      case 'getter': return { get a () { throw new Error('in a getter') } }
      case 'proxy': return new Proxy({}, { ownKeys () { throw new Error('in a proxy') } })
    }
  }
}
`

const mortalPython = `import os
import sys
import time
import asyncio


def get_metadata():
    return {"id": "mortal", "name": "Mortal", "description": "Dies.", "version": "1.0.0"}


def get_schema():
    return {"parameters": {"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"]}}


def get_runtime_config():
    return {"maxMemory": 128, "maxExecutionTime": 2}


def execute(params, ctx):
    how = params["how"]
    if how == "live":
        return {"lives": True}
    if how == "throw":
        raise TypeError("thrown")
    if how == "exit":
        os._exit(3)
    if how == "exit well":
        sys.exit(0)
    if how == "abort":
        os.abort()
    if how == "loop":
        while True:
            pass
    if how == "never":
        time.sleep(1000)
    if how == "heap":
        all = []
        while True:
            all.append("x" * 1000000 + str(len(all)))
    if how == "buffers":
        return len(bytearray(2 << 30))
    if how == "stack":
        def f(n):
            return f(n + 1) + 1
        return f(0)
    if how == "large":
        return "x" * 5000000
    if how == "cycle":
        o = {}
        o["o"] = o
        return o
    if how == "function":
        return lambda: 1
    if how == "undefined":
        return None
    if how == "binary":
        sys.stdout.buffer.write(b"\x00\xff\n\x01\x02\x00\xc8")
        return "printed"
    raise ValueError("no such death")
`

// TestDeaths: each way of dying is one typed error of one call, and the next call
// works.
func TestDeaths(t *testing.T) {
	t.Parallel()
	const jsOnly = "tool.js"
	cases := []struct {
		how  string
		code tool.Code // "" for none
		says string    // of the message, or of the result
		only string    // a file
	}{
		{how: "throw", code: tool.ExecutionError, says: "TypeError: thrown"},
		{how: "business", code: tool.ExecutionError, says: "unlucky you", only: jsOnly},
		{how: "exit", code: tool.ExecutionError, says: "exit code 3"},
		{how: "exit well", code: tool.ExecutionError, says: "0"},
		{how: "abort", code: tool.ExecutionError},
		{how: "late", code: tool.ExecutionError, says: "thrown late", only: jsOnly},
		{how: "reject", code: tool.ExecutionError, says: "nobody cares", only: jsOnly},
		{how: "loop", code: tool.ResourceExhausted, says: "CPU time"},
		{how: "never", code: tool.Cancelled}, // the executor makes TIMEOUT_ERROR of it, when it was its own limit
		{how: "heap", code: tool.ResourceExhausted, says: "memory"},
		{how: "buffers", code: tool.ResourceExhausted, says: "memory"},
		{how: "stack", code: tool.ExecutionError},
		{how: "large", code: tool.ResourceExhausted, says: "5000002 bytes"},
		{how: "cycle", code: tool.ExecutionError, says: "cannot be written as JSON"},
		{how: "bigint", code: tool.ExecutionError, says: "cannot be written as JSON", only: jsOnly},
		{how: "function", code: tool.ExecutionError, says: "cannot be written as JSON"},
		{how: "symbol", code: tool.ExecutionError, says: "cannot be written as JSON", only: jsOnly},
		{how: "undefined", says: "The tool returned nothing."},
		{how: "binary", says: "printed"},
		{how: "pollute", code: tool.ExecutionError, says: "changed what all objects inherit", only: jsOnly},
		{how: "throw nothing", code: tool.ExecutionError, only: jsOnly},
		{how: "getter", code: tool.ExecutionError, says: "in a getter", only: jsOnly},
		{how: "proxy", code: tool.ExecutionError, says: "in a proxy", only: jsOnly},
	}
	for _, l := range []struct{ file, source, broken string }{
		{"tool.js", mortalJS, "throw new Error('at import')\n"},
		{"tool.py", mortalPython, "raise RuntimeError('at import')\n\n\ndef execute(params, ctx):\n    return 1\n"},
	} {
		t.Run(strings.TrimPrefix(l.file, "tool."), func(t *testing.T) {
			b := open(t, t.TempDir(), nil, "mortal/"+l.file, l.source, "stillborn/"+l.file, l.broken)
			f := serve(t, b, false)
			for _, c := range cases {
				if c.only != "" && c.only != l.file {
					continue
				}
				t.Run(c.how, func(t *testing.T) {
					r, err := die(t, f, c.how)
					switch {
					case c.code == "" && (err != nil || r.TextContent() != c.says):
						t.Errorf("got %v %v, want %q", r, err, c.says)
					case c.code != "" && err == nil:
						t.Errorf("got %v, want %s", r, c.code)
					case c.code != "":
						e := tool.AsError(err)
						if e.Code != c.code || !strings.Contains(e.Message, c.says) || e.Message == "" {
							t.Errorf("got %s %q, want %s and %q", e.Code, e.Message, c.code, c.says)
						}
						if c.how == "business" && (e.Hint != "Try tomorrow." || !e.Retryable) {
							t.Errorf("got %+v, want what the tool's author foresaw", e)
						}
					}
					if r, err := die(t, f, "live"); err != nil || string(r.Structured) != `{"lives":true}` {
						t.Errorf("the next call: %v %v", r, err)
					}
				})
			}
			t.Run("at import", func(t *testing.T) {
				_, _, err := b.Lookup(t.Context(), "stillborn")
				if e := tool.AsError(err); e == nil || e.Code != tool.ExecutionError || !strings.Contains(e.Message, "at import") {
					t.Errorf("got %v, want why it does not load", err)
				}
				s, err := b.Summary(t.Context(), "stillborn")
				if err != nil || s.State != toolbox.StateFailed || !strings.Contains(s.Error, "at import") {
					t.Errorf("listed as %+v %v", s, err)
				}
				if _, err := f.call(t.Context(), "stillborn", `{}`, tool.Request{}); err == nil {
					t.Error("it can be called")
				}
				if _, err := die(t, f, "live"); err != nil {
					t.Errorf("the other tool: %v", err)
				}
			})
		})
	}
}

// die makes one call as the executor does: within the time that the tool has.
func die(t *testing.T, f *floor, how string) (*tool.Result, error) {
	t.Helper()
	h, err := f.reg.Acquire("toolbox:mortal")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	raw, err := json.Marshal(map[string]string{"how": how})
	if err != nil {
		t.Fatal(err)
	}
	req := &tool.Request{Arguments: raw, Session: "s", CallID: "call_1"}
	limit := h.Tool.(tool.Timeouter).CallTimeout(req)
	if how != "never" {
		limit *= 20 // a machine may be busy with others; what counts then is CPU time
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, tool.Errorf(tool.TimeoutError, "the call took longer than %s", limit))
	defer cancel()
	return h.Tool.Call(ctx, req)
}
