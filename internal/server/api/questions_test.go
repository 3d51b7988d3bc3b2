package api

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

func TestQuestions(t *testing.T) {
	f := serve(t)
	_, body, _ := f.do(t, "GET", "/questions?state=answered&session=s&wait=30s&version=v1&limit=7", "")
	if want := (store.QuestionFilter{State: "answered", Session: "s", Limit: 7}); f.asked.asked != want || f.asked.wait != 30*time.Second || f.asked.version != "v1" {
		t.Errorf("asked for %+v, %s, %q", f.asked.asked, f.asked.wait, f.asked.version)
	}
	if strings.Contains(body, "secret") {
		t.Errorf("the answer shows a binding: %s", body)
	}
	f.do(t, "POST", "/questions/perm_1/answer", `{"option":"reject","text":"not now"}`)
	if d := cmp.Diff(tool.Answer{Option: "reject", Text: "not now", By: "api"}, f.asked.answered); d != "" {
		t.Error(d)
	}
}

// A stream of events is somebody who watches, if it says so, until it ends.
func TestEventsWatchQuestions(t *testing.T) {
	f := serve(t)
	for query, want := range map[string]int{"": 0, "?questions=false": 0, "?questions=true": 1} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", f.URL+prefix+"/events"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil { // it has begun
			t.Fatal(err)
		}
		if got := f.asked.count(); got != want {
			t.Errorf("events%s: %d watch, want %d", query, got, want)
		}
		cancel()
		resp.Body.Close()
		tick := time.NewTicker(5 * time.Millisecond)
		for deadline := time.Now().Add(20 * time.Second); f.asked.count() != 0; <-tick.C {
			if time.Now().After(deadline) {
				t.Fatal("a stream that has ended still watches")
			}
		}
		tick.Stop()
	}
}
