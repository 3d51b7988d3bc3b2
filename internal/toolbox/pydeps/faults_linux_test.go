package pydeps_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
	"github.com/toolyard/toolyard/internal/toolbox/pydeps"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

// TestTogether: of many installations of one tool one works.
func TestTogether(t *testing.T) {
	w := newWorld(t)
	w.wheel("greet_a", "1.0")
	w.put("requirements.txt", "greet-a\n")
	var changed atomic.Int32
	var group sync.WaitGroup
	for i := range 4 {
		in := w.in
		if i%2 == 0 {
			in = pydeps.New(w.c) // as another process
		}
		group.Go(func() {
			r, err := in.Install(t.Context(), pydeps.Request{Dir: w.tool})
			if err != nil {
				t.Error(err)
			} else if r.Changed {
				changed.Add(1)
			}
		})
	}
	group.Wait()
	if n := changed.Load(); n != 1 {
		t.Errorf("%d of them installed", n)
	}
	w.onlyIn(w.tool, ".venv", "requirements.txt")
}

// TestEnds: a limit and a cancellation leave what was there before.
func TestEnds(t *testing.T) {
	w := newWorld(t)
	w.wheel("greet_a", "1.0")
	w.put("requirements.txt", "greet-a\n")
	w.must(pydeps.Request{})
	w.put("requirements.txt", "greet-a>=1\n")
	c := w.c
	c.Limit = 50 * time.Millisecond
	_, err := pydeps.New(c).Install(t.Context(), pydeps.Request{Dir: w.tool})
	if e := tool.AsError(err); e == nil || e.Code != tool.DependencyError || !strings.Contains(e.Message, "50ms") {
		t.Errorf("with a limit: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = w.in.Install(ctx, pydeps.Request{Dir: w.tool, Progress: func(string) { cancel() }})
	if e := tool.AsError(err); e == nil || e.Code != tool.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
	w.put("requirements.txt", "greet-a\n")
	if r := w.must(pydeps.Request{}); r.Changed {
		t.Errorf("afterwards: %+v", r)
	}
	w.onlyIn(w.tool, ".venv", "requirements.txt")
}

const installArg = "pydeps-install"

// installs is what this test's program does when TestKilled starts it: it says
// on its output how far it is and stops there.
func installs(tool, states, wheels, at string) int {
	s := sandbox.New(sandbox.Config{})
	home, _ := os.UserHomeDir()
	r := runtimes.New(runtimes.Config{Dir: states, Cache: filepath.Join(states, "pip"), Path: os.Getenv("PATH"), Home: home, Runner: s})
	in := pydeps.New(pydeps.Config{Runner: s, Runtimes: r, Cache: states, NoIndex: true, Wheels: []string{wheels}})
	_, err := in.Install(context.Background(), pydeps.Request{Dir: tool, Progress: func(text string) {
		if strings.HasPrefix(text, at) {
			fmt.Println(text)
			select {}
		}
	}})
	fmt.Println("ended", err)
	return 1
}

// TestKilled kills a process at several places of an installation.
func TestKilled(t *testing.T) {
	w := newWorld(t)
	w.wheel("greet_a", "1.0")
	w.wheel("greet_a", "2.0")
	w.put("requirements.txt", "greet-a<2\n")
	w.must(pydeps.Request{})
	for _, at := range []string{"making", "Installing collected"} {
		w.put("requirements.txt", "greet-a>=2\n")
		cmd := exec.Command(os.Args[0], installArg, w.tool, w.states, w.wheels, at)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 200)
		n, _ := out.Read(said)
		if !strings.HasPrefix(string(said[:n]), at) {
			t.Errorf("it said %q", said[:n])
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		w.put("requirements.txt", "greet-a<2\n")
		r := w.must(pydeps.Request{})
		if got := w.python(r, r.Program, "-I", "-c", "import greet_a; print(greet_a.version)"); r.Changed || got != "1.0" {
			t.Errorf("killed at %q: %+v says %q", at, r, got)
		}
	}
	// Between the two renames of a system that cannot exchange names.
	if err := os.Rename(filepath.Join(w.tool, ".venv"), filepath.Join(w.tool, ".venv.old")); err != nil {
		t.Fatal(err)
	}
	r := w.must(pydeps.Request{})
	if got := w.python(r, r.Program, "-I", "-c", "import greet_a; print(greet_a.version)"); r.Changed || got != "1.0" {
		t.Errorf("killed between two renames: %+v says %q", r, got)
	}
	w.put("requirements.txt", "greet-a>=2\n")
	if r := w.must(pydeps.Request{}); !r.Changed || r.Packages[0].Version != "2.0" {
		t.Errorf("got %+v", r)
	}
	entries, err := os.ReadDir(w.tool)
	if err != nil || len(entries) != 2 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestPythons installs with each kind of Python that there is.
func TestPythons(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range []string{os.Getenv("PATH"), "/usr/bin", "/usr/local/bin"} {
		if _, err := os.Stat(filepath.Join(path, "python3")); err != nil && path != os.Getenv("PATH") {
			continue
		}
		w := worldOn(t, path)
		python, err := w.r.Python(t.Context())
		if err != nil {
			t.Logf("PATH=%s: %v", path, err)
			continue
		}
		if seen[python.Program] {
			continue
		}
		seen[python.Program] = true
		w.wheel("greet_a", "1.0")
		w.put("requirements.txt", "greet-a\n")
		r := w.must(pydeps.Request{})
		got := w.python(r, r.Program, "-I", "-c", "import greet_a, sys; print(greet_a.version, [p for p in sys.path if p.endswith('-packages') and not p.startswith(sys.prefix)])")
		if got != "1.0 []" {
			t.Errorf("%s %s: says %q", python.Program, python.Version, got)
		}
		t.Logf("%s %s: %s", python.Program, python.Version, r.Took)
	}
}

// TestPrerelease: --pre in a file reaches the installer.
func TestPrerelease(t *testing.T) {
	w := newWorld(t)
	w.wheel("greet_a", "1.0")
	w.wheel("greet_a", "2.0a1")
	w.put("requirements.txt", "--pre\ngreet-a\n")
	if r := w.must(pydeps.Request{}); len(r.Packages) != 1 || r.Packages[0].Version != "2.0a1" {
		t.Errorf("got %+v", r.Packages)
	}
}

// sdist makes a source package that builds itself, with nothing but Python.
func (w *world) sdist(name, version string) {
	w.Helper()
	backend := `
import os, zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "NAME-VERSION-py3-none-any.whl"
    info = "NAME-VERSION.dist-info/"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as z:
        z.writestr("NAME.py", "version = 'VERSION'\n")
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: NAME\nVersion: VERSION\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "NAME.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n")
    return name
`
	replace := strings.NewReplacer("NAME", name, "VERSION", version)
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for _, f := range [][2]string{
		{"PKG-INFO", "Metadata-Version: 2.1\nName: NAME\nVersion: VERSION\n"},
		{"pyproject.toml", "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"},
		{"backend.py", backend},
	} {
		text := replace.Replace(f[1])
		if err := tw.WriteHeader(&tar.Header{Name: name + "-" + version + "/" + f[0], Mode: 0o644, Size: int64(len(text))}); err != nil {
			w.Fatal(err)
		}
		if _, err := tw.Write([]byte(text)); err != nil {
			w.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		w.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.wheels, name+"-"+version+".tar.gz"), b.Bytes(), 0o644); err != nil {
		w.Fatal(err)
	}
}

// TestConsent: what is there only as source is built only where that is allowed,
// and serves no other tool.
func TestConsent(t *testing.T) {
	w := newWorld(t)
	w.sdist("source_a", "1.0")
	w.wheel("greet_b", "1.0")
	w.put("requirements.txt", "greet-b\nsource-a\n")
	if _, err := w.install(pydeps.Request{}); err == nil || err.Code != tool.DependencyError || !strings.Contains(err.Hint, "source-a") {
		t.Errorf("nothing is allowed: got %v", err)
	}
	r := w.must(pydeps.Request{Allow: []string{"Source_A"}})
	if len(r.Packages) != 2 || r.Packages[0].Built || !r.Packages[1].Built || r.Packages[1].SHA256 == "" {
		t.Errorf("got %+v", r.Packages)
	}
	if got := w.python(r, r.Program, "-I", "-c", "import source_a; print(source_a.version)"); got != "1.0" {
		t.Errorf("it says %q", got)
	}
	if kept, _ := filepath.Glob(w.states + "/wheels/source*"); len(kept) > 0 {
		t.Errorf("kept for others: %v", kept)
	}
}

// index serves wheels as PEP 503 says, below a path, to who has the password.
func index(t *testing.T, dir, files string) *httptest.Server {
	t.Helper()
	return httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, q *http.Request) {
		if user, password, _ := q.BasicAuth(); user != "me" || password != "hunter2" {
			out.WriteHeader(http.StatusUnauthorized)
			return
		}
		if name, ok := strings.CutPrefix(q.URL.Path, "/files/"); ok {
			http.ServeFile(out, q, filepath.Join(dir, filepath.Base(name)))
			return
		}
		name, ok := strings.CutPrefix(q.URL.Path, "/py/simple/")
		found, _ := filepath.Glob(filepath.Join(dir, strings.ReplaceAll(strings.Trim(name, "/"), "-", "_")+"-*.whl"))
		if !ok || len(found) == 0 {
			http.NotFound(out, q)
			return
		}
		out.Header().Set("Content-Type", "text/html")
		for _, path := range found {
			fmt.Fprintf(out, "<a href=%q>%s</a>\n", files+"/files/"+filepath.Base(path), filepath.Base(path))
		}
	}))
}

