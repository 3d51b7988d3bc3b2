package executor_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// memory is the part of the store that calls need.
type memory struct {
	mu        sync.Mutex
	calls     map[string]store.Call
	order     []store.Call // every row put, in order
	now       int          // rows put with PutCallNow
	metrics   map[string]store.Metric
	artifacts map[string]store.Artifact
	fail      error
}

func newMemory() *memory {
	return &memory{calls: map[string]store.Call{}, metrics: map[string]store.Metric{}, artifacts: map[string]store.Artifact{}}
}

func (m *memory) PutCall(_ context.Context, c store.Call) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if m.calls != nil {
		m.calls[c.ID] = c
	}
	if m.calls != nil {
		m.order = append(m.order, c)
	}
	return nil
}

func (m *memory) PutCallNow(ctx context.Context, c store.Call) error {
	err := m.PutCall(ctx, c)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now++
	return err
}

func (m *memory) Call(_ context.Context, id string) (store.Call, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.calls[id]
	if !ok {
		return c, store.ErrNotFound
	}
	return c, nil
}

func (m *memory) ListCalls(context.Context, store.CallFilter) ([]store.Call, error) { return nil, nil }

func (m *memory) PutMetrics(_ context.Context, rows []store.Metric) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rows {
		m.metrics[r.Tool+r.Minute.String()] = r
	}
	return m.fail
}

func (m *memory) ListMetrics(context.Context, string, time.Time) ([]store.Metric, error) {
	return nil, nil
}

func (m *memory) Flush(context.Context) error { return nil }

func (m *memory) PutArtifact(_ context.Context, a store.Artifact) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.artifacts[a.ID] = a
	return nil
}

func (m *memory) Artifact(_ context.Context, id string) (store.Artifact, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.artifacts[id]
	if !ok {
		return a, store.ErrNotFound
	}
	return a, nil
}

func (m *memory) ListArtifacts(context.Context, string, int) ([]store.Artifact, error) {
	return nil, nil
}
func (m *memory) DeleteArtifact(context.Context, string) error             { return nil }
func (m *memory) ArtifactsWithHash(context.Context, string) (int64, error) { return 1, nil }

// rows gives every row that was put, in order.
func (m *memory) rows() []store.Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]store.Call(nil), m.order...)
}

// bench is an executor with all its parts, and what they saw.
type bench struct {
	*executor.Executor
	store    *memory
	bus      *event.Bus
	dir      *artifact.Dir
	registry *registry.Registry
}

// newBench makes an executor of tools; change may alter its settings.
func newBench(t testing.TB, change func(*executor.Config), tools ...tool.Tool) *bench {
	t.Helper()
	b := &bench{store: newMemory(), bus: event.New(0), registry: registry.New(registry.Config{})}
	var err error
	if b.dir, err = artifact.Open(t.TempDir(), b.store); err != nil {
		t.Fatal(err)
	}
	for _, x := range tools {
		if err := b.registry.Add(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	c := executor.Config{Registry: b.registry, Store: b.store, Bus: b.bus, Artifacts: b.dir}
	if change != nil {
		change(&c)
	}
	if b.Executor, err = executor.New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// echoIn is what the test tools take.
type echoIn struct {
	Text string `json:"text,omitempty" alias:"message" jsonschema:"what to say"`
	N    int    `json:"n,omitempty" jsonschema:"a number"`
}

// function makes a tool named "t" of a function.
func function(spec tool.Spec, call func(ctx context.Context, req *tool.Request, in echoIn) (*tool.Result, error)) tool.Tool {
	if spec.Name == "" {
		spec.Name = "t"
	}
	if spec.Description == "" {
		spec.Description = "A test tool."
	}
	if spec.Default == 0 {
		spec.Default = tool.Allow
	}
	return tool.New(spec, func(ctx context.Context, req *tool.Request, in echoIn) (*tool.Result, struct{}, error) {
		r, err := call(ctx, req, in)
		return r, struct{}{}, err
	})
}

func echo() tool.Tool {
	return function(tool.Spec{Name: "echo", Effects: tool.Read, Idempotent: true, ConcurrencySafe: true}, func(_ context.Context, _ *tool.Request, in echoIn) (*tool.Result, error) {
		return tool.Text(in.Text), nil
	})
}

// coded fails a test unless r failed with code.
func coded(t *testing.T, r *tool.Result, code tool.Code) {
	t.Helper()
	if !r.IsError || r.Err == nil || r.Err.Code != code {
		t.Fatalf("result %q (error %+v), want code %s", r.TextContent(), r.Err, code)
	}
}

// passed fails a test unless r succeeded.
func passed(t *testing.T, r *tool.Result) {
	t.Helper()
	if r.IsError {
		t.Fatalf("result %q (error %+v), want success", r.TextContent(), r.Err)
	}
}

func args(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// answers is an Asker that gives answers by a function.
type answers func(ctx context.Context, q tool.Question) (tool.Answer, error)

func (a answers) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) { return a(ctx, q) }

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%.300q lacks %q", text, p)
		}
	}
}
