package sandbox_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
)

// job is work of a real program, with the network that it needs.
type job struct {
	name     string
	programs []string // skipped where one is not there
	// set makes what the job works on in a directory, with a server's port.
	set    func(t *testing.T, dir, port string)
	script string
	env    []string
	want   string // in its output
	host   string // the name of the server
	limit  time.Duration
	secure bool // the server speaks TLS
}

// TestRealWork does with programs of every day what they are there for, against
// servers of the test. With another host granted each of them fails, and the
// sandbox says by which rule.
func TestRealWork(t *testing.T) {
	s := isolated(t, sandbox.Config{})
	web := httptest.NewServer(worldMux(t))
	t.Cleanup(web.Close)
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	secure := httptest.NewUnstartedServer(worldMux(t))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that the proxy refuses
	secure.StartTLS()
	t.Cleanup(secure.Close)
	_, securePort, _ := net.SplitHostPort(secure.Listener.Addr().String())
	for _, j := range []job{
		{name: "npm", programs: []string{"npm", "node"}, host: "registry.test", set: npmProject, want: "hello from npm",
			script: "npm ci --no-audit --no-fund --loglevel=http && node -p 'require(\"hello\")'"},
		{name: "git over http", programs: []string{"git"}, host: "git.test", want: "hello from git",
			script: "git clone -q http://git.test:$PORT/repo.git clone && cat clone/hello.txt"},
		{name: "go", programs: []string{"go"}, host: "proxy.test", set: goModule, want: "hello from go",
			env: []string{"GOPROXY=http://proxy.test:$PORT/goproxy", "GONOSUMDB=*", "GOFLAGS=-mod=mod", "GOCACHE=" + goCache(t)}, script: "go build -o it . && ./it"},
		{name: "pip", programs: []string{"python3", "pip3"}, host: "pypi.test", want: "hello from pip",
			script: "python3 -m pip install -q --retries 0 --target lib --index-url http://pypi.test:$PORT/simple/ --trusted-host pypi.test hello && PYTHONPATH=lib python3 -c 'import hello; print(hello.text)'"},
		{name: "python", programs: []string{"python3"}, host: "web.test", want: "hello from web.test",
			script: "python3 -c 'import os, urllib.request; print(urllib.request.urlopen(\"http://web.test:%s/page\" % os.environ[\"PORT\"]).read().decode())'"},
		{name: "node", programs: []string{"node"}, host: "web.test", want: "hello from web.test",
			script: "node -e 'fetch(`http://web.test:${process.env.PORT}/page`).then(async r => console.log(await r.text()))'"},
		{name: "curl", programs: []string{"curl"}, host: "web.test", want: "hello from web.test", script: "curl -sS --fail http://web.test:$PORT/page"},
		{name: "a raw socket", programs: []string{"bash"}, host: "web.test", want: "hello from web.test",
			script: "exec 3<>/dev/tcp/web.test/$PORT && printf 'GET /page HTTP/1.0\\r\\nHost: web.test\\r\\n\\r\\n' >&3 && cat <&3"},
		{name: "chromium", programs: []string{"chromium"}, host: "web.test", want: "<p>drawn by script</p>", limit: 30 * time.Second,
			script: "chromium --headless=new --no-sandbox --disable-gpu --user-data-dir=$HOME/profile --dump-dom --timeout=15000 http://web.test:$PORT/page > dom 2> log; code=$?; cat dom; test $code = 0 && grep -q script dom || { tail -n 20 log; false; }"},
		// In each of its handshakes is an extension that the proxy refuses, unless the
		// sandbox's policy keeps it out.
		{name: "chromium over https", programs: []string{"chromium"}, host: "web.test", want: "<p>drawn by script</p>", limit: 30 * time.Second, secure: true,
			script: "chromium --headless=new --no-sandbox --disable-gpu --ignore-certificate-errors --user-data-dir=$HOME/profile --dump-dom --timeout=15000 https://web.test:$PORT/page > dom 2> log; code=$?; cat dom; test $code = 0 && grep -q script dom || { tail -n 20 log; false; }"},
	} {
		port := port
		if j.secure {
			port = securePort
		}
		t.Run(strings.ReplaceAll(j.name, " ", "_"), func(t *testing.T) { j.run(t, s, port) })
	}
}

