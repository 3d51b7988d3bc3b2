package shell

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// online gives the commands of a yard a network.
func online(t *testing.T, entries ...string) *yard {
	t.Helper()
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { box.Close() })
	if report := box.Probe(t.Context()); !report.Level.AtLeast(sandbox.L2b) {
		t.Skipf("there is no network namespace here, only level %s: %v", report.Level, report.Missing)
	}
	return newYard(t, func(d *Deps) {
		confine := d.Confine
		d.Network = entries
		d.Confine = func(ctx context.Context, req *tool.Request) (Confinement, error) {
			c, err := confine(ctx, req)
			c.Profile.Network = sandbox.NetworkOf(entries)
			return c, err
		}
	})
}

// events keeps what a call emits.
type events struct {
	host
	mu   sync.Mutex
	list []tool.Event
}

func (e *events) Emit(ev tool.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ev)
}

const refusal = "network: evil.test is not among the allowed domains (web.test=127.0.0.1:"

func TestNetwork(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("hello " + r.Host)) }))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	y := online(t, "web.test=127.0.0.1:"+port)
	get := func(host string) string {
		return "exec 3<>/dev/tcp/" + host + "/80 && printf 'GET / HTTP/1.0\\r\\nHost: " + host + "\\r\\n\\r\\n' >&3 && cat <&3"
	}
	result, _ := y.call(t.Context(), t, "bash", map[string]any{"command": get("web.test")})
	if result.IsError || !strings.Contains(result.TextContent(), "hello web.test") || strings.Contains(result.TextContent(), "[sandbox") {
		t.Errorf("granted: %s", result.TextContent())
	}
	// A command that fails says which rule was in the way, wherever one looks.
	result, _ = y.call(t.Context(), t, "bash", map[string]any{"command": get("evil.test")})
	if !result.IsError || !strings.Contains(result.TextContent(), "[sandbox: "+refusal+port+")]") {
		t.Errorf("refused: %s", result.TextContent())
	}
	if notes := strings.Join(result.Meta.Notes, "\n"); !strings.Contains(notes, refusal) {
		t.Errorf("notes %q", notes)
	}
	if result.Err == nil || !strings.Contains(result.Err.Hint, refusal) || !strings.Contains(result.Err.Hint, "sandbox.network") {
		t.Errorf("error %+v", result.Err)
	}
	// One that goes on nevertheless is no failure and is told as well.
	result, _ = y.call(t.Context(), t, "bash", map[string]any{"command": "(" + get("evil.test") + ") 2>/dev/null; echo went on"})
	if result.IsError || !strings.Contains(result.TextContent(), "went on") || !strings.Contains(result.TextContent(), refusal) {
		t.Errorf("went on: %s", result.TextContent())
	}
	_, job := y.call(t.Context(), t, "bash", map[string]any{"command": get("evil.test"), "run_in_background": true})
	seen := ""
	for offset, more := 0.0, true; more; {
		part, out := y.call(t.Context(), t, "job_output", map[string]any{"job_id": job["job_id"], "offset": int64(offset), "wait": 10})
		seen += part.TextContent()
		offset, more = out["next_offset"].(float64), out["status"] == "running"
	}
	if !strings.Contains(seen, refusal) {
		t.Errorf("the job's output does not name the rule: %s", seen)
	}
}

func TestNetworkEvents(t *testing.T) {
	y := online(t, "web.test=127.0.0.1:1")
	var e events
	req := &tool.Request{Arguments: []byte(`{"command": "exec 3<>/dev/tcp/evil.test/80"}`), Session: "s", CallID: "e", Workspace: y.dir, Host: &e}
	if _, err := y.tools["bash"].Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if len(e.list) != 1 || e.list[0].Type != tool.EventNetworkRefused || e.list[0].Data["target"] != "evil.test" || !strings.HasPrefix(e.list[0].Data["rule"].(string), refusal) {
		t.Errorf("events %+v", e.list)
	}
}

func TestReach(t *testing.T) {
	many := strings.Fields(strings.Repeat("a.test ", maxNamed+3))
	for _, c := range []struct {
		name    string
		network []string
		want    string
	}{
		{"none", nil, "has no network"},
		{"all", []string{"all"}, "can reach public addresses"},
		{"some", []string{"a.test", "*.b.test"}, "can reach only a.test, *.b.test"},
		{"many", many, "and 3 more hosts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := newBash(Deps{Network: c.network}).Spec().Description; !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
		})
	}
}

func TestManyRefusals(t *testing.T) {
	list := []sandbox.Violation{{Kind: "protected", Target: "/w/.env", Rule: "protected path"}}
	for range maxRefusals + 5 {
		list = append(list, sandbox.Violation{Kind: "network", Target: "x", Rule: "network: x"})
	}
	lines := violationLines(list)
	if len(lines) != maxRefusals+2 || lines[len(lines)-1] != "[sandbox: 5 more hosts were refused]" || lines[0] != "[sandbox: protected was kept from /w/.env by protected path]" {
		t.Errorf("got %q", lines)
	}
}
