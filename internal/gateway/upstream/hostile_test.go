package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/tool"
)

// request is what a raw server gets.
type request struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

// raw is a server over pipes that does what a function says. The handshake is
// done, as one of sessions, unless the function wants it.
func raw(t testing.TB, handshake bool, handle func(r request, out io.WriteCloser)) *upstream.Stdio {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer outW.Close()
		lines := bufio.NewReader(inR)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var r request
			if err := json.Unmarshal(line, &r); err != nil {
				t.Errorf("we sent %.200s: %v", line, err)
			}
			switch {
			case handshake && r.Method == "server/discover":
				fmt.Fprintf(outW, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", r.ID)
			case handshake && r.Method == "initialize":
				fmt.Fprintf(outW, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"raw","version":"1"}}}`+"\n", r.ID)
			case handshake && r.Method == "notifications/initialized":
			default:
				handle(r, outW)
			}
		}
	}()
	t.Cleanup(func() { inR.Close(); outW.Close(); <-done })
	return &upstream.Stdio{Stdin: inW, Stdout: outR}
}

func reply(out io.Writer, r request, result string) {
	fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", r.ID, result)
}

func dial(t testing.TB, conf upstream.Config) *upstream.Client {
	t.Helper()
	c, err := upstream.Connect(within(t), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func toolError(t testing.TB, err error, code tool.Code, sent bool) *tool.Error {
	t.Helper()
	e, ok := errors.AsType[*tool.Error](err)
	if !ok {
		t.Fatalf("error %#v, want %s", err, code)
	}
	if e.Code != code || e.Began != sent || e.Details["sent"] != sent {
		t.Errorf("error %s %q, began %t, details %v; want %s, sent %t", e.Code, e.Message, e.Began, e.Details, code, sent)
	}
	return e
}

// TestLossless: what a server sends comes out as it was, and what goes in
// arrives so, but for what is ours in _meta.
func TestLossless(t *testing.T) {
	const result = `{"z":1.50e+3,"a":12345678901234567890123, "unknown":{"b":[null,{"é":"\u00e9\/"}]},"content":[],"_meta":{"x":"y"}}`
	got := make(chan request, 10)
	c := dial(t, upstream.Config{Stdio: raw(t, true, func(r request, out io.WriteCloser) {
		got <- r
		reply(out, r, result)
	})})
	for _, tt := range []struct{ name, params, meta, want string }{
		{"members stay", `{"name":"x","arguments":{"n":9007199254740993,"b":1,"a":2},"later":[1]}`, "", `{"name":"x","arguments":{"n":9007199254740993,"b":1,"a":2},"later":[1]}`},
		{"lines become one", "{\n\"name\": \"a\\nb\"\r\n}", "", `{ "name": "a\nb"  }`},
		{"no params", "", "", ``},
		{"null", "null", "", ``},
		{"meta is kept", `{"a":1}`, `{"k":{"n":1.0}}`, `{"a":1,"_meta":{"k":{"n":1.0}}}`},
		{"meta alone", ``, `{"k":1}`, `{"_meta":{"k":1}}`},
		{"both, the given first", `{"_meta":{"k":1,"l":2},"a":1}`, `{"k":3}`, `{"_meta":{"k":3,"l":2},"a":1}`},
		{"not ours to say", `{"_meta":{"progressToken":7,"io.modelcontextprotocol/logLevel":"debug","k":1}}`, `{"io.modelcontextprotocol/clientInfo":{},"\u0070rogressToken":3}`, `{"_meta":{"k":1}}`},
		{"hidden meta", `{"\u005fmeta":{"progressToken":7}}`, ``, `{"\u005fmeta":{}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := c.Call(within(t), upstream.Request{Method: "m", Params: json.RawMessage(tt.params), Meta: json.RawMessage(tt.meta)})
			if err != nil {
				t.Fatal(err)
			}
			if string(out) != result {
				t.Errorf("result %s", out)
			}
			if r := <-got; string(r.Params) != tt.want {
				t.Errorf("params %s, want %s", r.Params, tt.want)
			}
		})
	}
	for _, bad := range []string{`[]`, `{`, `{"a":1} x`, `{"_meta":{},"_meta":{}}`, `"x"`} {
		if _, err := c.Call(within(t), upstream.Request{Method: "m", Params: json.RawMessage(bad)}); err == nil {
			t.Errorf("params %s were sent", bad)
		}
	}
}

