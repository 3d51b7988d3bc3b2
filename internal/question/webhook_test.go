package question_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/question"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/tool"
)

func TestWebhook(t *testing.T) {
	posted := make(chan store.Question, 4)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var q store.Question
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &q); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %s", r.Method, r.Header.Get("Content-Type"), body)
		}
		posted <- q
	}))
	defer hook.Close()
	d := newDesk(t, question.Config{Rows: memory.New(), Webhook: hook.URL})
	done := asking(t.Context(), d, permission("b"), nil)
	q := receive(t, "the post", posted)
	if q.Title != "Allow bash?" || q.State != "pending" || len(q.Options) != 3 || q.Workspace != "/w" || q.Deadline.Before(time.Now()) {
		t.Errorf("posted was %+v", q)
	}
	ok(t, d.Answer(t.Context(), q.ID, tool.Answer{Option: "once", By: "api"}))
	if o := receive(t, "the answer", done); o.err != nil || o.answer.By != "api" {
		t.Errorf("got %+v", o)
	}
}

// A webhook that fails is as none: nobody waits for it, and nobody who is there
// notices.
func TestWebhookFails(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	for name, handler := range map[string]http.HandlerFunc{
		"error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			hook := httptest.NewServer(handler)
			defer hook.Close()
			d := newDesk(t, question.Config{Rows: memory.New(), Webhook: hook.URL})
			if _, err := d.Ask(t.Context(), permission("b"), from, nil); !errors.Is(err, tool.ErrNoChannel) {
				t.Errorf("nobody there: %v", err)
			}
			if a, err := d.Ask(t.Context(), permission("b"), from, says("once")); err != nil || a.Option != "once" {
				t.Errorf("somebody there: %+v, %v", a, err)
			}
		})
	}
}

// A webhook that never answers keeps nobody: neither who answers, nor the end.
func TestWebhookHangs(t *testing.T) {
	never := make(chan struct{})
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-never:
		case <-r.Context().Done():
		}
	}))
	defer hook.Close()
	defer close(never)
	d := newDesk(t, question.Config{Rows: memory.New(), Webhook: hook.URL})
	if a, err := d.Ask(t.Context(), permission("b"), from, says("once")); err != nil || a.Option != "once" {
		t.Errorf("got %+v, %v", a, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Close() }()
	ok(t, receive(t, "Close", ended))
}

func TestCheckWebhook(t *testing.T) {
	for address, good := range map[string]bool{
		"https://example.org/q": true, "http://127.0.0.1:99/": true,
		"": false, "example.org": false, "file:///etc/passwd": false, "https://": false, "http://%zz/": false, "unix:///run/x.sock": false,
	} {
		if err := question.CheckWebhook(address); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}
