package pkgs_test

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/tool"
)

func integrity(b []byte) string {
	sum := sha512.Sum512(b)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// registry speaks as npm's does, for one package.
func registry(t *testing.T, tags map[string]string, versions map[string]string, change func(version string, dist map[string]any), authorization string) string {
	t.Helper()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != authorization {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		if version, ok := strings.CutPrefix(r.URL.Path, "/tarball/"); ok {
			w.Write(gzipped(t, tarred(t, files(prefixed("package/", hello(version)))...)))
			return
		}
		if r.URL.EscapedPath() != "/@scope%2fhello" {
			http.NotFound(w, r)
			return
		}
		doc := map[string]any{"name": "@scope/hello", "dist-tags": tags}
		all := map[string]any{}
		for version, deprecated := range versions {
			dist := map[string]any{"tarball": server.URL + "/tarball/" + version, "integrity": integrity(gzipped(t, tarred(t, files(prefixed("package/", hello(version)))...)))}
			if change != nil {
				change(version, dist)
			}
			v := map[string]any{"dist": dist}
			if deprecated != "" {
				v["deprecated"] = deprecated
			}
			all[version] = v
		}
		doc["versions"] = all
		json.NewEncoder(w).Encode(doc)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestNPM: a tag, a version or a range; the hash is that of the registry.
func TestNPM(t *testing.T) {
	versions := map[string]string{"1.0.0": "", "1.2.0": "", "1.3.0": "do not use", "2.0.0": "", "3.0.0-beta.1": ""}
	where := registry(t, map[string]string{"latest": "2.0.0", "next": "3.0.0-beta.1"}, versions, func(version string, dist map[string]any) {
		switch version {
		case "1.0.0":
			dist["integrity"] = integrity([]byte("something else"))
		case "1.3.0":
			dist["integrity"] = "sha1-deadbeef"
		}
	}, "Bearer secret")
	p := open(t, func(c *pkgs.Config) { c.Registry, c.Authorization = where+"/", "Bearer secret" })
	for _, c := range []struct{ source, want string }{
		{"@scope/hello", "2.0.0"}, {"npm:@scope/hello", "2.0.0"}, {"@scope/hello@latest", "2.0.0"}, {"@scope/hello@next", "3.0.0-beta.1"},
		{"@scope/hello@1.2.0", "1.2.0"}, {"@scope/hello@^1", "1.2.0"}, {"@scope/hello@>=1", "2.0.0"}, {"@scope/hello@~1.2", "1.2.0"},
	} {
		t.Run(strings.ReplaceAll(c.source, "/", "_"), func(t *testing.T) {
			f := fetch(t, p, c.source)
			if f.Name != "hello" || f.Version != c.want || f.Resolved != c.want || f.Source != "npm:"+strings.TrimPrefix(c.source, "npm:") || f.Kind != pkgs.KindNPM || !strings.HasPrefix(f.Integrity, "sha512-") {
				t.Errorf("fetched %+v", f)
			}
			if got := tree(t, f.Dir)["lib/words.js"]; !strings.Contains(got, c.want) {
				t.Errorf("got %q", got)
			}
		})
	}
	for _, c := range []struct {
		source string
		code   tool.Code
		part   string
	}{
		{"@scope/hello@1.0.0", tool.DependencyError, "is not what the registry says"},
		{"@scope/hello@1.3.0", tool.DependencyError, "no sha512 hash of @scope/hello@1.3.0"},
		{"@scope/hello@9", tool.NotFound, "no version 9. The latest is 2.0.0"},
		{"@scope/hello@what", tool.NotFound, `no version or tag "what"`},
		{"@scope/other", tool.NotFound, "the registry has no package @scope/other"},
	} {
		_, err := p.Fetch(t.Context(), c.source, nil)
		wantError(t, err, c.code, c.part)
	}
	foreign := open(t, func(c *pkgs.Config) { c.Registry = where })
	_, err := foreign.Fetch(t.Context(), "@scope/hello", nil)
	wantError(t, err, tool.ConnectionError, "401 Unauthorized")
	down := open(t, func(c *pkgs.Config) { c.Registry = "http://127.0.0.1:1" })
	_, err = down.Fetch(t.Context(), "hello", nil)
	wantError(t, err, tool.ConnectionError, "cannot be reached")

	in, err := p.Install(t.Context(), fetch(t, p, "@scope/hello@^1"), pkgs.Hooks{})
	if err != nil || in.Version != "1.2.0" {
		t.Fatalf("installed %+v, %v", in, err)
	}
	if again, err := p.Update(t.Context(), "hello", nil, pkgs.UpdateOptions{}); err != nil || again.Replaced != nil {
		t.Errorf("the source has nothing new: %+v, %v", again, err)
	}
	versions["1.4.0"] = ""
	newer, err := p.Update(t.Context(), "hello", nil, pkgs.UpdateOptions{})
	if err != nil || newer.Version != "1.4.0" || newer.Replaced.Version != "1.2.0" || newer.Source != "npm:@scope/hello@^1" {
		t.Errorf("updated: %+v, %v", newer, err)
	}
	noStageBut(t, p, 9)
}

// noStageBut checks that no more is in the staging area than what is still open:
// a folder and its lock each.
func noStageBut(t *testing.T, p *pkgs.Packages, open int) {
	t.Helper()
	if n := len(tree(t, p.Dir(".staging"))); n == 0 && open > 0 {
		t.Error("the staging area is empty")
	}
	r, err := p.Recover(t.Context())
	if err != nil || r.Swept > 0 {
		t.Errorf("what is open was swept: %+v, %v", r, err)
	}
}

// TestAuthorizationStays: the registry's password goes to no other host.
func TestAuthorizationStays(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "")
		w.Write(gzipped(t, tarred(t, files(prefixed("package/", hello("1.0.0")))...)))
	}))
	defer other.Close()
	where := registry(t, map[string]string{"latest": "1.0.0"}, map[string]string{"1.0.0": ""}, func(_ string, dist map[string]any) {
		dist["tarball"] = other.URL + "/x.tgz"
	}, "Bearer secret")
	p := open(t, func(c *pkgs.Config) { c.Registry, c.Authorization = where, "Bearer secret" })
	fetch(t, p, "@scope/hello")
	if leaked.Load() {
		t.Error("the other host got the registry's authorization")
	}
}