// TestNegotiation: what servers say of versions.
func TestNegotiation(t *testing.T) {
	const initialized = `"result":{"protocolVersion":"2025-06-18","capabilities":{}}`
	for _, tt := range []struct {
		name, discover, initialize string
		version, fault             string
	}{
		{"newest", `"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`, "", "2026-07-28", ""},
		{"both", `"result":{"supportedVersions":["2025-11-25","2026-07-28"]}`, "", "2026-07-28", ""},
		{"a session only", `"result":{"supportedVersions":["2025-06-18"]}`, initialized, "2025-06-18", ""},
		{"does not know discover", `"error":{"code":-32601,"message":"x"}`, initialized, "2025-06-18", ""},
		{"says anything to anything", `"result":{}`, initialized, "2025-06-18", ""},
		{"wrong error", `"error":{"code":-32602,"message":"x"}`, initialized, "2025-06-18", ""},
		{"names its versions", `"error":{"code":-32022,"message":"x","data":{"supported":["2025-06-18"]}}`, initialized, "2025-06-18", ""},
		{"from the future", `"error":{"code":-32022,"message":"x","data":{"supported":["2031-01-01"]}}`, "", "", "2031-01-01, which is none of ours: 2026-07-28"},
		{"from the future, discovered", `"result":{"supportedVersions":["2031-01-01"]}`, "", "", "2031-01-01"},
		{"unknown session", `"error":{"code":-32601,"message":"x"}`, `"result":{"protocolVersion":"1.0"}`, "", "MCP 1.0, which is none of ours"},
		{"no version at all", `"error":{"code":-32601,"message":"x"}`, `"result":{}`, "", "none of ours"},
		{"refuses", `"error":{"code":-32601,"message":"x"}`, `"error":{"code":-32000,"message":"closed today"}`, "", "closed today"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := upstream.Connect(within(t), upstream.Config{Stdio: raw(t, false, func(r request, out io.WriteCloser) {
				switch r.Method {
				case "server/discover":
					fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", r.ID, tt.discover)
				case "initialize":
					fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", r.ID, tt.initialize)
				}
			})})
			if err != nil {
				if tt.fault == "" || !strings.Contains(err.Error(), tt.fault) {
					t.Fatalf("error %v, want %q", err, tt.fault)
				}
				return
			}
			defer c.Close()
			if c.Version() != tt.version || c.Stateless() != (tt.version == "2026-07-28") {
				t.Errorf("version %s, want %s", c.Version(), tt.version)
			}
		})
	}
}

// TestSlowHandshake: servers that do not answer one request, or any.
func TestSlowHandshake(t *testing.T) {
	for _, tt := range []struct {
		name    string
		silent  []string
		session bool
		fault   tool.Code
		within  time.Duration
	}{
		{"ignores discover", []string{"server/discover"}, false, "", 6 * time.Second},
		{"is known to be old", []string{"server/discover"}, true, "", time.Second},
		{"never answers", []string{"server/discover", "initialize"}, false, tool.TimeoutError, 31 * time.Second},
		{"never answers initialize", []string{"initialize"}, true, tool.TimeoutError, 31 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				c, err := upstream.Connect(context.Background(), upstream.Config{Session: tt.session, Stdio: raw(t, false, func(r request, out io.WriteCloser) {
					for _, m := range tt.silent {
						if r.Method == m {
							return
						}
					}
					if r.Method == "initialize" {
						reply(out, r, `{"protocolVersion":"2025-03-26","capabilities":{}}`)
					}
				})})
				if took := time.Since(began); took > tt.within {
					t.Errorf("took %v", took)
				}
				if err == nil {
					c.Close()
				}
				if e := tool.AsError(err); (e == nil) != (tt.fault == "") || e != nil && e.Code != tt.fault {
					t.Errorf("error %v, want %q", err, tt.fault)
				}
			})
		})
	}
}

