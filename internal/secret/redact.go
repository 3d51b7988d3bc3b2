// Package secret keeps secret values out of what is stored, streamed or
// returned. It does not know where the values come from.
package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// Bounds of what is looked for.
const (
	// MinLength is the shortest value that is redacted, in bytes. A shorter one
	// would hit ordinary text.
	MinLength = 4
	minLine   = 16 // bytes of one line of a value with several lines
	chunk     = 16 // characters of a piece of a long base64 form
	wrapped   = 60 // characters from which base64 is usually broken into lines
)

// Value is one secret with the name to show in its place.
type Value struct {
	Name  string
	Value string
}

// Redactor replaces secret values by "[redacted:NAME]". The forms that are
// found are the value itself, its lines, base64 (standard and URL alphabet, at
// every alignment inside longer data), hexadecimal, URL encoding and JSON
// escapes. The zero value redacts nothing. It is safe for concurrent use.
type Redactor struct {
	set atomic.Pointer[patterns]
}

// New makes a redactor of values.
func New(values ...Value) *Redactor {
	r := &Redactor{}
	r.Set(values)
	return r
}

// Set replaces the values that are redacted. Values under MinLength are left
// out. Writers that are open keep the old ones for what they have buffered.
func (r *Redactor) Set(values []Value) {
	p := compile(values)
	if len(p.list) == 0 {
		p = nil
	}
	r.set.Store(p)
}

// Empty reports whether there is nothing to redact.
func (r *Redactor) Empty() bool { return r == nil || r.set.Load() == nil }

// String redacts s.
func (r *Redactor) String(s string) string {
	if r.Empty() {
		return s
	}
	p := r.set.Load()
	if p == nil || !occurs(p, s) {
		return s
	}
	out, _ := p.replace(nil, []byte(s), true)
	return string(out)
}

// Bytes redacts b and returns b itself if there was nothing to redact.
func (r *Redactor) Bytes(b []byte) []byte {
	if r.Empty() {
		return b
	}
	p := r.set.Load()
	if p == nil || !occurs(p, b) {
		return b
	}
	out, _ := p.replace(nil, b, true)
	return out
}

// JSON redacts a JSON text, which stays JSON: where a secret stands outside of
// a string (a number), the value becomes a string.
func (r *Redactor) JSON(raw json.RawMessage) json.RawMessage {
	out := r.Bytes(raw)
	if len(out) == len(raw) && (len(raw) == 0 || &out[0] == &raw[0]) || json.Valid(out) {
		return out
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return out // it was no JSON before
	}
	out, err := json.Marshal(r.Value(v))
	if err != nil {
		return json.RawMessage(`"[redacted]"`)
	}
	return out
}

// Value redacts every string in a value as decoded from JSON, keys included,
// and returns v itself if there is nothing to redact.
func (r *Redactor) Value(v any) any {
	if r.Empty() {
		return v
	}
	switch v := v.(type) {
	case string:
		return r.String(v)
	case []byte:
		return r.Bytes(v)
	case json.RawMessage:
		return r.JSON(v)
	case json.Number:
		if clean := r.String(v.String()); clean != v.String() {
			return clean
		}
		return v
	case []string:
		out := make([]string, len(v))
		for i, s := range v {
			out[i] = r.String(s)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = r.Value(e)
		}
		return out
	case map[string]any:
		return r.Map(v)
	case bool, int, int32, int64, uint64, float64, nil:
		return v
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "[redacted: not representable]"
	}
	if clean := r.JSON(raw); !bytes.Equal(clean, raw) {
		return clean
	}
	return v
}

// Map redacts the keys and values of m; m itself does not change.
func (r *Redactor) Map(m map[string]any) map[string]any {
	if r.Empty() || m == nil {
		return m
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[r.String(k)] = r.Value(v)
	}
	return out
}

// Stream redacts text that comes in pieces. It is for one goroutine.
type Stream struct {
	from    *Redactor
	pending []byte
}

