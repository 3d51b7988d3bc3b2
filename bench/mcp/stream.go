package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// streamClient talks over one connection, a message a line. It does little
// itself, for it uses the same processors as the server: one goroutine sends the
// next call when an answer has been read, and all that are due in one write.
type streamClient struct {
	in   io.WriteCloser
	r    *bufio.Reader
	out  []byte // not yet written
	next int
	sent map[int]time.Time
}

// longest is more than any answer has, in bytes.
const longest = 1 << 20

func newStream(in io.WriteCloser, out io.Reader, buffer int) (client, error) {
	c := &streamClient{in: in, r: bufio.NewReaderSize(out, buffer), next: 1, sent: map[int]time.Time{}}
	if _, err := io.WriteString(in, initialize+"\n"); err != nil {
		return nil, err
	}
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if id, ok := idOf(line); ok && id == 0 {
			_, err := io.WriteString(in, initialized+"\n")
			return c, errors.Join(failure(line), err)
		}
	}
}

func startStdio(t target, dir string) (client, *exec.Cmd, error) {
	args := t.command[1:]
	if t.name == "toolyard" {
		args = append(slices.Clone(args), "mcp", "--workspace", dir)
	}
	cmd := command(t, dir, args)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	c, err := newStream(in, out, longest)
	return c, cmd, err
}

func (c *streamClient) run(tool string, arguments []string, flight int, span time.Duration) ([]time.Duration, error) {
	var times []time.Duration
	end := time.Now().Add(span)
	for range flight {
		c.call(tool, arguments)
	}
	for len(c.sent) > 0 {
		if c.r.Buffered() == 0 && len(c.out) > 0 {
			if _, err := c.in.Write(c.out); err != nil {
				return times, err
			}
			c.out = c.out[:0]
		}
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return times, err
		}
		id, _ := idOf(line)
		sent, ours := c.sent[id]
		if !ours {
			continue // a notification
		}
		delete(c.sent, id)
		if err := failure(line); err != nil {
			return times, err
		}
		now := time.Now()
		times = append(times, now.Sub(sent))
		if now.Before(end) {
			c.call(tool, arguments)
		}
	}
	return times, nil
}

// call adds a call to what is due.
func (c *streamClient) call(tool string, arguments []string) {
	id := c.next
	c.next++
	c.sent[id] = time.Now()
	b := strconv.AppendInt(append(c.out, `{"jsonrpc":"2.0","id":`...), int64(id), 10)
	b = append(append(b, `,"method":"tools/call","params":{"name":"`...), tool...)
	b = append(append(b, `","arguments":`...), arguments[id%len(arguments)]...)
	c.out = append(b, "}}\n"...)
}

func (c *streamClient) close() { _ = c.in.Close() }

// idOf finds the id without decoding the message. Servers write it before or
// after the result.
func idOf(line []byte) (int, bool) {
	const key = `"id":`
	if id, ok := idAt(line, bytes.Index(line[:min(len(line), 100)], []byte(key))); ok {
		return id, true
	}
	return idAt(line, bytes.LastIndex(line, []byte(key)))
}

func idAt(line []byte, at int) (id int, ok bool) {
	if at < 0 {
		return 0, false
	}
	for _, b := range line[at+len(`"id":`):] {
		if b < '0' || b > '9' {
			break
		}
		id, ok = 10*id+int(b-'0'), true
	}
	return id, ok
}

// socketStream makes lines of the text frames of a WebSocket, and frames of
// lines. Its mask is zero, which changes nothing and costs nothing.
type socketStream struct {
	net.Conn
	r    *bufio.Reader
	left uint64 // of the frame that is being read
	end  bool   // its newline is due
	out  []byte
}

func startSocket(t target, dir string) (client, *exec.Cmd, error) {
	url, cmd, err := listen(t, dir)
	if err != nil {
		return nil, cmd, err
	}
	s, err := dialSocket(url)
	if err != nil {
		return nil, cmd, err
	}
	c, err := newStream(s, s, longest)
	return c, cmd, err
}

func dialSocket(url string) (*socketStream, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n")
	s := &socketStream{Conn: conn, r: bufio.NewReaderSize(conn, 16<<10)}
	answer, err := http.ReadResponse(s.r, nil)
	if err == nil && answer.StatusCode != http.StatusSwitchingProtocols {
		err = errors.New(answer.Status)
	}
	return s, err
}

func (s *socketStream) Read(p []byte) (int, error) {
	for s.left == 0 {
		if s.end {
			s.end = false
			p[0] = '\n'
			return 1, nil
		}
		var head [8]byte
		if _, err := io.ReadFull(s.r, head[:2]); err != nil {
			return 0, err
		}
		opcode, size := head[0]&0x0f, uint64(head[1])
		switch size {
		case 126:
			_, _ = io.ReadFull(s.r, head[:2])
			size = uint64(binary.BigEndian.Uint16(head[:]))
		case 127:
			_, _ = io.ReadFull(s.r, head[:8])
			size = binary.BigEndian.Uint64(head[:])
		}
		if opcode != 1 { // a ping, or the end
			_, _ = s.r.Discard(int(size))
			continue
		}
		s.left, s.end = size, true
	}
	n, err := s.r.Read(p[:min(uint64(len(p)), s.left)])
	s.left -= uint64(n)
	return n, err
}

func (s *socketStream) Write(p []byte) (int, error) {
	s.out = s.out[:0]
	for line := range bytes.SplitSeq(bytes.TrimSuffix(p, []byte("\n")), []byte("\n")) {
		s.out = append(s.out, 0x81)
		if len(line) < 126 {
			s.out = append(s.out, 0x80|byte(len(line)))
		} else {
			s.out = binary.BigEndian.AppendUint16(append(s.out, 0x80|126), uint16(len(line)))
		}
		s.out = append(append(s.out, 0, 0, 0, 0), line...)
	}
	_, err := s.Conn.Write(s.out)
	return len(p), err
}
