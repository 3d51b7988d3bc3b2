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
	"strconv"
	"strings"
	"time"
)

// sample is what a process holds at one moment. Goroutines are known over HTTP
// only.
type sample struct{ descriptors, goroutines, resident int }

// process is the program as it runs.
type process struct {
	name    string
	cmd     *exec.Cmd
	url     string
	in      io.WriteCloser
	lines   *lines
	stderr  bytes.Buffer
	gone    chan struct{}
	samples []sample
}

func start(name, binary, temp string, args ...string) (*process, io.Reader, error) {
	p := &process{name: name, cmd: exec.Command(binary, args...), gone: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "TOOLYARD_HOME="+filepath.Join(temp, name))
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return p, out, p.cmd.Start()
}

func startStdio(binary, temp, work string) (*process, error) {
	p, out, err := start("mcp", binary, temp, "mcp", "--mode", "plan", "--workspace", work)
	if err != nil {
		return nil, err
	}
	p.lines = newLines(p.in)
	go func() {
		p.lines.read(out)
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	return p, p.lines.ask()
}

func startServe(binary, temp, work string) (*process, error) {
	p, out, err := start("serve", binary, temp, "serve", "--mode", "plan", "--auth", "none", "--addr", "127.0.0.1:0", "--workspace", work)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(out)
	line, err := r.ReadBytes('\n')
	var at struct{ URL string }
	if err == nil {
		err = json.Unmarshal(line, &at)
	}
	p.url = at.URL
	go func() {
		_, _ = io.Copy(io.Discard, r)
		_ = p.cmd.Wait()
		close(p.gone)
	}()
	return p, err
}

// alive says how a process ended that should not have.
func (p *process) alive() error {
	select {
	case <-p.gone:
		text := p.stderr.String()
		if i := strings.Index(text, "panic:"); i >= 0 {
			text = text[i:]
		}
		return fmt.Errorf("%s ended: %s: %.4000s", p.name, p.cmd.ProcessState, text)
	default:
		return nil
	}
}

// stop ends a process, and after a while kills it.
func (p *process) stop() {
	_ = p.in.Close()
	_ = p.cmd.Process.Signal(os.Interrupt)
	kill := time.AfterFunc(15*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	<-p.gone
}

// sample looks at the process.
func (p *process) sample() {
	if p.alive() != nil {
		return
	}
	var s sample
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	open, _ := os.ReadDir(filepath.Join(proc, "fd"))
	s.descriptors = len(open)
	status, _ := os.ReadFile(filepath.Join(proc, "status"))
	for line := range strings.SplitSeq(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			s.resident, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
	}
	if p.url != "" {
		s.goroutines = p.goroutines()
	}
	p.samples = append(p.samples, s)
}

func (p *process) goroutines() (n int) {
	client := http.Client{Timeout: patience}
	r, err := client.Get(p.url + "/metrics")
	if err != nil {
		return 0
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "toolyard_goroutines "); ok {
			n, _ = strconv.Atoi(rest)
		}
	}
	return n
}

// history is the samples for a person.
func (p *process) history() (lines []string) {
	for i, s := range p.samples {
		if i%4 == 0 || i == len(p.samples)-1 {
			lines = append(lines, fmt.Sprintf("%d MB %d fds %d goroutines;", s.resident>>10, s.descriptors, s.goroutines))
		}
	}
	return lines
}

var errNoAnswer = errors.New("a good request got no answer")
