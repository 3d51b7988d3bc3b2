package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
	"github.com/toolyard/toolyard/tool"
)

// visits are what a command does with its network. Each prints what it got. To
// add one: a line here.
var visits = []attack{
	{name: "fetch", run: func(t string) error { return fetch(t, "tcp", http.ProxyFromEnvironment) }},
	{name: "fetch without proxy", run: func(t string) error { return fetch(t, "tcp", nil) }},
	{name: "fetch without proxy by IPv6", run: func(t string) error { return fetch(t, "tcp6", nil) }},
	{name: "talk", run: talk},
	{name: "udp", run: udp},
	{name: "many lookups", run: manyLookups},
	{name: "look up", run: func(t string) error {
		addrs, err := net.LookupHost(t)
		fmt.Println(addrs)
		return err
	}},
}

const visitTimeout = 20 * time.Second

func fetch(target, network string, proxy func(*http.Request) (*url.URL, error)) error {
	client := http.Client{Timeout: visitTimeout, Transport: &http.Transport{
		Proxy: proxy,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}}
	response, err := client.Get(target)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	fmt.Printf("%s %s\n", response.Status, body)
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return err
}

// talk succeeds if an answer comes: a connection alone may be one to the
// sandbox's own proxy, which ends it.
func talk(target string) error {
	c, err := net.DialTimeout("tcp", target, visitTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(visitTimeout))
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\nHost: x\r\n\r\n"); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// manyLookups looks up 150 names below one that is refused, and then another
// name some times: "TIMES NAME REFUSED".
func manyLookups(target string) error {
	var times int
	var name, other string
	if _, err := fmt.Sscan(target, &times, &name, &other); err != nil {
		return err
	}
	_, _ = net.LookupHost(other)
	for i := range 149 {
		_, _ = net.LookupHost(fmt.Sprintf("a%d.%s", i, other))
	}
	for range times {
		if _, err := net.LookupHost(name); err != nil {
			return err
		}
	}
	return nil
}

// book is a resolver with answers of its own.
type book map[string][]netip.Addr

func (b book) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	addrs := b[host]
	if addrs == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

// RunNetwork holds a kind of sandbox to the contract of a network by domain.
// Each refusal has a positive control: the same visit with a wider grant, or
// from outside.
func RunNetwork(t *testing.T, start func(sandbox.Config) sandbox.Runner, level sandbox.Level) {
	loop := netip.MustParseAddr("127.0.0.1")
	config := sandbox.Config{Resolver: book{
		"web.test": {loop}, "a.wild.test": {loop}, "b.a.wild.test": {loop}, "wild.test": {loop}, "other.test": {loop},
		"meta.test": {netip.MustParseAddr("169.254.169.254")}, "lan.test": {netip.MustParseAddr("10.0.0.1")}, "mapped.test": {netip.MustParseAddr("::ffff:127.0.0.1")},
	}}
	narrow := start(config)
	t.Cleanup(func() { narrow.Close() })
	config.AllowRanges = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	wide := start(config) // names may resolve to loopback addresses
	t.Cleanup(func() { wide.Close() })
	if report := narrow.Probe(t.Context()); report.Level != level {
		t.Skipf("level %s cannot be had here, only %s: %v", level, report.Level, report.Missing)
	}
	address := serve(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(address)
	six := serve(t, "[::1]:0")
	_, port6, _ := net.SplitHostPort(six)
	udpEcho := echo(t)
	fill := strings.NewReplacer("PORT6", port6, "PORT", port).Replace
	const here = "http://web.test:PORT/x"
	for _, c := range []struct {
		name    string
		network string // entries between spaces, "all" or ""
		wide    bool
		visit   string
		target  string
		want    string // in the output; "" for a visit that is refused
		rule    string // in the sentence of the refusal
		control string // the network with which a refused visit succeeds in the wide sandbox, "outside", or "none possible: why"
	}{
		{name: "by name through the proxy", network: "web.test=127.0.0.1:PORT", visit: "fetch", target: here, want: "200 OK hello web.test:PORT"},
		{name: "by name without proxy", network: "web.test=127.0.0.1:PORT", visit: "fetch without proxy", target: here, want: "200 OK hello web.test:PORT"},
		{name: "at the usual port", network: "web.test=127.0.0.1:PORT", visit: "fetch without proxy", target: "http://web.test/x", want: "200 OK hello web.test"},
		{name: "by IPv6 inside", network: "web.test=127.0.0.1:PORT", visit: "fetch without proxy by IPv6", target: here, want: "200 OK hello web.test:PORT"},
		{name: "an IPv6 server", network: "six.test=[::1]:PORT6", visit: "fetch", target: "http://six.test:PORT6/x", want: "hello six.test"},
		{name: "an IPv6 address", network: "[::1]:PORT6", visit: "fetch without proxy by IPv6", target: "http://[::1]:PORT6/x", want: "hello [::1]"},
		{name: "an address", network: "127.0.0.1:PORT", visit: "fetch without proxy", target: "http://127.0.0.1:PORT/x", want: "hello 127.0.0.1"},
		{name: "a range", network: "127.0.0.0/8:PORT", visit: "fetch", target: "http://127.0.0.1:PORT/x", want: "hello 127.0.0.1"},
		{name: "a name in an allowed range", network: "web.test:PORT", wide: true, visit: "fetch", target: here, want: "hello web.test"},
		{name: "a name in a granted range", network: "web.test:PORT 127.0.0.0/24:PORT", visit: "fetch without proxy", target: here, want: "hello web.test"},
		{name: "below a wildcard", network: "*.wild.test:PORT", wide: true, visit: "fetch without proxy", target: "http://b.a.wild.test:PORT/x", want: "hello b.a.wild.test"},
		{name: "all", network: "all", wide: true, visit: "fetch", target: here, want: "hello web.test"},
		{name: "a name has an address", network: "web.test=127.0.0.1:PORT", visit: "look up", target: "web.test", want: "198.1"},

		{name: "another host", network: "web.test=127.0.0.1:PORT", visit: "fetch", target: "http://other.test:PORT/x", rule: "other.test:PORT is not among the allowed domains (web.test=127.0.0.1:PORT)", control: "other.test:PORT"},
		{name: "another host without proxy", network: "web.test=127.0.0.1:PORT", visit: "fetch without proxy", target: "http://other.test:PORT/x", rule: "other.test is not among", control: "other.test:PORT"},
		{name: "another port", network: "web.test:1=127.0.0.1:PORT", visit: "fetch", target: here, rule: "web.test:PORT", control: "web.test:PORT"},
		{name: "the domain of a wildcard", network: "*.wild.test:PORT", wide: true, visit: "fetch", target: "http://wild.test:PORT/x", rule: "wild.test:PORT is not among", control: "wild.test:PORT"},
		{name: "a name that ends like a wildcard", network: "*.test:PORT", wide: true, visit: "fetch", target: "http://webXtest:PORT/x", rule: "webxtest", control: "none possible: no such host"},
		{name: "a name at a loopback address", network: "web.test:PORT", visit: "fetch", target: here, rule: "127.0.0.1, a loopback address", control: "web.test:PORT"},
		{name: "a name in a range granted at another port", network: "web.test:PORT 127.0.0.0/24:1", visit: "fetch", target: here, rule: "127.0.0.1, a loopback address", control: "web.test:PORT"},
		{name: "a name at a mapped address", network: "mapped.test:PORT", visit: "fetch", target: "http://mapped.test:PORT/x", rule: "mapped.test:PORT is not allowed", control: "mapped.test:PORT=127.0.0.1"},
		{name: "a name at a private address", network: "lan.test", wide: true, visit: "fetch", target: "http://lan.test/x", rule: "10.0.0.1, a private address", control: "lan.test=127.0.0.1:PORT"},
		{name: "a name at a metadata address", network: "meta.test", wide: true, visit: "fetch without proxy", target: "http://meta.test/x", rule: "169.254.169.254, a cloud's metadata address", control: "meta.test=127.0.0.1:PORT"},
		{name: "a metadata address", network: "all", visit: "fetch without proxy", target: "http://169.254.169.254/x", rule: "169.254.169.254:80 is not allowed", control: "none possible: no such server here"},
		{name: "an address with all", network: "all", visit: "fetch", target: "http://127.0.0.1:PORT/x", rule: "", control: "outside"},
		{name: "an address", network: "web.test=127.0.0.1:PORT", visit: "talk", target: "127.0.0.1:PORT", rule: "127.0.0.1:PORT is not among", control: "outside"},
		{name: "an address of the internet", network: "web.test=127.0.0.1:PORT", visit: "fetch without proxy", target: "http://192.0.2.7/x", rule: "192.0.2.7:80 is not among", control: "none possible: no such server here"},
		{name: "an address of the internet by IPv6", network: "web.test=127.0.0.1:PORT", visit: "fetch without proxy by IPv6", target: "http://[2001:db8::7]/x", rule: "[2001:db8::7]:80 is not among", control: "none possible: no such server here"},
		{name: "UDP to the host", network: "127.0.0.1", visit: "udp", target: udpEcho, control: "outside"},
		{name: "UDP with all", network: "all", wide: true, visit: "udp", target: udpEcho, control: "outside"},
		{name: "no network", network: "", visit: "talk", target: "127.0.0.1:PORT", control: "outside"},
	} {
		name := c.name
		if c.want == "" {
			name += " refused"
		}
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			s := narrow
			if c.wide {
				s = wide
			}
			got := visit(t, s, fill(c.network), c.visit, fill(c.target))
			if c.want != "" {
				if got.Ending.Code != succeeded || !strings.Contains(got.Output, fill(c.want)) {
					t.Errorf("%s %s with %s: ended %+v with %q, want %q\n%v", c.visit, fill(c.target), fill(c.network), got.Ending, got.Output, fill(c.want), got.Network)
				}
				return
			}
			if got.Ending.Code != refused {
				t.Fatalf("%s %s with %s: ended %+v with %q, want it refused", c.visit, fill(c.target), fill(c.network), got.Ending, got.Output)
			}
			if rule := fill(c.rule); rule != "" && !strings.Contains(rules(got.Violations), rule) {
				t.Errorf("violations %+v, want one that says %q", got.Violations, rule)
			}
			switch {
			case c.control == "outside":
				self, err := os.Executable()
				if err != nil {
					t.Fatal(err)
				}
				out, err := exec.Command(self, HelperArg, c.visit, fill(c.target)).CombinedOutput()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != succeeded {
					t.Errorf("control: outside it ends with %v and %q", err, out)
				}
			case !strings.HasPrefix(c.control, "none possible"):
				if got := visit(t, wide, fill(c.control), c.visit, fill(c.target)); got.Ending.Code != succeeded {
					t.Errorf("control: with %s it ends with %+v and %q", fill(c.control), got.Ending, got.Output)
				}
			}
		})
	}
	t.Run("an_entry_that_is_none", func(t *testing.T) {
		_, err := narrow.Start(t.Context(), sandbox.Cmd{Args: []string{"x"}, Profile: sandbox.Profile{Network: sandbox.NetworkOf([]string{"ok.test", "no host"})}})
		if e := tool.AsError(err); e == nil || e.Code != tool.ParameterError || !strings.Contains(e.Message, `"no host"`) {
			t.Errorf("got %v, want a PARAMETER_ERROR that names the entry", err)
		}
	})
	t.Run("a_header_is_injected", func(t *testing.T) { injected(t, narrow, port) })
	t.Run("loopback_is_its_own", func(t *testing.T) {
		p := sandbox.Profile{Network: sandbox.NetworkOf([]string{"web.test"})}
		got := Shell(t, narrow, p, "(exec 3<>/dev/udp/127.0.0.1/53) && echo resolver; (exec 3<>/dev/tcp/127.0.0.1/"+port+") 2>/dev/null || echo closed")
		if got.Output != "resolver\nclosed" {
			t.Errorf("got %q", got.Output)
		}
	})
}