// TestDeaths: a server that goes away.
func TestDeaths(t *testing.T) {
	t.Run("at the first message", func(t *testing.T) {
		_, err := upstream.Connect(within(t), upstream.Config{Stdio: raw(t, false, func(_ request, out io.WriteCloser) { out.Close() })})
		if e := toolError(t, err, tool.ConnectionError, true); e.Details["probe"] != true {
			t.Errorf("details %v", e.Details)
		}
	})
	t.Run("in the middle of a call", func(t *testing.T) {
		closed := make(chan error, 2)
		c := dial(t, upstream.Config{Closed: func(err error) { closed <- err }, Stdio: raw(t, true, func(r request, out io.WriteCloser) {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"resu`, r.ID)
			out.Close()
		})})
		_, err := c.Call(within(t), upstream.Request{Method: "tools/call"})
		toolError(t, err, tool.ConnectionError, true)
		await(t, "Closed", closed)
		_, err = c.Call(within(t), upstream.Request{Method: "tools/call"})
		toolError(t, err, tool.ConnectionError, false)
		c.Close()
		if len(closed) > 0 {
			t.Error("Closed was called twice")
		}
	})
	t.Run("reads nothing", func(t *testing.T) {
		stuck := make(chan struct{})
		c := dial(t, upstream.Config{Stdio: raw(t, true, func(request, io.WriteCloser) { <-stuck })})
		defer close(stuck)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		big := json.RawMessage(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)
		for range 3 {
			_, err := c.Call(ctx, upstream.Request{Method: "tools/call", Params: big})
			if e := tool.AsError(err); e.Code != tool.TimeoutError {
				t.Errorf("error %v", err)
			}
		}
	})
}

// TestNoise: what a server sends that it should not.
func TestNoise(t *testing.T) {
	line := func(format string, args ...any) func(request, io.WriteCloser) {
		return func(r request, out io.WriteCloser) {
			if r.Method != "tools/call" {
				return
			}
			fmt.Fprintf(out, strings.ReplaceAll(format, "ID", string(r.ID))+"\n", args...)
			reply(out, r, `{"ok":true}`)
		}
	}
	for _, tt := range []struct {
		name   string
		handle func(request, io.WriteCloser)
		want   upstream.Counters
	}{
		{"garbage", line("starting up...\n\n\r\n[1,2\n{}\n{\"jsonrpc\":\"1.0\",\"id\":ID,\"result\":{}}\nnull"), upstream.Counters{Garbage: 5}},
		{"not JSON inside", line(`{"jsonrpc":"2.0","id":ID,"result":{"a":01}}`), upstream.Counters{Garbage: 1}},
		{"twice a member", line(`{"jsonrpc":"2.0","id":ID,"id":ID,"result":{}}`), upstream.Counters{Garbage: 1}},
		{"unknown ids", line(`{"jsonrpc":"2.0","id":99999,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":"ID","result":{}}` + "\n" + `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`), upstream.Counters{Unknown: 3}},
		{"unknown notifications", line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x"}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled"}`), upstream.Counters{}},
		{"a batch", line(`[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":ID,"result":{"ok":true}}]`), upstream.Counters{Unknown: 1}},
		{"a very long line of garbage", func(r request, out io.WriteCloser) {
			io.Copy(out, io.LimitReader(zeros{}, 3<<20))
			line("")(r, out)
		}, upstream.Counters{Garbage: 1, Oversize: 1}},
		{"a very long notification", func(r request, out io.WriteCloser) {
			fmt.Fprint(out, `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"`)
			io.Copy(out, io.LimitReader(zeros{}, 3<<20))
			line(`"}}`)(r, out)
		}, upstream.Counters{Oversize: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, upstream.Config{Stdio: raw(t, true, tt.handle), MaxMessage: 1 << 20})
			result, err := c.Call(within(t), upstream.Request{Method: "tools/call", Params: json.RawMessage(`{}`)})
			if err != nil || string(result) != `{"ok":true}` {
				t.Fatalf("result %s, error %v", result, err)
			}
			if _, err := c.Call(within(t), upstream.Request{Method: "tools/call", Params: json.RawMessage(`{}`)}); err != nil {
				t.Fatal(err)
			}
			got := c.Counters()
			got = upstream.Counters{Garbage: got.Garbage / 2, Unknown: (got.Unknown + 1) / 2, Oversize: got.Oversize / 2, Dropped: got.Dropped}
			if got != tt.want {
				t.Errorf("counters %+v, want %+v", got, tt.want)
			}
		})
	}
	t.Run("broken text", func(t *testing.T) {
		c := dial(t, upstream.Config{Stdio: raw(t, true, func(r request, out io.WriteCloser) { reply(out, r, "{\"a\":\"x\xffy\"}") })})
		result, err := c.Call(within(t), upstream.Request{Method: "m"})
		if err != nil || string(result) != "{\"a\":\"x\uFFFDy\"}" {
			t.Errorf("result %q, error %v", result, err)
		}
	})
}