// index makes the installer use a server of the test, under a name.
func (w *world) index(server *httptest.Server, path string) {
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	w.c.Index, w.c.NoIndex, w.c.Wheels = "http://me:hunter2@index.test:"+port+path, false, nil
	w.c.Hosts = []string{"index.test:" + port + "=127.0.0.1"}
}

// TestIndex takes packages from an index with a password, which the installer
// never has; the second tool gets them without a network.
func TestIndex(t *testing.T) {
	w := newWorld(t)
	w.wheel("greet_a", "1.0", "greet-b")
	w.wheel("greet_b", "1.0")
	server := index(t, w.wheels, "")
	defer server.Close()
	w.index(server, "/py/simple/")
	w.in = pydeps.New(w.c)
	w.put("requirements.txt", "greet-a\n")
	r := w.must(pydeps.Request{})
	if len(r.Packages) != 2 || r.Packages[0].Wheel != "greet_a-1.0-py3-none-any.whl" || len(r.Packages[0].SHA256) != 64 {
		t.Errorf("got %+v", r.Packages)
	}
	_ = filepath.Walk(r.Env, func(path string, info os.FileInfo, err error) error {
		if text, _ := os.ReadFile(path); bytes.Contains(text, []byte("hunter2")) {
			t.Errorf("the password is in %s", path)
		}
		return err
	})
	server.Close()
	w.tool += "-second"
	if err := os.Mkdir(w.tool, 0o755); err != nil {
		t.Fatal(err)
	}
	w.put("requirements.txt", "greet-b\n")
	if r := w.must(pydeps.Request{Offline: true}); !r.Changed || len(r.Packages) != 1 {
		t.Errorf("offline: %+v", r)
	}
	w.put("requirements.txt", "greet-c\n")
	if _, err := w.install(pydeps.Request{Offline: true}); err == nil || !strings.Contains(err.Hint, "no network") {
		t.Errorf("offline, and not there: %v", err)
	}
	// The index is gone: that is said, with no password.
	w.put("requirements.txt", "greet-d\n")
	if _, err := w.install(pydeps.Request{}); err == nil || err.Code != tool.DependencyError || strings.Contains(fmt.Sprint(err.Text(), err.Details), "hunter2") {
		t.Errorf("without the index: %v", err)
	}
}

