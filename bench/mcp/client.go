package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client talks to one running server.
type client interface {
	// run keeps flight calls under way for a while and gives how long each took.
	run(tool string, arguments []string, flight int, span time.Duration) ([]time.Duration, error)
	close()
}

// measure starts a server, calls a tool for a while and stops it.
func measure(t target, dir, tool string, flight int, span time.Duration) (s sample, err error) {
	var c client
	var cmd *exec.Cmd
	begin := time.Now()
	switch t.via {
	case viaStdio:
		c, cmd, err = startStdio(t, dir)
	case viaSocket:
		c, cmd, err = startSocket(t, dir)
	default:
		c, cmd, err = startHTTP(t, dir)
	}
	s.first = time.Since(begin)
	if cmd != nil {
		defer end(t, cmd)
	}
	if err != nil {
		return s, err
	}
	defer c.close()
	var arguments []string
	for i := range files {
		switch tool {
		case "echo", "peer__echo":
			arguments = append(arguments, fmt.Sprintf(`{"text":"%064d"}`, i))
		case "read_text_file":
			arguments = append(arguments, fmt.Sprintf(`{"path":%q}`, fileName(dir, i)))
		default:
			arguments = append(arguments, fmt.Sprintf(`{"file_path":%q}`, fileName(dir, i)))
		}
	}
	if _, err := c.run(tool, arguments, flight, span/5); err != nil { // warm up
		return s, err
	}
	before := cpu(cmd.Process.Pid)
	started := time.Now()
	times, err := c.run(tool, arguments, flight, span)
	if err != nil {
		return s, err
	}
	took := time.Since(started)
	s.cpu = (cpu(cmd.Process.Pid) - before) / time.Duration(len(times))
	s.rss = memory(cmd.Process.Pid, "VmHWM:")
	slices.Sort(times)
	s.rate = float64(len(times)) / took.Seconds()
	s.p50, s.p99 = times[len(times)/2], times[len(times)*99/100]
	return s, nil
}

// command is a server that does not touch the person's own home.
func command(t target, dir string, args []string) *exec.Cmd {
	cmd := exec.Command(t.command[0], args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TOOLYARD_HOME="+filepath.Join(filepath.Dir(dir), "home"))
	return cmd
}

// end waits a little for a server to end by itself, as it does when its stdin is
// closed or it is interrupted.
func end(t target, cmd *exec.Cmd) {
	if t.via != viaStdio {
		_ = cmd.Process.Signal(os.Interrupt)
	}
	kill := time.AfterFunc(2*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	_ = cmd.Wait() // its exit code says nothing here
}

// files is how many files are read in turn: an agent that made the same call
// over and over would be stopped.
const files = 16

func fileName(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("4k-%d.txt", i)) }

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`

func failure(line []byte) error {
	if bytes.Contains(line, []byte(`"isError":true`)) || bytes.Contains(line[:min(len(line), 80)], []byte(`"error":`)) {
		return fmt.Errorf("the call failed: %.300s", line)
	}
	return nil
}

// httpClient sends each call as a POST.
type httpClient struct {
	http    http.Client
	url     string
	headers map[string]string
	meta    string

	mu   sync.Mutex
	next int
}

// listen starts a server that listens, and gives where.
func listen(t target, dir string) (url string, cmd *exec.Cmd, err error) {
	args := t.command[1:]
	switch t.name {
	case "fixture":
		args = append(slices.Clone(args), "-addr", "127.0.0.1:0", "-auth", "none")
	case "toolyard":
		args = append(slices.Clone(args), "serve", "--addr", "127.0.0.1:0", "--auth", "none", "--workspace", dir)
	default:
		args = append(slices.Clone(args), "-addr", "127.0.0.1:0")
	}
	cmd = command(t, dir, args)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return "", cmd, err
	}
	var at struct{ URL string }
	err = json.Unmarshal(line, &at)
	return at.URL, cmd, err
}

func startHTTP(t target, dir string) (client, *exec.Cmd, error) {
	url, cmd, err := listen(t, dir)
	if err != nil {
		return nil, cmd, err
	}
	c := &httpClient{url: url + "/mcp", next: 1, headers: map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}}
	c.http.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	if t.via == viaStateless {
		c.headers["Mcp-Protocol-Version"] = "2026-07-28"
		c.headers["Mcp-Method"] = "tools/call"
		c.meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		return c, cmd, nil
	}
	return c, cmd, c.initialize()
}

// initialize opens a session.
func (c *httpClient) initialize() error {
	r, err := c.post(initialize)
	if err != nil {
		return err
	}
	if id := r.Get("Mcp-Session-Id"); id != "" {
		c.headers["Mcp-Session-Id"] = id
	}
	c.headers["Mcp-Protocol-Version"] = "2025-11-25"
	_, err = c.post(initialized)
	return err
}

func (c *httpClient) post(body string) (http.Header, error) {
	r, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range c.headers {
		r.Header.Set(k, v)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= 300 {
		return nil, fmt.Errorf("%s: %.300s", answer.Status, data)
	}
	return answer.Header, failure(data)
}

func (c *httpClient) call(tool, arguments string) error {
	c.mu.Lock()
	id := c.next
	c.next++
	if c.meta != "" && c.headers["Mcp-Name"] == "" {
		c.headers["Mcp-Name"] = tool
	}
	c.mu.Unlock()
	_, err := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, id, tool, arguments, c.meta))
	return err
}

// run has a goroutine for each call under way.
func (c *httpClient) run(tool string, arguments []string, flight int, span time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var wg sync.WaitGroup
	var turn atomic.Int64
	end := time.Now().Add(span)
	for range flight {
		wg.Go(func() {
			var times []time.Duration
			var err error
			for err == nil && time.Now().Before(end) {
				i := int(turn.Add(1)) % len(arguments)
				begin := time.Now()
				err = c.call(tool, arguments[i])
				times = append(times, time.Since(begin))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	return all, failed
}

func (c *httpClient) close() { c.http.CloseIdleConnections() }

// cpu is the time a process and its threads have used.
func cpu(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}

// memory is what a process holds (VmRSS:) or has held at most (VmHWM:), in KiB.
func memory(pid int, row string) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if rest, ok := strings.CutPrefix(line, row); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	return 0
}
