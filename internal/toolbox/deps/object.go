package deps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// object is a JSON object that keeps its order and the text of its values.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

// syntaxError says where a text is not what it should be.
type syntaxError struct {
	line, column int // of 1; the column counts characters
	what         string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.line, e.column, e.what)
}

// at makes a syntaxError of a byte offset.
func at(text []byte, offset int, what string) *syntaxError {
	offset = max(0, min(offset, len(text)))
	before := text[:offset]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return &syntaxError{line, column, what}
}

// parseObject reads an object. Where a key is there twice the last value counts,
// as it does in JavaScript. The error is a *syntaxError.
func parseObject(text []byte) (*object, error) {
	if !json.Valid(text) {
		var v any
		err := json.Unmarshal(text, &v)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			offset := int(syntax.Offset) - 1
			if strings.HasPrefix(syntax.Error(), "unexpected end") {
				offset = len(text)
			}
			return nil, at(text, offset, strings.TrimPrefix(syntax.Error(), "json: "))
		}
		return nil, at(text, 0, "not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		start := len(text) - len(bytes.TrimLeft(text, " \t\r\n"))
		return nil, at(text, start, "not an object")
	}
	o := &object{values: map[string]json.RawMessage{}}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, at(text, int(dec.InputOffset()), err.Error())
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil && !errors.Is(err, io.EOF) {
			return nil, at(text, int(dec.InputOffset()), err.Error())
		}
		o.setRaw(t.(string), value)
	}
	return o, nil
}

func (o *object) setRaw(key string, value json.RawMessage) {
	if _, there := o.values[key]; !there {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

// set puts a value that can always be JSON.
func (o *object) set(key string, value any) { o.setRaw(key, encode(value)) }

// text is the string at key; "" if there is none.
func (o *object) text(key string) string {
	var s string
	_ = json.Unmarshal(o.values[key], &s)
	return s
}

// bytes is the object on one line.
func (o *object) bytes() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, key := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(key))
		b.WriteByte(':')
		b.Write(o.values[key])
	}
	b.WriteByte('}')
	return b.Bytes()
}

// encode is JSON as npm writes it: < and & as they are.
func encode(value any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic("deps: encoding what is always JSON: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}
