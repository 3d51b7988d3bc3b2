package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"unicode/utf8"
)

func FuzzParseFrame(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"a":[1,{"b":"]}"}]}}}`,
		`{"jsonrpc":"2.0","id":"a\"b","result":{}}`, `[{"jsonrpc":"2.0"}]`, `{"id":1,"id":2}`, `{"jsonrpc":"2.0","method":"x"`, ` { } `, `"`, "{\"\xff\":1}",
		`{"jsonrpc":"2.0","id":-0,"error":{"code":1}}`, `{"jsonrpc":"2.0","id":1e3,"method":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = looseID(data) // must not panic, whatever is cut
		fr, err := parseFrame(data)
		if err != nil {
			if err.code == 0 || err.message == "" {
				t.Fatalf("empty error for %q", data)
			}
			return
		}
		// What was accepted is what encoding/json reads.
		var want struct {
			ID     json.RawMessage `json:"id"`
			Method *string         `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(data, &members) != nil {
			t.Fatalf("accepted, but is no object: %q", data)
		}
		want.ID, want.Params, want.Result = members["id"], members["params"], members["result"]
		if string(want.Params) == "null" {
			want.Params = nil
		}
		if !bytes.Equal(want.ID, fr.id) || !bytes.Equal(want.Params, fr.params) || !bytes.Equal(want.Result, fr.result) {
			t.Fatalf("%q: id %s params %s result %s, want %s %s %s", data, fr.id, fr.params, fr.result, want.ID, want.Params, want.Result)
		}
		var method string
		if raw := members["method"]; raw != nil && json.Unmarshal(raw, &method) == nil && method != fr.method {
			t.Fatalf("%q: method %q, want %q", data, fr.method, method)
		}
		if fr.id != nil {
			_ = idKey(fr.id)
			_, _ = sdkID(fr.id)
		}
		_, _ = parseCall(fr.params)
	})
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("a\"b\\c\n\t\r\x00\x1f<&>\u2028\u2029\U0001F600")
	f.Add("\xff\xc0broken\xe2\x80")
	f.Fuzz(func(t *testing.T, s string) {
		raw := appendString(nil, s)
		var got string
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%q becomes %s: %v", s, raw, err)
		}
		want := string([]rune(s)) // each invalid byte becomes U+FFFD
		if got != want || !utf8.Valid(raw) {
			t.Fatalf("%q becomes %q", s, got)
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n"), 8)
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaa\nb"), 3)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = 1 + limit&0xff
		r := newLineReader(bytes.NewReader(data), limit)
		total := 0
		for {
			line, err := r.next()
			if err == nil && (len(line) == 0 || len(line) > limit || bytes.IndexByte(line, '\n') >= 0) {
				t.Fatalf("line %q with limit %d", line, limit)
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil && !errors.Is(err, errFrameTooLong) {
				t.Fatal(err)
			}
			if total++; total > len(data)+1 {
				t.Fatal("more lines than bytes")
			}
		}
	})
}
