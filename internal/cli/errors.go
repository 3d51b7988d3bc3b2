package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// usageError is a command line that makes no sense: exit code 2.
type usageError struct{ what, hint string }

func (e *usageError) Error() string { return e.what }

func usagef(format string, args ...any) *usageError {
	return &usageError{what: fmt.Sprintf(format, args...)}
}

func (e *usageError) withHint(format string, args ...any) *usageError {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

// missing is something named on the command line that is not there: exit code 4.
type missing struct{ what, hint string }

func (e *missing) Error() string { return e.what }

// hinted is any other error with what to do about it.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// words takes an error apart into what is wrong and what to do about it.
func words(err error) (what, hint string) {
	if e, ok := errors.AsType[*usageError](err); ok {
		return e.what, e.hint
	}
	if e, ok := errors.AsType[*missing](err); ok {
		return e.what, e.hint
	}
	if e, ok := errors.AsType[*hinted](err); ok {
		return e.err.Error(), e.hint
	}
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return withFaults(e), e.Hint
	}
	switch {
	case errors.Is(err, store.ErrFull):
		return err.Error(), "Make room on the disk that holds the toolyard home."
	case errors.Is(err, store.ErrBusy):
		return err.Error(), "Try again; `toolyard doctor` looks at the store."
	}
	return err.Error(), ""
}

// withFaults is the message of e and, a line each, the faults that it only
// counts.
func withFaults(e *tool.Error) string {
	text := e.Message
	if i := strings.LastIndex(text, " (and "); i > 0 && strings.HasSuffix(text, " more)") && len(e.Faults) > 1 {
		text = text[:i]
	}
	for _, f := range e.Faults {
		if !strings.Contains(text, f.String()) {
			text += "\n  " + f.String()
		}
	}
	return text
}

// complain prints an error in its one form.
func (p *program) complain(what, hint string) {
	what = strings.TrimRight(printable(what), ".\n")
	first, rest, _ := strings.Cut(what, "\n")
	line := p.err.red("toolyard:") + " " + first
	if rest != "" {
		line += "\n" + rest
		if hint != "" {
			line += "\n "
		}
	}
	if hint != "" {
		line += " — " + p.err.dim(strings.TrimSpace(printable(hint)))
	}
	fmt.Fprintln(p.stderr, line)
}

// note prints a line about what is being done, unless --quiet.
func (p *program) note(format string, args ...any) {
	if !p.flags.quiet {
		fmt.Fprintln(p.stderr, p.err.dim(printable(fmt.Sprintf(format, args...))))
	}
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*missing](err); ok {
		return exitUnknown
	}
	e, ok := errors.AsType[*tool.Error](err)
	if !ok {
		return exitFailed
	}
	switch e.Code {
	case tool.PermissionDenied:
		if e.Details["reason"] == "no_channel" {
			return exitNobody
		}
		// A path outside the workspace is the tool's own refusal and as final as a
		// rule's.
		return exitDenied
	case tool.ModeDenied, tool.HookDenied, tool.PermissionTimeout, tool.DoomLoop:
		return exitDenied
	case tool.ToolNotFound:
		return exitUnknown
	case tool.ValidationError:
		if e.Details["source"] == "flags" { // of the configuration, given on the command line
			return exitUsage
		}
	case tool.TimeoutError:
		return exitTimeout
	}
	return exitFailed
}
