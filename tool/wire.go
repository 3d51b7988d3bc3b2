package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Keys of a result's _meta.
const (
	MetaCall  = "toolyard/call"
	MetaError = "toolyard/error"
)

// MarshalJSON writes r as the CallToolResult of MCP: content,
// structuredContent, isError and _meta. See [Result.AppendJSON].
func (r Result) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendJSON appends r as the CallToolResult of MCP to dst. It is one line of
// valid JSON in valid UTF-8, whatever the tool left in r: Structured that is no
// JSON becomes {"raw_output": text}, and what is no object {"data": value}.
//
// Err is structuredContent.error, or _meta["toolyard/error"] with ErrorInMeta.
func (r *Result) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"content":[`...)
	for i := range r.Content {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.Content[i].appendJSON(dst)
	}
	dst = append(dst, ']')
	inMeta := r.Err != nil && (r.ErrorInMeta || r.Foreign != nil)
	if r.Structured != nil || r.Err != nil && !inMeta {
		dst = append(dst, `,"structuredContent":`...)
		dst = r.appendStructured(dst, r.Err != nil && !inMeta)
	}
	if r.IsError {
		dst = append(dst, `,"isError":true`...)
	}
	if r.Foreign != nil && len(r.Foreign.Members) > 0 {
		dst = append(append(dst, ','), r.Foreign.Members...)
	}
	dst = append(dst, `,"_meta":{"`+MetaCall+`":`...)
	dst = r.Meta.AppendJSON(dst)
	if r.Foreign != nil && len(r.Foreign.Meta) > 0 {
		dst = append(append(dst, ','), r.Foreign.Meta...)
	}
	if inMeta {
		dst = append(dst, `,"`+MetaError+`":`...)
		dst = r.Err.AppendJSON(dst)
	}
	return append(dst, "}}"...)
}

// appendStructured appends the structured output as an object, with the error
// as one more member if withError.
func (r *Result) appendStructured(dst []byte, withError bool) []byte {
	start := len(dst)
	switch {
	case r.Structured == nil:
		dst = append(dst, "{}"...)
	case r.Foreign != nil && json.Valid(r.Structured):
		return appendRaw(dst, bytes.TrimSpace(r.Structured))
	default:
		dst = appendObject(dst, r.Structured)
	}
	if !withError {
		return dst
	}
	dst = bytes.TrimRight(dst[:len(dst)-1], " \t")
	if len(dst) > start+1 {
		dst = append(dst, ',')
	}
	dst = append(dst, `"error":`...)
	return append(r.Err.AppendJSON(dst), '}')
}

// appendObject appends raw as an object.
func appendObject(dst []byte, raw []byte) []byte {
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		dst = append(dst, `{"raw_output":`...)
		return append(appendString(dst, string(raw)), '}')
	}
	if raw[0] != '{' {
		return append(appendRaw(append(dst, `{"data":`...), raw), '}')
	}
	return appendRaw(dst, raw)
}

// appendRaw appends valid JSON on one line and in valid UTF-8. json.Valid lets
// broken UTF-8 pass inside strings.
func appendRaw(dst []byte, raw []byte) []byte {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return append(dst, raw...)
	}
	buf := bytes.NewBuffer(dst)
	if err := json.Compact(buf, raw); err != nil {
		return append(dst, "null"...)
	}
	return buf.Bytes()
}

func (c *Content) appendJSON(dst []byte) []byte {
	if c.Raw != nil && json.Valid(c.Raw) {
		return appendRaw(dst, bytes.TrimSpace(c.Raw))
	}
	switch c.Kind {
	case KindImage, KindAudio:
		dst = append(dst, `{"type":"`...)
		dst = append(dst, c.Kind...)
		dst = append(dst, `","data":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, c.Data)
		dst = append(dst, `","mimeType":`...)
		return append(appendString(dst, c.MIME), '}')
	case KindResourceLink:
		dst = append(dst, `{"type":"resource_link","uri":`...)
		dst = appendString(dst, c.URI)
		dst = append(dst, `,"name":`...)
		dst = appendString(dst, c.Name)
		dst = appendMember(dst, "mimeType", c.MIME)
		if c.Size > 0 {
			dst = append(dst, `,"size":`...)
			dst = strconv.AppendInt(dst, c.Size, 10)
		}
		return append(dst, '}')
	case KindResource:
		dst = append(dst, `{"type":"resource","resource":{"uri":`...)
		dst = appendString(dst, c.URI)
		dst = appendMember(dst, "mimeType", c.MIME)
		if c.Data != nil {
			dst = append(dst, `,"blob":"`...)
			dst = base64.StdEncoding.AppendEncode(dst, c.Data)
			return append(dst, `"}}`...)
		}
		dst = append(dst, `,"text":`...)
		return append(appendString(dst, c.Text), "}}"...)
	}
	dst = append(dst, `{"type":"text","text":`...)
	return append(appendString(dst, c.Text), '}')
}

// AppendJSON appends e as {code, message, hint, field, faults, retryable,
// details}, with only what applies.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	dst = appendString(dst, string(e.Code))
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, e.Message)
	dst = appendMember(dst, "hint", e.Hint)
	dst = appendMember(dst, "field", e.Field)
	if len(e.Faults) > 0 {
		dst = append(dst, `,"faults":[`...)
		for i, f := range e.Faults {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, `{"path":`...)
			dst = appendString(dst, f.Path)
			dst = append(dst, `,"expected":`...)
			dst = appendString(dst, f.Expected)
			dst = append(dst, `,"got":`...)
			dst = append(appendString(dst, f.Got), '}')
		}
		dst = append(dst, ']')
	}
	dst = append(dst, `,"retryable":`...)
	dst = strconv.AppendBool(dst, e.Retryable)
	if e.RetryAfter > 0 {
		dst = append(dst, `,"retry_after_ms":`...)
		dst = strconv.AppendInt(dst, e.RetryAfter.Milliseconds(), 10)
	}
	if len(e.Details) > 0 {
		dst = append(dst, `,"details":`...)
		if raw, err := encode(e.Details); err == nil {
			dst = appendRaw(dst, raw)
		} else {
			dst = appendString(dst, fmt.Sprint(e.Details))
		}
	}
	return append(dst, '}')
}

// MarshalJSON writes e as it is on the wire.
func (e *Error) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// AppendJSON appends m with only the fields that apply.
func (m *Meta) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"duration_ms":`...)
	dst = appendFloat(dst, m.DurationMS)
	dst = appendMember(dst, "call_id", m.CallID)
	if m.Attempts > 0 {
		dst = append(dst, `,"attempts":`...)
		dst = strconv.AppendInt(dst, int64(m.Attempts), 10)
	}
	dst = appendFlag(dst, "cached", m.Cached)
	dst = appendFlag(dst, "repaired", m.Repaired)
	dst = appendMember(dst, "matched_with", m.MatchedWith)
	dst = appendFlag(dst, "truncated", m.Truncated)
	dst = appendMember(dst, "output_handle", m.OutputHandle)
	if s := m.Sandbox; s != nil {
		dst = append(dst, `,"sandbox":{"level":`...)
		dst = appendString(dst, s.Level)
		dst = appendStrings(dst, "layers", s.Layers)
		dst = appendStrings(dst, "missing", s.Missing)
		dst = append(dst, '}')
	}
	if e := m.Ending; e != nil {
		dst = append(dst, `,"ending":{"reason":`...)
		dst = appendString(dst, e.Reason)
		dst = append(dst, `,"code":`...)
		dst = strconv.AppendInt(dst, int64(e.Code), 10)
		dst = appendMember(dst, "signal", e.Signal)
		dst = append(dst, '}')
	}
	if p := m.Peaks; p != nil {
		dst = append(dst, `,"peaks":{"memory_bytes":`...)
		dst = strconv.AppendInt(dst, p.MemoryBytes, 10)
		dst = append(dst, `,"cpu_ms":`...)
		dst = appendFloat(dst, p.CPUMS)
		dst = append(dst, `,"pids":`...)
		dst = strconv.AppendInt(dst, int64(p.PIDs), 10)
		dst = append(dst, `,"wall_ms":`...)
		dst = append(appendFloat(dst, p.WallMS), '}')
	}
	if len(m.Artifacts) > 0 {
		dst = appendStrings(dst, "artifacts", m.Artifacts)
	}
	if len(m.Retried) > 0 {
		dst = append(dst, `,"retried":`...)
		for i, code := range m.Retried {
			dst = append(dst, "[,"[min(i, 1)])
			dst = appendString(dst, string(code))
		}
		dst = append(dst, ']')
	}
	if len(m.Notes) > 0 {
		dst = appendStrings(dst, "notes", m.Notes)
	}
	return append(dst, '}')
}

// MarshalJSON writes m as it is on the wire.
func (m Meta) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// appendMember appends ,"name":"value", or nothing if value is empty.
func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return appendString(dst, value)
}

func appendFlag(dst []byte, name string, set bool) []byte {
	if !set {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, `":true`...)
}

func appendStrings(dst []byte, name string, values []string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, `":[`...)
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, v)
	}
	return append(dst, ']')
}

