package host_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// deaths are the ways in which a tool can die or break its worker: one typed error
// of one call. To add one: a method in testdata/contract and a row here.
var deaths = []struct {
	name, params string
	code         tool.Code
	says         string
	only         string // a language
	limits       worker.Limits
	memory       int64
	lives        bool // the worker runs the next call as well
}{
	{name: "throw", params: `{"method":"throw","message":"it is wrong"}`, code: tool.ExecutionError, says: "it is wrong", lives: true},
	{name: "throw a type", params: `{"method":"throw","message":"it is wrong","type":"TypeError"}`, code: tool.ExecutionError, says: "TypeError: it is wrong", lives: true},
	{name: "exit", params: `{"method":"exit","n":3}`, code: tool.ExecutionError, says: "exit code 3"},
	{name: "exit with success", params: `{"method":"exit","n":0}`, code: tool.ExecutionError, says: "exit code 0"},
	{name: "throw late", params: `{"method":"throwLate"}`, code: tool.ExecutionError, says: "outside of its call: thrown late", only: "js"},
	{name: "an unhandled rejection", params: `{"method":"reject"}`, code: tool.ExecutionError, says: "nobody cares", only: "js"},
	{name: "loop", params: `{"method":"loop"}`, code: tool.TimeoutError, says: "300ms", limits: worker.Limits{Wall: 300 * time.Millisecond}},
	{name: "loop against CPU time", params: `{"method":"loop"}`, code: tool.ResourceExhausted, says: "CPU time", limits: worker.Limits{CPU: 200 * time.Millisecond}},
	{name: "never settles", params: `{"method":"never"}`, code: tool.TimeoutError, says: "200ms", limits: worker.Limits{Wall: 200 * time.Millisecond}},
	{name: "out of heap", params: `{"method":"heap"}`, code: tool.ResourceExhausted, says: "memory", memory: 128 * sandbox.MiB},
	{name: "2 GB", params: `{"method":"buffers"}`, code: tool.ResourceExhausted, says: "memory", memory: 256 * sandbox.MiB},
	{name: "5 MB of result", params: `{"method":"large","n":5000000}`, code: tool.ResourceExhausted, says: "5000002 bytes", lives: true},
	{name: "a cycle", params: `{"method":"cyclic"}`, code: tool.ExecutionError, says: "cannot be written as JSON", lives: true},
	{name: "a BigInt", params: `{"method":"big"}`, code: tool.ExecutionError, says: "cannot be written as JSON", lives: true},
	{name: "a function", params: `{"method":"function"}`, code: tool.ExecutionError, says: "cannot be written as JSON", lives: true},
	{name: "prototype pollution", params: `{"method":"pollute"}`, code: tool.ExecutionError, says: "changed what all objects inherit: polluted, toJSON", only: "js"},
	{name: "no such method", params: `{"method":"none"}`, code: tool.ExecutionError, says: "there is no method none", lives: true},
	{name: "parameters that are no JSON", params: `{`, code: tool.ExecutionError, says: "", lives: true},
}

func TestDeaths(t *testing.T) {
	s := box(t)
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			b := contract(t, s, l.file, nil)
			b.describe()
			for _, d := range deaths {
				if d.only != "" && d.only != l.name {
					continue
				}
				t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) {
					b := b
					if d.memory > 0 {
						b = contract(t, s, l.file, func(b *bench) { b.config.Profile.Memory = d.memory })
					}
					before := b.count()
					c := host.Execute(json.RawMessage(d.params), "")
					c.Limits = d.limits
					_, err := b.do(c)
					if err == nil {
						t.Fatal("it went well")
					}
					if err.Code != d.code || !strings.Contains(err.Message, d.says) || !err.Began {
						t.Errorf("got %s %q (%v), want %s and %q", err.Code, err.Message, err.Details, d.code, d.says)
					}
					for _, frame := range []string{"    at ", "Traceback", ", line "} {
						if strings.Contains(err.Message, frame) || strings.Contains(fmt.Sprint(err.Details["stack"]), frame) {
							t.Errorf("a stack is shown: %q %v", err.Message, err.Details)
						}
					}
					after := b.count()
					if lived := after == before+1; lived != d.lives {
						t.Errorf("calls went from %d to %d: the worker lived is %v, want %v", before, after, lived, d.lives)
					}
				})
			}
		})
	}
}

// count is which call of its worker this is.
func (b *bench) count() int {
	b.t.Helper()
	var n struct{ Calls int }
	if err := json.Unmarshal([]byte(b.text(`{"method":"count"}`)), &n); err != nil {
		b.t.Fatal(err)
	}
	return n.Calls
}

// TestOdd: what is no failure, though it is unusual.
func TestOdd(t *testing.T) {
	each(t, nil, func(t *testing.T, b *bench) {
		if got := b.text(`{"method":"undefined"}`); got != "The tool returned nothing." {
			t.Errorf("nothing: %q", got)
		}
		b.log()
		if got := b.text(`{"method":"binary"}`); got != "printed" {
			t.Errorf("binary output: %q", got)
		}
		if got, want := b.log(), []string{"INFO \x00\uFFFD", "INFO \x01\x02\x00\uFFFD"}; !slices.Equal(got, want) {
			t.Errorf("binary output came as %q, want %q", got, want)
		}
	})
}
