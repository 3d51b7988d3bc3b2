// Package yamlin reads what a model hands to toolm: a short YAML text, or the
// same fields as JSON. It knows the form of a request, and neither which tools
// there are nor what becomes of it.
//
// The reader of YAML is its own, since a text may be written to a file as it
// stands here: an escape that means nothing, an anchor that nobody uses or a key
// that stands twice is an error and never dropped, positions are exact, and the
// time is linear in the length of any text, however hostile.
package yamlin

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/tool"
)

// Parse reads the text of a request. It is parsed as it is; only if that fails,
// known mistakes are repaired, and repairs says which, a sentence part each. err
// is a *tool.Error VALIDATION_ERROR: of a text that is no YAML it shows line,
// column and the line itself, and has them as details; of one that is no
// request it has faults.
func Parse(text string) (req Request, repairs []string, err error) {
	raw, repairs, err := ToJSON(text)
	if err != nil {
		return Request{}, nil, err
	}
	req, more, err := interpret(raw, 0)
	if err != nil {
		if again, said, ok := repairMeaning(text); ok {
			if raw, _, failure := ToJSON(again); failure == nil {
				if req, more, failure := interpret(raw, 0); failure == nil {
					return req, append(append(repairs, said), more...), nil
				}
			}
		}
		return Request{}, repairs, err
	}
	return req, append(repairs, more...), nil
}

// ToJSON turns one YAML document into JSON, repaired if need be.
func ToJSON(text string) (raw json.RawMessage, repairs []string, err error) {
	if len(text) >= maxText {
		return nil, nil, tool.Errorf(tool.ValidationError, "the text has %d bytes, %d or more are refused", len(text), maxText).
			WithHint("Write large content to a file and hand over its path.")
	}
	src := normalise(text)
	raw, first := strict(src)
	if first == nil {
		return raw, nil, nil
	}
	const (
		rounds = 64      // repairs of one text at most
		always = 3       // of any text
		work   = 4 << 20 // bytes read again for more of them
	)
	fault, spent := first, 0
	for round := 0; round < rounds && fault.kind != limit && (round < always || spent < work); round++ {
		spent += len(src)
		mended, said, ok := repair(src, fault)
		if !ok {
			break
		}
		src = mended
		if len(repairs) == 0 || repairs[len(repairs)-1] != said {
			repairs = append(repairs, said)
		}
		if raw, fault = strict(src); fault == nil {
			return raw, repairs, nil
		}
	}
	return nil, nil, refuse(first)
}

// strict parses a text as it is.
func strict(src string) (json.RawMessage, *syntaxError) {
	n, err := parseYAML(src)
	if err != nil {
		return nil, err
	}
	return encode(src, n)
}

// normalise takes off a byte order mark and makes all line ends line feeds, as
// YAML says.
func normalise(text string) string {
	text = strings.TrimPrefix(text, "\ufeff")
	if strings.IndexByte(text, '\r') >= 0 {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	return text
}

// refuse says where a text is no YAML and shows the line.
func refuse(e *syntaxError) error {
	line, caret := window(e.show, e.col)
	number := fmt.Sprint(e.line)
	return tool.Errorf(tool.ValidationError, "the text is not YAML: line %d, column %d: %s\n%s | %s\n%s | %s^",
		e.line, e.col, e.what, number, line, strings.Repeat(" ", len(number)), strings.Repeat(" ", caret)).
		WithHint("Indent with spaces, put text with special characters in quotes, and text of several lines below key: |.").
		WithDetail("line", e.line).WithDetail("column", e.col).WithDetail("text", line)
}

// window is the part of a line around a column, and where the column is in it.
func window(line string, col int) (string, int) {
	const width = 120
	line = strings.ToValidUTF8(strings.ReplaceAll(line, "\t", " "), "\uFFFD")
	runes := []rune(line)
	if len(runes) <= width {
		return line, min(col-1, len(runes))
	}
	from := max(0, min(col-1-width/2, len(runes)-width))
	shown := string(runes[from : from+width])
	at := min(col-1, len(runes)) - from
	if from > 0 {
		shown = "…" + shown
		at++
	}
	if from+width < len(runes) {
		shown += "…"
	}
	return shown, at
}

// validUTF8 cuts s to n bytes at a character's start.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
