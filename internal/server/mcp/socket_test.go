package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// socketServer serves WebSockets until the test ends.
func socketServer(t *testing.T, c Config, o SocketOptions) (*Server, *httptest.Server) {
	t.Helper()
	if c.Catalog == nil {
		c.Catalog = &catalog{specs: []*tool.Spec{spec("echo")}}
	}
	s := New(c)
	front := httptest.NewServer(s.Socket(o))
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		front.Close()
	})
	return s, front
}

// wsConn is the client's end of a WebSocket.
type wsConn struct {
	t  *testing.T
	ws *websocket.Conn
}

func dialSocket(t *testing.T, front *httptest.Server) *wsConn {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), front.URL, &websocket.DialOptions{Subprotocols: []string{"mcp"}})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &wsConn{t, ws}
}

func (k *wsConn) send(messages ...string) {
	k.t.Helper()
	for _, m := range messages {
		if err := k.ws.Write(k.t.Context(), websocket.MessageText, []byte(m)); err != nil {
			k.t.Fatal(err)
		}
	}
}

func (k *wsConn) read() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, data, err := k.ws.Read(ctx)
	return data, err
}

func (k *wsConn) next() (m map[string]any) {
	k.t.Helper()
	data, err := k.read()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		k.t.Fatalf("%s: %v", data, err)
	}
	return m
}

// closed waits for the end and tells its code.
func (k *wsConn) closed() websocket.CloseError {
	k.t.Helper()
	for {
		if _, err := k.read(); err != nil {
			var end websocket.CloseError
			if !errors.As(err, &end) {
				k.t.Errorf("the end is no close frame: %v", err)
			}
			return end
		}
	}
}

func (k *wsConn) initialize(version string) {
	k.t.Helper()
	k.send(fmt.Sprintf(hello, version, "{}"))
	if m := k.next(); at(m, "result", "protocolVersion") != version {
		k.t.Fatalf("initialize: %v", m)
	}
	k.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func TestSocketOfBothEras(t *testing.T) {
	_, front := socketServer(t, Config{Executor: &calls{f: echo}}, SocketOptions{})
	k := dialSocket(t, front)
	if k.ws.Subprotocol() != "mcp" {
		t.Errorf("subprotocol %q", k.ws.Subprotocol())
	}
	k.initialize("2025-11-25")
	k.send(callOne)
	if m := k.next(); text(m) != "echo" {
		t.Errorf("session era: %v", m)
	}
	k.send(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
	if m := k.next(); m["id"] != 7.0 || m["result"] == nil {
		t.Errorf("tools/list: %v", m)
	}
	other := dialSocket(t, front)
	other.send(fmt.Sprintf(call2026, 1, "2026-07-28", `,"io.modelcontextprotocol/clientCapabilities":{}`))
	if m := other.next(); text(m) == "" || at(m, "result", "resultType") != "complete" {
		t.Errorf("stateless era: %v", m)
	}
	big := strings.Repeat("x", 3<<20)
	other.send(fmt.Sprintf(call2026, 2, "2026-07-28", `,"io.modelcontextprotocol/clientCapabilities":{},"x":"`+big+`"`))
	if m := other.next(); m["id"] != 2.0 {
		t.Errorf("a message of 3 MiB: %v", m)
	}
}

func TestSocketCallsAreConcurrentAndCancelled(t *testing.T) {
	started, ended := make(chan struct{}, 3), make(chan error, 3)
	_, front := socketServer(t, Config{Executor: &calls{f: until(started, ended)}}, SocketOptions{})
	k := dialSocket(t, front)
	k.initialize("2025-11-25")
	for id := range 3 {
		k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo"}}`, id))
	}
	for range 3 {
		<-started
	}
	k.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	if m := k.next(); m["id"] != "p" {
		t.Fatalf("got %v before the ping's answer", m)
	}
	k.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if err := <-ended; !errors.Is(err, errCancelled) {
		t.Errorf("the call ended because of %v", err)
	}
	_ = k.ws.CloseNow()
	for range 2 {
		if err := <-ended; !errors.Is(err, errGone) {
			t.Errorf("a call ended because of %v", err)
		}
	}
}

func TestSocketHandshake(t *testing.T) {
	s, front := socketServer(t, Config{Executor: &calls{f: echo}}, SocketOptions{})
	dial := func(protocols ...string) int {
		ws, r, err := websocket.Dial(t.Context(), front.URL, &websocket.DialOptions{Subprotocols: protocols})
		if err == nil {
			_ = ws.CloseNow()
		}
		if r == nil {
			t.Fatal(err)
		}
		return r.StatusCode
	}
	for _, tt := range []struct {
		name      string
		protocols []string
		want      int
	}{
		{"mcp", []string{"mcp"}, 101}, {"mcp among others", []string{"graphql-ws", "mcp"}, 101},
		{"none", nil, 400}, {"another", []string{"graphql-ws"}, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := dial(tt.protocols...); got != tt.want {
				t.Errorf("status %d, want %d", got, tt.want)
			}
		})
	}
	r, err := http.Get(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("a plain GET: %d", r.StatusCode)
	}
	s.EndStreams()
	if got := dial("mcp"); got != 503 {
		t.Errorf("while the server stops: %d", got)
	}
}

// rawSocket is a client that writes frames as bytes.
type rawSocket struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dialRaw(t *testing.T, front *httptest.Server) *rawSocket {
	t.Helper()
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n")
	k := &rawSocket{t, conn, bufio.NewReader(conn)}
	r, err := http.ReadResponse(k.r, nil)
	if err != nil || r.StatusCode != 101 {
		t.Fatalf("handshake: %v, %v", r, err)
	}
	return k
}

// masked is a frame of a client. Its mask is zero, which changes nothing.
func masked(first byte, payload string) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	return append(append(b, 0, 0, 0, 0), payload...)
}

