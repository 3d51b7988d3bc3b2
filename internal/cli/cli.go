// Package cli is the program toolyard: one file a command. It is the only place
// that prints and decides how the process ends. It does not decide anything
// about a call: that is the executor's.
//
// What goes where: stdout has what was asked for and nothing else, so that it
// can be piped; progress, questions and errors are on stderr. An error is one
// line "toolyard: what — hint". Colour and progress only appear on a terminal,
// and never with NO_COLOR. With --json stdout is JSON, one document or one line
// a record, and always the same shape.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/toolyard/toolyard/internal/garbage"
	"github.com/toolyard/toolyard/tool"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // the tool or the validation failed
	exitUsage       = 2
	exitDenied      = 3
	exitUnknown     = 4 // an unknown tool, or an id on the command line that is not there
	exitNobody      = 5 // a person was needed and none could be asked
	exitTimeout     = 124
	exitInterrupted = 130
)

// program is one run: its streams and its global flags.
type program struct {
	stdin  *os.File
	stdout io.Writer
	stderr io.Writer
	// Which of the streams are terminals.
	inTTY, outTTY, errTTY bool
	out, err              look // colours of stdout and stderr
	flags                 flags
}

// Main runs the program and returns its exit code.
func Main(args []string, stdin, stdout, stderr *os.File) int {
	garbage.Pace()
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr}
	p.inTTY, p.outTTY, p.errTTY = isTerminal(stdin), isTerminal(stdout), isTerminal(stderr)
	p.out, p.err = look{p.outTTY && colours()}, look{p.errTTY && colours()}
	return p.run(args)
}

// run executes a command line. The first SIGINT or SIGTERM cancels what is
// running, a second one ends the process at once.
func (p *program) run(args []string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	watching := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&interrupted{s})
		case <-watching:
		}
	}()
	defer close(watching)
	defer signal.Stop(signals)

	root := p.command()
	root.SetArgs(dashedArguments(args))
	c, err := root.ExecuteContextC(ctx)
	if _, said := errors.AsType[*ended](err); err != nil && !said && c.Annotations[ownFailure] != "" {
		return p.exitOfRun(err, args)
	}
	return p.exit(ctx, err)
}

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal os.Signal }

func (i *interrupted) Error() string { return "interrupted by " + i.signal.String() }

// served is how a command ends that goes on until it is told to end: a SIGTERM
// is no failure.
func served(ctx context.Context, err error) error {
	if i, ok := errors.AsType[*interrupted](context.Cause(ctx)); ok {
		if i.signal == syscall.SIGTERM {
			return nil
		}
		return i
	}
	return err
}

// wasInterrupted reports whether a signal ended ctx.
func wasInterrupted(ctx context.Context) bool {
	_, ok := errors.AsType[*interrupted](context.Cause(ctx))
	return ok
}

// exit prints err, if it has not been printed, and gives the exit code.
func (p *program) exit(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if ended, ok := errors.AsType[*ended](err); ok {
		return ended.code
	}
	if wasInterrupted(ctx) {
		p.complain("interrupted", "")
		return exitInterrupted
	}
	what, hint := words(err)
	p.complain(what, hint)
	return codeOf(err)
}

// ended carries an exit code out of a command that has said everything.
type ended struct{ code int }

func (*ended) Error() string { return "ended" }

// isTerminal reports whether f is a terminal.
func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

// colours reports whether the environment wants colours (https://no-color.org).
func colours() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// codeOfResult is the exit code of a call.
func codeOfResult(r *tool.Result) int {
	switch {
	case !r.IsError:
		return exitOK
	case r.Err == nil:
		return exitFailed
	}
	return codeOf(r.Err)
}