// appendFloat appends f with at most three decimals; JSON knows no infinity.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, '0')
	}
	if f > -1e15 && f < 1e15 {
		f = math.Round(f*1000) / 1000
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

const hex = "0123456789abcdef"

// asIs are the bytes that stand for themselves in a JSON string.
var asIs = func() (table [256]bool) {
	for b := range table {
		table[b] = b >= ' ' && b != '"' && b != '\\'
	}
	return table
}()

// appendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD; <, >
// and & stay, since escapes cost the model tokens.
func appendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	const slack = 16 // for the quotes, and what appendPlain writes beyond the end
	dst = append(slices.Grow(dst, len(s)+len(s)/16+slack), '"')
	for i := 0; ; i++ {
		var n int
		if dst, n = appendPlain(dst, s[i:]); i+n == len(s) {
			return append(dst, '"')
		}
		i += n
		switch b := s[i]; b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		}
	}
}

// appendPlain appends the first bytes of s that stand for themselves and tells
// how many they are. It moves eight at once while it looks at them.
func appendPlain(dst []byte, s string) ([]byte, int) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i, n := 0, len(dst)
	for len(s)-i >= 8 && cap(dst)-n >= 8 {
		t := s[i : i+8]
		w := uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 |
			uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
		binary.LittleEndian.PutUint64(dst[n:n+8], w)
		// The high bit marks a byte that is a control character, a quote or a
		// backslash, and perhaps bytes after the first such one.
		quote, slash := w^'"'*ones, w^'\\'*ones
		if marks := ((w-' '*ones)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & high; marks != 0 {
			plain := bits.TrailingZeros64(marks) / 8
			return dst[:n+plain], i + plain
		}
		i += 8
		n += 8
	}
	start := i
	for i < len(s) && asIs[s[i]] {
		i++
	}
	return append(dst[:n], s[start:i]...), i
}