// next gives the opcode and the payload of the next frame; -1 at the end.
func (k *rawSocket) next() (opcode int, payload []byte) {
	var head [2]byte
	if _, err := io.ReadFull(k.r, head[:]); err != nil {
		return -1, nil
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var b [2]byte
		_, _ = io.ReadFull(k.r, b[:])
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		_, _ = io.ReadFull(k.r, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(k.r, payload); err != nil {
		return -1, nil
	}
	return int(head[0] & 0x0f), payload
}

const rawPing = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestSocketFrames(t *testing.T) {
	const fin, textOp, binaryOp, continued, pingOp = 0x80, 1, 2, 0, 9
	huge := []byte{fin | textOp, 0x80 | 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}
	unmasked := append([]byte{fin | textOp, byte(len(rawPing))}, rawPing...)
	for _, tt := range []struct {
		name  string
		bytes []byte
		code  int    // of the close frame; 0 if there is none
		text  string // in the answer before
	}{
		{"whole", masked(fin|textOp, rawPing), 0, `"result":{}`},
		{"in parts", append(masked(textOp, rawPing[:5]), masked(fin|continued, rawPing[5:])...), 0, `"result":{}`},
		{"a ping between parts", bytes.Join([][]byte{masked(textOp, rawPing[:5]), masked(fin|pingOp, "x"), masked(fin|continued, rawPing[5:])}, nil), 0, `"result":{}`},
		{"garbage", masked(fin|textOp, "\x00\x01{{{"), 0, `"code":-32700`},
		{"empty", masked(fin|textOp, ""), 0, `"code":-32700`},
		{"blank", masked(fin|textOp, " \n"), 0, `"code":-32700`},
		{"cut off", masked(fin|textOp, rawPing[:20]), 0, `cut off at byte 20`},
		{"a batch", masked(fin|textOp, "["+rawPing+"]"), 0, `"code":-32600`},
		{"an id that is none", masked(fin|textOp, `{"jsonrpc":"2.0","id":{},"method":"ping"}`), 0, `"code":-32600`},
		{"an unknown version", masked(fin|textOp, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}}`), 0, `"error"`},
		{"before initialize", masked(fin|textOp, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), 0, `came before initialize`},
		{"binary", masked(fin|binaryOp, rawPing), 1003, ""},
		{"not UTF-8", masked(fin|textOp, "{\"a\":\"\xff\"}"), 1007, ""},
		{"too long", masked(fin|textOp, strings.Repeat(" ", 2000)), 1009, ""},
		{"a length beyond all", append(huge, strings.Repeat(" ", 2000)...), 1009, ""},
		{"a negative length", append([]byte{fin | textOp, 0x80 | 127}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0), 1002, ""},
		{"not masked", unmasked, 1002, ""},
		{"reserved bits", masked(fin|0x40|textOp, rawPing), 1002, ""},
		{"unknown opcode", masked(fin|5, rawPing), 1002, ""},
		{"a part of nothing", masked(fin|continued, rawPing), 1002, ""},
		{"a message within another", append(masked(textOp, rawPing[:5]), masked(fin|textOp, rawPing)...), 1002, ""},
		{"a control frame in parts", masked(pingOp, "x"), 1002, ""},
		{"a long control frame", masked(fin|pingOp, strings.Repeat("x", 200)), 1002, ""},
		{"a close frame that is none", masked(fin|8, "x"), 1002, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, front := socketServer(t, Config{Executor: &calls{f: echo}}, SocketOptions{MaxMessage: 1000})
			k := dialRaw(t, front)
			if _, err := k.conn.Write(tt.bytes); err != nil {
				t.Fatal(err)
			}
			for {
				opcode, payload := k.next()
				switch {
				case opcode == 10: // pong
					continue
				case opcode == 8 && tt.code != 0 && len(payload) >= 2:
					if got := int(binary.BigEndian.Uint16(payload)); got != tt.code {
						t.Errorf("closed with %d %q, want %d", got, payload[2:], tt.code)
					}
				case opcode == 1 && tt.code == 0:
					if !strings.Contains(string(payload), tt.text) {
						t.Errorf("answer %s, want %s in it", payload, tt.text)
					}
					// Whatever it was, the connection lives.
					_, _ = k.conn.Write(masked(fin|textOp, rawPing))
					if opcode, payload := k.next(); opcode != 1 || !strings.Contains(string(payload), `"result":{}`) {
						t.Errorf("after it: frame %d %s", opcode, payload)
					}
				default:
					t.Errorf("frame %d %q, want code %d", opcode, payload, tt.code)
				}
				return
			}
		})
	}
}

func TestSocketBatch(t *testing.T) {
	_, front := socketServer(t, Config{Executor: &calls{f: echo}}, SocketOptions{})
	k := dialSocket(t, front)
	k.initialize("2025-03-26")
	k.send("[" + rawPing + `,{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}]`)
	data, err := k.read()
	var answers []map[string]any
	if err != nil || json.Unmarshal(data, &answers) != nil || len(answers) != 2 {
		t.Errorf("got %s, %v", data, err)
	}
}

// TestSocketThatEndsInTheMiddle leaves nothing behind.
func TestSocketThatEndsInTheMiddle(t *testing.T) {
	s, front := socketServer(t, Config{Executor: &calls{f: echo}}, SocketOptions{})
	for _, cut := range []int{1, 3, 6, 20} {
		k := dialRaw(t, front)
		_, _ = k.conn.Write(masked(0x81, rawPing)[:cut])
		_ = k.conn.Close()
	}
	big := dialRaw(t, front)
	_, _ = big.conn.Write(masked(0x81, strings.Repeat("x", 4<<20))[:3<<20])
	eventually(t, "the large message is being read", func() bool { return s.assembled.Load() > 0 })
	_ = big.conn.Close()
	eventually(t, "no WebSocket is left", func() bool { return s.sockets.count() == 0 })
	if n := s.assembled.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// eventually polls until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("it never came true that %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestSocketOfAPeerThatDoesNotRead(t *testing.T) {
	answer := strings.Repeat("x", 1<<20)
	s, front := socketServer(t, Config{Executor: &calls{f: func(_ context.Context, c executor.Call) *tool.Result {
		if c.OnEvent != nil {
			for range 5000 { // progress never waits for the peer
				c.OnEvent(tool.Event{Type: tool.EventCallProgress, Data: map[string]any{"progress": 1.0}})
			}
		}
		return tool.Text(answer)
	}}}, SocketOptions{Unread: 500 * time.Millisecond})
	slow, good := dialSocket(t, front), dialSocket(t, front)
	slow.initialize("2025-11-25")
	good.initialize("2025-11-25")
	for id := range 100 {
		slow.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":%d}}}`, id, id))
	}
	for range 3 {
		good.send(callOne)
		if m := good.next(); len(text(m)) != len(answer) {
			t.Errorf("another client: %.100v", m)
		}
	}
	eventually(t, "the peer that does not read is cut off", func() bool { return s.sockets.count() == 1 })
	// It was told so, if it read in time; else the end just comes.
	var got int
	for {
		data, err := slow.read()
		if err != nil {
			var end websocket.CloseError
			if errors.As(err, &end) && (end.Code != websocket.StatusPolicyViolation || end.Reason != errUnread.reason) {
				t.Errorf("closed with %v", end)
			}
			break
		}
		got += len(data)
	}
	if got >= 100<<20 {
		t.Errorf("it was sent all %d bytes", got)
	}
}

