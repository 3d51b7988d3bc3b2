package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/server/mcp"
	"github.com/toolyard/toolyard/tool"
)

// running is a server under test.
type running struct {
	Listening
	token string
	stop  context.CancelFunc
	done  chan error
}

func start(t *testing.T, c Config) *running {
	t.Helper()
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.Home == "" {
		c.Home = t.TempDir()
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, done: make(chan error, 1)}
	listening := make(chan Listening, 1)
	c.Listening = func(l Listening) { listening <- l }
	go func() { r.done <- Serve(ctx, c) }()
	select {
	case r.Listening = <-listening:
	case err := <-r.done:
		t.Fatalf("Serve: %v", err)
	}
	if r.TokenFile != "" {
		data, err := os.ReadFile(r.TokenFile)
		if err != nil {
			t.Fatal(err)
		}
		r.token = strings.TrimSpace(string(data))
	}
	t.Cleanup(func() {
		stop()
		if err := <-r.done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r
}

func (r *running) get(t *testing.T, path string, headers ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

func metrics(w io.Writer) error {
	_, err := io.WriteString(w, "up 1\n")
	return err
}

func TestToken(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	r := start(t, Config{Home: home, Metrics: metrics})
	if r.TokenFile != filepath.Join(home, "token") || len(r.token) != 2*tokenBytes {
		t.Fatalf("token %q in %s", r.token, r.TokenFile)
	}
	if info, err := os.Stat(r.TokenFile); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("token file: %v, %v", info.Mode(), err)
	}
	tests := []struct {
		name, path, authorization string
		want                      int
	}{
		{"health", "/healthz", "", 200},
		{"readiness", "/readyz", "", 200},
		{"metrics without", "/metrics", "", 401},
		{"metrics with", "/metrics", "Bearer " + r.token, 200},
		{"scheme in lower case", "/metrics", "bearer " + r.token, 200},
		{"another token", "/metrics", "Bearer " + strings.Repeat("0", 64), 401},
		{"a part", "/metrics", "Bearer " + r.token[:63], 401},
		{"empty", "/metrics", "Bearer ", 401},
		{"another scheme", "/metrics", "Basic " + r.token, 401},
		{"unknown path without", "/nowhere", "", 401},
		{"unknown path with", "/nowhere", "Bearer " + r.token, 404},
		{"not quite health", "/healthz/../metrics", "", 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body, header := r.get(t, tt.path, "Authorization", tt.authorization)
			if status != tt.want {
				t.Fatalf("%s: %d %s, want %d", tt.path, status, body, tt.want)
			}
			var failure struct {
				Error struct{ Code, Message, Hint string }
			}
			if status >= 400 && (json.Unmarshal([]byte(body), &failure) != nil || failure.Error.Code == "" || failure.Error.Hint == "") {
				t.Errorf("%s is no API error", body)
			}
			if status == 401 && header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
		})
	}
	if again := start(t, Config{Home: home}); again.token != r.token {
		t.Error("a second server has another token")
	}
}

func TestTokenFileThatOthersCanRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing on windows")
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "token"), []byte(strings.Repeat("a", 64)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(home, "token"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := Serve(t.Context(), Config{Addr: "127.0.0.1:0", Home: home})
	if err == nil || !strings.Contains(err.Error(), "can be read by others") {
		t.Errorf("Serve: %v", err)
	}
	if err := os.WriteFile(filepath.Join(home, "token"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(home, "token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), Config{Addr: "127.0.0.1:0", Home: home}); err == nil || !strings.Contains(err.Error(), "holds no token") {
		t.Errorf("Serve: %v", err)
	}
}

func TestAddressesWithoutAuthentication(t *testing.T) {
	for addr, want := range map[string]string{
		"0.0.0.0:0":      "needs authentication",
		"[::]:0":         "needs authentication",
		"nowhere":        "not host:port",
		"127.0.0.1:port": "port",
	} {
		if err := Serve(t.Context(), Config{Addr: addr, Auth: AuthNone}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", addr, err, want)
		}
	}
	if err := Serve(t.Context(), Config{Addr: "127.0.0.1:0", Auth: "maybe"}); err == nil {
		t.Error("auth maybe is taken")
	}
	r := start(t, Config{Addr: ":0", Auth: AuthNone, Metrics: metrics})
	if !strings.HasPrefix(r.URL, "http://127.0.0.1:") || r.TokenFile != "" {
		t.Errorf("listening %+v", r.Listening)
	}
	if status, _, _ := r.get(t, "/metrics"); status != 200 {
		t.Errorf("metrics: %d", status)
	}
}

func TestHostAndOrigin(t *testing.T) {
	r := start(t, Config{Auth: AuthNone, Hosts: []string{"tools.example"}, Origins: []string{"https://page.example"}})
	_, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	tests := []struct {
		name, header, value string
		want                int
	}{
		{"loopback", "Host", "127.0.0.1:" + port, 200},
		{"another loopback", "Host", "127.0.0.53", 200},
		{"IPv6 loopback", "Host", "[::1]:" + port, 200},
		{"localhost", "Host", "LocalHost:" + port, 200},
		{"configured", "Host", "tools.example:" + port, 200},
		{"rebound name", "Host", "evil.example:" + port, 403},
		{"name that begins so", "Host", "localhost.evil.example", 403},
		{"private address", "Host", "192.168.0.1", 403},
		{"any address", "Host", "0.0.0.0:" + port, 403},
		{"page of ours", "Origin", r.URL, 200},
		{"page on another port", "Origin", "http://localhost:3000", 200},
		{"configured page", "Origin", "https://page.example", 200},
		{"its subdomain", "Origin", "https://a.page.example", 403},
		{"its other scheme", "Origin", "http://page.example", 403},
		{"foreign page", "Origin", "https://evil.example", 403},
		{"sandboxed page", "Origin", "null", 403},
		{"file", "Origin", "file://", 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if status, body, _ := r.get(t, "/healthz", tt.header, tt.value); status != tt.want {
				t.Errorf("%s %s: %d %s, want %d", tt.header, tt.value, status, body, tt.want)
			}
		})
	}
	if status, _, _ := r.get(t, "/healthz", "Origin", r.URL, "Origin", "https://evil.example"); status != 403 {
		t.Errorf("two origins: %d", status)
	}
}

func TestReadiness(t *testing.T) {
	ready := errors.New("the store is being migrated")
	r := start(t, Config{Ready: func(context.Context) error { return ready }})
	if status, body, _ := r.get(t, "/readyz"); status != 503 || !strings.Contains(body, "migrated") {
		t.Errorf("%d %s", status, body)
	}
	ready = nil
	if status, body, _ := r.get(t, "/readyz"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

func TestLimit(t *testing.T) {
	r := start(t, Config{Auth: AuthNone, Limit: func(*http.Request) (time.Duration, bool) { return 90 * time.Second, false }})
	if status, _, header := r.get(t, "/healthz"); status != 429 || header.Get("Retry-After") != "90" {
		t.Errorf("%d, Retry-After %q", status, header.Get("Retry-After"))
	}
}

// slow is an executor whose calls end when they are told to.
type slow struct{ started, end chan struct{} }

func (s *slow) Call(ctx context.Context, _ executor.Call) *tool.Result {
	s.started <- struct{}{}
	select {
	case <-s.end:
		return tool.Text("done")
	case <-ctx.Done():
		return tool.Text("cancelled")
	}
}

type one struct{}

func (one) Specs() []*tool.Spec {
	return []*tool.Spec{{Name: "wait", Input: &jsonschema.Schema{Type: "object"}}}
}
func (o one) Find(string) (*tool.Spec, error) { return o.Specs()[0], nil }
func (one) OnChange(func())                   {}

const statelessCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// ask sends a call and gives what comes back.
func (r *running) ask(t *testing.T) <-chan string {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.URL+"/mcp", strings.NewReader(statelessCall))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "*/*", "Authorization": "Bearer " + r.token,
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "wait"} {
		req.Header.Set(k, v)
	}
	got := make(chan string, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		got <- string(body)
	}()
	return got
}

func TestDrain(t *testing.T) {
	t.Run("calls end", func(t *testing.T) {
		e := &slow{make(chan struct{}), make(chan struct{})}
		r := start(t, Config{MCP: mcp.New(mcp.Config{Executor: e, Catalog: one{}})})
		got := r.ask(t)
		<-e.started
		r.stop()
		close(e.end)
		if text := <-got; !strings.Contains(text, "done") {
			t.Errorf("got %s", text)
		}
	})
	t.Run("streams end at once", func(t *testing.T) {
		started := make(chan struct{})
		r := start(t, Config{API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(started)
			<-r.Context().Done()
		})})
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.get(t, "/api/v1/events", "Authorization", "Bearer "+r.token)
		}()
		<-started
		begin := time.Now()
		r.stop()
		<-done
		if took := time.Since(begin); took > defaultDrain/2 {
			t.Errorf("it took %v", took)
		}
	})
	t.Run("calls are cut off", func(t *testing.T) {
		e := &slow{make(chan struct{}), make(chan struct{})}
		r := start(t, Config{Drain: 20 * time.Millisecond, MCP: mcp.New(mcp.Config{Executor: e, Catalog: one{}})})
		got := r.ask(t)
		<-e.started
		r.stop()
		<-got // an answer or the end of the connection, but not never
	})
}
