package sandbox_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// TestWorkers: warm workers of real languages live at every level, speak over
// their descriptor, and are held to their limits.
func TestWorkers(t *testing.T) {
	modules := t.TempDir()
	for name, text := range map[string]string{
		"tool.mjs": "let n = 0\nexport default { next () { return ++n }, loop () { for (;;); } }\n",
		"tool.py":  "n = 0\ndef next(args):\n    global n\n    n += 1\n    return n\ndef loop(args):\n    while True: pass\n",
	} {
		if err := os.WriteFile(filepath.Join(modules, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, level := range []sandbox.Level{sandbox.L2, sandbox.L2b, sandbox.L1, sandbox.L0} {
		for _, l := range []struct {
			program, module string
			host            worker.Host
		}{{"/usr/bin/node", "tool.mjs", worker.Node{}}, {"/usr/bin/python3", "tool.py", worker.Python{}}} {
			t.Run(string(level)+"/"+l.module, func(t *testing.T) {
				if _, err := exec.LookPath(l.program); err != nil {
					t.Skipf("no %s", l.program)
				}
				s := sandbox.New(sandbox.Config{}.AtMost(level))
				defer s.Close()
				if got := s.Probe(t.Context()).Level; got != level {
					t.Skipf("level %s cannot be had here, only %s", level, got)
				}
				p := worker.New(worker.Config{
					Runner: s, Host: l.host, Module: filepath.Join(modules, l.module), Env: []string{"PATH=/usr/bin:/bin"},
					Profile: sandbox.Profile{Kind: "toolbox", Read: append(sandboxtest.System(), "/etc/ssl/openssl.cnf", modules), Write: []string{t.TempDir()}, MinLevel: sandbox.L0},
				})
				defer func() {
					if err := p.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				for _, want := range []string{"1", "2"} {
					r, err := p.Call(t.Context(), worker.Call{Name: "next", Args: json.RawMessage("{}")})
					if err != nil {
						t.Fatal(err, tool.AsError(err).Details)
					}
					if string(r.Value) != want {
						t.Errorf("got %s, want %s", r.Value, want)
					}
				}
				_, err := p.Call(t.Context(), worker.Call{Name: "loop", Limits: worker.Limits{Wall: 100 * time.Millisecond}})
				if e := tool.AsError(err); e == nil || e.Code != tool.TimeoutError {
					t.Errorf("a loop: got %v, want %s", err, tool.TimeoutError)
				}
			})
		}
	}
}