// zeros is text without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// TestLong: answers above the bound, wherever their id stands, and just below.
func TestLong(t *testing.T) {
	for _, tt := range []struct {
		name, head, tail string
		size, bound      int64
		code             tool.Code // "" is success
		lost             bool      // the connection too
	}{
		{"50 MB", `{"jsonrpc":"2.0","id":ID,"result":{"a":"`, `"}}`, 50 << 20, 0, "", false},
		{"1 GB, id first", `{"jsonrpc":"2.0","id":ID,"result":{"a":"`, `"}}`, 1 << 30, 0, tool.ResourceExhausted, false},
		{"id last", `{"result":{"a":"`, `"},"jsonrpc":"2.0","id":ID}`, 2 << 20, 1 << 20, tool.ResourceExhausted, false},
		{"id nowhere", `{"result":{"a":"`, `"},"jsonrpc":"2.0"}`, 2 << 20, 1 << 20, tool.ConnectionError, true},
		{"garbage without end", `000`, ``, 65 << 20, 4 << 20, tool.ConnectionError, true},
		{"a line without end", `{"jsonrpc":"2.0","id":ID,"result":{"a":"`, `"}}`, 1 << 40, 1 << 20, tool.ConnectionError, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dial(t, upstream.Config{Stdio: raw(t, true, func(r request, out io.WriteCloser) {
				if r.Method == "small" {
					reply(out, r, "{}")
					return
				}
				fmt.Fprint(out, strings.ReplaceAll(tt.head, "ID", string(r.ID)))
				io.Copy(out, io.LimitReader(zeros{}, tt.size))
				fmt.Fprintln(out, strings.ReplaceAll(tt.tail, "ID", string(r.ID)))
			}), MaxMessage: tt.bound})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			result, err := c.Call(within(t), upstream.Request{Method: "big"})
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 600<<20 {
				t.Errorf("%d MiB allocated", used>>20)
			}
			if tt.code == "" {
				if err != nil || int64(len(result)) != tt.size+8 {
					t.Fatalf("%d bytes, error %v", len(result), err)
				}
			} else {
				toolError(t, err, tt.code, true)
			}
			if _, err := c.Call(within(t), upstream.Request{Method: "small"}); (err != nil) != tt.lost {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// TestLate: answers after the caller has gone, and twice.
func TestLate(t *testing.T) {
	var first request
	why := errors.New("the user has gone")
	ctx, cancel := context.WithCancelCause(within(t))
	cancelled := make(chan string, 1)
	c := dial(t, upstream.Config{Stdio: raw(t, true, func(r request, out io.WriteCloser) {
		switch r.Method {
		case "hang":
			first = r
			cancel(why)
		case "notifications/cancelled":
			cancelled <- string(r.Params)
			reply(out, first, `{"late":true}`)
			reply(out, first, `{"later":true}`)
		default:
			reply(out, r, `{"ok":true}`)
			reply(out, r, `{"ok":false}`)
		}
	})})
	_, err := c.Call(ctx, upstream.Request{Method: "hang"})
	if e := toolError(t, err, tool.Cancelled, true); !errors.Is(e, why) {
		t.Errorf("cause of %v", e)
	}
	if got := await(t, "notifications/cancelled", cancelled); !strings.Contains(got, `"requestId":`+string(first.ID)) || !strings.Contains(got, "the user has gone") {
		t.Errorf("cancelled %s", got)
	}
	for range 2 {
		result, err := c.Call(within(t), upstream.Request{Method: "m"})
		if err != nil || string(result) != `{"ok":true}` {
			t.Errorf("result %s, error %v", result, err)
		}
	}
}

// TestQuestions: a question of the server reaches the client that it is of, or
// nobody.
func TestQuestions(t *testing.T) {
	type inFlight struct {
		client any
		ask    string // "" cannot be asked
	}
	for _, tt := range []struct {
		name  string
		calls []inFlight
		gone  []inFlight // cancelled while the server is at it
		want  string
	}{
		{"one", []inFlight{{"a", "a1"}}, nil, "a1"},
		{"one without a mark", []inFlight{{nil, "x"}}, nil, "x"},
		{"two of one client: the newest", []inFlight{{"a", "a1"}, {"a", "a2"}}, nil, "a2"},
		{"two of one, the newest cannot be asked", []inFlight{{"a", "a1"}, {"a", ""}}, nil, "a1"},
		{"two clients", []inFlight{{"a", "a1"}, {"b", "b1"}}, nil, "refused"},
		{"two without marks", []inFlight{{nil, "x"}, {nil, "y"}}, nil, "refused"},
		{"one marked, one not", []inFlight{{"a", "a1"}, {nil, "y"}}, nil, "refused"},
		{"marks that cannot be compared", []inFlight{{[]int{1}, "x"}, {[]int{1}, "y"}}, nil, "refused"},
		{"another that cannot be asked", []inFlight{{"a", "a1"}, {"b", ""}}, nil, "refused"},
		{"beside one of our own", []inFlight{{"a", "a1"}, {nil, ""}}, nil, "a1"},
		{"none", []inFlight{{nil, ""}}, nil, "refused"},
		{"after a cancelled one of another", []inFlight{{"a", "a1"}}, []inFlight{{"b", "b1"}}, "refused"},
		{"after a cancelled one of the same", []inFlight{{"a", "a1"}}, []inFlight{{"a", "a0"}}, "a1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			arrived, answers := make(chan struct{}, 10), make(chan string, 1)
			var held []request
			c := dial(t, upstream.Config{Stdio: raw(t, true, func(r request, out io.WriteCloser) {
				switch {
				case r.Method == "hold":
					held = append(held, r)
					arrived <- struct{}{}
				case r.Method == "now":
					reply(out, r, "{}")
					fmt.Fprintln(out, `{"jsonrpc":"2.0","id":"q-1","method":"roots/list","params":{}}`)
				case r.Method == "":
					answers <- string(r.Result) + string(r.Error)
					for _, h := range held {
						reply(out, h, "{}")
					}
				}
			}), Request: func(context.Context, string, json.RawMessage) (json.RawMessage, *upstream.Error) {
				return nil, &upstream.Error{Code: -1, Message: "refused"}
			}})
			ended := make(chan struct{}, 10)
			start := func(ctx context.Context, f inFlight) {
				r := upstream.Request{Method: "hold", Client: f.client}
				if f.ask != "" {
					r.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, *upstream.Error) {
						return json.RawMessage(`"` + f.ask + `"`), nil
					}
				}
				go func() { _, _ = c.Call(ctx, r); ended <- struct{}{} }()
				await(t, "the call", arrived)
			}
			for _, f := range tt.gone {
				ctx, cancel := context.WithCancel(within(t))
				start(ctx, f)
				cancel()
				await(t, "the end of a call", ended)
			}
			for _, f := range tt.calls {
				start(within(t), f)
			}
			if _, err := c.Call(within(t), upstream.Request{Method: "now"}); err != nil {
				t.Fatal(err)
			}
			if got := await(t, "the answer", answers); !strings.Contains(got, tt.want) {
				t.Errorf("answer %s, want %s", got, tt.want)
			}
		})
	}
}

// TestQuestionTakenBack: the server no longer wants to know, or the call has
// ended.
func TestQuestionTakenBack(t *testing.T) {
	asked, stopped := make(chan struct{}, 1), make(chan struct{}, 1)
	var call request
	var out io.Writer
	c := dial(t, upstream.Config{Stdio: raw(t, true, func(r request, w io.WriteCloser) {
		switch r.Method {
		case "back", "end":
			call, out = r, w
			fmt.Fprintln(w, `{"jsonrpc":"2.0","id":7.5,"method":"elicitation/create","params":{}}`)
		case "":
			if call.Method == "end" {
				return // the call has ended, not the question
			}
			t.Errorf("an answer to what was taken back: %s %s", r.Result, r.Error)
		}
	})})
	for _, method := range []string{"back", "end"} {
		go func() {
			await(t, "the question", asked)
			if method == "back" {
				fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7.5}}`)
				await(t, "the end of the question", stopped)
			}
			reply(out, call, "{}")
		}()
		_, err := c.Call(within(t), upstream.Request{Method: method, Ask: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, *upstream.Error) {
			asked <- struct{}{}
			<-ctx.Done()
			stopped <- struct{}{}
			return nil, &upstream.Error{Code: 1, Message: "x"}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if method == "end" {
			await(t, "the end of the question", stopped)
		}
	}
}

// TestFloods: many notifications lose the oldest idle ones, never a result.
func TestFloods(t *testing.T) {
	const n = 5000
	notes, hold := make(chan string, 2*n), make(chan struct{})
	first := true
	c := dial(t, upstream.Config{
		Notification: func(method string, _ json.RawMessage) {
			if first {
				<-hold
				first = false
			}
			notes <- method
		},
		Stdio: raw(t, true, func(r request, out io.WriteCloser) {
			if r.Method != "m" {
				return // an answer to a ping
			}
			w := bufio.NewWriter(out)
			fmt.Fprintln(w, `{"jsonrpc":"2.0","method":"notifications/first"}`)
			for i := range n {
				fmt.Fprintf(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"i":%d}}`+"\n", i)
				fmt.Fprintln(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":"p%d","method":"ping"}`+"\n", i)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`+"\n", r.Params[len(`{"_meta":{"progressToken":`):len(r.Params)-2], i)
			}
			w.Flush()
			reply(out, r, `{"ok":true}`)
		}),
	})
	last := ""
	result, err := c.Call(within(t), upstream.Request{Method: "m", Progress: func(p json.RawMessage) { last = string(p) }})
	if err != nil || string(result) != `{"ok":true}` {
		t.Fatalf("result %s, error %v", result, err)
	}
	if !strings.Contains(last, fmt.Sprintf(`"progress":%d`, n-1)) {
		t.Errorf("the last progress was %s", last)
	}
	if c.Counters().Dropped == 0 {
		t.Error("nothing was dropped")
	}
	close(hold)
	for changed := false; !changed; {
		changed = await(t, "list_changed", notes) == "notifications/tools/list_changed"
	}
}

