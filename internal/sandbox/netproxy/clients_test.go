package netproxy_test

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// program skips unless it is installed.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is needed", name)
	}
	return path
}

// run runs a program with proxy variables and gives what it printed.
func (w *world) run(t *testing.T, ca string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	proxy := "http://" + w.proxy
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"http_proxy=" + proxy, "https_proxy=" + proxy, "HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "ALL_PROXY=socks5h://" + w.proxy, "NODE_USE_ENV_PROXY=1",
		"SSL_CERT_FILE=" + ca, "CURL_CA_BUNDLE=" + ca, "NODE_EXTRA_CA_CERTS=" + ca, "GIT_SSL_CAINFO=" + ca,
	}
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// clientWorld has an HTTP and an HTTPS server, and one with an injection.
func clientWorld(t *testing.T) (w *world, ca string) {
	cert, roots := certificate(t, "good.test", "api.test")
	answer := func(rw http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(rw, "host=%s auth=%s", req.Host, req.Header.Get("Authorization"))
	}
	plain, secure := server(t, answer), tlsServer(t, &tls.Config{Certificates: []tls.Certificate{cert}}, answer)
	w = newWorld(t, netproxy.Config{
		Entries: entries(t, "good.test:80="+plain, "good.test:443="+secure, "api.test:443="+secure),
		Inject:  []netproxy.Injection{{Host: "api.test", Header: "Authorization", Value: secret}},
		RootCAs: roots,
	})
	pems := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), w.CA()...)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pems, 0o600); err != nil {
		t.Fatal(err)
	}
	return w, ca
}

// fetch is what one URL gives with one program.
type fetch struct {
	url  string
	want []string
	ok   bool
}

var fetches = []fetch{
	{"http://good.test/", []string{"host=good.test auth="}, true},
	{"https://good.test/", []string{"host=good.test auth="}, true},
	{"https://api.test/", []string{"host=api.test auth=" + secret}, true},
}

func TestCurl(t *testing.T) {
	curl := program(t, "curl")
	w, ca := clientWorld(t)
	for _, how := range []string{"http://", "socks5h://", "socks4a://"} {
		for _, f := range fetches {
			out, err := w.run(t, ca, curl, "-sS", "--max-time", "20", "--proxy", how+w.proxy, f.url)
			if err != nil {
				t.Errorf("%s through %s: %v", f.url, how, err)
			}
			contains(t, out, f.want...)
		}
	}
	for _, f := range []fetch{
		{"http://evil.test/", []string{"network: evil.test:80 is not among the allowed domains (good.test:80="}, true},
		{"https://evil.test/", []string{"403 network: evil.test:443 is not among the allowed domains"}, false},
		{"http://good.test:8080/", []string{"network: good.test:8080 is not allowed: good.test may be reached at port 80, 443 only"}, true},
		{"http://169.254.169.254/latest/meta-data/", []string{"network: 169.254.169.254:80 is not among"}, true},
		{"http://[::ffff:169.254.169.254]/", []string{"network: "}, true},
		{"http://2852039166/", []string{"network: "}, true},
	} {
		out, err := w.run(t, ca, curl, "-svS", "--max-time", "20", f.url)
		if (err == nil) != f.ok {
			t.Errorf("%s: %v, want it to work: %v", f.url, err, f.ok)
		}
		contains(t, out, f.want...)
	}
	out, err := w.run(t, ca, curl, "-sS", "--max-time", "20", "--proxy", "socks5h://"+w.proxy, "https://evil.test/")
	if err == nil {
		t.Errorf("SOCKS: got %q", out)
	}
	// The name in TLS is another than the one that CONNECT said.
	out, err = w.run(t, ca, curl, "-sSk", "--max-time", "20", "--connect-to", "evil.test:443:good.test:443", "https://evil.test/")
	if err == nil || strings.Contains(out, "host=") {
		t.Errorf("domain fronting: %v, got %q", err, out)
	}
}

func TestPython(t *testing.T) {
	python := program(t, "python3")
	w, ca := clientWorld(t)
	const script = "import sys, urllib.request as u\nprint(u.urlopen(sys.argv[1], timeout=20).read().decode())"
	for _, f := range fetches {
		out, err := w.run(t, ca, python, "-c", script, f.url)
		if err != nil {
			t.Errorf("%s: %v: %s", f.url, err, out)
		}
		contains(t, out, f.want...)
	}
	for _, url := range []string{"http://evil.test/", "https://evil.test/"} {
		out, err := w.run(t, ca, python, "-c", script, url)
		if err == nil {
			t.Errorf("%s: got %q", url, out)
		}
		contains(t, out, "network: evil.test", "is not among the allowed domains")
	}
}

func TestNode(t *testing.T) {
	node := program(t, "node")
	w, ca := clientWorld(t)
	// CONNECT by hand: not every node has a proxy of its own.
	const script = `
const http = require('http'), https = require('https'), u = new URL(process.argv[1]);
const [host, port] = process.argv[2].split(':');
const done = r => { let s = ''; r.on('data', d => s += d); r.on('end', () => console.log(r.statusCode, s)); };
if (u.protocol === 'http:') http.get({ host, port, path: u.href, headers: { Host: u.host } }, done);
else http.request({ host, port, method: 'CONNECT', path: u.hostname + ':443' }).on('connect', (r, socket) => {
  if (r.statusCode !== 200) { console.log(r.statusCode, r.statusMessage); process.exit(1); }
  https.get({ host: u.hostname, servername: u.hostname, createConnection: undefined, socket, agent: false, path: '/' }, done);
}).end();`
	for _, f := range append(fetches, fetch{"http://evil.test/", []string{"403 network: evil.test:80 is not among"}, true}, fetch{"https://evil.test/", []string{"403 network: evil.test:443 is not among"}, false}) {
		out, err := w.run(t, ca, node, "-e", script, f.url, w.proxy)
		if (err == nil) != f.ok {
			t.Errorf("%s: %v, want it to work: %v", f.url, err, f.ok)
		}
		contains(t, out, f.want...)
	}
}

func TestGit(t *testing.T) {
	git := program(t, "git")
	backend := filepath.Join(strings.TrimSpace(output(t, git, "--exec-path")), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git-http-backend is needed")
	}
	root := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "work"},
		{"-C", "work", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"},
		{"clone", "-q", "--bare", "work", "repo.git"},
	} {
		cmd := exec.Command(git, args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	s := httptest.NewServer(&cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}})
	t.Cleanup(s.Close)
	w := newWorld(t, netproxy.Config{Entries: entries(t, "git.test="+s.Listener.Addr().String())})
	dir := filepath.Join(t.TempDir(), "clone")
	if out, err := w.run(t, "", git, "clone", "http://git.test/repo.git", dir); err != nil {
		t.Fatalf("clone: %v: %s", err, out)
	}
	if got := output(t, git, "-C", dir, "log", "--format=%s"); strings.TrimSpace(got) != "first" {
		t.Errorf("the clone has %q", got)
	}
	out, err := w.run(t, "", git, "clone", "http://evil.test/repo.git", dir+"2")
	if err == nil {
		t.Error("a clone from evil.test works")
	}
	contains(t, out, "evil.test", "403")
}

func output(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return string(out)
}
