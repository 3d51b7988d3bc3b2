package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// lines is stdio: a frame a line.
type lines struct {
	in   io.Writer
	mu   sync.Mutex
	n    int
	want string
	got  chan struct{}
}

func newLines(in io.Writer) *lines { return &lines{in: in, got: make(chan struct{}, 1)} }

// read looks for the answers to good requests until the program ends.
func (l *lines) read(out io.Reader) {
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
		l.mu.Lock()
		if l.want != "" && bytes.Contains(line, []byte(l.want)) && bytes.Contains(line, []byte(`"result":{}`)) {
			l.want = ""
			l.got <- struct{}{}
		}
		l.mu.Unlock()
	}
}

func (l *lines) burst(frames [][]byte) {
	for _, f := range frames {
		_, _ = l.in.Write(append(f, '\n'))
	}
}

func (l *lines) ask() error {
	l.mu.Lock()
	l.n++
	id := fmt.Sprintf(`"good-%d"`, l.n)
	l.want = id
	l.mu.Unlock()
	if _, err := io.WriteString(l.in, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`+"\n"); err != nil {
		return err
	}
	select {
	case <-l.got:
		return nil
	case <-time.After(patience):
		return errNoAnswer
	}
}

func (l *lines) close() {}

// posts is HTTP of one of the eras.
type posts struct {
	http      http.Client
	url       string
	stateless bool
	session   string
	r         *rand.Rand
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"frames","version":"1"}}}`

func openHTTP(url string, stateless bool, r *rand.Rand) (way, error) {
	p := &posts{url: url, stateless: stateless, r: r}
	p.http.Timeout = patience
	if stateless {
		return p, nil
	}
	_, err := p.begin()
	return p, err
}

func (p *posts) begin() (string, error) {
	p.session = ""
	answer, header, err := p.post([]byte(hello), false)
	if err != nil {
		return "", err
	}
	if p.session = header.Get("Mcp-Session-Id"); p.session == "" {
		return "", fmt.Errorf("initialize: %.300s", answer)
	}
	return p.session, nil
}

// post sends one body. Damaged headers go with damaged bodies.
func (p *posts) post(body []byte, damaged bool) ([]byte, http.Header, error) {
	// A stream that the server leaves open for its own messages is not waited for.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if damaged {
		ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/mcp", bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	h := r.Header
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	if p.session != "" {
		h.Set("Mcp-Session-Id", p.session)
		h.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	if p.stateless {
		h.Set("Mcp-Protocol-Version", "2026-07-28")
		method, _, _ := strings.Cut(string(after(body, `"method":"`)), `"`)
		if name, _, _ := strings.Cut(string(after(body, `"name":"`)), `"`); method == "tools/call" && printable(name) {
			h.Set("Mcp-Name", name)
		}
		if printable(method) {
			h.Set("Mcp-Method", method)
		}
	}
	if damaged && p.r.IntN(4) == 0 {
		values := []string{"", "x", "2099-01-01", "2024-11-05", "tools/call", "text/plain", strings.Repeat("v", 3000), "*/*", "\"\\\""}
		names := []string{"Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Content-Type", "Accept", "Last-Event-ID", "Mcp-Param-File_path"}
		h.Set(names[p.r.IntN(len(names))], values[p.r.IntN(len(values))])
	}
	answer, err := p.http.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if id := answer.Header.Get("Mcp-Session-Id"); damaged && id != "" && id != p.session {
		p.end(id) // a session that nobody wanted
	}
	return data, answer.Header, err
}

func after(b []byte, mark string) []byte {
	if _, rest, ok := bytes.Cut(b, []byte(mark)); ok {
		return rest[:min(len(rest), 100)]
	}
	return nil
}

func printable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func (p *posts) burst(frames [][]byte) {
	for _, f := range frames {
		if p.r.IntN(50) == 0 { // not even HTTP
			p.raw(f)
			continue
		}
		_, _, _ = p.post(f, true)
	}
}

// raw sends a request that is cut off.
func (p *posts) raw(f []byte) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		return
	}
	defer conn.Close()
	head := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: %d\r\n\r\n", len(f)+10)
	_, _ = conn.Write(damage(p.r, append([]byte(head), f...)))
}

func (p *posts) ask() error {
	body := `{"jsonrpc":"2.0","id":"good","method":"ping"}`
	if p.stateless {
		body = `{"jsonrpc":"2.0","id":"good","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"frames","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	}
	answer, _, err := p.post([]byte(body), false)
	if err != nil {
		return err
	}
	if !bytes.Contains(answer, []byte(`"id":"good"`)) || !bytes.Contains(answer, []byte(`"result"`)) {
		return fmt.Errorf("%w but %.300s", errNoAnswer, answer)
	}
	return nil
}

func (p *posts) close() {
	defer p.http.CloseIdleConnections()
	if p.session != "" { // one that is left open is no leak, and would look like one
		p.end(p.session)
	}
}

// end ends a session.
func (p *posts) end(id string) {
	r, err := http.NewRequest(http.MethodDelete, p.url+"/mcp", nil)
	if err != nil {
		return
	}
	r.Header.Set("Mcp-Session-Id", id)
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	if answer, err := p.http.Do(r); err == nil {
		_ = answer.Body.Close()
	}
}

// socket is a WebSocket whose frames are written as bytes, and beside it one that
// asks.
type socket struct {
	url  string
	r    *rand.Rand
	conn net.Conn
	ws   *websocket.Conn
}

func openSocket(url string, r *rand.Rand) (way, error) {
	ws, _, err := websocket.Dial(context.Background(), url+"/ws", &websocket.DialOptions{Subprotocols: []string{"mcp"}})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)
	return &socket{url: url, r: r, ws: ws}, nil
}

// dial makes the connection that is spoilt.
func (s *socket) dial() error {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n")
	s.conn = conn
	if s.r.IntN(10) > 0 { // some never read
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
	return nil
}

func (s *socket) burst(frames [][]byte) {
	for _, f := range frames {
		if s.conn == nil && s.dial() != nil {
			return
		}
		first := byte(0x81)
		if s.r.IntN(10) == 0 {
			first = byte(s.r.Uint32())
		}
		b := frame(first, f)
		if s.r.IntN(20) == 0 {
			b = damage(s.r, b)
		}
		if _, err := s.conn.Write(b); err != nil || s.r.IntN(30) == 0 {
			_ = s.conn.Close()
			s.conn = nil
		}
	}
	// Well-framed, on the connection that must go on.
	for _, f := range frames {
		if len(f) < 1<<20 {
			f = bytes.ToValidUTF8(f, []byte("?"))
			_ = s.ws.Write(context.Background(), websocket.MessageText, f)
		}
	}
}

// frame masks with zeroes, which changes nothing.
func frame(first byte, payload []byte) []byte {
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

func (s *socket) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.ws.Write(ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":"good","method":"ping"}`)); err != nil {
		return err
	}
	for {
		_, data, err := s.ws.Read(ctx)
		if err != nil {
			return err
		}
		if bytes.Contains(data, []byte(`"id":"good"`)) && bytes.Contains(data, []byte(`"result":{}`)) {
			return nil
		}
	}
}

func (s *socket) close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
	if s.r.IntN(2) == 0 {
		_ = s.ws.CloseNow()
		return
	}
	_ = s.ws.Close(websocket.StatusNormalClosure, "")
}
