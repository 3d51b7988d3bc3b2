package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// tomlDoc edits a TOML document as text. The library says what the document
// means; where its parts stand is found by [scanTOML].
type tomlDoc struct{ data []byte }

func (d *tomlDoc) bytes() []byte { return d.data }

// body is the document without a byte order mark.
func (d *tomlDoc) body() []byte { return bytes.TrimPrefix(d.data, bom) }

func (d *tomlDoc) decode() (root map[string]any, err error) {
	if !utf8.Valid(d.data) {
		at := 0
		for at < len(d.data) {
			r, size := utf8.DecodeRune(d.data[at:])
			if r == utf8.RuneError && size <= 1 {
				break
			}
			at += size
		}
		return nil, syntaxAt(d.data, at, "this is not UTF-8")
	}
	root = map[string]any{}
	if _, err := toml.Decode(string(d.body()), &root); err != nil {
		if at, ok := errors.AsType[toml.ParseError](err); ok {
			reason := at.Message
			if reason == "" {
				reason = strings.TrimPrefix(at.Error(), "toml: ")
			}
			return nil, syntaxAt(d.data, at.Position.Start+len(d.data)-len(d.body()), "%s", reason)
		}
		return nil, &SyntaxError{1, 1, err.Error()}
	}
	return plainTOML(root).(map[string]any), nil
}

// plainTOML turns numbers into what the other decoder gives, and what cannot be
// compared into text.
func plainTOML(value any) any {
	switch v := value.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			object[key] = plainTOML(item)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = plainTOML(item)
		}
		return list
	case []map[string]any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = plainTOML(item)
		}
		return list
	case int64, float64:
		return json.Number(fmt.Sprint(v))
	case string, bool:
		return v
	}
	return fmt.Sprintf("%T %v", value, value)
}

// statement is a line of a TOML document that says something: a header, or a key
// with its value.
type statement struct {
	header     bool
	path       []string // from the root
	keyStart   int
	lastKey    int // where the last part of the key begins
	start, end int // of the value; of a header, of the whole
}

// tomlScanner goes through a document that is known to be correct.
type tomlScanner struct {
	data []byte
	at   int
}

var errTOML = errors.New("the file is laid out in a way that this program does not edit")

// scanTOML lists the statements of a document.
func scanTOML(data []byte) ([]statement, error) {
	s := &tomlScanner{data: data}
	if bytes.HasPrefix(data, bom) {
		s.at = len(bom)
	}
	var found []statement
	var table []string
	for {
		s.space(true)
		if s.at >= len(data) {
			return found, nil
		}
		st := statement{keyStart: s.at}
		if data[s.at] == '[' {
			st.header, st.start = true, s.at
			array := bytes.HasPrefix(data[s.at:], []byte("[["))
			s.at++
			if array {
				s.at++
			}
			path, _, err := s.key()
			if err != nil || !s.accept(']') || array && !s.accept(']') {
				return nil, errTOML
			}
			st.path, st.end, table = path, s.at, path
			if array { // each is another table: nothing in it is found by its path
				table = append(slices.Clone(path), "\x00")
				st.path = table
			}
			found = append(found, st)
			continue
		}
		path, last, err := s.key()
		if err != nil || !s.accept('=') {
			return nil, errTOML
		}
		s.space(false)
		st.path, st.lastKey, st.start = append(slices.Clone(table), path...), last, s.at
		if err := s.value(); err != nil {
			return nil, err
		}
		st.end = s.at
		found = append(found, st)
	}
}

// space skips white space, and with lines also line ends and comments.
func (s *tomlScanner) space(lines bool) {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; {
		case c == ' ' || c == '\t':
			s.at++
		case lines && (c == '\n' || c == '\r'):
			s.at++
		case lines && c == '#':
			s.at = lineEnd(s.data, s.at)
		default:
			return
		}
	}
}

