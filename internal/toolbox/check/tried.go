package check

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// baseCall is the trial run with valid parameters. It is made once, and several
// layers look at it.
type baseCall struct {
	params  json.RawMessage // as a caller writes them
	outcome Outcome
	failure *failure // nil is success
	err     error    // no valid parameters, or no call
	noCall  bool     // err is that of the call
}

// trialRun makes the trial run, or gives the one that was made.
func (r *run) trialRun() *baseCall {
	if r.base != nil {
		return r.base
	}
	r.base = &baseCall{}
	r.base.params, r.base.err = r.baseParams()
	if r.base.err != nil {
		return r.base
	}
	passed, err := r.Trial.Validate(r.base.params)
	if err != nil {
		r.base.err = err
		return r.base
	}
	r.base.outcome, r.base.failure, r.base.err = r.execute(passed)
	r.base.noCall = r.base.err != nil
	return r.base
}

// execute calls the tool, for at most trialTime.
func (r *run) execute(params json.RawMessage) (Outcome, *failure, error) {
	if r.ctx.Err() != nil {
		return Outcome{}, nil, context.Cause(r.ctx)
	}
	ctx, cancel := context.WithTimeout(r.ctx, trialTime)
	defer cancel()
	o, err := r.Trial.Execute(ctx, params)
	if err != nil {
		return o, nil, err
	}
	if o.Err == nil {
		return o, refusal(o.Value), nil
	}
	return o, failureOf(o.Err, ctx.Err() != nil), nil
}

// failure is why a call of the tool failed.
type failure struct {
	message, code string
	name          string // of what was thrown: "TypeError"
	kind          failureKind
	business      bool // the tool's author foresaw it
}

type failureKind int

const (
	refused failureKind = iota // the tool said so itself
	unending
	died       // its process did
	unwritable // the result is no JSON, or too large
)

func failureOf(err error, late bool) *failure {
	e := tool.AsError(err)
	f := &failure{message: e.Message, code: string(e.Code)}
	_, f.business = e.Details["business"]
	thrown, isThrown := errors.AsType[*worker.Thrown](err)
	if isThrown {
		f.message, f.code, f.name = thrown.Message, thrown.Code, thrown.Name
		switch thrown.Kind {
		case worker.KindValue, worker.KindTooLong:
			f.kind = unwritable
			return f
		case worker.KindLate, worker.KindHeap, worker.KindLoad, worker.KindAbsent:
			f.message, f.kind = cmp.Or(thrown.Message, e.Message), died
			return f
		}
		return f
	}
	_, ended := e.Details["reason"]
	switch {
	case late || e.Code == tool.TimeoutError || e.Code == tool.Cancelled:
		f.kind = unending
	case ended || e.Code == tool.SandboxTerminated || e.Code == tool.ResourceExhausted || e.Code == tool.SandboxDenied || e.Code == tool.Internal:
		f.kind = died
	}
	return f
}

// refusal reads a result by which a tool says that it failed: {success: false} or
// MCP's isError.
func refusal(value json.RawMessage) *failure {
	fields := members(value)
	if string(fields["success"]) != "false" && string(fields["isError"]) != "true" {
		return nil
	}
	f := &failure{}
	for _, name := range []string{"error", "message"} {
		text, _ := textOf(fields[name])
		inner := members(fields[name])
		within, _ := textOf(inner["message"])
		f.message = cmp.Or(f.message, text, within)
	}
	if items, ok := itemsOf(fields["content"]); ok && f.message == "" {
		for _, item := range items {
			text, _ := textOf(members(item)["text"])
			f.message = cmp.Or(f.message, text)
		}
	}
	return f
}

// results is layer 7.
func (r *run) results() {
	base := r.tried()
	if base == nil {
		return
	}
	if base.failure != nil {
		r.skip(noValue)
		if base.failure.kind == unwritable {
			r.found("return-json", "execute()", base.failure.message)
		}
		return
	}
	value := bytes.TrimSpace(base.outcome.Value)
	if base.outcome.Undefined || len(value) == 0 {
		r.found("return-undefined", "execute()")
		return
	}
	switch value[0] {
	case 'n', 't', 'f':
		r.found("return-scalar", "execute()", kind(value))
	case '{':
		content, there := members(value)["content"]
		if _, isList := itemsOf(content); !there || isList {
			return
		}
		severity := Error
		if _, isText := textOf(content); isText { // plain data under that name
			severity = Warning
		}
		r.foundAs(severity, "return-content", "execute()", kind(content))
	case '[', '"':
	default:
		r.found("return-scalar", "execute()", kind(value))
	}
}

// tried is the trial run, or nil where there is none, and then the layer is marked
// so.
func (r *run) tried() *baseCall {
	switch {
	case r.Definition == nil:
		r.skip(unloaded)
		return nil
	case r.Trial == nil:
		r.skip(noTrial)
		return nil
	}
	base := r.trialRun()
	switch {
	case base.noCall:
		r.skip(noTrial)
		return nil
	case base.err != nil:
		r.skip(noBase)
		return nil
	}
	return base
}

