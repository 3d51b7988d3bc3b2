package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// client is an MCP client of the program over stdio.
type client struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}

	mu      sync.Mutex
	last    int
	waiting map[int]chan json.RawMessage
}

// start runs the program with the home and workspace below dir and does the
// handshake.
func start(toolyard, dir string) (*client, error) {
	cmd := exec.Command(toolyard, "mcp", "--home", filepath.Join(dir, "home"), "--workspace", filepath.Join(dir, "work"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &client{cmd: cmd, in: in, waiting: map[int]chan json.RawMessage{}, ended: make(chan struct{})}
	go c.read(out) // ends with the process
	_, err = c.call("initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "faults", "version": "1"},
	}, 10*time.Second)
	if err == nil {
		err = c.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	}
	if err != nil {
		c.kill()
	}
	return c, err
}

func (c *client) read(out io.Reader) {
	defer close(c.ended)
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var head struct {
			ID     *int   `json:"id"`
			Method string `json:"method"`
		}
		if json.Unmarshal(line, &head) != nil || head.ID == nil || head.Method != "" {
			continue
		}
		c.mu.Lock()
		if answer := c.waiting[*head.ID]; answer != nil {
			answer <- line
			delete(c.waiting, *head.ID)
		}
		c.mu.Unlock()
	}
}

func (c *client) send(message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.in.Write(append(body, '\n'))
	return err
}

// call makes a request and waits for its answer.
func (c *client) call(method string, params any, limit time.Duration) (json.RawMessage, error) {
	answer := make(chan json.RawMessage, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waiting[id] = answer
	c.mu.Unlock()
	if err := c.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case line := <-answer:
		return line, nil
	case <-c.ended:
		return nil, errors.New("the program has ended")
	case <-timer.C:
		return nil, fmt.Errorf("%s had no answer for %s", method, limit)
	}
}

// until calls a tool until it answers.
func (c *client) until(tool string, limit time.Duration) error {
	var last json.RawMessage
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		answer, err := c.call("tools/call", map[string]any{"name": tool, "arguments": map[string]any{}}, limit)
		if err != nil {
			return err
		}
		if bytes.Contains(answer, []byte(`"said"`)) {
			return nil
		}
		last = answer
	}
	return fmt.Errorf("%s does not answer: %.500s", tool, last)
}

// peak is the most memory the program has had, in bytes.
func (c *client) peak() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			var kilobytes int64
			_, err := fmt.Sscan(string(value), &kilobytes)
			return kilobytes << 10, err
		}
	}
	return 0, errors.New("the system does not tell the program's memory")
}

// kill ends the program as kill -9 does.
func (c *client) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// outlived counts the processes whose command lies below dir, or names it, once
// they have had time to go.
func outlived(dir string, limit time.Duration) (int, error) {
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		n, err := naming(dir)
		if err != nil || n == 0 || time.Now().After(end) {
			return n, err
		}
	}
}

func naming(dir string) (n int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		command, err := os.ReadFile(f)
		if err == nil && bytes.Contains(command, []byte(dir)) {
			n++
		}
	}
	return n, nil
}