func visit(t *testing.T, s sandbox.Runner, network, name, target string) Outcome {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	entries := strings.Fields(network)
	return Command(t, s, sandbox.Cmd{
		Args:    []string{self, HelperArg, name, target},
		Profile: sandbox.Profile{Read: append(System(), self), Network: sandbox.NetworkOf(entries)},
	})
}

func rules(list []sandbox.Violation) string {
	var text []string
	for _, v := range list {
		if v.Kind == "network" {
			text = append(text, v.Rule)
		}
	}
	return strings.Join(text, "\n")
}

// injected: the server sees a header that the command neither has nor gets.
func injected(t *testing.T, s sandbox.Runner, port string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, want string }{{"fetch", "token=secret"}, {"fetch without proxy", "token=secret"}} {
		got := Command(t, s, sandbox.Cmd{
			Args:    []string{self, HelperArg, c.name, "http://web.test:" + port + "/x"},
			Profile: sandbox.Profile{Read: append(System(), self), Network: sandbox.NetworkOf([]string{"web.test=127.0.0.1:" + port})},
			Inject:  []netproxy.Injection{{Host: "web.test", Header: "X-Token", Value: "secret"}},
		})
		if !strings.Contains(got.Output, c.want) {
			t.Errorf("%s: got %q, want %q in it", c.name, got.Output, c.want)
		}
	}
}

// serve answers with the host that was asked for.
func serve(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s token=%s", r.Host, r.Header.Get("X-Token"))
	}))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return l.Addr().String()
}