// TestRealRegistry fetches from the registry that npm uses on this machine, and
// once through somebody who changes what it gives.
func TestRealRegistry(t *testing.T) {
	out, err := exec.Command("npm", "config", "get", "registry").Output()
	if err != nil {
		t.Skipf("no npm: %v", err)
	}
	real := strings.TrimSpace(string(out))
	p := open(t, func(c *pkgs.Config) { c.Registry = real })
	// It has no tool, which is found out when all else is done.
	var downloaded int64
	_, err = p.Fetch(t.Context(), "is-number@^7.0.0", func(p pkgs.Progress) {
		if p.Stage == "download" {
			downloaded = p.Done
		}
	})
	wantError(t, err, tool.ParameterError, "npm:is-number@^7.0.0 has no tool")
	if downloaded < 1000 {
		t.Errorf("%d bytes were downloaded", downloaded)
	}
	target, err := url.Parse(real)
	if err != nil {
		t.Fatal(err)
	}
	var here string
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(r *http.Response) error {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			if strings.HasSuffix(r.Request.URL.Path, ".tgz") {
				body[len(body)/2] ^= 1
			} else {
				var doc map[string]any
				if err := json.Unmarshal(body, &doc); err != nil {
					return err
				}
				dist := doc["versions"].(map[string]any)["7.0.0"].(map[string]any)["dist"].(map[string]any)
				u, err := url.Parse(dist["tarball"].(string))
				if err != nil {
					return err
				}
				dist["tarball"] = here + u.Path
				body, _ = json.Marshal(doc)
			}
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
			r.Header.Set("Content-Length", fmt.Sprint(len(body)))
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	defer server.Close()
	here = server.URL
	p = open(t, func(c *pkgs.Config) { c.Registry = server.URL })
	_, err = p.Fetch(t.Context(), "is-number@7.0.0", nil)
	wantError(t, err, tool.DependencyError, "is-number@7.0.0 is not what the registry says")
	noStage(t, p)
}

// TestURL: an archive from a server, and what is too long.
func TestURL(t *testing.T) {
	body := zipped(t, hello("1.0.0"))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/long") {
			for range 40 {
				w.Write(make([]byte, 1<<20))
				w.(http.Flusher).Flush()
			}
			return
		}
		if r.URL.Path == "/plain.tgz" {
			http.Redirect(w, r, "http://127.0.0.1:1/x.tgz", http.StatusFound)
			return
		}
		w.Write(body)
	}))
	defer server.Close()
	p := open(t, func(c *pkgs.Config) {
		c.HTTP, c.Limits = server.Client(), pkgs.Limits{Archive: 20_000_000}
	})
	if f := fetch(t, p, server.URL+"/files/hello-1.0.0.zip"); f.Name != "hello" || f.Kind != pkgs.KindArchive || f.Integrity != integrity(body) || f.Source != server.URL+"/files/hello-1.0.0.zip" {
		t.Errorf("fetched %+v", f)
	}
	_, err := p.Fetch(t.Context(), server.URL+"/plain.tgz", nil)
	wantError(t, err, tool.ConnectionError, "away from https")
	_, err = p.Fetch(t.Context(), server.URL+"/long.tgz", nil)
	wantError(t, err, tool.ResourceExhausted, "larger than 20 MB")
}
