// Package dotenv reads and writes the .env file of a tool. It knows neither
// which variables a tool declares nor which of them are secret.
//
// What it writes, it reads back unchanged, however often, and no value can add
// a key. It reads files that people wrote as joho/godotenv and dotenv of Node
// do, where those two agree, with three decisions of its own: a variable in a
// value ($HOME) stays as it is, a # begins a comment only after a blank, and in
// double quotes a backslash that escapes nothing known stays.
package dotenv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolyard/toolyard/tool"
)

// MaxFile is the largest file that is read or written, in bytes.
const MaxFile = 1 << 20

// Values are variables and what they are set to.
type Values map[string]string

// Fault is one line of a file that is not as it should be.
type Fault struct {
	Line    int    `json:"line"` // from 1
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

func (f Fault) String() string {
	if f.Key == "" {
		return fmt.Sprintf("line %d: %s", f.Line, f.Message)
	}
	return fmt.Sprintf("line %d: %s: %s", f.Line, f.Key, f.Message)
}

// Parse reads the text of a file. It never fails: what it cannot understand is
// a fault and is left out. A key in lower case or with a dot is a fault too, but
// keeps its value. Of a key that is there twice the last one holds.
func Parse(data []byte) (Values, []Fault) {
	values := Values{}
	var faults []Fault
	for _, s := range scan(data) {
		if s.fault != "" {
			faults = append(faults, Fault{Line: s.line, Key: s.key, Message: s.fault})
		}
		if s.holds {
			values[s.key] = s.value
		}
	}
	return values, faults
}

// Load reads the file at path. One that is not there is empty. A symbolic link,
// or anything else that is no regular file, is PERMISSION_DENIED, and more than
// [MaxFile] RESOURCE_EXHAUSTED.
func Load(path string) (Values, []Fault, error) {
	data, err := read(path)
	if err != nil {
		return nil, nil, err
	}
	values, faults := Parse(data)
	return values, faults, nil
}

// read gives the bytes of a regular file; nil if there is none.
func read(path string) ([]byte, error) {
	before, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if !before.Mode().IsRegular() {
		return nil, notRegular(path, before)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(path, info)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(data) > MaxFile {
		return nil, tool.Errorf(tool.ResourceExhausted, "%s has more than %d bytes", path, MaxFile).
			WithHint("A .env file holds settings; keep data in the tool's data folder.")
	}
	return data, nil
}

func notRegular(path string, info fs.FileInfo) error {
	what := "no regular file"
	if info.Mode()&fs.ModeSymlink != 0 {
		what = "a symbolic link"
	}
	return tool.Errorf(tool.PermissionDenied, "%s is %s", path, what).
		WithHint("Put a regular file there; links are not followed.")
}

// A segment is a run of whole lines: an assignment, or one line that is none.
type segment struct {
	start, end int // bytes, with the line feed
	line       int // from 1
	key        string
	value      string
	holds      bool   // key and value are to be used
	fault      string // "" is none
	open       bool   // a quote that nothing closes
}

const (
	faultKey   = "a key must be upper-case letters, digits and _, and not begin with a digit"
	faultOpen  = "the quote is not closed"
	faultAfter = "there is text after the closing quote"
)

// scan cuts data in segments; they cover it all, in order.
func scan(data []byte) []segment {
	text := string(data)
	var list []segment
	for pos, line := 0, 1; pos < len(text); {
		s := scanLine(text, pos)
		s.start, s.line = pos, line
		list = append(list, s)
		line += strings.Count(text[pos:s.end], "\n")
		pos = s.end
	}
	return list
}

// scanLine reads the segment that begins at pos.
func scanLine(text string, pos int) segment {
	end := lineEnd(text, pos)
	whole := text[pos:end]
	if pos == 0 {
		whole = strings.TrimPrefix(whole, "\ufeff")
	}
	body := strings.TrimSpace(whole)
	if body == "" || body[0] == '#' {
		return segment{end: end}
	}
	if rest, ok := strings.CutPrefix(body, "export"); ok && rest != "" && isBlank(rest[0]) {
		body = strings.TrimLeft(rest, " \t")
	}
	at := strings.IndexAny(body, "=:")
	// A colon sets a value only with a blank after it, as in YAML.
	if at < 0 || body[at] == ':' && at+1 < len(body) && !isBlank(body[at+1]) {
		return segment{end: end, fault: "there is no KEY=value"}
	}
	s := segment{end: end, key: strings.TrimRight(body[:at], " \t")}
	if !readableKey(s.key) {
		return segment{end: end, fault: faultKey}
	}
	if !ValidKey(s.key) {
		s.fault = faultKey
	}
	// Where the value begins in text: body is a part of it, cut at both ends.
	right := strings.TrimRightFunc(whole, unicode.IsSpace)
	from := end - len(whole) + len(right) - len(body) + at + 1
	scanValue(text, from, end, &s)
	switch {
	case !s.holds:
	case strings.IndexByte(s.value, 0) >= 0:
		s.holds, s.fault = false, "the value holds a NUL byte"
	case !utf8.ValidString(s.value):
		s.holds, s.fault = false, "the value is no UTF-8"
	}
	return s
}

// scanValue reads what stands at from, on a line that ends at end.
func scanValue(text string, from, end int, s *segment) {
	for from < end && isBlank(text[from]) {
		from++
	}
	if from == end || strings.IndexByte("'\"`", text[from]) < 0 {
		s.value, s.holds = plainValue(text[from:end]), true
		return
	}
	quote := text[from]
	stop := closing(text, from+1, end, quote)
	if stop < 0 {
		s.fault, s.open = faultOpen, true
		return
	}
	raw := strings.ReplaceAll(text[from+1:stop], "\r\n", "\n")
	if quote == '"' {
		raw = unescape(raw)
	}
	s.value, s.holds = raw, true
	s.end = lineEnd(text, stop)
	if rest := strings.TrimSpace(text[stop+1 : s.end]); rest != "" && rest[0] != '#' && s.fault == "" {
		s.fault = faultAfter
	}
}

// plainValue cuts a comment and blanks off a value that is not quoted.
func plainValue(v string) string {
	for i := range len(v) {
		if v[i] == '#' && (i == 0 || isBlank(v[i-1])) {
			v = v[:i]
			break
		}
	}
	return strings.TrimSpace(v)
}

// closing finds the quote that ends a value which begins at from, on a line
// that ends at end; -1 if there is none.
//
// A quote after a backslash does not close, in both libraries and for all
// quotes. People write 'C:\dir\' all the same: if such a quote is the last thing
// on the first line, and no other one on that line closes, then it is the end.
func closing(text string, from, end int, quote byte) int {
	last := -1
	for i := from; i < len(text); i++ {
		if i == end && last >= 0 {
			return last
		}
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == quote || quote == '"' && text[i+1] == '\\'):
			i++
			if i < end && text[i] == quote && endsLine(text[i+1:end]) {
				last = i
			}
		case text[i] == quote:
			return i
		}
	}
	return last
}