// TestInFlight: one call too many is refused.
func TestInFlight(t *testing.T) {
	c := dial(t, upstream.Config{Stdio: raw(t, true, func(request, io.WriteCloser) {})})
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan struct{}, 1024)
	for range 1024 {
		go func() { _, _ = c.Call(ctx, upstream.Request{Method: "m"}); done <- struct{}{} }()
	}
	for deadline := time.Now().Add(patience); c.InFlight() < 1024; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the calls are not in flight")
		}
	}
	_, err := c.Call(ctx, upstream.Request{Method: "m"})
	toolError(t, err, tool.QueueFull, false)
	cancel()
	for range 1024 {
		await(t, "the end of a call", done)
	}
}

// TestNothingLeft: no goroutine of ours is left after Close, whatever went on.
func TestNothingLeft(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			p := newPeer(tr.eras[0])
			conf := tr.connect(t, p)
			t.Cleanup(func() { close(p.stop) })
			c, err := upstream.Connect(within(t), conf)
			if err != nil {
				t.Fatal(err)
			}
			failed := make(chan error, 3)
			for range 3 {
				go func() {
					_, err := c.Call(within(t), upstream.Request{Method: "tools/call", Params: params("block", "{}")})
					failed <- err
				}()
				await(t, "the call", p.blocked)
			}
			if c.Stateless() {
				if _, err := c.Listen(within(t), upstream.Subscriptions{Tools: true}); err != nil {
					t.Fatal(err)
				}
			}
			c.Close()
			c.Close()
			for range 3 {
				toolError(t, await(t, "the end of a call", failed), tool.ConnectionError, true)
			}
			var stacks []byte
			for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
				stacks = make([]byte, 4<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				if !bytes.Contains(stacks, []byte("gateway/upstream.(")) {
					return
				}
			}
			t.Errorf("left:\n%s", stacks)
		})
	}
}
