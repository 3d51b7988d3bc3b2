package docker

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// daemon serves an API for a client. It is as much of one as the test needs.
func daemon(t *testing.T, handler http.Handler) *client {
	t.Helper()
	dir, err := os.MkdirTemp("", "docker") // short: a socket's path has room for 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		_ = server.Serve(l)
		close(done)
	}()
	c, err := newClient("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.close()
		server.Close()
		<-done
		os.RemoveAll(dir)
	})
	return c
}

func TestNegotiate(t *testing.T) {
	for _, tt := range []struct {
		name, newest, oldest string
		want                 string // the version, or part of the error
		fails                bool
	}{
		{"Docker 20.10", "1.41", "1.12", "1.41", false},
		{"one that is newer than this", "1.99", "1.24", newestAPI, false},
		{"the same", newestAPI, newestAPI, newestAPI, false},
		{"Docker 19.03", "1.40", "1.12", "at least 1.41", true},
		{"numbers, not text", "1.9", "1.1", "at least 1.41", true},
		{"one of the far future", "2.5", "2.0", "newest known", true},
		{"nonsense", "x", "", "at least 1.41", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := ""
			c := daemon(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/version" {
					fmt.Fprintf(w, `{"ApiVersion":%q,"MinAPIVersion":%q}`, tt.newest, tt.oldest)
					return
				}
				asked = r.URL.Path
			}))
			err := c.call(t.Context(), http.MethodGet, "/_ping", nil, nil, nil)
			if tt.fails {
				if err == nil || !strings.Contains(err.Error(), tt.want) || asked != "" {
					t.Errorf("got %v and asked %q, want an error with %q", err, asked, tt.want)
				}
				return
			}
			if err != nil || asked != "/v"+tt.want+"/_ping" {
				t.Errorf("asked %q, %v, want version %s", asked, err, tt.want)
			}
			if !c.atLeast("1.41") || c.atLeast("1.100") {
				t.Error("the version does not compare")
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	for _, tt := range []struct {
		name, body, want string
		status           int
	}{
		{"the daemon's message", `{"message":"No such image: x"}`, "docker: No such image: x (404)", 404},
		{"plain text", "page not found\n", "docker: page not found (404)", 404},
		{"nothing", "", "docker: Internal Server Error (500)", 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := daemon(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/version" {
					fmt.Fprint(w, `{"ApiVersion":"1.41","MinAPIVersion":"1.12"}`)
					return
				}
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
			}))
			err := c.call(t.Context(), http.MethodGet, "/images/x/json", nil, nil, nil)
			if err == nil || err.Error() != tt.want || !is(err, tt.status) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if _, err := c.hijack(t.Context(), "/containers/x/attach", nil); err == nil || err.Error() != tt.want {
				t.Errorf("hijack: got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestRoot(t *testing.T) {
	r := root{uid: 5, gid: 6, links: map[string]string{"/bin": "usr/bin", "/a/b/c": "/d"}}
	one, err := r.archive()
	if err != nil {
		t.Fatal(err)
	}
	two, err := r.archive()
	if err != nil || string(one) != string(two) {
		t.Errorf("the same root gives different archives, %v", err)
	}
	for _, want := range []string{"user:x:5:6::/:/bin/sh", "user:x:6:", "a/b/c"} {
		if !strings.Contains(string(one), want) {
			t.Errorf("the archive lacks %q", want)
		}
	}
}
