package deps_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
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
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
	"github.com/toolyard/toolyard/tool"
)

// pnpmProgram and bunProgram are the real ones, fetched once with npm.
var (
	pnpmProgram = sync.OnceValues(func() (string, error) {
		arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
		return fetch("@pnpm/exe.linux-"+arch, "package/pnpm")
	})
	bunProgram = sync.OnceValues(func() (string, error) {
		arch := map[string]string{"amd64": "x64-baseline", "arm64": "aarch64"}[runtime.GOARCH]
		return fetch("@oven/bun-linux-"+arch, "package/bin/bun")
	})
)

// fetch unpacks a package and returns the path of a file in it.
func fetch(name, file string) (string, error) {
	dir, err := os.MkdirTemp(programs, "*")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("npm", "pack", "--silent", name+"@latest")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm pack: %w\n%s", err, out)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if len(files) != 1 {
		return "", errors.New("npm pack made no archive")
	}
	if out, err := exec.Command("tar", "-xzf", files[0], "-C", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("tar: %w\n%s", err, out)
	}
	return filepath.Join(dir, file), nil
}

// programs is the directory of what is fetched, as long as the tests run.
var programs string

func TestMain(m *testing.M) {
	if job := os.Getenv(helperVariable); job != "" {
		var h helper
		if err := json.Unmarshal([]byte(job), &h); err != nil {
			panic(err)
		}
		os.Exit(h.run())
	}
	var err error
	if programs, err = os.MkdirTemp("", "deps-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// realRegistry is the registry of this machine, and the addresses that it has.
var realRegistry = sync.OnceValues(func() (string, []netip.Prefix) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "npm", "config", "get", "registry").Output()
	address, parseErr := url.Parse(strings.TrimSpace(string(out)))
	if err != nil || parseErr != nil || address.Hostname() == "" {
		return "", nil
	}
	addrs, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", address.Hostname())
	var ranges []netip.Prefix
	for _, a := range addrs {
		ranges = append(ranges, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
	}
	return address.String(), ranges
})

// config is what tests start from: the real pnpm, and this machine's registry.
func config(t testing.TB) deps.Config {
	t.Helper()
	pnpm, err := pnpmProgram()
	if err != nil {
		t.Fatal(err)
	}
	address, ranges := realRegistry()
	s := sandbox.New(sandbox.Config{AllowRanges: ranges})
	t.Cleanup(func() { s.Close() })
	return deps.Config{
		Runner: s, Cache: filepath.Join(t.TempDir(), "cache"), Env: os.Environ(), Registry: address, Limit: time.Minute,
		Program: func(_ context.Context, name string) (string, error) {
			if name == deps.PNPM {
				return pnpm, nil
			}
			return exec.LookPath(name)
		},
	}
}

// put writes files into a directory.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func text(t testing.TB, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// node runs a script in a tool's folder and returns what it printed.
func node(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("node", "--input-type=module", "-e", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// clean reports what an install left in a tool's folder beside its results.
func clean(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, ".deps-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v %v", left, err)
	}
}

// failed is the *tool.Error of a DEPENDENCY_ERROR.
func failed(t *testing.T, err error) *tool.Error {
	t.Helper()
	var e *tool.Error
	if !errors.As(err, &e) || e.Code != tool.DependencyError || e.Hint == "" {
		t.Fatalf("error %v, want DEPENDENCY_ERROR with a hint", err)
	}
	return e
}

// npmServer speaks the protocol of the npm registry: packuments and tarballs.
type npmServer struct {
	*httptest.Server
	// packages by name, versions, and the files of each.
	packages map[string]map[string]map[string]string

	mu sync.Mutex
	// broken are what goes wrong: by "name" for the packument and "name.tgz" for
	// the tarball: a status such as "500", "integrity", "cut" or "hang".
	broken  map[string]string
	changes int      // of broken, so that installers do not trust what they kept
	asked   []string // paths
	auth    []string // Authorization
	release chan struct{}
}

// serve starts a registry with packages of their name that export their version.
func serve(t testing.TB, packages ...string) *npmServer {
	t.Helper()
	s := &npmServer{packages: map[string]map[string]map[string]string{}, broken: map[string]string{}, release: make(chan struct{})}
	for _, p := range packages {
		at := strings.LastIndex(p, "@")
		s.add(p[:at], p[at+1:], nil)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(s.release) })
	return s
}

