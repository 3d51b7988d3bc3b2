package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// asking is a server whose one tool hands its connection to a function.
func asking(t *testing.T, f func(ctx context.Context, c *connection) string) *conn {
	t.Helper()
	var k *conn
	k = dial(t, Config{Executor: &calls{f: func(ctx context.Context, _ executor.Call) *tool.Result {
		k.s.mu.Lock()
		var c *connection
		for _, sess := range k.s.bySDK {
			c = sess.conn
		}
		k.s.mu.Unlock()
		return tool.Text(f(ctx, c))
	}}})
	k.initialize("2025-11-25", "{}")
	return k
}

const callOne = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`

func TestRequestToTheClient(t *testing.T) {
	ask := func(ctx context.Context, c *connection) string {
		result, err := c.request(ctx, "sampling/createMessage", []byte(`{"maxTokens":5}`))
		var refused *clientError
		if errors.As(err, &refused) {
			return fmt.Sprintf("refused %d %s %s", refused.code, refused.message, refused.data)
		}
		return fmt.Sprint(string(result), err)
	}
	for _, tt := range []struct{ name, answer, want string }{
		{"a result", `"result":{"unknown":{"kept":[1]}}`, `{"unknown":{"kept":[1]}}<nil>`},
		{"an error", `"error":{"code":-1,"message":"no","data":{"a":1}}`, `refused -1 no {"a":1}`},
		{"an error that is none", `"error":7`, `refused -32603 the client answered with an error that is not one `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := asking(t, ask)
			k.send(callOne)
			m := k.next()
			id, _ := m["id"].(string)
			if m["method"] != "sampling/createMessage" || at(m, "params", "maxTokens") != 5.0 || !strings.HasPrefix(id, ownID) {
				t.Fatalf("the client is asked %v", m)
			}
			// Answers to what was never asked are for nobody.
			k.send(`{"jsonrpc":"2.0","id":"toolyard-99","result":{}}`, `{"jsonrpc":"2.0","id":99,"result":{}}`)
			k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,%s}`, id, tt.answer))
			if got := text(k.next()); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,%s}`, id, tt.answer), `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
			if m := k.next(); m["id"] != 2.0 {
				t.Errorf("after a second answer: %v", m)
			}
		})
	}
}

func TestRequestToTheClientIsWithdrawn(t *testing.T) {
	why := errors.New("somebody else answered")
	stop := make(chan struct{})
	k := asking(t, func(ctx context.Context, c *connection) string {
		ctx, cancel := context.WithCancelCause(ctx)
		go func() { <-stop; cancel(why) }()
		_, err := c.request(ctx, "elicitation/create", nil)
		if n := len(c.asked.open); n != 0 {
			return fmt.Sprint(n, " requests are still open")
		}
		return err.Error()
	})
	k.send(callOne)
	id := k.next()["id"]
	close(stop)
	if m := k.next(); m["method"] != "notifications/cancelled" || at(m, "params", "requestId") != id {
		t.Errorf("the question is withdrawn with %v", m)
	}
	if got := text(k.next()); got != why.Error() {
		t.Errorf("request: %s", got)
	}
}

func TestRequestsToTheClientAreBounded(t *testing.T) {
	k := asking(t, func(ctx context.Context, c *connection) string {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		errs := make(chan error)
		for range maxAsked + 3 {
			go func() {
				_, err := c.request(ctx, "roots/list", nil)
				errs <- err
			}()
		}
		for range 3 {
			var refused *clientError
			if err := <-errs; !errors.As(err, &refused) || refused.code != codeBusy {
				return fmt.Sprint("one too many: ", err)
			}
		}
		cancel()
		for range maxAsked {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				return fmt.Sprint("cancelled: ", err)
			}
		}
		return "fine"
	})
	k.send(callOne)
	for range 2 * maxAsked {
		if m := k.next(); m["method"] != "roots/list" && m["method"] != "notifications/cancelled" {
			t.Fatalf("got %v", m)
		}
	}
	if got := text(k.next()); got != "fine" {
		t.Error(got)
	}
}

func TestRequestToAClientThatGoes(t *testing.T) {
	ended := make(chan error, 1)
	k := asking(t, func(ctx context.Context, c *connection) string {
		_, err := c.request(ctx, "elicitation/create", nil)
		ended <- err
		return ""
	})
	k.send(callOne)
	k.next()
	_ = k.in.Close()
	if err := <-ended; !errors.Is(err, errGone) {
		t.Errorf("request: %v", err)
	}
	k.next() // the call itself is answered still
}
