package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

func TestClientThatVanishesCancelsItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, ended := make(chan struct{}, 3), make(chan error, 3)
		k := dial(t, Config{Executor: &calls{f: until(started, ended)}})
		k.initialize("2025-11-25", "{}")
		for id := range 3 {
			k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo"}}`, id+1))
			<-started
		}
		go func() { _, _ = io.Copy(io.Discard, k.out) }()
		begin := time.Now()
		_ = k.in.Close()
		for range 3 {
			if err := <-ended; !errors.Is(err, errGone) {
				t.Errorf("a call ended because of %v", err)
			}
		}
		if err := <-k.done; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %v", took)
		}
		k.done <- nil
	})
}

func TestAnswersOfAClientThatSendsAndCloses(t *testing.T) {
	k := dial(t, Config{Executor: &calls{f: echo}})
	k.send(fmt.Sprintf(hello, "2025-11-25", "{}"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	go func() {
		_, _ = io.WriteString(k.in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`) // no newline
		_ = k.in.Close()
	}()
	got := map[any]bool{}
	for range 3 {
		got[k.next()["id"]] = true
	}
	if !got[0.0] || !got[1.0] || !got[2.0] {
		t.Errorf("answers to %v", got)
	}
}

func TestServeReturnsThoughACallDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, release := make(chan struct{}), make(chan struct{})
		k := dial(t, Config{Executor: &calls{f: func(context.Context, executor.Call) *tool.Result {
			close(started)
			<-release
			return tool.Text("late")
		}}})
		k.initialize("2025-11-25", "{}")
		k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
		<-started
		begin := time.Now()
		_ = k.in.Close()
		if err := <-k.done; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		if took := time.Since(begin); took != drainGrace+drainLimit {
			t.Errorf("it took %v, want %v", took, drainGrace+drainLimit)
		}
		close(release)
		k.done <- nil
	})
}

// broken is a stream whose other end has gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestClientThatCannotBeWrittenTo(t *testing.T) {
	s := New(Config{Executor: &calls{f: echo}, Catalog: &catalog{}})
	defer s.Close(t.Context())
	in, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.ServeStdio(t.Context(), in, broken{}) }()
	go func() { _, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n") }()
	if err := <-done; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("ServeStdio: %v, want the error of the stream", err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	s := New(Config{Executor: &calls{f: echo}, Catalog: &catalog{}})
	defer s.Close(t.Context())
	in, _ := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.ServeStdio(ctx, in, io.Discard) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ServeStdio: %v, want nil: this is an ordinary end", err)
	}
}

// repeat reads as a pattern n times.
type repeat struct{ left int }

func (r *repeat) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	r.left -= n
	return n, nil
}

func TestMessageOf100MBIsRefusedWithoutBeingHeld(t *testing.T) {
	k := dial(t, Config{Executor: &calls{f: echo}})
	k.initialize("2025-11-25", "{}")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		_, _ = io.Copy(k.in, io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"name":"echo","arguments":{"text":"`),
			&repeat{100 << 20}, strings.NewReader("\"}}}\n"), strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n")))
	}()
	m := k.next()
	runtime.ReadMemStats(&after)
	if m["id"] != "big" || at(m, "error", "code") != -32600.0 || !strings.Contains(at(m, "error", "message").(string), "longer than 20971520 bytes") {
		t.Errorf("got %v", m)
	}
	if held := after.HeapSys - before.HeapSys; int64(held) > 64<<20 {
		t.Errorf("the heap grew by %d MiB", held>>20)
	}
	if m := k.next(); m["id"] != 2.0 {
		t.Errorf("after it: %v", m)
	}
}

func TestProgressAtMostFourASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := dial(t, Config{Executor: &calls{f: func(_ context.Context, c executor.Call) *tool.Result {
			for i := range 100 {
				time.Sleep(20 * time.Millisecond)
				c.OnEvent(tool.Event{Type: tool.EventCallProgress, Data: map[string]any{"progress": float64(i + 1), "total": 100.0, "message": fmt.Sprint("step ", i+1)}})
			}
			return tool.Text("done")
		}}})
		k.initialize("2025-11-25", "{}")
		k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":"p"}}}`)
		var at0, last float64
		n := 0
		for {
			m := k.next()
			if m["method"] != "notifications/progress" {
				if text(m) != "done" {
					t.Errorf("got %v", m)
				}
				break
			}
			value := at(m, "params", "progress").(float64)
			if at(m, "params", "progressToken") != "p" || value <= last || at(m, "params", "message") != fmt.Sprint("step ", value) {
				t.Errorf("progress after %v: %v", last, m)
			}
			if n == 0 {
				at0 = value
			}
			last = value
			n++
		}
		// 2 s of work: four in each second.
		if n < 7 || n > 9 || at0 != 1 {
			t.Errorf("%d notifications, the first at %v", n, at0)
		}
	})
}

func TestProgressFromOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := dial(t, Config{Executor: &calls{f: func(_ context.Context, c executor.Call) *tool.Result {
			for _, line := range []string{"compiling\n", "testing\nok  \n\n", ""} {
				c.OnEvent(tool.Event{Type: tool.EventCallOutput, Data: map[string]any{"stream": "stdout", "text": line}})
				time.Sleep(time.Second)
			}
			return tool.Text("done")
		}}})
		k.initialize("2025-11-25", "{}")
		k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":5}}}`)
		for _, want := range []string{"compiling", "ok"} {
			if m := k.next(); at(m, "params", "message") != want || at(m, "params", "progressToken") != 5.0 {
				t.Errorf("got %v, want %q", m, want)
			}
		}
		if m := k.next(); text(m) != "done" {
			t.Errorf("got %v", m)
		}
	})
}

func TestListChangedIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &catalog{specs: []*tool.Spec{spec("a")}}
		k := dial(t, Config{Executor: &calls{f: echo}, Catalog: c})
		k.initialize("2025-11-25", "{}")
		synctest.Wait()
		for i := range 5 {
			c.set(spec("a"), spec(fmt.Sprint("b", i)))
		}
		if m := k.next(); m["method"] != "notifications/tools/list_changed" {
			t.Fatalf("got %v", m)
		}
		k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		m := k.next()
		tools, _ := at(m, "result", "tools").([]any)
		if len(tools) != 2 || at(tools[1], "name") != "b4" {
			t.Errorf("after the change: %v", m)
		}
	})
}

func question() tool.Question {
	return tool.Question{Kind: "permission", Title: "Run this?", Text: "git push", Default: "reject",
		Options: []tool.Option{{ID: "once", Label: "Once"}, {ID: "always", Label: "Always", Description: "bash(git push)"}, {ID: "reject", Label: "Reject"}}}
}

func TestElicitation(t *testing.T) {
	asks := func(ctx context.Context, c executor.Call) *tool.Result {
		if c.Asker == nil {
			return tool.Text("nobody")
		}
		a, err := c.Asker.Ask(ctx, question())
		if err != nil {
			return tool.Text("error: " + err.Error())
		}
		return tool.Text(a.Option + "/" + a.Text)
	}
	tests := []struct{ name, capabilities, answer, want string }{
		{"no capability", `{}`, "", "nobody"},
		{"only by URL", `{"elicitation":{"url":{}}}`, "", "nobody"},
		{"once", `{"elicitation":{}}`, `"result":{"action":"accept","content":{"answer":"once","text":"fine"}}`, "once/fine"},
		{"always", `{"elicitation":{"form":{}}}`, `"result":{"action":"accept","content":{"answer":"always"}}`, "always/"},
		{"decline", `{"elicitation":{}}`, `"result":{"action":"decline"}`, "reject/the person chose decline"},
		{"cancel", `{"elicitation":{}}`, `"result":{"action":"cancel"}`, "reject/the person chose cancel"},
		{"not an option", `{"elicitation":{}}`, `"result":{"action":"accept","content":{"answer":"never"}}`, "error: "},
		{"client fails", `{"elicitation":{}}`, `"error":{"code":-32603,"message":"no screen"}`, "error: nobody can be asked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := dial(t, Config{Executor: &calls{f: asks}})
			k.initialize("2025-11-25", tt.capabilities)
			k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
			m := k.next()
			if tt.answer != "" {
				if m["method"] != "elicitation/create" || at(m, "params", "message") != "Run this?\n\ngit push" {
					t.Fatalf("got %v", m)
				}
				choice := at(m, "params", "requestedSchema", "properties", "answer")
				if fmt.Sprint(at(choice, "enum")) != "[once always reject]" || at(choice, "default") != "reject" {
					t.Errorf("form %v", choice)
				}
				k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,%s}`, m["id"], tt.answer))
				m = k.next()
			}
			for again := 1; m["method"] != nil; again++ { // the answer did not fit
				if said, _ := at(m, "params", "message").(string); !strings.Contains(said, "The last answer did not fit") || again > maxAgain {
					t.Fatalf("asked again: %v", m)
				}
				k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,%s}`, m["id"], tt.answer))
				m = k.next()
			}
			if got := text(m); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSecretsAreNotAskedForInAForm(t *testing.T) {
	k := dial(t, Config{Executor: &calls{f: func(ctx context.Context, c executor.Call) *tool.Result {
		_, err := c.Asker.Ask(ctx, tool.Question{Kind: "env", Title: "API key?"})
		return tool.Text(fmt.Sprint(errors.Is(err, tool.ErrNoChannel)))
	}}})
	k.initialize("2025-11-25", `{"elicitation":{}}`)
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
	if m := k.next(); text(m) != "true" {
		t.Errorf("got %v", m)
	}
}

func TestProgressWhileAPersonThinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := dial(t, Config{Executor: &calls{f: func(ctx context.Context, c executor.Call) *tool.Result {
			a, err := c.Asker.Ask(ctx, question())
			return tool.Text(fmt.Sprint(a.Option, err))
		}}})
		k.initialize("2025-11-25", `{"elicitation":{}}`)
		k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":1}}}`)
		begin := time.Now()
		var form any
		var told []time.Duration
		for len(told) < 4 || form == nil {
			switch m := k.next(); m["method"] {
			case "elicitation/create":
				form = m["id"]
			case "notifications/progress":
				told = append(told, time.Since(begin).Round(time.Second))
			default:
				t.Fatalf("got %v", m)
			}
		}
		if want := "[0s 10s 20s 30s]"; fmt.Sprint(told) != want {
			t.Errorf("told at %v, want %s", told, want)
		}
		k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"answer":"once"}}}`, form))
		if m := k.next(); text(m) != "once<nil>" {
			t.Errorf("got %v", m)
		}
	})
}

func TestElicitationEndsWithTheCall(t *testing.T) {
	ended := make(chan error, 1)
	k := dial(t, Config{Executor: &calls{f: func(ctx context.Context, c executor.Call) *tool.Result {
		_, err := c.Asker.Ask(ctx, question())
		ended <- err
		return tool.Text("")
	}}})
	k.initialize("2025-11-25", `{"elicitation":{}}`)
	k.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
	k.next()
	k.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	go func() { _, _ = io.Copy(io.Discard, k.out) }() // the form is withdrawn
	if err := <-ended; !errors.Is(err, errCancelled) {
		t.Errorf("Ask: %v", err)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("y", 200<<10)
	r := newLineReader(strings.NewReader("a\r\n\n  \n"+long+"\nb\n"+strings.Repeat("z", 500<<10)+"\nlast"), 300<<10)
	want := []struct {
		line string
		err  error
	}{{"a", nil}, {long, nil}, {"b", nil}, {strings.Repeat("z", headKept), errFrameTooLong}, {"last", nil}, {"", io.EOF}}
	for _, w := range want {
		line, err := r.next()
		if string(line) != w.line || !errors.Is(err, w.err) {
			t.Fatalf("line of %d bytes, %v; want %d bytes, %v", len(line), err, len(w.line), w.err)
		}
	}
}

func TestLinesOfManyWritersStayWhole(t *testing.T) {
	r, w := io.Pipe()
	out := &lineWriter{w: w}
	const writers, each = 16, 50
	for i := range writers {
		go func() {
			for range each {
				_ = out.write([]byte(strings.Repeat(string(rune('a'+i)), 100)))
			}
		}()
	}
	scanner := bufio.NewScanner(r)
	for range writers * each {
		if !scanner.Scan() {
			t.Fatal(scanner.Err())
		}
		if line := scanner.Text(); len(line) != 100 || strings.Trim(line, line[:1]) != "" {
			t.Fatalf("line %q", line)
		}
	}
}

// TestFirstAnswerDoesNotWait: initialize is answered while the tools that are
// known at the start are still being looked for; the first list has them.
func TestFirstAnswerDoesNotWait(t *testing.T) {
	found := make(chan struct{})
	k := dial(t, Config{Executor: &calls{f: echo}, Settled: func(ctx context.Context) {
		select {
		case <-found:
		case <-ctx.Done():
		}
	}})
	k.send(fmt.Sprintf(hello, "2025-11-25", "{}"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	for _, want := range []any{0.0, 2.0} {
		if m := k.next(); m["id"] != want {
			t.Fatalf("got %v, want the answer to %v", m, want)
		}
	}
	close(found)
	if m := k.next(); m["id"] != 1.0 || m["result"] == nil {
		t.Errorf("got %v, want the list", m)
	}
}
