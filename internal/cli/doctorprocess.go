package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// passedVariables are those that clients hand to the servers they start; of the
// others many hand on nothing.
var passedVariables = []string{
	"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", // Linux, macOS
	"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE", "PROGRAMFILES",
}

// tryProcess starts an entry as the client would, says initialize, and ends it.
func (d *clientDoctor) tryProcess(ctx context.Context, e listed) (server string, err error) {
	program, err := d.program(d.expand(e.Command))
	if err != nil {
		return "", err
	}
	args := make([]string, len(e.Args))
	for i, arg := range e.Args {
		args[i] = d.expand(arg)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = d.machine.Home
	if e.Cwd != "" {
		cmd.Dir = d.expand(e.Cwd)
	} else if d.client.Starts(e.place.Scope) == "project" {
		cmd.Dir = d.machine.Project
	}
	for _, name := range passedVariables {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for name, value := range e.Env {
		cmd.Env = append(cmd.Env, name+"="+d.expand(value))
	}
	apart(cmd)
	stderr := &tail{limit: 2000}
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	line, readErr := ask(ctx, in, out)
	server, err = "", readErr
	if readErr == nil {
		server, err = serverOf(line)
	}
	in.Close() // how a client ends it
	end(cmd)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if said := strings.TrimSpace(stderr.String()); said != "" {
			lines := strings.Split(said, "\n")
			err = fmt.Errorf("%w; it says: %s", err, oneLine(lines[len(lines)-1], 300))
		}
	}
	return server, err
}

// ask sends initialize and reads a line.
func ask(ctx context.Context, in io.Writer, out io.Reader) ([]byte, error) {
	_, _ = io.WriteString(in, initialize+"\n") // what has ended already may have said why
	type answer struct {
		line []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() { // ends with the pipe, which ends with the process
		line, err := bufio.NewReaderSize(io.LimitReader(out, 1<<20), 64<<10).ReadBytes('\n')
		answers <- answer{bytes.TrimSpace(line), err}
	}()
	select {
	case a := <-answers:
		if len(a.line) == 0 && a.err != nil {
			return nil, errors.New("it ended without an answer")
		}
		return a.line, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// end waits a moment for a process whose stdin was closed, then ends it with what
// it has started.
func end(cmd *exec.Cmd) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // how it ends does not matter
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		killApart(cmd)
		<-done
	}
}

// program finds the program of an entry on this machine.
func (d *clientDoctor) program(command string) (string, error) {
	if !strings.ContainsAny(command, `/\`) {
		found, err := exec.LookPath(command)
		if err != nil {
			return "", fmt.Errorf("%s is not on PATH", command)
		}
		return found, nil
	}
	if rest, ok := strings.CutPrefix(command, "~/"); ok {
		command = filepath.Join(d.machine.Home, rest)
	}
	info, err := os.Stat(command)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s is not there", command)
	case info.IsDir():
		return "", fmt.Errorf("%s is a directory", command)
	}
	if _, err := exec.LookPath(command); err != nil {
		return "", fmt.Errorf("%s cannot be executed", command)
	}
	return command, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	limit int

	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - t.limit; over > 0 {
		t.text = t.text[over:]
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
