package toolyard_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/tool"
)

// TestNetwork: what the configuration grants is what a command reaches.
func TestNetwork(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("hello " + r.Host)) }))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	get := func(host string) map[string]any {
		return map[string]any{"command": "exec 3<>/dev/tcp/" + host + "/80 && printf 'GET / HTTP/1.0\\r\\nHost: " + host + "\\r\\n\\r\\n' >&3 && cat <&3"}
	}
	yard, _ := open(t, nil, func(c *toolyard.Config) { c.Sandbox.Network = []string{"web.test=127.0.0.1:" + port} })
	r := call(t, yard, "bash", get("web.test"))
	if r.Err != nil && r.Err.Code == tool.SandboxUnavailable {
		t.Skip("there is no network namespace here: " + r.Err.Message)
	}
	if text := ok(t, r); !strings.Contains(text, "hello web.test") {
		t.Errorf("granted: %q", text)
	}
	for _, host := range []string{"evil.test", "169.254.169.254", "127.0.0.1"} {
		r := call(t, yard, "bash", get(host))
		if want := "network: " + host; strings.Contains(r.TextContent(), "hello") || !strings.Contains(r.TextContent(), want) || !strings.Contains(strings.Join(r.Meta.Notes, "\n"), want) {
			t.Errorf("%s: %q, notes %q", host, r.TextContent(), r.Meta.Notes)
		}
	}

	without, _ := open(t, nil, nil)
	if r := call(t, without, "bash", get("web.test")); !r.IsError || strings.Contains(r.TextContent(), "hello") {
		t.Errorf("without a network: %q", r.TextContent())
	}
}

func TestNetworkSettings(t *testing.T) {
	for _, c := range []struct {
		name    string
		sandbox toolyard.Sandbox
		want    string
	}{
		{"no host", toolyard.Sandbox{Network: []string{"ok.test", "no host"}}, `"no host"`},
		{"no range", toolyard.Sandbox{AllowRanges: []string{"10.0.0.0/8", "10.0.0.0/99"}}, `"10.0.0.0/99"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			yard, err := toolyard.New(toolyard.Config{Home: t.TempDir(), Workspaces: []string{t.TempDir()}, Sandbox: c.sandbox})
			if err == nil {
				yard.Close()
			}
			if e := tool.AsError(err); e == nil || e.Code != tool.ParameterError || !strings.Contains(e.Message, c.want) {
				t.Errorf("got %v, want a PARAMETER_ERROR that names %s", err, c.want)
			}
		})
	}
}
