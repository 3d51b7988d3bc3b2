package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// command is one started command and what it prints.
type command struct {
	process sandbox.Process
	spool   *spool
	input   *os.File // the write end of stdin or the terminal; nil if there is none
	done    chan struct{}
	// result and outputErr are set before done is closed.
	result    sandbox.Result
	outputErr error

	inputMu sync.Mutex
}

// options are what start needs beside the confinement.
type options struct {
	args  []string
	dir   string
	tty   bool
	input bool // give the command a stdin that can be written to
	spool *spool
}

// start runs a command. It ends when it ends by itself or by [command.kill];
// the end of ctx does not end it. When done is closed the command's whole tree is
// gone and everything that it printed is in the spool.
func start(ctx context.Context, d Deps, c Confinement, o options) (*command, error) {
	cmd := sandbox.Cmd{Args: o.args, Env: c.Env, Dir: o.dir, Profile: c.Profile}
	run := &command{spool: o.spool, done: make(chan struct{})}
	var mine, theirs []*os.File // pipe ends: ours to keep, the command's to close here
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	pipe := func() (r, w *os.File, err error) {
		r, w, err = os.Pipe()
		if err != nil {
			closeAll(append(mine, theirs...))
			return nil, nil, tool.Errorf(tool.ResourceExhausted, "no pipe for the command: %v", err)
		}
		return r, w, nil
	}
	outputs := map[string]*os.File{}
	if o.tty {
		cmd.TTY = &sandbox.TTY{}
	} else {
		for _, stream := range []string{"stdout", "stderr"} {
			r, w, err := pipe()
			if err != nil {
				return nil, err
			}
			mine, theirs = append(mine, r), append(theirs, w)
			outputs[stream] = r
			if stream == "stdout" {
				cmd.Stdout = w
			} else {
				cmd.Stderr = w
			}
		}
		if o.input {
			r, w, err := pipe()
			if err != nil {
				return nil, err
			}
			mine, theirs = append(mine, w), append(theirs, r)
			cmd.Stdin, run.input = r, w
		}
	}
	// The sandbox kills a command when its context ends, and that of a call ends
	// with the call: a job goes on after it.
	process, err := d.Start(context.WithoutCancel(ctx), cmd)
	closeAll(theirs)
	if err != nil {
		closeAll(mine)
		return nil, err
	}
	run.process = process
	if o.tty {
		master := process.PTY()
		outputs["stdout"], run.input = master, master
	}
	go run.watch(outputs)
	return run, nil
}

// watch reads the streams, waits for the end and closes done.
func (c *command) watch(outputs map[string]*os.File) {
	var readers sync.WaitGroup
	var mu sync.Mutex
	for stream, r := range outputs {
		readers.Go(func() {
			if err := c.read(stream, r); err != nil {
				mu.Lock()
				defer mu.Unlock()
				c.outputErr = errors.Join(c.outputErr, err)
			}
		})
	}
	c.result = c.process.Wait(context.Background())
	// What the foreground left behind still holds the pipes: it goes first.
	closeErr := c.process.Close()
	c.result = c.process.Wait(context.Background()) // with what the rest of the tree was refused
	readers.Wait()
	c.inputMu.Lock()
	if c.input != nil {
		c.input.Close()
		c.input = nil
	}
	c.inputMu.Unlock()
	for _, r := range outputs {
		r.Close()
	}
	if closeErr != nil {
		c.outputErr = errors.Join(c.outputErr, closeErr)
	}
	if lines := violationLines(c.result.Violations); len(lines) > 0 {
		c.outputErr = errors.Join(c.outputErr, c.spool.note(strings.Join(lines, "\n")+"\n"))
	}
	c.spool.finish()
	close(c.done)
}

// read copies one stream into the spool. When the spool takes no more the
// command is ended and the rest is thrown away.
func (c *command) read(stream string, r io.Reader) error {
	buf := make([]byte, 64<<10)
	var failed error
	for {
		n, err := r.Read(buf)
		if n > 0 && failed == nil {
			if failed = c.spool.write(stream, buf[:n]); failed != nil {
				c.process.Kill("output")
			}
		}
		if err != nil {
			// A terminal's master reads EIO when its last process is gone.
			if errors.Is(failed, tool.ErrOutputLimit) {
				return nil
			}
			return failed
		}
	}
}

// write sends input to the command.
func (c *command) write(ctx context.Context, text string) error {
	c.inputMu.Lock()
	defer c.inputMu.Unlock()
	if c.input == nil {
		return tool.Errorf(tool.Conflict, "the job takes no more input: it has ended or was started without any").
			WithHint("Look at it with job_output.")
	}
	// A command that does not read must not hold the call: the deadline ends the
	// write when the call's own context does.
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.input.SetWriteDeadline(deadline); err != nil && !errors.Is(err, os.ErrNoDeadline) {
			return fmt.Errorf("input of the job: %w", err)
		}
	}
	stop := context.AfterFunc(ctx, func() { c.input.SetWriteDeadline(pastDeadline) })
	defer stop()
	if _, err := io.WriteString(c.input, text); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return tool.Errorf(tool.TimeoutError, "the job does not read its input").WithHint("Look at it with job_output.")
		}
		return tool.Errorf(tool.ExecutionError, "the job's input is closed: %v", err)
	}
	return nil
}

func (c *command) kill(reason string) { c.process.Kill(reason) }
