package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/profile"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// inEra is a request of a session, or one of the stateless era with its headers.
func inEra(stateless bool, method, name, params string) (body string, headers []string) {
	if stateless {
		params = strings.Replace(params, "{", "{"+fmt.Sprintf(newMeta, "")+",", 1)
		params = strings.Replace(params, ",}", "}", 1)
		headers = []string{"Mcp-Protocol-Version", newVersion, "Mcp-Method", method, "Mcp-Name", name}
	}
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`, headers
}

// TestReach: who may call none of a server's tools has none of its resources and
// prompts, and who may not read sees no files.
func TestReach(t *testing.T) {
	ws := t.TempDir()
	file := filepath.Join(ws, "file.txt")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := profile.New(map[string]profile.Definition{"ours": {Tools: []string{"echo"}}})
	if err != nil {
		t.Fatal(err)
	}
	base := serveProfiles(t, Config{
		Executor: &calls{f: echo}, Catalog: &catalog{specs: []*tool.Spec{spec("echo"), spec("read")}}, Profiles: set, Upstream: &other{}, Workspaces: []string{ws},
		Stat: func(_, name string) (os.FileInfo, error) { return os.Stat(name) },
		Caller: func(r *http.Request) (string, func(*tool.Spec) bool) {
			switch r.Header.Get("Authorization") {
			case "Bearer other":
				return "", func(s *tool.Spec) bool { return s.Source == "other" }
			case "Bearer read":
				return "", func(s *tool.Spec) bool { return s.Name == "read" }
			}
			return "", nil
		},
	}).url
	for _, who := range []struct {
		path, key     string
		others, files bool
	}{
		{"/mcp", "", true, true},
		{"/mcp/ours", "", false, false},
		{"/mcp?tools=echo", "", false, false},
		{"/mcp", "Bearer other", true, false},
		{"/mcp", "Bearer read", false, true},
	} {
		for _, stateless := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s stateless=%v", who.path, who.key, stateless), func(t *testing.T) {
				w := &web{t: t, url: base + who.path}
				key := []string{"Authorization", who.key}
				if !stateless {
					a := w.post(fmt.Sprintf(hello, "2025-11-25", "{}"), key...)
					if w.session = a.header.Get("Mcp-Session-Id"); w.session == "" {
						t.Fatalf("no session: %d %s", a.status, a.body)
					}
				}
				for _, c := range []struct {
					method, name, params, has string
					want                      bool
				}{
					{"resources/list", "", `{}`, `"test://r1"`, who.others},
					{"resources/list", "", `{}`, `file.txt`, who.files},
					{"resources/templates/list", "", `{}`, `"test://t0/{id}"`, who.others},
					{"prompts/list", "", `{}`, `"p1"`, who.others},
					{"resources/read", "test://r1", `{"uri":"test://r1"}`, `"read":"x"`, who.others},
					{"prompts/get", "p1", `{"name":"p1"}`, `"prompt":"x"`, who.others},
					{"completion/complete", "", `{"ref":{"type":"ref/prompt","name":"p1"},"argument":{"name":"a","value":"b"}}`, `"complete":"x"`, who.others},
					{"resources/subscribe", "", `{"uri":"test://r1"}`, `"result":{}`, who.others},
					{"resources/subscribe", "", `{"uri":"` + fileURI(file) + `"}`, `"result":{}`, who.files},
				} {
					if stateless && c.method == "resources/subscribe" {
						continue // it is done by subscriptions/listen
					}
					body, headers := inEra(stateless, c.method, c.name, c.params)
					if a := w.post(body, append(headers, key...)...); strings.Contains(string(a.body), c.has) != c.want {
						t.Errorf("%s: %q there is not %v: %.300s", c.method, c.has, c.want, a.body)
					}
				}
				if stateless && !who.others {
					body, headers := inEra(true, "subscriptions/listen", "", `{"notifications":{"resourceSubscriptions":["test://r1"]}}`)
					if a := w.post(body, append(headers, key...)...); !strings.Contains(string(a.body), `"error"`) {
						t.Errorf("listening: %.300s", a.body)
					}
				}
			})
		}
	}
}

// TestSubscriptionsEnd: nobody ends somebody else's subscription, and a session
// takes its own with it.
func TestSubscriptionsEnd(t *testing.T) {
	o := &other{}
	w, s := serveHTTP(t, Config{Executor: &calls{f: echo}, Upstream: o})
	second := &web{t: t, url: w.url}
	w.open("{}")
	second.open("{}")
	ask := func(w *web, method, uri string) {
		t.Helper()
		body, _ := inEra(false, method, "", `{"uri":"`+uri+`"}`)
		if a := w.post(body); !strings.Contains(string(a.body), `"result":{}`) {
			t.Fatalf("%s: %s", method, a.body)
		}
	}
	ask(w, "resources/subscribe", "test://r1")
	ask(w, "resources/subscribe", "test://r1")
	ask(w, "resources/subscribe", "test://r2")
	ask(second, "resources/unsubscribe", "test://r1")
	ask(w, "resources/unsubscribe", "test://r2")
	ask(w, "resources/unsubscribe", "test://r2")
	r, err := http.NewRequest(http.MethodDelete, w.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.do(r)
	want := "subscribe test://r1\nsubscribe test://r1\nsubscribe test://r2\nunsubscribe test://r2\nunsubscribe test://r1\nunsubscribe test://r1"
	var asked string
	eventually(t, "the session's subscriptions end", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		asked = strings.Join(o.asked, "\n")
		return len(o.asked) >= 6
	})
	if asked != want {
		t.Errorf("the upstream was asked\n%s\nwant\n%s", asked, want)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.following) > 0 {
		t.Errorf("%v is left", s.following)
	}
}

// TestArtifactsOfOthers: what one caller's calls made no other caller reads.
func TestArtifactsOfOthers(t *testing.T) {
	var made string
	e := &calls{f: echo}
	w, _ := serveHTTP(t, Config{
		Executor: e, Workspaces: []string{t.TempDir()},
		OpenArtifact: func(_ context.Context, id string) (io.ReadSeekCloser, store.Artifact, error) {
			return closer{bytes.NewReader([]byte("made"))}, store.Artifact{ID: id, Session: made, MIME: "text/plain", Size: 4}, nil
		},
	})
	call := func(key string) {
		body, headers := inEra(true, "tools/call", "echo", `{"name":"echo","arguments":{}}`)
		if a := w.post(body, append(headers, "Authorization", key)...); a.status != http.StatusOK {
			t.Fatalf("%s", a.body)
		}
		made = e.last().Session
	}
	opens := func(key string) bool {
		body, headers := inEra(true, "resources/read", "artifact://art_1", `{"uri":"artifact://art_1"}`)
		return strings.Contains(string(w.post(body, append(headers, "Authorization", key)...).body), `"text":"made"`)
	}
	for _, c := range []struct {
		by, reader string
		want       bool
	}{
		{"Caller key a", "Caller key a", true},
		{"Caller key a", "Caller key b", false},
		{"Caller key a", "", true},
		{"", "", true},
		{"", "Caller key a", false},
	} {
		call(c.by)
		if got := opens(c.reader); got != c.want {
			t.Errorf("%q opens what %q made: %v, want %v", c.reader, c.by, got, c.want)
		}
	}
	// In a session, what it made itself.
	a := w.post(fmt.Sprintf(hello, "2025-11-25", "{}"), "Authorization", "Caller key a")
	w.session = a.header.Get("Mcp-Session-Id")
	read := func() bool {
		body, _ := inEra(false, "resources/read", "", `{"uri":"artifact://art_1"}`)
		return strings.Contains(string(w.post(body, "Authorization", "Caller key a").body), `"text":"made"`)
	}
	for _, c := range []struct {
		session string
		want    bool
	}{{w.session, true}, {"", false}, {"ses_other", false}} {
		made = c.session
		if got := read(); got != c.want {
			t.Errorf("a session opens what %q made: %v, want %v", made, got, c.want)
		}
	}
}