func (j job) run(t *testing.T, s *sandbox.Sandbox, port string) {
	for _, program := range j.programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s", program)
		}
	}
	do := func(t *testing.T, entry string) sandboxtest.Outcome {
		dir := t.TempDir()
		if j.set != nil {
			j.set(t, dir, port)
		}
		env := slices.Concat(j.env, []string{"PORT=" + port})
		for i := range env {
			env[i] = strings.ReplaceAll(env[i], "$PORT", port)
		}
		return work(t, s, dir, []string{entry}, j.script, env)
	}
	t.Run("granted", func(t *testing.T) {
		got := do(t, j.host+"=127.0.0.1:"+port)
		if got.Ending.Code != 0 || !strings.Contains(got.Output, j.want) {
			t.Errorf("ended %+v with\n%s\n%v", got.Ending, got.Output, got.Network)
		}
	})
	t.Run("another", func(t *testing.T) {
		got := do(t, "other.test=127.0.0.1:"+port)
		if got.Ending.Code == 0 && strings.Contains(got.Output, j.want) {
			t.Errorf("it succeeded:\n%s", got.Output)
		}
		if !refusedBy(got, j.host, "is not among the allowed domains (other.test=127.0.0.1:"+port+")") {
			t.Errorf("no violation names the rule: %v\n%s", got.Violations, got.Output)
		}
	})
}

func refusedBy(got sandboxtest.Outcome, host, rule string) bool {
	return slices.ContainsFunc(got.Violations, func(v sandbox.Violation) bool {
		return v.Kind == "network" && strings.HasPrefix(v.Target, host) && strings.Contains(v.Rule, rule)
	})
}

// work runs a script as bash does: with the operator's toolchains, a workspace
// and a private home.
func work(t *testing.T, s *sandbox.Sandbox, dir string, network []string, script string, env []string) sandboxtest.Outcome {
	t.Helper()
	home := t.TempDir()
	user, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	chain := sandbox.Toolchains(os.Getenv("PATH"), user)
	granted := sandbox.NetworkOf(network)
	profile := sandbox.Profile{Write: []string{dir}, Home: home, Mounts: chain.Mounts, Network: granted}
	all := append(chain.Online(chain.Env(home), home), "HOME="+home, "LANG=C.UTF-8")
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		all = slices.DeleteFunc(all, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		all = append(all, variable)
		if name == "GOCACHE" {
			profile.Write = append(profile.Write, value)
		}
	}
	return sandboxtest.Command(t, s, sandbox.Cmd{Args: []string{"/bin/bash", "-c", script}, Env: all, Dir: dir, Profile: profile})
}

// goCache is the cache of the tests themselves: to compile the standard library
// anew would take longer than all else here.
func goCache(t *testing.T) string {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return t.TempDir()
	}
	return strings.TrimSpace(string(out))
}

// worldMux serves a page, an npm registry, a Python index, a Go module proxy and
// a git repository.
func worldMux(t *testing.T) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.Host, ":")
		fmt.Fprintf(w, "<html><body>hello from %s<script>document.body.innerHTML += '<p>drawn by ' + 'script</p>'</script></body></html>", host)
	})
	npmRegistry(mux)
	pythonIndex(t, mux)
	goProxy(t, mux)
	mux.Handle("/repo.git/", gitServer(t))
	return mux
}

// tarball is a gzipped tar of files.
func tarball(files map[string]string) []byte {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for name, text := range files {
		_ = tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		_, _ = io.WriteString(tw, text)
	}
	_ = tw.Close()
	_ = zw.Close()
	return b.Bytes()
}

var npmPackage = tarball(map[string]string{
	"package/package.json": `{"name": "hello", "version": "1.0.0", "main": "index.js"}`,
	"package/index.js":     `module.exports = "hello from npm"`,
})

