package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/sandbox"
)

func TestGateway(t *testing.T) {
	script, err := filepath.Abs("../../gateway/testdata/server.py")
	if err != nil {
		t.Fatal(err)
	}
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { _ = box.Close() })
	g, err := gateway.New(gateway.Config{Home: t.TempDir(), Runner: box})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	f := &front{bus: event.New(0)}
	f.Server = httptest.NewServer(New(Config{Bus: f.bus, Gateway: g}))
	t.Cleanup(f.Close)
	entry, err := json.Marshal(map[string]any{"name": "plain", "entry": map[string]any{"command": "/usr/bin/python3", "args": []string{script, "good"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/gateway", "", http.StatusOK, `"servers":[]`},
		{"POST", "/gateway", string(entry), http.StatusCreated, `"state":"stopped"`},
		{"POST", "/gateway", `{"name": "a b", "entry": {}}`, http.StatusBadRequest, "VALIDATION_ERROR"},
		{"POST", "/gateway/plain/start", "", http.StatusOK, `"state":"ready"`},
		{"GET", "/gateway/plain", "", http.StatusOK, `"full_name":"plain:echo"`},
		{"GET", "/gateway/plain/logs?lines=5", "", http.StatusOK, "started: "},
		{"POST", "/gateway/plain/approve", `{}`, http.StatusOK, `"tools":[]`},
		{"POST", "/gateway/plain/restart", "", http.StatusOK, `"state":"ready"`},
		{"POST", "/gateway/plain/stop", "", http.StatusOK, `"state":"stopped"`},
		{"GET", "/gateway/plane", "", http.StatusNotFound, "Did you mean plain?"},
		{"DELETE", "/gateway/plain", "", http.StatusNoContent, ""},
		{"DELETE", "/gateway/plain", "", http.StatusNotFound, "NOT_FOUND"},
	} {
		status, body, _ := f.do(t, step.method, step.path, step.body)
		if status != step.status || !strings.Contains(body, step.want) {
			t.Errorf("%s %s: %d %s, want %d with %s", step.method, step.path, status, body, step.status, step.want)
		}
	}
}
