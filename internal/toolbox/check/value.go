package check

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// kindOf says what a JSON value is, as it reads in a sentence.
func kindOf(raw json.RawMessage) string { return kind(raw)[en] }

func kind(raw json.RawMessage) words {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return words{"missing", "缺失"}
	}
	switch raw[0] {
	case '{':
		return words{"an object", "对象"}
	case '[':
		return words{"a list", "列表"}
	case '"':
		if text, ok := textOf(raw); ok && text == "" {
			return words{"an empty text", "空文本"}
		}
		return words{"a text", "文本"}
	case 't', 'f', 'n':
		return words{string(raw), string(raw)}
	}
	return words{"a number", "数字"}
}

// shown is a short value itself, or what it is.
func shown(raw json.RawMessage) any {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || utf8.RuneCount(raw) > 60 {
		return kind(raw)
	}
	return string(raw)
}

func textOf(raw json.RawMessage) (string, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

func itemsOf(raw json.RawMessage) ([]json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return nil, false
	}
	var items []json.RawMessage
	err := json.Unmarshal(raw, &items)
	return items, err == nil
}

// members are those of an object; nil if it is none.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}
