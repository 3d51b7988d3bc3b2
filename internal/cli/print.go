package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// printJSON prints v as one line of JSON, without the escapes of <, > and &.
func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printResult prints the result of a call: what it gives on stdout, what went
// wrong on stderr. The error says how the process should end.
func (p *program) printResult(r *tool.Result) error {
	if p.flags.json {
		raw := append(r.AppendJSON(nil), '\n')
		if _, err := p.stdout.Write(raw); err != nil {
			return err
		}
	} else {
		p.printContent(r)
	}
	if code := codeOfResult(r); code != exitOK {
		return &ended{code}
	}
	return nil
}

func (p *program) printContent(r *tool.Result) {
	for _, c := range r.Content {
		text := contentText(c)
		if c.Kind == tool.KindText && r.IsError {
			text = withoutError(text, r.Err)
		}
		if text == "" {
			continue
		}
		if p.outTTY {
			text = p.out.diff(printable(text))
		}
		fmt.Fprint(p.stdout, text)
		if !strings.HasSuffix(text, "\n") {
			fmt.Fprintln(p.stdout)
		}
	}
	for _, n := range r.Meta.Notes {
		p.note("%s", n)
	}
	switch {
	case r.Err != nil:
		what, hint := words(r.Err)
		p.complain(what, hint)
	case r.IsError && len(r.Content) == 0:
		p.complain("the tool failed and did not say why", "")
	}
}

// withoutError is the text of a failed call without the failure itself, which is
// printed as an error.
func withoutError(text string, err *tool.Error) string {
	if err == nil {
		return text
	}
	trimmed := strings.TrimSpace(text)
	for _, said := range []string{err.Text(), "[" + err.Text() + "]"} {
		if rest, ok := strings.CutSuffix(trimmed, said); ok {
			return strings.TrimRight(rest, "\n")
		}
	}
	return text
}

// contentText is a block of content as a person can read it.
func contentText(c tool.Content) string {
	switch c.Kind {
	case tool.KindText, "":
		return c.Text
	case tool.KindImage, tool.KindAudio:
		return fmt.Sprintf("[%s %s, %s; --json has the data]", c.Kind, c.MIME, bytesText(int64(len(c.Data))))
	case tool.KindResourceLink:
		return fmt.Sprintf("[%s %s, %s: %s]", c.Name, c.MIME, bytesText(c.Size), c.URI)
	}
	if c.Text != "" {
		return c.Text
	}
	return fmt.Sprintf("[%s %s]", c.URI, c.MIME)
}

// bytesText is a size for people: "512 B", "1.5 MiB".
func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, name := float64(n), "KMGTPE"
	at := -1
	for value >= unit && at < len(name)-1 {
		value /= unit
		at++
	}
	return fmt.Sprintf("%.1f %ciB", value, name[at])
}

// compact is raw on one line.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// argumentsText is the arguments of a call for people: key=value, cut off.
func argumentsText(raw json.RawMessage, limit int) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return oneLine(compact(raw), limit)
	}
	var parts []string
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			break
		}
		var s string
		if json.Unmarshal(value, &s) == nil {
			if s == "" || strings.ContainsAny(s, " \t\n\"") {
				s = fmt.Sprintf("%q", s)
			}
		} else {
			s = compact(value)
		}
		parts = append(parts, fmt.Sprintf("%v=%s", key, s))
	}
	return oneLine(strings.Join(parts, " "), limit)
}