func npmIntegrity() string {
	sum := sha512.Sum512(npmPackage)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func npmRegistry(mux *http.ServeMux) {
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": "hello", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{"name": "hello", "version": "1.0.0", "dist": map[string]string{
				"tarball": "http://" + r.Host + "/hello/-/hello-1.0.0.tgz", "integrity": npmIntegrity(),
			}}},
		})
	})
	mux.HandleFunc("/hello/-/hello-1.0.0.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(npmPackage) })
}

func npmProject(t *testing.T, dir, port string) {
	registry := "http://registry.test:" + port + "/"
	put(t, dir, ".npmrc", "registry="+registry+"\nfetch-retries=0\n")
	put(t, dir, "package.json", `{"name": "project", "version": "1.0.0", "dependencies": {"hello": "^1.0.0"}}`)
	put(t, dir, "package-lock.json", fmt.Sprintf(`{"name": "project", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
		"": {"name": "project", "version": "1.0.0", "dependencies": {"hello": "^1.0.0"}},
		"node_modules/hello": {"version": "1.0.0", "resolved": %q, "integrity": %q}}}`, registry+"hello/-/hello-1.0.0.tgz", npmIntegrity()))
}

// archive is a zip of files.
func archive(t *testing.T, files [][2]string) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := zip.NewWriter(&b)
	for _, f := range files {
		w, err := zw.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, f[1])
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func pythonIndex(t *testing.T, mux *http.ServeMux) {
	const name = "hello-1.0.0-py3-none-any.whl"
	wheel := archive(t, [][2]string{
		{"hello.py", "text = 'hello from pip'\n"},
		{"hello-1.0.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0.0\n"},
		{"hello-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"hello-1.0.0.dist-info/RECORD", "hello.py,,\nhello-1.0.0.dist-info/METADATA,,\nhello-1.0.0.dist-info/WHEEL,,\nhello-1.0.0.dist-info/RECORD,,\n"},
	})
	sum := sha256.Sum256(wheel)
	mux.HandleFunc("/simple/hello/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><html><body><a href="/files/%s#sha256=%s">%s</a></body></html>`, name, hex.EncodeToString(sum[:]), name)
	})
	mux.HandleFunc("/files/"+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(wheel) })
}

func goProxy(t *testing.T, mux *http.ServeMux) {
	const mod = "module dep.test/hello\n\ngo 1.20\n"
	module := archive(t, [][2]string{
		{"dep.test/hello@v1.0.0/go.mod", mod},
		{"dep.test/hello@v1.0.0/hello.go", "package hello\n\nfunc Text() string { return \"hello from go\" }\n"},
	})
	base := "/goproxy/dep.test/hello/@v/"
	for name, body := range map[string]string{"list": "v1.0.0\n", "v1.0.0.info": `{"Version": "v1.0.0"}`, "v1.0.0.mod": mod, "v1.0.0.zip": string(module)} {
		mux.HandleFunc(base+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	}
}

func goModule(t *testing.T, dir, _ string) {
	put(t, dir, "go.mod", "module project.test\n\ngo 1.20\n\nrequire dep.test/hello v1.0.0\n")
	put(t, dir, "main.go", "package main\n\nimport \"dep.test/hello\"\n\nfunc main() { println(hello.Text()) }\n")
}

// gitServer is git's own server behind HTTP.
func gitServer(t *testing.T) http.Handler {
	program, err := exec.LookPath("git")
	if err != nil {
		return http.NotFoundHandler()
	}
	root := gitRepository(t)
	return &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: io.Discard}
}