// endsLine reports whether nothing but a comment follows.
func endsLine(rest string) bool {
	rest = strings.TrimSpace(rest)
	return rest == "" || rest[0] == '#'
}

// unescape reads the inside of double quotes.
func unescape(v string) string {
	if strings.IndexByte(v, '\\') < 0 {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' || i+1 == len(v) {
			b.WriteByte(v[i])
			continue
		}
		switch c := v[i+1]; {
		case c == 'n':
			b.WriteByte('\n')
		case c == 'r':
			b.WriteByte('\r')
		case c == '\\' || c == '"' || c == '$':
			b.WriteByte(c)
		case strings.HasPrefix(v[i:], lastBackslash):
			b.WriteByte('\\')
			i += len(lastBackslash) - 2
		default:
			b.WriteByte('\\')
			continue
		}
		i++
	}
	return b.String()
}

// ValidKey reports whether a key can be written: ^[A-Z_][A-Z0-9_]*$.
func ValidKey(key string) bool {
	for i := range len(key) {
		c := key[i]
		if c != '_' && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return key != ""
}

// readableKey is what is read though it would not be written.
func readableKey(key string) bool {
	for i := range len(key) {
		c := key[i]
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '.' && c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return key != ""
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// lineEnd is the place after the line feed that ends the line of pos.
func lineEnd(text string, pos int) int {
	if i := strings.IndexByte(text[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(text)
}
