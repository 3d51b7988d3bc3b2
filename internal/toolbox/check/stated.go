package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// optional are the methods that a tool should have beside execute. generateManual
// replaces a manual that is made anyway, so it is not missed.
func optional() []string {
	return []string{"getMetadata", "getSchema", "getDependencies", "getBusinessErrors", "getRuntimeConfig"}
}

// spelled is a method's name as the tool's language writes it.
func (r *run) spelled(method string) string {
	if r.lang != definition.Python {
		return method
	}
	var b strings.Builder
	for _, c := range method {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// methods is layer 2.
func (r *run) methods() {
	if r.Definition == nil {
		r.skip(unloaded)
		r.found("load", r.module, r.loadError())
		return
	}
	has := func(name string) bool { return slices.Contains(r.Definition.Methods, name) }
	if !has("execute") && !r.Definition.Script {
		r.found("execute", r.module)
	}
	severity := Warning
	if r.Strict {
		severity = Error
	}
	for _, name := range optional() {
		if !has(name) {
			r.foundAs(severity, "method", r.module, r.spelled(name))
		}
	}
	for _, p := range r.Definition.Problems {
		if p.Threw {
			r.found("throws", r.spelled(p.Method)+"()", r.spelled(p.Method), p.Message)
		}
	}
}

func (r *run) loadError() any {
	if r.LoadError == nil {
		return words{"it was not asked", "未曾询问"}
	}
	return r.LoadError
}

// metadata is layer 3.
func (r *run) metadata() {
	answer, ok := r.answered("getMetadata")
	if !ok {
		return
	}
	if kindOf(answer) != "an object" {
		r.skip(unanswered)
		r.found("metadata", r.spelled("getMetadata")+"()", r.spelled("getMetadata"), kind(answer))
		return
	}
	fields := members(answer)
	for _, row := range []struct{ rule, field string }{
		{"meta-name", "name"}, {"meta-description", "description"}, {"meta-id", "id"}, {"meta-category", "category"},
	} {
		if text, ok := textOf(fields[row.field]); !ok || strings.TrimSpace(text) == "" {
			r.found(row.rule, r.spelled("getMetadata")+"()."+row.field, kind(fields[row.field]))
		}
	}
	version, isText := textOf(fields["version"])
	if _, err := semver.StrictNewVersion(version); err != nil || !isText {
		r.found("meta-version", r.spelled("getMetadata")+"().version", shown(fields["version"]))
	}
	for _, list := range []string{"tags", "scenarios", "limitations"} {
		if value, there := fields[list]; there && !texts(value) {
			r.found("meta-lists", r.spelled("getMetadata")+"()."+list, list, kind(value))
		}
	}
}

// texts reports whether a value is a list of texts.
func texts(value json.RawMessage) bool {
	items, ok := itemsOf(value)
	return ok && !slices.ContainsFunc(items, func(item json.RawMessage) bool {
		_, isText := textOf(item)
		return !isText
	})
}

// answers is layer 5.
func (r *run) answers() {
	if r.Definition == nil {
		r.skip(unloaded)
		return
	}
	r.dependencyAnswers()
	r.errorAnswers()
	r.runtimeAnswers()
	for _, p := range r.Definition.Problems {
		_, answered := r.raw(p.Method)
		method := r.spelled(p.Method)
		switch {
		case p.Threw: // layer 2 has it
		case !answered:
			r.found("answer", method+"()", method, p.Message)
		case !r.named(p.Method):
			r.found("understood", method+"()", method, p.Message)
		}
	}
}

// named reports whether an answer has been found fault with already: the host sees
// the same, in other words.
func (r *run) named(method string) bool {
	places := []string{r.spelled(method) + "()"}
	if method == "getSchema" {
		places = append(places, "parameters", "environment")
	}
	for _, l := range append(r.report.Layers, r.layer) {
		for _, f := range l.Findings {
			if f.ID != "understood" && slices.ContainsFunc(places, func(p string) bool { return strings.HasPrefix(f.Where, p) }) {
				return true
			}
		}
	}
	return false
}

func (r *run) dependencyAnswers() {
	answer, ok := r.answered("getDependencies", "deps", "dep-range")
	if !ok {
		return
	}
	where := r.spelled("getDependencies") + "()"
	if kindOf(answer) != "an object" {
		r.skip(unanswered, "dep-range")
		r.found("deps", where, r.spelled("getDependencies"), kind(answer))
		return
	}
	ranges := members(answer)
	for _, name := range slices.Sorted(maps.Keys(ranges)) {
		if text, ok := textOf(ranges[name]); !ok || strings.TrimSpace(text) == "" {
			r.found("dep-range", fmt.Sprintf("%s[%q]", where, name), kind(ranges[name]))
		}
	}
}

func (r *run) errorAnswers() {
	answer, ok := r.answered("getBusinessErrors", "errors", "error-fields")
	if !ok {
		return
	}
	where := r.spelled("getBusinessErrors") + "()"
	items, isList := itemsOf(answer)
	if !isList {
		r.skip(unanswered, "error-fields")
		r.found("errors", where, r.spelled("getBusinessErrors"), kind(answer))
		return
	}
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", where, i)
		if kindOf(item) != "an object" {
			r.found("error-fields", at, words{"the error", "该错误"}, kind(item), words{"an object", "对象"})
			continue
		}
		fields := members(item)
		for _, name := range []string{"code", "description", "solution"} {
			if text, ok := textOf(fields[name]); !ok || strings.TrimSpace(text) == "" {
				r.found("error-fields", at+"."+name, name, kind(fields[name]), words{"a text", "文本"})
			}
		}
		if value := fields["retryable"]; !isBool(value) {
			r.found("error-fields", at+".retryable", "retryable", kind(value), words{"true or false", " true 或 false"})
		}
	}
}

func (r *run) runtimeAnswers() {
	answer, ok := r.answered("getRuntimeConfig", "runtime")
	if !ok {
		return
	}
	where := r.spelled("getRuntimeConfig") + "()"
	if kindOf(answer) != "an object" {
		r.found("runtime", where, r.spelled("getRuntimeConfig"), kind(answer))
		return
	}
}

func isBool(raw json.RawMessage) bool {
	text := string(bytes.TrimSpace(raw))
	return text == "true" || text == "false"
}