// add publishes a package: package.json may be given, the rest is made.
func (s *npmServer) add(name, version string, files map[string]string) {
	all := map[string]string{
		"package.json": fmt.Sprintf(`{"name": %q, "version": %q, "main": "index.js"}`, name, version),
		"index.js":     fmt.Sprintf("module.exports = %q\n", name+"@"+version),
	}
	for file, text := range files {
		all[file] = text
	}
	if s.packages[name] == nil {
		s.packages[name] = map[string]map[string]string{}
	}
	s.packages[name][version] = all
}

func (s *npmServer) breaks(what, how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken[what] = how
	s.changes++
}

func (s *npmServer) answer(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(strings.NewReplacer("%2f", "/", "%2F", "/").Replace(r.URL.EscapedPath()), "/")
	s.mu.Lock()
	s.asked = append(s.asked, path)
	s.auth = append(s.auth, r.Header.Get("Authorization"))
	name, file, isTarball := strings.Cut(path, "/-/")
	how := s.broken[name]
	if isTarball {
		how = s.broken[name+".tgz"]
	}
	wrong := s.broken[name+".tgz"] == "integrity"
	modified := time.Date(2020, 1, 1, 0, s.changes, 0, 0, time.UTC).Format("2006-01-02T15:04:05.000Z")
	s.mu.Unlock()
	versions, known := s.packages[name]
	var status int
	if _, err := fmt.Sscan(how, &status); err == nil || !known {
		http.Error(w, `{"error": "broken"}`, cmp.Or(status, http.StatusNotFound))
		return
	}
	if how == "hang" {
		select {
		case <-r.Context().Done():
		case <-s.release:
		}
		return
	}
	if !isTarball {
		s.packument(w, r, name, versions, modified, wrong)
		return
	}
	base := name[strings.LastIndex(name, "/")+1:]
	body := tarball(versions[strings.TrimSuffix(strings.TrimPrefix(file, base+"-"), ".tgz")])
	w.Header().Set("Content-Type", "application/octet-stream")
	if how == "cut" {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		body = body[:len(body)/2]
	}
	_, _ = w.Write(body)
}

func (s *npmServer) packument(w http.ResponseWriter, r *http.Request, name string, versions map[string]map[string]string, modified string, wrong bool) {
	doc := map[string]any{"name": name, "modified": modified}
	all, times, latest := map[string]any{}, map[string]string{}, ""
	for version, files := range versions {
		var manifest map[string]any
		_ = json.Unmarshal([]byte(files["package.json"]), &manifest)
		digest := sha512.Sum512(tarball(files))
		if wrong {
			digest[0] ^= 1
		}
		if scripts, _ := manifest["scripts"].(map[string]any); scripts["install"] != nil || scripts["postinstall"] != nil {
			manifest["hasInstallScript"] = true
		}
		manifest["dist"] = map[string]string{
			"tarball":   "http://" + r.Host + "/" + name + "/-/" + name[strings.LastIndex(name, "/")+1:] + "-" + version + ".tgz",
			"integrity": "sha512-" + base64.StdEncoding.EncodeToString(digest[:]),
		}
		all[version], times[version] = manifest, "2020-01-01T00:00:00.000Z"
		latest = max(latest, version)
	}
	doc["versions"], doc["time"], doc["dist-tags"] = all, times, map[string]string{"latest": latest}
	w.Header().Set("Content-Type", "application/vnd.npm.install-v1+json")
	_ = json.NewEncoder(w).Encode(doc)
}

// tarball is a package as npm packs it.
func tarball(files map[string]string) []byte {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for _, name := range sortedKeys(files) {
		_ = tw.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(files[name]))})
		_, _ = io.WriteString(tw, files[name])
	}
	_ = tw.Close()
	_ = zw.Close()
	return b.Bytes()
}