// gitRepository makes repo.git with one file in a directory.
func gitRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put(t, root, "work/hello.txt", "hello from git\n")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", "work"}, {"-C", "work", "add", "."},
		{"-C", "work", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "one"},
		{"clone", "-q", "--bare", "work", "repo.git"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return root
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestGitDaemon clones by git's own protocol, which knows no proxy.
func TestGitDaemon(t *testing.T) {
	s := isolated(t, sandbox.Config{})
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip("no git")
	}
	daemon := filepath.Join(strings.TrimSpace(string(out)), "git-daemon")
	if _, err := os.Stat(daemon); err != nil {
		t.Skip("no git-daemon")
	}
	port := freePort(t)
	cmd := exec.Command(daemon, "--listen=127.0.0.1", "--port="+port, "--export-all", "--base-path="+gitRepository(t), "--reuseaddr")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	deadline := time.Now().Add(10 * time.Second)
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	script := "git clone -q git://git.test:" + port + "/repo.git clone && cat clone/hello.txt"
	for _, c := range []struct {
		entry string
		done  bool
	}{{"git.test=127.0.0.1:" + port, true}, {"git.test:" + port + "=127.0.0.1", true}, {"other.test=127.0.0.1:" + port, false}} {
		got := work(t, s, t.TempDir(), []string{c.entry}, script, nil)
		if done := got.Ending.Code == 0 && strings.Contains(got.Output, "hello from git"); done != c.done {
			t.Errorf("%s: ended %+v with %s\n%v", c.entry, got.Ending, got.Output, got.Network)
		}
		if !c.done && !refusedBy(got, "git.test", "is not among the allowed domains ("+c.entry+")") {
			t.Errorf("no violation names the rule: %v", got.Violations)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// TestRealRegistry installs from the npm registry that this machine uses. Where
// that is at a special address, as a mirror may be, the address is granted by
// number.
func TestRealRegistry(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("no npm")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, npm, "config", "get", "registry").Output()
	registry, parseErr := url.Parse(strings.TrimSpace(string(out)))
	if err != nil || parseErr != nil || registry.Hostname() == "" {
		t.Logf("not applicable: no npm registry is configured: %v", err)
		return
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", registry.Hostname())
	if err != nil {
		t.Logf("not applicable: the npm registry cannot be reached: %v", err)
		return
	}
	port := registry.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[registry.Scheme]
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(registry.Hostname(), port))
	if err != nil {
		t.Logf("not applicable: the npm registry cannot be reached: %v", err)
		return
	}
	c.Close()
	var ranges []netip.Prefix
	for _, a := range addrs {
		ranges = append(ranges, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
	}
	s := isolated(t, sandbox.Config{AllowRanges: ranges})
	set := func(dir string) {
		put(t, dir, ".npmrc", "registry="+registry.String()+"\nfetch-retries=0\n")
		put(t, dir, "package.json", `{"name": "project", "version": "1.0.0", "dependencies": {"is-number": "7.0.0"}}`)
		put(t, dir, "package-lock.json", fmt.Sprintf(`{"name": "project", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
			"": {"name": "project", "version": "1.0.0", "dependencies": {"is-number": "7.0.0"}},
			"node_modules/is-number": {"version": "7.0.0", "resolved": %q,
			"integrity": "sha512-41Cifkg6e8TylSpdtTpeLVMqvSBEVzTttHvERD741+pnZ8ANv0004MRL43QKPDlK9cGvNp6NZWZUBlbGXYxxng=="}}}`,
			strings.TrimSuffix(registry.String(), "/")+"/is-number/-/is-number-7.0.0.tgz"))
	}
	const script = "npm ci --no-audit --no-fund && node -p 'require(\"is-number\")(7)'"
	dir := t.TempDir()
	set(dir)
	got := work(t, s, dir, []string{registry.Hostname() + ":" + port}, script, nil)
	if got.Ending.Code != 0 || !strings.HasSuffix(got.Output, "true") {
		t.Errorf("ended %+v with %s\n%v", got.Ending, got.Output, got.Network)
	}
	dir = t.TempDir()
	set(dir)
	got = work(t, s, dir, []string{"other.test"}, script, nil)
	if got.Ending.Code == 0 || !refusedBy(got, registry.Hostname(), "is not among the allowed domains (other.test)") {
		t.Errorf("with another host: ended %+v with %s\n%v", got.Ending, got.Output, got.Violations)
	}
}
