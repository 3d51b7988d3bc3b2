package toolyard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/sqlite"
	"github.com/toolyard/toolyard/tool"
)

// client speaks MCP with a yard, line by line.
type client struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
	end chan error
}

func serve(t *testing.T, yard *toolyard.Toolyard) *client {
	t.Helper()
	in, theirs := io.Pipe()
	ours, out := io.Pipe()
	c := &client{t: t, in: theirs, out: bufio.NewReader(ours), end: make(chan error, 1)}
	go func() { c.end <- yard.ServeMCP(t.Context(), in, out); out.Close() }()
	t.Cleanup(func() {
		theirs.Close()
		if err := <-c.end; err != nil {
			t.Errorf("ServeMCP: %v", err)
		}
	})
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	c.answer(0)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads up to the answer to a request.
func (c *client) answer(id int) string {
	c.t.Helper()
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			c.t.Fatal(err)
		}
		var m struct{ ID *int }
		if json.Unmarshal([]byte(line), &m) == nil && m.ID != nil && *m.ID == id {
			return line
		}
	}
}

func (c *client) call(id int, name, arguments string) {
	c.t.Helper()
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, arguments))
}

// TestRecordOpensLater: initialize and the list do not wait for the record; a
// call does, and finds the rules that were saved in it.
func TestRecordOpensLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := db.PutRule(t.Context(), store.Rule{Action: "deny", Rule: "read(secret.txt)", Scope: "user", Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	opened := make(chan struct{})
	yard, _ := open(t, map[string]string{"a.txt": "hello\n", "secret.txt": "x\n"}, func(c *toolyard.Config) {
		c.Store = db
		c.Opened = func(ctx context.Context) error {
			select {
			case <-opened:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	c := serve(t, yard)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if list := c.answer(1); !strings.Contains(list, `"name":"read"`) {
		t.Errorf("tools/list without the record: %s", list)
	}
	c.call(2, "read", `{"file_path":"secret.txt"}`)
	c.call(3, "read", `{"file_path":"a.txt"}`)
	c.send(`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
	c.answer(4) // neither call has been answered
	close(opened)
	for range 2 {
		line, err := c.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.Contains(line, `"id":2`) && !strings.Contains(line, string(tool.PermissionDenied)):
			t.Errorf("a saved rule was not known to the first call: %s", line)
		case strings.Contains(line, `"id":3`) && !strings.Contains(line, "hello"):
			t.Errorf("read: %s", line)
		}
	}
}

// TestRecordCannotBeOpened: the client is told by each call.
func TestRecordCannotBeOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, []byte("a text that is longer than the head of a database would be, and says so at some length"), 0o600); err != nil {
		t.Fatal(err)
	}
	db := sqlite.OpenInBackground(path)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	yard, _ := open(t, map[string]string{"a.txt": "hello\n"}, func(c *toolyard.Config) { c.Store, c.Opened = db, db.Opened })
	c := serve(t, yard)
	c.call(1, "read", `{"file_path":"a.txt"}`)
	if got := c.answer(1); !strings.Contains(got, string(tool.DependencyError)) || !strings.Contains(got, "is not a toolyard database") {
		t.Errorf("read without a record: %s", got)
	}
	if r := call(t, yard, "read", map[string]any{"file_path": "a.txt"}); !r.IsError || r.Err.Code != tool.DependencyError {
		t.Errorf("Call without a record: %+v", r.Err)
	}
}
