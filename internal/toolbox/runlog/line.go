package runlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	stampLayout = "2006-01-02T15:04:05.000Z"
	stampLen    = len(stampLayout)

	maxTries = 16
)

// Entry is one line of a log.
type Entry struct {
	Time    time.Time       `json:"time,omitzero"`
	Level   string          `json:"level,omitempty"`
	Message string          `json:"message,omitempty"`
	Meta    json.RawMessage `json:"meta,omitempty"`
	// Raw is the line as it stands in the file.
	Raw string `json:"raw"`
	// Parsed says that the line is an entry; else only Raw is set.
	Parsed bool `json:"parsed"`
}

// Parse reads a line, without its line feed. ok is false for one that is no
// entry.
func Parse(line []byte) (e Entry, ok bool) {
	e = Entry{Raw: strings.ToValidUTF8(string(line), "\ufffd")}
	at, name, rest, ok := split(line)
	if !ok {
		return e, false
	}
	e.Parsed, e.Time, e.Level = true, at, name
	text := strings.ToValidUTF8(string(rest), "\ufffd")
	// Meta data is the first object that reaches to the end of the line. In lines
	// of ours it is the first object at all; in others' only some are tried.
	for from, tries := 0, 0; tries < maxTries && strings.HasSuffix(text, "}"); tries++ {
		i := strings.Index(text[from:], " {")
		if i < 0 {
			break
		}
		from += i + 1
		if json.Valid([]byte(text[from:])) {
			e.Meta = json.RawMessage(text[from:])
			text = text[:from-1]
			break
		}
	}
	e.Message = unescape(text)
	return e, true
}

// split takes the time and the level off a line.
func split(line []byte) (at time.Time, name string, rest []byte, ok bool) {
	if len(line) < 2 || line[0] != '[' {
		return
	}
	end := bytes.IndexByte(line[:min(len(line), 40)], ']')
	if end < 0 {
		return
	}
	at, err := time.Parse(time.RFC3339Nano, string(line[1:end]))
	if err != nil {
		return
	}
	rest, found := bytes.CutPrefix(line[end+1:], []byte(" ["))
	stop := bytes.IndexByte(rest[:min(len(rest), 12)], ']')
	if !found || stop < 1 {
		return
	}
	for _, c := range rest[:stop] {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') {
			return
		}
	}
	name = strings.ToUpper(string(rest[:stop]))
	return at, name, bytes.TrimPrefix(rest[stop+1:], []byte(" ")), true
}

// appendLine writes an entry with its line feed.
func appendLine(b []byte, at time.Time, name, message string, meta json.RawMessage) []byte {
	b = append(b, '[')
	b = at.UTC().AppendFormat(b, stampLayout)
	b = append(b, "] ["...)
	b = append(b, level(name)...)
	b = append(b, "] "...)
	b = escape(b, cut(message, MaxText))
	if object := compact(meta); object != nil {
		b = append(b, ' ')
		b = append(b, object...)
	}
	return append(b, '\n')
}

// cut shortens a text to n bytes, at a whole character, and says so.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + fmt.Sprintf("… (%d bytes more)", len(s)-n)
}

// compact makes of meta data an object on one line; nil of nothing.
func compact(meta json.RawMessage) []byte {
	meta = bytes.TrimSpace(meta)
	if len(meta) == 0 || bytes.Equal(meta, []byte("null")) {
		return nil
	}
	if len(meta) > MaxText {
		meta = []byte(`{"cut":` + quoted(cut(string(meta), MaxText/2)) + `}`)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, meta); err != nil {
		b.Reset()
		b.WriteString(quoted(string(meta)))
	}
	out := b.Bytes()
	if out[0] != '{' {
		out = append(append([]byte(`{"value":`), out...), '}')
	}
	if string(out) == "{}" {
		return nil
	}
	return escapeJSON(out)
}

// quoted is a text as a JSON string.
func quoted(s string) string {
	out, err := json.Marshal(strings.ToValidUTF8(s, "\ufffd"))
	if err != nil {
		return `""` // a string always marshals
	}
	return string(out)
}

// unsafe reports whether a character could end a line, or change how a
// terminal shows it.
func unsafe(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff
}

// escape writes a message so that it is one line and [unescape] gets it back.
func escape(b []byte, s string) []byte {
	before := rune(0)
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		switch {
		case r == '{' && before == ' ':
			b = append(b, `\{`...) // or it could be read as meta data
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\\':
			b = append(b, `\\`...)
		case unsafe(r):
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
		before = r
	}
	return b
}

// escapeJSON does the same inside JSON, where no such character stands outside
// of a string, and keeps it JSON.
func escapeJSON(text []byte) []byte {
	if bytes.IndexFunc(text, unsafe) < 0 && utf8.Valid(text) {
		return text
	}
	var b []byte
	for _, r := range string(bytes.ToValidUTF8(text, []byte("\ufffd"))) {
		if unsafe(r) {
			b = fmt.Appendf(b, `\u%04x`, r)
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// unescape reads a message. What is no escape of ours stays as it is.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case '\\', '{':
			b.WriteByte(s[i])
		case 'u':
			if i+5 <= len(s) {
				if r, err := strconv.ParseUint(s[i+1:i+5], 16, 32); err == nil && unsafe(rune(r)) {
					b.WriteRune(rune(r))
					i += 4
					continue
				}
			}
			b.WriteString(`\u`)
		default:
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
