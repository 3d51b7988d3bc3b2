package dotenv

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toolyard/toolyard/tool"
)

// lastBackslash is a backslash before a closing double quote. Written as \\ it
// is right too, but other readers take the quote after it as escaped and go on
// into the next lines; this way at least they see the same keys.
const lastBackslash = `\x5c`

// Lines of the header, by their beginnings.
const (
	headTool      = "# Tool: "
	headGenerator = "# Written by toolyard; change it with mode configure, or by hand"
	headModified  = "# Last modified: "
)

// Format gives the text of a file with four comment lines and values in the
// order of their keys. The same values, title, tool and time give the same
// bytes. A key that is not valid, a value with a NUL byte and one that is no
// UTF-8 are VALIDATION_ERROR and name the key; more than [MaxFile] bytes are
// RESOURCE_EXHAUSTED.
func Format(name, title string, values map[string]string, now time.Time) ([]byte, error) {
	var b strings.Builder
	b.WriteString(header(name, title, now))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := check(key, values[key]); err != nil {
			return nil, err
		}
		b.WriteString(assignment(key, values[key]))
	}
	return sized(b.String())
}

func sized(text string) ([]byte, error) {
	if len(text) > MaxFile {
		return nil, tool.Errorf(tool.ResourceExhausted, "the settings need %d bytes, more than %d", len(text), MaxFile).
			WithHint("Keep large values in a file of the tool's data folder and set its path.")
	}
	return []byte(text), nil
}

// check refuses what no file can hold.
func check(key, value string) error {
	if !ValidKey(key) {
		err := tool.Errorf(tool.ValidationError, "%q is no name of a variable", key).
			WithHint("Use upper-case letters, digits and _, not beginning with a digit, such as API_KEY.")
		err.Field = key
		return err
	}
	what := ""
	switch {
	case strings.IndexByte(value, 0) >= 0:
		what = "a NUL byte"
	case !utf8.ValidString(value):
		what = "bytes that are no UTF-8"
	default:
		return nil
	}
	err := tool.Errorf(tool.ValidationError, "the value of %s holds %s", key, what).
		WithHint("An environment variable cannot carry that; encode the value as base64.")
	err.Field = key
	return err
}

// header is the four comment lines.
func header(name, title string, now time.Time) string {
	return "# " + oneLine(title) + "\n" + headTool + oneLine(name) + "\n" + headGenerator + "\n" +
		headModified + now.Format(time.RFC3339) + "\n"
}

// oneLine makes of a text something that cannot end a comment.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

func assignment(key, value string) string { return key + "=" + quote(value) + "\n" }

// quote writes a value in the first of these forms that can hold it. Without
// quotes, in single and in double ones with nothing to escape, all readers
// agree. In backquotes Node's do. The last form is ours and mostly godotenv's.
func quote(v string) string {
	has := func(chars string) bool { return strings.ContainsAny(v, chars) }
	closed := !strings.HasSuffix(v, `\`)
	switch {
	case v != "" && isPlain(v):
		return v
	case !has("'\r") && closed:
		return "'" + v + "'"
	case !has("\"\\$\r"):
		return `"` + v + `"`
	case !has("`\r") && closed:
		return "`" + v + "`"
	}
	return `"` + escape(v) + `"`
}

// isPlain reports whether a value needs no quotes: it has nothing in it that
// any reader, or a shell, takes for more than it is but the backslash.
func isPlain(v string) bool {
	for i := range len(v) {
		c := v[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte(`_-./:@%+,=\`, c) < 0 {
			return false
		}
	}
	return true
}

func escape(v string) string {
	var b strings.Builder
	for i := range len(v) {
		switch c := v[i]; {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\\' && i == len(v)-1:
			b.WriteString(lastBackslash)
		case c == '\\' || c == '"' || c == '$':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