func (s *tomlScanner) accept(c byte) bool {
	s.space(false)
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// key reads a key with dots; last is where its last part begins.
func (s *tomlScanner) key() (path []string, last int, err error) {
	for {
		s.space(false)
		start := s.at
		if s.at >= len(s.data) {
			return nil, 0, errTOML
		}
		switch c := s.data[s.at]; {
		case c == '"' || c == '\'':
			if err := s.text(); err != nil {
				return nil, 0, err
			}
			var one map[string]any
			if _, err := toml.Decode(string(s.data[start:s.at])+" = 0", &one); err != nil {
				return nil, 0, errTOML
			}
			for key := range one {
				path = append(path, key)
			}
		default:
			for s.at < len(s.data) && !bytes.ContainsRune([]byte(" \t.=]\r\n#,{}[\"'"), rune(s.data[s.at])) {
				s.at++
			}
			if s.at == start {
				return nil, 0, errTOML
			}
			path = append(path, string(s.data[start:s.at]))
		}
		last = start
		if !s.accept('.') {
			return path, last, nil
		}
	}
}

// text skips a string of any of the four kinds.
func (s *tomlScanner) text() error {
	quote := s.data[s.at]
	long := bytes.HasPrefix(s.data[s.at:], bytes.Repeat([]byte{quote}, 3))
	s.at++
	if long {
		s.at += 2
	}
	for s.at < len(s.data) {
		c := s.data[s.at]
		switch {
		case c == '\\' && quote == '"':
			s.at += 2
			continue
		case c == quote && !long:
			s.at++
			return nil
		case c == quote && bytes.HasPrefix(s.data[s.at:], bytes.Repeat([]byte{quote}, 3)):
			s.at += 3
			for i := 0; i < 2 && s.at < len(s.data) && s.data[s.at] == quote; i++ { // up to two may stand before the end
				s.at++
			}
			return nil
		}
		s.at++
	}
	return errTOML
}

// value skips a value.
func (s *tomlScanner) value() error {
	if s.at >= len(s.data) {
		return errTOML
	}
	switch s.data[s.at] {
	case '"', '\'':
		return s.text()
	case '[', '{':
		for depth := 0; s.at < len(s.data); {
			switch s.data[s.at] {
			case '"', '\'':
				if err := s.text(); err != nil {
					return err
				}
				continue
			case '#':
				s.at = lineEnd(s.data, s.at)
				continue
			case '[', '{':
				depth++
			case ']', '}':
				if depth--; depth == 0 {
					s.at++
					return nil
				}
			}
			s.at++
		}
		return errTOML
	}
	start := s.at
	for s.at < len(s.data) && !bytes.ContainsRune([]byte(",]}#\r\n"), rune(s.data[s.at])) {
		s.at++
	}
	for s.at > start && (s.data[s.at-1] == ' ' || s.data[s.at-1] == '\t') {
		s.at--
	}
	if s.at == start {
		return errTOML
	}
	return nil
}

// inline lists the members of the inline table at an offset, with paths from
// there, and where its closing bracket stands.
func (d *tomlDoc) inline(at int) (members []statement, closing int, err error) {
	s := &tomlScanner{data: d.data, at: at}
	if !s.accept('{') {
		return nil, 0, errTOML
	}
	for {
		s.space(true)
		if s.at < len(s.data) && s.data[s.at] == '}' {
			return members, s.at, nil
		}
		st := statement{keyStart: s.at}
		if st.path, st.lastKey, err = s.key(); err != nil || !s.accept('=') {
			return nil, 0, errTOML
		}
		s.space(true)
		st.start = s.at
		if err := s.value(); err != nil {
			return nil, 0, err
		}
		st.end = s.at
		members = append(members, st)
		s.space(true)
		if s.at < len(s.data) && s.data[s.at] == ',' {
			s.at++
		}
	}
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

func tomlKey(key string) string {
	if key != "" && strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == "" {
		return key
	}
	return tomlText(key)
}

// tomlText writes a basic string.
func tomlText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tomlValue writes a value on one line.
func tomlValue(value any) string {
	switch v := value.(type) {
	case string:
		return tomlText(v)
	case []string:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = tomlText(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]string:
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, tomlKey(key)+" = "+tomlText(v[key]))
		}
		return tomlInline(parts)
	case fields:
		parts := make([]string, 0, len(v))
		for _, f := range v {
			parts = append(parts, tomlKey(f.key)+" = "+tomlValue(f.value))
		}
		return tomlInline(parts)
	}
	return fmt.Sprint(value)
}

func tomlInline(parts []string) string {
	if len(parts) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}