func TestSocketOfAPeerThatIsSilent(t *testing.T) {
	s, front := socketServer(t, Config{Executor: &calls{f: echo}}, SocketOptions{Ping: time.Second})
	alive := dialSocket(t, front)
	silent := dialRaw(t, front)
	done := make(chan struct{})
	go func() { // reading answers pings
		defer close(done)
		_, err := alive.read()
		if websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("the peer that answers: %v", err)
		}
	}()
	opcode, payload := silent.next()
	if opcode != 9 {
		t.Fatalf("frame %d %q, want a ping", opcode, payload)
	}
	opcode, payload = silent.next()
	if opcode != 8 || binary.BigEndian.Uint16(payload) != 1008 || string(payload[2:]) != errSilent.reason {
		t.Errorf("frame %d %q, want the end", opcode, payload)
	}
	eventually(t, "one WebSocket is left", func() bool { return s.sockets.count() == 1 })
	_ = s.Close(t.Context())
	<-done
}

func TestSocketWhenTheServerStops(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{}, 1)
	s, front := socketServer(t, Config{Executor: &calls{f: func(ctx context.Context, c executor.Call) *tool.Result {
		started <- struct{}{}
		<-release
		return echo(ctx, c)
	}}}, SocketOptions{})
	idle, busy := dialSocket(t, front), dialSocket(t, front)
	busy.initialize("2025-11-25")
	busy.send(callOne)
	<-started
	drained := make(chan struct{})
	go func() { s.Drain(context.Background()); close(drained) }()
	if end := idle.closed(); end.Code != websocket.StatusGoingAway || end.Reason != errStopping.Error() {
		t.Errorf("idle: %v", end)
	}
	busy.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`)
	if m := busy.next(); m["id"] != 2.0 || at(m, "error", "code") != -32000.0 {
		t.Errorf("a new call: %v", m)
	}
	close(release)
	if m := busy.next(); text(m) != "echo" {
		t.Errorf("the call that ran: %v", m)
	}
	if end := busy.closed(); end.Code != websocket.StatusGoingAway {
		t.Errorf("busy: %v", end)
	}
	<-drained
}

func TestSocketLeavesNothing(t *testing.T) {
	s, front := socketServer(t, Config{Executor: &calls{f: echo}}, SocketOptions{})
	connect := func() {
		k := dialSocket(t, front)
		k.initialize("2025-11-25")
		k.send(callOne)
		k.next()
		_ = k.ws.Close(websocket.StatusNormalClosure, "")
	}
	connect()
	gone := func() bool { return s.sockets.count() == 0 }
	eventually(t, "no WebSocket is left", gone)
	before := runtime.NumGoroutine()
	for range 50 {
		connect()
	}
	eventually(t, "no WebSocket is left", gone)
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+2 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bySDK) != 0 {
		t.Errorf("%d sessions are left", len(s.bySDK))
	}
}
