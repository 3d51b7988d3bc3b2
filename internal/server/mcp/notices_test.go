package mcp

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/tool"
)

func TestLogMessages(t *testing.T) {
	bus := event.New(0)
	k := dial(t, Config{Executor: &calls{f: echo}, Bus: bus, Session: "mine"})
	k.initialize("2025-11-25", "{}")
	k.send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`)
	k.next()
	// The level has been set, but the subscription may be a moment behind: a
	// second request is handled after it.
	k.send(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}`)
	k.next()
	for _, e := range []tool.Event{
		{Type: tool.EventCallStarted, Session: "mine"},                                          // below the level
		{Type: tool.EventDoomLoop, Session: "another"},                                          // not of this session
		{Type: tool.EventCallOutput, Session: "mine", Data: map[string]any{"text": "x"}},        // not for the log
		{Type: tool.EventDoomLoop, Session: "mine"},                                             // warning
		{Type: tool.EventToolState, Tool: "github:search", Data: map[string]any{"to": "error"}}, // error, of no session
	} {
		bus.Publish(e)
	}
	for _, want := range []string{"warning doom_loop", "error tool_state"} {
		m := k.next()
		got := fmt.Sprint(at(m, "params", "level"), " ", at(m, "params", "data", "type"))
		if m["method"] != "notifications/message" || got != want {
			t.Errorf("got %v, want %s", m, want)
		}
	}
	k.send(`{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"emergency"}}`)
	k.next()
	bus.Publish(tool.Event{Type: tool.EventDoomLoop, Session: "mine"})
	k.send(`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
	if m := k.next(); m["id"] != 4.0 {
		t.Errorf("got %v", m)
	}
}

func TestSubscriptions(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(name, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		k := dial(t, Config{Executor: &calls{f: echo}, Workspaces: []string{dir}, Stat: func(workspace, path string) (fs.FileInfo, error) {
			info, err := os.Stat(path)
			if err != nil {
				return nil, tool.Errorf(tool.NotFound, "no file %s", path)
			}
			return info, nil
		}})
		if m := k.initialize("2025-11-25", "{}"); at(m, "result", "capabilities", "resources", "subscribe") != true {
			t.Errorf("capabilities %v", m)
		}
		ask := func(method, uri string) map[string]any {
			k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/%s","params":{"uri":%q}}`, method, uri))
			return k.next()
		}
		for _, bad := range []string{"file:///etc/passwd", fileURI(name) + "x", "ftp://x"} {
			if m := ask("subscribe", bad); at(m, "error", "code") != -32602.0 {
				t.Errorf("%s: %v", bad, m)
			}
		}
		if m := ask("subscribe", fileURI(name)); m["error"] != nil {
			t.Fatalf("subscribe: %v", m)
		}
		if m := ask("subscribe", artifactScheme+"art_1"); m["error"] != nil {
			t.Errorf("artifact: %v", m)
		}
		time.Sleep(3 * pollEvery) // nothing changes, so nothing is told
		for _, change := range []func() error{
			func() error { return os.WriteFile(name, []byte("three"), 0o600) },
			func() error { return os.Remove(name) },
			func() error { return os.WriteFile(name, []byte("four"), 0o600) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if m := k.next(); m["method"] != "notifications/resources/updated" || at(m, "params", "uri") != fileURI(name) {
				t.Errorf("got %v", m)
			}
		}
		if m := ask("unsubscribe", fileURI(name)); m["error"] != nil {
			t.Errorf("unsubscribe: %v", m)
		}
		if err := os.WriteFile(name, []byte("five!"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * pollEvery)
		k.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
		if m := k.next(); m["id"] != 9.0 {
			t.Errorf("after unsubscribe: %v", m)
		}
	})
}