// failures is layer 8.
func (r *run) failures() {
	r.errorCodes()
	if r.Definition == nil || r.Trial == nil {
		why := noTrial
		if r.Definition == nil {
			why = unloaded
		}
		r.skip(why, "message-empty", "message-short")
		return
	}
	seen := map[string]bool{}
	for _, f := range r.collected() {
		text := strings.TrimSpace(f.message)
		if f.kind != refused || seen[text] {
			continue
		}
		seen[text] = true
		switch n := utf8.RuneCountInString(text); {
		case n == 0:
			r.found("message-empty", "execute()")
		case n < 10 && !wide(text):
			r.found("message-short", "execute()", text)
		}
	}
	if len(seen) == 0 {
		r.skip(notAsked, "message-empty", "message-short")
	}
}

// wide reports whether a text is in a script that says as much in fewer characters:
// half of it is Chinese, Japanese or Korean, and it has four characters at least.
func wide(text string) bool {
	count, all := 0, 0
	for _, c := range text {
		all++
		if c >= 0x2E80 && c <= 0x9FFF || c >= 0xAC00 && c <= 0xD7AF || c >= 0xF900 && c <= 0xFAFF {
			count++
		}
	}
	return all >= 4 && count*2 >= all
}

// collected are the errors of the tool that the trials have seen. So that there are
// some, the tool is also called as nobody can call it: without what it requires,
// and with values of the wrong type, past the validator. What the language throws
// then is not the tool's own word, and does not count.
func (r *run) collected() []failure {
	list := r.refusals
	if base := r.trialRun(); base.failure != nil {
		list = append(list, *base.failure)
	}
	for _, params := range r.wrongParams() {
		if _, f, err := r.execute(params); err == nil && f != nil && !slices.Contains(languageErrors(), f.name) {
			list = append(list, *f)
		}
	}
	return list
}

// languageErrors are those of code that takes its parameters for granted.
func languageErrors() []string {
	return []string{"TypeError", "ReferenceError", "RangeError", "KeyError", "AttributeError", "IndexError", "NameError", "UnboundLocalError", "AssertionError"}
}

func (r *run) errorCodes() {
	answer, ok := r.answered("getBusinessErrors", "error-code")
	if !ok {
		return
	}
	items, _ := itemsOf(answer)
	for i, item := range items {
		code, isText := textOf(members(item)["code"])
		if isText && code != "" && !variableName().MatchString(code) {
			r.found("error-code", fmt.Sprintf("%s()[%d].code", r.spelled("getBusinessErrors"), i), code)
		}
	}
}

// integration is layer 11.
func (r *run) integration() {
	if r.Definition == nil {
		r.skip(unloaded)
		r.found("load-sandbox", r.module, r.loadError())
		return
	}
	if r.Trial == nil {
		r.skip(noTrial)
		return
	}
	r.escape()
	base := r.trialRun()
	if base.err != nil {
		why := noBase
		if base.noCall {
			why = noTrial
		}
		r.skip(why, "trial", "trial-refused", "logs")
		return
	}
	shown := brief(base.params)
	if f := base.failure; f != nil {
		r.trialFailure(shown, f)
	}
	switch {
	case base.failure != nil && (base.failure.kind == died || base.failure.kind == unending):
		r.skip(noValue, "logs")
	case len(base.outcome.Lines) == 0:
		r.found("logs", "run.log")
	}
}

func (r *run) trialFailure(params string, f *failure) {
	switch f.kind {
	case unending:
		r.skip(noValue, "trial-refused")
		r.found("trial", "execute()", params, words{fmt.Sprintf("did not end within %s", trialTime), fmt.Sprintf("在 %s 内没有结束", trialTime)})
	case died:
		r.skip(noValue, "trial-refused")
		r.found("trial", "execute()", params, words{"ended the tool's process: " + f.message, "导致工具进程结束：" + f.message})
	case refused:
		severity := Warning
		network := r.Definition.Runtime.Network
		if f.business || network.All || len(network.Domains) > 0 || r.foreseen(f) || r.Uninstalled && r.incomplete() {
			severity = Info // made-up parameters, no network, no packages: that was to be expected
		}
		r.foundAs(severity, "trial-refused", "execute()", params, brief([]byte(f.message)))
	case unwritable: // layer 7 has it
	}
}

// foreseen reports whether a failure carries the code of one of the tool's business
// errors. Matches of messages are in JavaScript or Python, so those are told by the
// host, as details of the error.
func (r *run) foreseen(f *failure) bool {
	for _, e := range r.Definition.BusinessErrors {
		if f.code != "" && e.Code == f.code {
			return true
		}
	}
	return false
}

func (r *run) escape() {
	ctx, cancel := context.WithTimeout(r.ctx, trialTime)
	defer cancel()
	reached, err := r.Trial.Escape(ctx)
	if err != nil {
		r.skip(noTrial, "escape")
	}
	for _, place := range reached {
		r.found("escape", "", place)
	}
}

// brief is a text that is not too long for a line.
func brief(raw []byte) string {
	text := []rune(strings.ToValidUTF8(string(raw), "\uFFFD"))
	if len(text) > 200 {
		return string(text[:200]) + "…"
	}
	return string(text)
}