// Stream starts the redaction of one stream.
func (r *Redactor) Stream() *Stream { return &Stream{from: r} }

// Next takes the next piece and returns what can be passed on. The end of the
// text is held back only while it may be the beginning of a secret. The result
// is valid until the next call, and may be p itself.
func (s *Stream) Next(p []byte) []byte {
	if s.from.Empty() {
		if len(s.pending) == 0 {
			return p
		}
		out := append(s.pending, p...)
		s.pending = nil
		return out
	}
	set := s.from.set.Load()
	if set == nil {
		return append(s.End(), p...)
	}
	data := p
	if len(s.pending) > 0 {
		data = append(s.pending, p...)
	}
	if !occurs(set, data) && set.held(data) == len(data) {
		s.pending = nil
		return data
	}
	out, rest := set.replace(nil, data, false)
	s.pending = slices.Clone(rest)
	return out
}

// End returns what was held back.
func (s *Stream) End() []byte {
	out := s.pending
	s.pending = nil
	if s.from.Empty() {
		return out
	}
	return s.from.Bytes(out)
}

// pattern is one text to find.
type pattern struct {
	text, shown string
}

// patterns finds many texts of at least MinLength bytes. A bit set of their
// first two bytes tells most positions apart; then the first four choose the
// candidates, longest first.
type patterns struct {
	pair    [1 << 16 / 64]uint64
	first   [256]bool
	by4     map[uint32][]pattern
	list    []pattern
	longest int
}

func compile(values []Value) *patterns {
	p := &patterns{by4: map[uint32][]pattern{}}
	known := map[string]bool{}
	for _, v := range values {
		shown := "[redacted" + label(v.Name) + "]"
		for _, text := range forms(v.Value) {
			if len(text) < MinLength || known[text] {
				continue
			}
			known[text] = true
			p.list = append(p.list, pattern{text, shown})
		}
	}
	// The longest first, so that the whole is preferred to its parts.
	slices.SortStableFunc(p.list, func(a, b pattern) int { return len(b.text) - len(a.text) })
	for _, e := range p.list {
		key := key4(e.text)
		p.by4[key] = append(p.by4[key], e)
		pair := uint16(e.text[0])<<8 | uint16(e.text[1])
		p.pair[pair/64] |= 1 << (pair % 64)
		p.first[e.text[0]] = true
		p.longest = max(p.longest, len(e.text))
	}
	return p
}

// label keeps of a name what is harmless in any text.
func label(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, name)
	if name == "" {
		return ""
	}
	return ":" + name
}

// forms lists the texts under which value may appear.
func forms(value string) []string {
	if len(value) < MinLength {
		return nil
	}
	list := []string{value}
	if strings.ContainsAny(value, "\r\n") {
		for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if len(line) >= minLine {
				list = append(list, line)
			}
		}
	}
	if utf8.ValidString(value) {
		list = append(list, escapes(value)...)
	}
	lower := hex.EncodeToString([]byte(value))
	list = append(list, lower, strings.ToUpper(lower))
	list = append(list, url.QueryEscape(value), url.PathEscape(value))
	list = append(list, lowerPercent(url.QueryEscape(value)), lowerPercent(url.PathEscape(value)))
	for shift := range 3 {
		list = append(list, base64Forms(value, shift)...)
	}
	return list
}

// escapes gives the JSON forms of value: as Go writes it, without the escapes
// of HTML, with ASCII only, and twice, for JSON inside a JSON string.
func escapes(value string) []string {
	var list []string
	once := func(v string, html bool) string {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(html)
		if enc.Encode(v) != nil {
			return ""
		}
		quoted := strings.TrimSuffix(buf.String(), "\n")
		return quoted[1 : len(quoted)-1]
	}
	plain := once(value, false)
	list = append(list, plain, once(value, true), once(plain, false), strings.ReplaceAll(plain, "/", `\/`))
	var ascii strings.Builder
	const digits = "0123456789abcdef"
	for _, r := range plain {
		if r < utf8.RuneSelf {
			ascii.WriteRune(r)
			continue
		}
		units := []rune{r}
		if r > 0xffff {
			units = []rune{0xd800 + (r-0x10000)>>10, 0xdc00 + (r-0x10000)&0x3ff}
		}
		for _, u := range units {
			ascii.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				ascii.WriteByte(digits[u>>shift&15])
			}
		}
	}
	return append(list, ascii.String())
}

