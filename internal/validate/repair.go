package validate

import (
	"errors"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// parseArguments parses text into r.doc. What does not parse is repaired where
// that cannot change its meaning: raw newlines, tabs and carriage returns in
// strings are escaped, and a string that holds the whole JSON is decoded, once.
// It returns the text that was parsed.
func (r *run) parseArguments(text string) (_ string, repaired bool, _ error) {
	text, repaired, err := r.parseEscaping(text)
	if err == nil && r.doc.nodes[0].kind == kindString {
		inner := r.doc.nodes[0].str()
		if blank(inner) {
			inner = "{}"
		}
		repaired = true
		text, _, err = r.parseEscaping(inner)
	}
	if err != nil {
		return "", repaired, argumentsError(err)
	}
	return text, repaired, nil
}

// parseEscaping parses text, with raw control characters in its strings escaped
// if they were what was wrong.
func (r *run) parseEscaping(text string) (string, bool, error) {
	err := r.doc.parse(text)
	var syntax *syntaxError
	if !errors.As(err, &syntax) || !syntax.control {
		return text, false, err
	}
	text = escapeControls(text)
	return text, true, r.doc.parse(text)
}

// escapeControls writes \n, \t and \r for the raw characters inside strings.
func escapeControls(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/16)
	inString, afterBackslash := false, false
	for i := range len(text) {
		c := text[i]
		switch {
		case !inString:
			inString = c == '"'
		case afterBackslash:
			afterBackslash = false
		case c == '\\':
			afterBackslash = true
		case c == '"':
			inString = false
		case c == '\n':
			b.WriteString(`\n`)
			continue
		case c == '\t':
			b.WriteString(`\t`)
			continue
		case c == '\r':
			b.WriteString(`\r`)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// argumentsError says what is wrong with JSON that could not be read.
func argumentsError(err error) *tool.Error {
	var syntax *syntaxError
	if !errors.As(err, &syntax) {
		return tool.Errorf(tool.ValidationError, "the arguments are not JSON: %v", err)
	}
	switch {
	case syntax.cut:
		return tool.Errorf(tool.ValidationError, "arguments were cut off at byte %d", syntax.at).
			WithHint("Send the whole JSON object again; split what is too long into several calls.")
	case syntax.dup != "":
		e := tool.Errorf(tool.ValidationError, "the arguments are ambiguous: %s", syntax.msg).
			WithHint("Give %q once.", shorten(syntax.dup))
		e.Field = syntax.dup
		e.Faults = []tool.Fault{{Path: pathText([]step{{key: syntax.dup, index: -1}}), Expected: "one value", Got: "two"}}
		return e
	}
	return tool.Errorf(tool.ValidationError, "the arguments are not valid JSON: %s", syntax.msg).
		WithHint("Send one JSON object.")
}
