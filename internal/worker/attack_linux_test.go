package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/worker"
)

// TestAttacks: what a tool does to its worker is no other session's business, and
// its next call is none the wiser, or has a new worker.
func TestAttacks(t *testing.T) {
	s := box(t)
	languages()[0].need(t)
	mine, theirs := config(t, s, worker.Node{}, "attack.mjs"), config(t, s, worker.Node{}, "attack.mjs")
	mine.Max, theirs.Max = 1, 1
	mine.Ping = 20 * time.Millisecond // so that what is wrong is noticed while nobody calls
	theirs.Env = append(theirs.Env, "SESSION=theirs")
	other := open(t, theirs)
	untouched := value(t, other, "look", "null")
	for _, c := range []struct {
		name, function string
		wants          string // what the call gives; "" is an error
		stolen         bool   // the tool tries to learn the nonce
	}{
		{"leave something", "leave", `{"left":"left","file":true,"env":"left","dir":"/tmp"}`, false},
		{"a setter for the nonce", "setter", "1", true},
		{"a method that makes JSON", "json", "1", true},
		{"another stringify", "stringify", "1", true},
		{"other methods of buffers", "buffers", "1", true},
		{"another way to write", "files", "1", true},
		{"other globals", "globals", "1", false},
		{"forged results after the result", "lateForged", "1", false},
		{"a giant frame after the result", "lateHuge", "1", false},
		{"another file as descriptor 3 after the result", "lateSilence", "1", false},
		{"a loop after the result", "lateLoop", "1", false},
		{"a deep result", "deep", "", false},
		{"another file as descriptor 3", "reuse", "", false},
		{"requests that nobody expects", "unasked", "1", false},
		{"others' processes", "neighbours", "[]", false},
		{"kill others", "killAll", "", false},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			before, err := call(t, other, worker.Call{Name: "echo", Args: json.RawMessage("1")})
			if err != nil {
				t.Fatal(err)
			}
			p := open(t, mine)
			r, err := call(t, p, worker.Call{
				Name: c.function, Args: json.RawMessage(fmt.Sprintf(`{"pid":%d}`, before.PID)), Limits: worker.Limits{Wall: 5 * time.Second},
			})
			switch {
			case err != nil && c.wants != "":
				t.Fatalf("%s %s %v", err.Code, err.Message, err.Details)
			case err == nil && string(r.Value) != c.wants:
				t.Errorf("got %.200s, want %q", r.Value, c.wants)
			}
			if strings.HasPrefix(c.function, "late") {
				until(t, "the worker is replaced", func() bool {
					_, err := os.Stat(fmt.Sprintf("/proc/%d", r.PID))
					return err != nil
				})
			}
			for range 3 {
				if got := value(t, p, "echo", `{"a":[1,"x"]}`); got != `{"a":[1,"x"]}` {
					t.Errorf("the next call got %.200s", got)
				}
			}
			if got := value(t, p, "stolen", "null"); c.stolen && got != "null" {
				t.Errorf("it has got hold of %.200s", got)
			}
			if err := unix.Kill(before.PID, 0); err != nil {
				t.Errorf("another session's worker is gone: %v", err)
			}
			if got := value(t, other, "look", "null"); got != untouched {
				t.Errorf("another session sees %s, want %s", got, untouched)
			}
		})
	}
	// What is looked for above is there to be found by those whose it is.
	if got := value(t, other, "neighbours", "null"); got == "[]" {
		t.Error("a session does not find itself")
	}
}

// TestPolluted: what a tool adds to all objects changes its own results at most.
func TestPolluted(t *testing.T) {
	s := box(t)
	languages()[0].need(t)
	c := config(t, s, worker.Node{}, "attack.mjs")
	c.Max = 1
	p := open(t, c)
	if got := value(t, p, "pollute", "null"); got != `"polluted"` {
		t.Errorf("got %s", got)
	}
	if _, err := call(t, p, worker.Call{Name: "outside"}); err == nil || !strings.Contains(err.Message, "no such file") {
		t.Errorf("got %v, want its own error", err)
	}
	answer := func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage("1"), nil
	}
	r, err := call(t, p, worker.Call{Name: "ask", OnRequest: answer})
	if err != nil || string(r.Value) != "1" {
		t.Errorf("got %v, %v, want its answer", r, err)
	}
}
