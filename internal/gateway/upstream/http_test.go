package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/tool"
)

// web is a server over HTTP that does what a function says with a request, and
// the handshake of a session itself.
func web(t testing.TB, handle func(w http.ResponseWriter, r *http.Request, m request)) string {
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m request
		if data, _ := io.ReadAll(r.Body); len(data) > 0 {
			if err := json.Unmarshal(data, &m); err != nil {
				t.Errorf("we sent %.200s: %v", data, err)
			}
		}
		switch m.Method {
		case "server/discover":
			http.Error(w, "what?", http.StatusBadRequest)
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "s1")
			object(w, m, `{"protocolVersion":"2025-11-25","capabilities":{}}`)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			handle(w, r, m)
		}
	}))
}

func object(w http.ResponseWriter, m request, result string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func stream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, text)
	w.(http.Flusher).Flush()
}

// TestAnswers: what comes in the place of an answer.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		handle func(w http.ResponseWriter, r *http.Request, m request)
		code   tool.Code // "" is success
		sent   bool
		want   string // of the message
	}{
		{"JSON", func(w http.ResponseWriter, _ *http.Request, m request) { object(w, m, "{}") }, "", true, ""},
		{"events", func(w http.ResponseWriter, _ *http.Request, m request) {
			stream(w, fmt.Sprintf(": hello\r\n\r\nevent: other\ndata: x\n\nid: 1\ndata\n\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":%s,\"result\":{}}\r\r", m.ID))
		}, "", true, ""},
		{"a stream that never ends", func(w http.ResponseWriter, r *http.Request, m request) {
			stream(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", m.ID))
			<-r.Context().Done()
		}, "", true, ""},
		{"half an event", func(w http.ResponseWriter, _ *http.Request, m request) {
			stream(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n", m.ID))
		}, tool.ConnectionError, true, "ended before the answer"},
		{"an event above the bound", func(w http.ResponseWriter, _ *http.Request, m request) {
			stream(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":\"", m.ID))
			io.Copy(w, io.LimitReader(zeros{}, 2<<20))
			fmt.Fprint(w, "\"}\n\n")
		}, tool.ResourceExhausted, true, "longer than 1048576 bytes"},
		{"an event without end", func(w http.ResponseWriter, _ *http.Request, m request) {
			stream(w, "data: ")
			io.Copy(w, zeros{})
		}, tool.ConnectionError, true, "without end"},
		{"an object above the bound", func(w http.ResponseWriter, _ *http.Request, m request) {
			w.Header().Set("Content-Type", "application/json")
			io.Copy(w, io.LimitReader(zeros{}, 2<<20))
		}, tool.ResourceExhausted, true, "longer than 1048576 bytes"},
		{"a page", func(w http.ResponseWriter, _ *http.Request, _ request) { fmt.Fprint(w, "<html>hello") }, tool.DependencyError, true, `"text/html; charset=utf-8": <html>hello`},
		{"nothing", func(w http.ResponseWriter, _ *http.Request, _ request) { w.WriteHeader(http.StatusAccepted) }, tool.DependencyError, true, "HTTP 202"},
		{"half an object", func(w http.ResponseWriter, _ *http.Request, _ request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"jsonrpc":"2.0",`)
		}, tool.DependencyError, true, "something else than its result"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request, _ request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"jsonrpc":"2.0",`)
		}, tool.ConnectionError, true, "cut off"},
		{"no answer at all", func(http.ResponseWriter, *http.Request, request) { panic(http.ErrAbortHandler) }, tool.ConnectionError, true, "EOF"},
		{"an answer of another", func(w http.ResponseWriter, _ *http.Request, _ request) {
			object(w, request{ID: json.RawMessage("9999")}, "{}")
		}, tool.DependencyError, true, "something else"},
		{"failure", func(w http.ResponseWriter, _ *http.Request, _ request) {
			http.Error(w, "oh", http.StatusInternalServerError)
		}, tool.ConnectionError, true, "HTTP 500: oh"},
		{"too many", func(w http.ResponseWriter, _ *http.Request, _ request) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, "", http.StatusTooManyRequests)
		}, tool.RateLimited, false, "429"},
		{"no credentials", func(w http.ResponseWriter, _ *http.Request, _ request) {
			http.Error(w, "who?", http.StatusUnauthorized)
		}, tool.PermissionDenied, false, "HTTP 401: who?"},
		{"too large", func(w http.ResponseWriter, _ *http.Request, _ request) {
			http.Error(w, "", http.StatusRequestEntityTooLarge)
		}, tool.DependencyError, false, "413"},
		{"a session that is not known", func(w http.ResponseWriter, _ *http.Request, _ request) { http.NotFound(w, nil) }, tool.ConnectionError, false, "ended the session"},
		{"headers without end", func(w http.ResponseWriter, _ *http.Request, _ request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := fmt.Fprintf(conn, "X-A: %s\r\n", strings.Repeat("a", 1000)); err != nil {
					return
				}
			}
		}, tool.ConnectionError, true, "header"},
		{"to another way of asking", func(w http.ResponseWriter, r *http.Request, _ request) {
			http.Redirect(w, r, "/there", http.StatusFound)
		}, tool.ConnectionError, true, "would make GET of POST"},
		{"in circles", func(w http.ResponseWriter, r *http.Request, _ request) {
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
		}, tool.ConnectionError, true, "more than 5 redirects"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := web(t, func(w http.ResponseWriter, r *http.Request, m request) {
				switch {
				case r.Method == http.MethodGet:
					http.Error(w, "", http.StatusMethodNotAllowed)
				case m.Method == "call":
					tt.handle(w, r, m)
				default:
					w.WriteHeader(http.StatusAccepted)
				}
			})
			c := dial(t, upstream.Config{HTTP: &upstream.HTTP{URL: url}, MaxMessage: 1 << 20})
			result, err := c.Call(within(t), upstream.Request{Method: "call"})
			if tt.code == "" {
				if err != nil || string(result) != "{}" {
					t.Errorf("result %s, error %v", result, err)
				}
				return
			}
			if e := toolError(t, err, tt.code, tt.sent); !strings.Contains(e.Message, tt.want) {
				t.Errorf("message %q, want %q", e.Message, tt.want)
			} else if tt.code == tool.RateLimited && e.RetryAfter != 7*time.Second {
				t.Errorf("retry after %v", e.RetryAfter)
			}
		})
	}
	t.Run("an error with a status", func(t *testing.T) {
		c := dial(t, upstream.Config{HTTP: &upstream.HTTP{URL: web(t, func(w http.ResponseWriter, r *http.Request, m request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32021,"message":"x","data":{"a":1.0}}}`)
		})}})
		_, err := c.Call(within(t), upstream.Request{Method: "call"})
		if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Code != upstream.CodeMissingCapability || string(e.Data) != `{"a":1.0}` {
			t.Errorf("error %v", err)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		s := httptest.NewServer(nil)
		s.Close()
		h := &upstream.HTTP{URL: s.URL + "/?key=secret"}
		for _, conf := range []upstream.Config{{HTTP: h}, {SSE: h}, {WebSocket: h}} {
			_, err := upstream.Connect(within(t), conf)
			if e := toolError(t, err, tool.ConnectionError, false); strings.Contains(e.Text(), "secret") {
				t.Errorf("the error tells a secret: %s", e.Text())
			}
		}
	})
	t.Run("fails at what it does not know", func(t *testing.T) {
		p := newPeer("2025-03-26")
		inner := streamableHandler(p)
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Method") == "server/discover" {
				panic(http.ErrAbortHandler)
			}
			inner.ServeHTTP(w, r)
		}))
		if c := dial(t, upstream.Config{HTTP: &upstream.HTTP{URL: url}}); c.Version() != "2025-03-26" {
			t.Errorf("version %s", c.Version())
		}
	})
}

// TestResume: a stream that breaks is taken up again after what was read last,
// when the server said.
func TestResume(t *testing.T) {
	var id json.RawMessage
	var asked []string
	c := dial(t, upstream.Config{HTTP: &upstream.HTTP{URL: web(t, func(w http.ResponseWriter, r *http.Request, m request) {
		last := r.Header.Get("Last-Event-ID")
		switch {
		case m.Method == "call":
			id = m.ID
			stream(w, "id: e1\nretry: 15\ndata:\n\n")
		case r.Method == http.MethodDelete:
		case last == "":
			http.Error(w, "", http.StatusMethodNotAllowed)
		default:
			asked = append(asked, last+" "+r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("Mcp-Protocol-Version"))
			switch len(asked) {
			case 1:
				http.Error(w, "", http.StatusBadGateway)
			case 2:
				stream(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")
			case 3:
				stream(w, "id: e3\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+string(id)+",\"result\":{\"at\":\"last\"}}\n\n")
			}
		}
	})}})
	result, err := c.Call(within(t), upstream.Request{Method: "call"})
	if err != nil || string(result) != `{"at":"last"}` {
		t.Fatalf("result %s, error %v", result, err)
	}
	if got, want := strings.Join(asked, ", "), "e1 s1 2025-11-25, e1 s1 2025-11-25, e2 s1 2025-11-25"; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

// TestRenew: a session that the server has forgotten is begun anew once, however
// many notice.
func TestRenew(t *testing.T) {
	var mu sync.Mutex
	begun, session, closed := 0, "", 0
	var subscribed []string
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m request
		_ = json.NewDecoder(r.Body).Decode(&m)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case m.Method == "server/discover":
			http.Error(w, "", http.StatusNotFound)
		case m.Method == "initialize":
			begun++
			session = fmt.Sprint("s", begun)
			w.Header().Set("Mcp-Session-Id", session)
			object(w, m, `{"protocolVersion":"2025-06-18"}`)
		case r.Header.Get("Mcp-Session-Id") != session:
			http.Error(w, "", http.StatusNotFound)
		case r.Method == http.MethodGet:
			http.Error(w, "", http.StatusMethodNotAllowed)
		case r.Method == http.MethodDelete:
			closed++
		case m.Method == "resources/subscribe":
			subscribed = append(subscribed, session)
			object(w, m, "{}")
		default:
			object(w, m, `"`+session+`"`)
		}
	}))
	renewed := make(chan struct{}, 10)
	c := dial(t, upstream.Config{HTTP: &upstream.HTTP{URL: url}, Renewed: func() { renewed <- struct{}{} }})
	if _, err := c.Listen(within(t), upstream.Subscriptions{URIs: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	session = "forgotten"
	mu.Unlock()
	var group sync.WaitGroup
	var lost atomic.Int64
	for range 20 {
		group.Go(func() {
			_, err := c.Call(within(t), upstream.Request{Method: "call"})
			if e, ok := errors.AsType[*tool.Error](err); ok && e.Code == tool.ConnectionError && !e.Began {
				lost.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	await(t, "Renewed", renewed)
	result, err := c.Call(within(t), upstream.Request{Method: "call"})
	if err != nil || string(result) != `"s2"` {
		t.Errorf("result %s, error %v", result, err)
	}
	c.Close()
	mu.Lock()
	defer mu.Unlock()
	if begun != 2 || closed != 1 || lost.Load() == 0 || strings.Join(subscribed, " ") != "s1 s2" {
		t.Errorf("begun %d times, closed %d, lost %d, subscribed %v", begun, closed, lost.Load(), subscribed)
	}
}

// token is an Authorizer with a token that gets better when it is challenged.
type token struct{ n atomic.Int64 }

func (a *token) Authorize(_ context.Context, r *http.Request) error {
	r.Header.Set("Authorization", fmt.Sprint("Bearer ", a.n.Load()))
	return nil
}

func (a *token) Challenge(_ context.Context, r *http.Response) (bool, error) {
	if r.Header.Get("WWW-Authenticate") == "no" {
		return false, errors.New("nobody logs in")
	}
	a.n.Add(1)
	return true, nil
}

// TestCredentials: tokens are asked for and used; another host sees none.
func TestCredentials(t *testing.T) {
	t.Run("challenge", func(t *testing.T) {
		for _, transport := range []string{"http", "sse", "websocket"} {
			p := newPeer("2025-06-18")
			var inner http.Handler
			switch transport {
			case "websocket":
				inner = p.socket(t)
			case "sse":
				inner = sseHandler(p)
			default:
				inner = streamableHandler(p)
			}
			h := &upstream.HTTP{Auth: &token{}, Header: http.Header{"X-Key": {"k"}}, URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Key") != "k" {
					t.Errorf("%s: %s without the header", transport, r.Method)
				}
				if r.Header.Get("Authorization") != "Bearer 1" {
					http.Error(w, "", http.StatusUnauthorized)
					return
				}
				inner.ServeHTTP(w, r)
			}))}
			conf := map[string]upstream.Config{"http": {HTTP: h}, "sse": {SSE: h}, "websocket": {WebSocket: h}}[transport]
			c := dial(t, conf)
			if _, err := c.Call(within(t), upstream.Request{Method: "tools/call", Params: params("echo", "{}")}); err != nil {
				t.Errorf("%s: %v", transport, err)
			}
			c.Close()
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, transport := range []string{"http", "sse", "websocket"} {
			h := &upstream.HTTP{Auth: &token{}, URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", "no")
				http.Error(w, "", http.StatusForbidden)
			}))}
			conf := map[string]upstream.Config{"http": {HTTP: h}, "sse": {SSE: h}, "websocket": {WebSocket: h}}[transport]
			_, err := upstream.Connect(within(t), conf)
			if e := tool.AsError(err); e.Code != tool.PermissionDenied || !strings.Contains(e.Message, "nobody logs in") {
				t.Errorf("%s: %v", transport, err)
			}
		}
	})
	t.Run("redirects", func(t *testing.T) {
		heard := make(chan *http.Request, 100)
		p := newPeer("2025-06-18")
		inner := streamableHandler(p)
		listening := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			heard <- r
			inner.ServeHTTP(w, r)
		})
		other := serve(t, listening)
		for _, tt := range []struct {
			name, to string
			keeps    bool
		}{{"same origin", "/there", true}, {"another host", other + "/there", false}} {
			mux := http.NewServeMux()
			mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, tt.to, http.StatusTemporaryRedirect) })
			mux.Handle("/there", listening)
			c, err := upstream.Connect(within(t), upstream.Config{HTTP: &upstream.HTTP{URL: serve(t, mux) + "/here?key=secret", Auth: &token{}, Header: http.Header{"X-Key": {"secret"}}}})
			if err != nil {
				t.Fatal(tt.name, err)
			}
			c.Close()
			r := await(t, "a request", heard)
			if got := r.Header.Get("Authorization") != "" && r.Header.Get("X-Key") != ""; got != tt.keeps {
				t.Errorf("%s: headers %v", tt.name, r.Header)
			}
			if text := fmt.Sprint(r.Header, r.URL); !tt.keeps && (strings.Contains(text, "secret") || strings.Contains(text, "Bearer")) {
				t.Errorf("%s: a secret has gone there: %s", tt.name, text)
			}
			for len(heard) > 0 {
				<-heard
			}
		}
	})
	t.Run("the stream names another host", func(t *testing.T) {
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			stream(w, "event: endpoint\ndata: http://other.example/post\n\n")
			<-r.Context().Done()
		}))
		_, err := upstream.Connect(within(t), upstream.Config{SSE: &upstream.HTTP{URL: url}})
		if err == nil || !strings.Contains(err.Error(), "another server") {
			t.Errorf("error %v", err)
		}
	})
}

// TestListenAgain: a listening stream that breaks is opened again.
func TestListenAgain(t *testing.T) {
	listens := 0
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m request
		_ = json.NewDecoder(r.Body).Decode(&m)
		if m.Method == "server/discover" {
			object(w, m, `{"supportedVersions":["2026-07-28"],"capabilities":{}}`)
			return
		}
		if r.Header.Get("Mcp-Method") != "subscriptions/listen" || !strings.Contains(string(m.Params), `"resourceSubscriptions":["x"]`) {
			t.Errorf("%s %s", r.Header, m.Params)
		}
		listens++
		stream(w, `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+string(m.ID)+"}}}\n\n")
		if listens > 1 {
			<-r.Context().Done()
		}
	}))
	renewed := make(chan struct{}, 10)
	c := dial(t, upstream.Config{HTTP: &upstream.HTTP{URL: url}, Renewed: func() { renewed <- struct{}{} }})
	s, err := c.Listen(within(t), upstream.Subscriptions{URIs: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "Renewed", renewed)
	s.Close()
}
