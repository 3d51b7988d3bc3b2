package host

import (
	"errors"
	"maps"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of what a failure shows.
const (
	maxMessage = 1000     // bytes
	maxRest    = 16 << 10 // bytes of what a failure returned besides
)

// Failure is the error of a call of a worker, for the caller. What the tool threw
// is classified by its code and text, as core.md §2 says; if it is one of the
// tool's business errors, by its code or by its match, then Details has "business"
// {code, description, solution, retryable}, the hint is the solution, and whether
// it is retryable is what the tool says. d may be nil, for a tool that is not
// known yet. Message is one that a person reads and has no stack: that is for
// run.log, see [Stack]. A nil err is nil.
func Failure(err error, d *definition.Definition) *tool.Error {
	if err == nil {
		return nil
	}
	return failure(err, d)
}

// Stack is where in its code a tool threw; "" if that is not known.
func Stack(err error) string {
	if thrown, ok := errors.AsType[*worker.Thrown](err); ok {
		return thrown.Stack
	}
	return ""
}

func failure(err error, d *definition.Definition) *tool.Error {
	if c, ok := errors.AsType[*claim](err); ok {
		return claimed(c, d)
	}
	e := *tool.AsError(err)
	e.Details = maps.Clone(e.Details)
	delete(e.Details, "stack")
	thrown, ok := errors.AsType[*worker.Thrown](err)
	if !ok {
		return &e
	}
	switch thrown.Kind {
	case "":
		e.Code = codeOf(thrown.Code, thrown.Message)
		if thrown.Name == "ModuleNotFoundError" {
			e.Code = tool.DependencyError
		}
		e.Message = readable(thrown)
		retries, _ := e.Code.Retries()
		e.Retryable = retries > 0
	case worker.KindLate:
		e.Message = "the tool threw outside of its call: " + readable(thrown)
	case worker.KindLoad:
		e.Message = "the tool's module does not load: " + readable(thrown)
		return &e
	default:
		return &e
	}
	return business(&e, d, thrown.Code, thrown.Message, thrown.Cause)
}

// claimed is what a tool returned as a failure.
func claimed(c *claim, d *definition.Definition) *tool.Error {
	e := tool.Errorf(codeOf(c.code, c.message), "%s", message(c.message))
	e.Began, e.Err = true, c
	if c.code != "" && string(e.Code) != c.code {
		e.WithDetail("error_code", cut(c.code, maxMessage))
	}
	if c.structured != nil && len(c.structured) <= maxRest {
		e.WithDetail("result", c.structured)
	}
	return business(e, d, c.code, c.message, "")
}

// codeOf classifies what a tool said: it may name one of our codes itself.
func codeOf(code, text string) tool.Code {
	switch {
	case tool.Code(code).Class() != "unknown_error":
		return tool.Code(code)
	case code == "MODULE_NOT_FOUND" || code == "ERR_MODULE_NOT_FOUND":
		return tool.DependencyError
	case code == "":
		return tool.Classify(text)
	}
	if c := tool.Classify(text); c != tool.ExecutionError {
		return c
	}
	return tool.Classify(code)
}

// readable is the message of what was thrown, with its kind where that says more
// than that it is an error.
func readable(t *worker.Thrown) string {
	text := message(t.Message)
	if cause := message(t.Cause); t.Cause != "" && !strings.Contains(text, cause) {
		text = cut(text+": "+cause, maxMessage)
	}
	if t.Name == "" || t.Name == "Error" || t.Name == "Exception" || strings.HasPrefix(text, t.Name) {
		return text
	}
	return t.Name + ": " + text
}

// message is a tool's text as one that can be shown: without the lines of a stack
// that somebody put into it.
func message(text string) string {
	var lines []string
	text, _, _ = strings.Cut(text, "\nRequire stack:")
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, " \t\r\n")
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "at ") && len(lines) > 0 || strings.HasPrefix(trimmed, `File "`) && strings.Contains(trimmed, ", line ") {
			continue
		}
		if line == "Traceback (most recent call last):" {
			continue
		}
		lines = append(lines, line)
	}
	text = strings.TrimSuffix(cut(strings.ToValidUTF8(strings.Join(lines, "\n"), "\uFFFD"), maxMessage), ".")
	if text == "" {
		return "the tool failed and said nothing"
	}
	return text
}

// business adds what the tool's author foresaw of a failure, or else of its cause.
func business(e *tool.Error, d *definition.Definition, code, text, cause string) *tool.Error {
	if d == nil {
		return e
	}
	known := find(d.BusinessErrors, code, text)
	if known == nil && cause != "" {
		known = find(d.BusinessErrors, "", cause)
	}
	if known == nil {
		return e
	}
	e.Retryable = known.Retryable
	if known.Solution != "" {
		e.Hint = known.Solution
	}
	return e.WithDetail("business", map[string]any{
		"code": known.Code, "description": known.Description, "solution": known.Solution, "retryable": known.Retryable,
	})
}

func find(all []definition.BusinessError, code, text string) *definition.BusinessError {
	for i := range all {
		if code != "" && all[i].Code == code {
			return &all[i]
		}
	}
	for i := range all {
		if matches(&all[i], text) {
			return &all[i]
		}
	}
	return nil
}
