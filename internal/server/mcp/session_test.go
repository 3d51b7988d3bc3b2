package mcp

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// rows keeps sessions.
type rows struct {
	store.Sessions
	mu   sync.Mutex
	list []store.Session
}

func (r *rows) PutSession(_ context.Context, s store.Session) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, s)
	return nil
}

func TestSessionIsRecorded(t *testing.T) {
	kept := &rows{}
	bus := event.New(0)
	sub, _ := bus.Subscribe(0, nil)
	defer sub.Close()
	k := dial(t, Config{Executor: &calls{f: echo}, Sessions: kept, Bus: bus, Session: "ses_1", Workspaces: []string{"/w"}})
	k.initialize("2025-11-25", "{}")
	for id := range 2 {
		k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo"}}`, id+1))
		k.next()
	}
	if e := <-sub.C(); e.Type != tool.EventSessionStarted || e.Session != "ses_1" {
		t.Errorf("event %+v", e)
	}
	_ = k.in.Close()
	if e := <-sub.C(); e.Type != tool.EventSessionEnded || e.Session != "ses_1" {
		t.Errorf("event %+v", e)
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if len(kept.list) != 2 {
		t.Fatalf("%d rows: %+v", len(kept.list), kept.list)
	}
	first, last := kept.list[0], kept.list[1]
	if first.ID != "ses_1" || first.Client != "test/1" || first.Workspace != "/w" || first.Turn == "" || !first.Ended.IsZero() || last.Ended.IsZero() || last.ID != first.ID {
		t.Errorf("rows %+v", kept.list)
	}
}

func TestRootsChooseAmongWorkspaces(t *testing.T) {
	for roots, want := range map[string]string{
		`[{"uri":"file:///b"}]`:                      "/b",
		`[{"uri":"file:///elsewhere"}]`:              "/a",
		`[{"uri":"file:///x"},{"uri":"file:///b/"}]`: "/b",
	} {
		t.Run(roots, func(t *testing.T) {
			e := &calls{f: echo}
			k := dial(t, Config{Executor: e, Workspaces: []string{"/a", "/b"}})
			k.initialize("2025-11-25", `{"roots":{}}`)
			m := k.next()
			if m["method"] != "roots/list" {
				t.Fatalf("got %v", m)
			}
			k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"roots":%s}}`, m["id"], roots))
			// The answer is taken in by a goroutine of its own.
			for range 1000 {
				k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
				k.next()
				if e.last().Workspace == want {
					return
				}
			}
			t.Errorf("workspace %q, want %q", e.last().Workspace, want)
		})
	}
}

func TestCutText(t *testing.T) {
	if got := cutText("aé", 2); got != "a" {
		t.Errorf("cut in a character: %q", got)
	}
}
