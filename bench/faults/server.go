package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// modes are the kinds of servers, the good one first.
var modes = []string{"good", "silent", "dies", "garbage", "line", "many", "twice", "changes", "fields", "big", "deaf", "children"}

// message is a JSON-RPC message that a server gets.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name            string `json:"name"`
		ProtocolVersion string `json:"protocolVersion"`
	} `json:"params"`
}

// serve is an MCP server over stdio of one kind.
func serve(mode string) {
	s := &fake{mode: mode, out: bufio.NewWriterSize(os.Stdout, 1<<20)}
	switch mode {
	case "silent":
		select {}
	case "garbage":
		go func() {
			for {
				s.write(strings.Repeat("this is no JSON ", 100))
				time.Sleep(time.Millisecond)
			}
		}()
	case "children":
		for range 5 {
			_ = exec.Command(os.Args[0], "-serve", "silent").Start()
		}
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) == nil && m.ID != nil {
			s.answer(&m)
		}
	}
}

type fake struct {
	mode  string
	mu    sync.Mutex
	out   *bufio.Writer
	lists int
}

func (s *fake) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.WriteString(text + "\n")
	_ = s.out.Flush()
}

func (s *fake) result(m *message, result string) {
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

func (s *fake) answer(m *message) {
	switch m.Method {
	case "initialize":
		s.result(m, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":%q,"version":"1"}}`, m.Params.ProtocolVersion, s.mode))
	case "tools/list":
		s.lists++
		s.result(m, `{"tools":[`+s.tools()+`]}`)
		if s.mode == "changes" {
			time.AfterFunc(time.Second, func() { s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`) })
		}
	case "tools/call":
		s.call(m)
	case "ping":
		s.result(m, `{}`)
	default:
		s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"there is no %s"}}`, m.ID, m.Method))
	}
}

func (s *fake) tools() string {
	define := func(name, description string) string {
		return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, name, description)
	}
	switch s.mode {
	case "many":
		list := make([]string, 5000)
		for i := range list {
			list[i] = define(fmt.Sprintf("echo%d", i), strings.Repeat("one of very many tools ", 10))
		}
		list[0] = define("echo", "Says it back.")
		return strings.Join(list, ",")
	case "twice":
		return define("echo", "Says it back.") + "," + define("echo", "Says it twice.")
	case "changes":
		return define("echo", fmt.Sprintf("Says it back. Edition %d.", s.lists))
	}
	return define("echo", "Says it back.")
}

func (s *fake) call(m *message) {
	const done = `{"content":[{"type":"text","text":"said"}]}`
	switch s.mode {
	case "dies":
		os.Exit(1)
	case "line":
		s.mu.Lock()
		defer s.mu.Unlock()
		block := bytes.Repeat([]byte("x"), 1<<20)
		_, _ = fmt.Fprintf(s.out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.ID)
		for range 1 << 10 {
			if _, err := s.out.Write(block); err != nil {
				return
			}
		}
		_, _ = s.out.WriteString("\"}]}}\n")
		_ = s.out.Flush()
	case "fields":
		s.result(m, `{"content":[{"type":"text","text":"said","x-new":{"n":12345678901234567890}}],"x-new":[1,{"a":null}],"_meta":{"x":1}}`)
	case "big":
		s.result(m, `{"content":[{"type":"text","text":"`+strings.Repeat("0123456789abcdef\\n", 50<<20/17)+`"}]}`)
	case "deaf": // never, and a cancellation is not heard
	default:
		s.result(m, done)
	}
}
