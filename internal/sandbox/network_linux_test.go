package sandbox_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

// isolated is a sandbox in which a network can be granted.
func isolated(t testing.TB, c sandbox.Config) *sandbox.Sandbox {
	t.Helper()
	s := sandbox.New(c)
	t.Cleanup(func() { s.Close() })
	if report := s.Probe(context.Background()); !report.Level.AtLeast(sandbox.L2b) {
		t.Skipf("there is no network namespace here, only level %s: %v", report.Level, report.Missing)
	}
	return s
}

// TestNetworkLeavesNothing counts descriptors and goroutines before and after.
func TestNetworkLeavesNothing(t *testing.T) {
	s := isolated(t, sandbox.Config{})
	hosts := sandbox.NetworkOf([]string{"a.test", "b.test:5432", "10.1.2.3:53", "c.test:3128"})
	run := func() {
		// Connections are open when the command ends, and one hangs on a lookup.
		sandboxtest.Shell(t, s, sandbox.Profile{Network: hosts}, "exec 3<>/dev/tcp/127.0.0.1/3128; exec 4<>/dev/tcp/10.1.2.3/80; (sleep 100 <>/dev/tcp/127.0.0.1/3128) & echo x")
	}
	run()
	before, goroutines := descriptors(t), goruntime.NumGoroutine()
	for range 10 {
		run()
	}
	for range 3 {
		_, err := s.Start(t.Context(), sandbox.Cmd{Args: []string{"/no/such/program"}, Profile: sandbox.Profile{Network: hosts}})
		if err == nil {
			t.Error("a program that does not exist was started")
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for goruntime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
		goruntime.Gosched()
	}
	if after := goruntime.NumGoroutine(); after > goroutines {
		t.Errorf("%d goroutines before, %d after", goroutines, after)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestNetworkReportIsKept: what a command does later does not push its refusals
// out of the result, and their number is bounded.
func TestNetworkReportIsKept(t *testing.T) {
	s := isolated(t, sandbox.Config{})
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got := sandboxtest.Command(t, s, sandbox.Cmd{
		Args:    []string{self, sandboxtest.HelperArg, "many lookups", "1500 web.test evil.test"},
		Profile: sandbox.Profile{Read: append(sandboxtest.System(), self), Network: sandbox.NetworkOf([]string{"web.test=127.0.0.1:" + port})},
	})
	if len(got.Network) != 1000 {
		t.Errorf("%d decisions, want the last 1000: %+v %s", len(got.Network), got.Ending, got.Output)
	}
	if len(got.Violations) != 101 {
		t.Fatalf("%d violations, want 100 and one for the rest", len(got.Violations))
	}
	first, last := got.Violations[0], got.Violations[100]
	if first.Target != "evil.test" || !strings.HasSuffix(last.Rule, "more refusals") {
		t.Errorf("the first is %+v, the last %+v", first, last)
	}
}

// TestNetworkOfForeignOwner: root works in somebody else's directory, so the
// sandbox has no user namespace.
func TestNetworkOfForeignOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root")
	}
	s := isolated(t, sandbox.Config{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello ", r.Host) }))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	ws, err := os.MkdirTemp("/var/tmp", "sandboxtest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(ws) })
	if err := os.Chown(ws, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	got := sandboxtest.Shell(t, s, sandbox.Profile{Write: []string{ws}, Network: sandbox.NetworkOf([]string{"web.test=127.0.0.1:" + port})},
		`id -u; exec 3<>/dev/tcp/web.test/80 && printf 'GET / HTTP/1.0\r\nHost: web.test\r\n\r\n' >&3 && tail -n 1 <&3`)
	if got.Output != "12345\nhello web.test" {
		t.Errorf("got %+v %q", got.Ending, got.Output)
	}
}

// TestNetworkTrust: where the network opens TLS to inject, programs trust its
// certificates and still the machine's; where it does not, nothing is said.
func TestNetworkTrust(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "token=%s", r.Header.Get("Authorization"))
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	s := isolated(t, sandbox.Config{RootCAs: roots})
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	// The certificate of httptest is for example.com.
	profile := sandbox.Profile{Network: sandbox.NetworkOf([]string{"example.com=127.0.0.1:" + port})}
	run := func(script string, inject ...netproxy.Injection) sandboxtest.Outcome {
		p := profile
		p.Read = append(sandboxtest.System(), profile.Read...)
		return sandboxtest.Command(t, s, sandbox.Cmd{Args: []string{"/bin/bash", "-c", script}, Profile: p, Inject: inject,
			Env: []string{"PATH=/usr/bin:/bin", "NODE_EXTRA_CA_CERTS=/x", "HTTPS_PROXY=http://evil.test"}})
	}
	const env = "env | grep -E 'CA|CERT|HTTPS_PROXY' | sort; ls /.certificates"
	secret := netproxy.Injection{Host: "example.com", Header: "Authorization", Value: "Bearer secret"}
	if got := run(env); strings.Contains(got.Output, "SSL_CERT") || strings.Contains(got.Output, "NODE_EXTRA") || !strings.Contains(got.Output, "HTTPS_PROXY=http://127.0.0.1:3128") || strings.Contains(got.Output, "evil") {
		t.Errorf("without injection: %s", got.Output)
	}
	got := run(env, secret)
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "ca.pem"} {
		if !strings.Contains(got.Output, name) {
			t.Errorf("no %s in:\n%s", name, got.Output)
		}
	}
	if !hasProgram("curl") {
		t.Skip("no curl")
	}
	for _, read := range [][]string{nil, {"/etc"}} { // where it is the machine's the same holds
		profile.Read = read
		for name, script := range map[string]string{
			"by the proxy":  "curl -sS https://example.com/",
			"without proxy": "unset HTTPS_PROXY https_proxy ALL_PROXY all_proxy; curl -sS https://example.com/",
		} {
			if got := run(script, secret); got.Output != "token=Bearer secret" {
				t.Errorf("%s with %v: got %q", name, read, got.Output)
			}
		}
	}
	// Without an injection the server's own certificate arrives, which nobody
	// inside knows.
	if got := run("curl -sS https://example.com/"); got.Ending.Code == 0 || !strings.Contains(strings.ToLower(got.Output), "certificate") {
		t.Errorf("an unknown certificate: %+v %q", got.Ending, got.Output)
	}
}

func hasProgram(name string) bool {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/local/bin"} {
		if _, err := os.Stat(dir + "/" + name); err == nil {
			return true
		}
	}
	return false
}

// BenchmarkNetwork is what a network costs a launch.
func BenchmarkNetwork(b *testing.B) {
	for _, c := range []struct {
		name    string
		network sandbox.Network
	}{{"none", sandbox.Network{}}, {"domains", sandbox.NetworkOf([]string{"a.test", "*.b.test", "c.test:8443"})}, {"all", sandbox.NetworkOf([]string{"all"})}} {
		b.Run(c.name, func(b *testing.B) {
			s := isolated(b, sandbox.Config{})
			for b.Loop() {
				p, err := s.Start(b.Context(), sandbox.Cmd{Args: []string{"/bin/true"}, Profile: sandbox.Profile{Read: sandboxtest.System(), Network: c.network}})
				if err != nil {
					b.Fatal(err)
				}
				p.Wait(b.Context())
				if err := p.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