// lowerPercent turns %2F into %2f.
func lowerPercent(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			b[i+1], b[i+2] = b[i+1]|' ', b[i+2]|' '
		}
	}
	return string(b)
}

// base64Forms gives the characters of base64 that value alone decides when it
// begins shift bytes into a group of three.
func base64Forms(value string, shift int) []string {
	padded := append(make([]byte, shift), value...)
	var list []string
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		text := enc.EncodeToString(padded)
		from := (shift*8 + 5) / 6 // the first character without a foreign bit
		to := len(padded) * 8 / 6 // the end of the characters that are full
		if to-from < MinLength {
			continue
		}
		text = text[from:to]
		list = append(list, text)
		if len(text) <= wrapped {
			continue
		}
		// Tools break base64 into lines: its pieces are secret as well.
		for at := 0; at+chunk <= len(text); at += chunk {
			list = append(list, text[at:at+chunk])
		}
	}
	return list
}

func key4[T string | []byte](s T) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func (p *patterns) pairAt(a, b byte) bool {
	pair := uint16(a)<<8 | uint16(b)
	return p.pair[pair/64]&(1<<(pair%64)) != 0
}

// match finds the longest pattern at the beginning of b.
func match[T string | []byte](p *patterns, b T) (pattern, bool) {
	for _, e := range p.by4[key4(b)] {
		if len(b) >= len(e.text) && string(b[:len(e.text)]) == e.text {
			return e, true
		}
	}
	return pattern{}, false
}

// occurs reports whether a pattern is in the text.
func occurs[T string | []byte](p *patterns, text T) bool {
	for i := 0; i+MinLength <= len(text); i++ {
		if !p.pairAt(text[i], text[i+1]) {
			continue
		}
		if _, ok := match(p, text[i:]); ok {
			return true
		}
	}
	return false
}

// open reports whether b may be the beginning of a pattern that is longer.
func (p *patterns) open(b []byte) bool {
	switch {
	case len(b) >= p.longest:
		return false
	case len(b) >= MinLength:
		for _, e := range p.by4[key4(b)] {
			if len(e.text) > len(b) && e.text[:len(b)] == string(b) {
				return true
			}
		}
		return false
	case len(b) >= 2:
		return p.pairAt(b[0], b[1])
	}
	return p.first[b[0]]
}

// held is where the end of b that may begin a secret starts; len(b) if none.
func (p *patterns) held(b []byte) int {
	for i := max(0, len(b)-p.longest+1); i < len(b); i++ {
		if p.first[b[i]] && p.open(b[i:]) {
			return i
		}
	}
	return len(b)
}

// replace appends b with its secrets replaced to dst. Unless it is the end, the
// part that may go on is returned as rest.
func (p *patterns) replace(dst, b []byte, end bool) (out, rest []byte) {
	from := 0
	for i := 0; i < len(b); {
		if !p.first[b[i]] {
			i++
			continue
		}
		if !end && p.open(b[i:]) {
			return append(dst, b[from:i]...), b[i:]
		}
		if i+MinLength > len(b) || !p.pairAt(b[i], b[i+1]) {
			i++
			continue
		}
		e, ok := match(p, b[i:])
		if !ok {
			i++
			continue
		}
		dst = append(append(dst, b[from:i]...), e.shown...)
		i += len(e.text)
		from = i
	}
	return append(dst, b[from:]...), nil
}