// TestIndexOnly: files on a host that was not named are out of reach.
func TestIndexOnly(t *testing.T) {
	w := newWorld(t)
	w.wheel("greet_a", "1.0")
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another host was reached") }))
	defer elsewhere.Close()
	_, port, _ := net.SplitHostPort(elsewhere.Listener.Addr().String())
	server := index(t, w.wheels, "http://files.test:"+port)
	defer server.Close()
	w.index(server, "/py/simple")
	w.in = pydeps.New(w.c)
	w.put("requirements.txt", "greet-a\n")
	_, err := w.install(pydeps.Request{})
	if err == nil || err.Code != tool.DependencyError || !strings.Contains(err.Hint, "files.test") {
		t.Errorf("got %v", err)
	}
	for _, address := range []string{"not an address", "ftp://x/"} {
		c := w.c
		c.Index = address
		if _, err := pydeps.New(c).Install(t.Context(), pydeps.Request{Dir: w.tool}); err == nil || tool.AsError(err).Code != tool.DependencyError {
			t.Errorf("index %q: %v", address, err)
		}
	}
}

// TestRealIndex installs a small package from the index that this machine uses.
func TestRealIndex(t *testing.T) {
	address := pydeps.DefaultIndex
	if out, err := exec.CommandContext(t.Context(), "python3", "-m", "pip", "config", "get", "global.index-url").Output(); err == nil {
		address = strings.TrimSpace(string(out))
	}
	if set := os.Getenv("PIP_INDEX_URL"); set != "" {
		address = set
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		t.Logf("not applicable: this machine reaches no Python index: %v", err)
		return
	}
	var ranges []netip.Prefix
	for _, a := range addresses {
		ranges = append(ranges, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
	}
	w := newWorld(t)
	w.c.Runner = box(t, sandbox.Config{AllowRanges: ranges})
	w.c.Index, w.c.NoIndex, w.c.Wheels = address, false, nil
	w.in = pydeps.New(w.c)
	w.put("requirements.txt", "six==1.16.0\n")
	r := w.must(pydeps.Request{})
	if got := w.python(r, r.Program, "-I", "-c", "import six; print(six.__version__)"); got != "1.16.0" {
		t.Errorf("it says %q", got)
	}
}

// TestSeen: a folder that the tool's sandbox shows elsewhere.
func TestSeen(t *testing.T) {
	w := newWorld(t)
	w.wheel("greet_a", "1.0")
	w.put("requirements.txt", "greet-a\n")
	const seen = "/opt/tools/greet"
	r := w.must(pydeps.Request{Seen: seen})
	if r.Program != seen+"/.venv/bin/python" || r.Env != filepath.Join(w.tool, ".venv") {
		t.Errorf("got %+v", r)
	}
	if got, want := w.seenAt(seen), "hello from 1.0 in "+seen+"/.venv"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if r := w.must(pydeps.Request{Seen: seen}); r.Changed {
		t.Errorf("again: %+v", r)
	}
}

// TestOtherFileSystem: the tool lies on another one than the cache.
func TestOtherFileSystem(t *testing.T) {
	w := newWorld(t)
	memory, err := os.MkdirTemp("/dev/shm", "pydeps-")
	if err != nil {
		t.Logf("not applicable: %v", err)
		return
	}
	t.Cleanup(func() { os.RemoveAll(memory) })
	w.tool = memory
	const seen = "/opt/tools/greet"
	for _, version := range []string{"1.0", "2.0"} {
		w.wheel("greet_a", version)
		w.put("requirements.txt", "greet-a=="+version+"\n")
		w.must(pydeps.Request{Seen: seen})
		if got := w.seenAt(seen); got != "hello from "+version+" in "+seen+"/.venv" {
			t.Errorf("it says %q", got)
		}
	}
	w.onlyIn(w.tool, ".venv", "requirements.txt")
}

// seenAt runs the program of greet_a where the tool's folder is shown elsewhere.
func (w *world) seenAt(seen string) string {
	w.Helper()
	python, err := w.r.Python(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	got := sandboxtest.Command(w.T, w.s, sandbox.Cmd{
		Args: []string{seen + "/.venv/bin/greet_a"}, Dir: seen,
		Profile: sandbox.Profile{Kind: "toolbox", Mounts: append(w.r.Mounts(python), sandbox.Mount{Source: w.tool, Target: seen})},
	})
	return strings.TrimSpace(got.Output)
}
