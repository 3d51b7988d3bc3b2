package upstream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse compares the envelope with what encoding/json sees.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":[1,-0.5e+3,true,null,"\u00e9\n"]}}`, `{"jsonrpc":"2.0","id":"x","method":"m","params":{}}`,
		`{"jsonrpc":"2.0","error":{"code":-1,"message":"x","data":{}},"id":2} `, `[]`, `{`, `{"id":1,"id":2}`, "{\"a\":\"\x00\"}", `{"a":01}`, `{"a":1.}`, `{"a":tru}`, `{"a" :1 , "b":{}}`, `{"a":1,}`,
		strings.Repeat(`{"a":[`, 3000),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parse(data)
		valid := json.Valid(data)
		if end := value(data, space(data, 0), 0); (end >= 0 && space(data, end) == len(data)) != valid {
			t.Errorf("%q: our scanner says %d, encoding/json %t", data, end, valid)
		}
		if err != nil {
			return
		}
		var want struct {
			JSONRPC string                     `json:"jsonrpc"`
			All     map[string]json.RawMessage `json:"-"`
		}
		if !valid || json.Unmarshal(data, &want) != nil || json.Unmarshal(data, &want.All) != nil {
			t.Fatalf("%q was taken", data)
		}
		for key, got := range map[string]json.RawMessage{"id": m.id, "params": m.params, "result": m.result} {
			if w := want.All[key]; got != nil && !bytes.Equal(w, got) && !strings.Contains(string(data), `\u00`) {
				t.Errorf("%q: %s is %q, want %q", data, key, got, w)
			}
		}
		if m.err != nil {
			_ = wireError(m.err)
		}
	})
}

// FuzzParams: what goes out is one line of JSON with the same members but _meta.
func FuzzParams(f *testing.F) {
	f.Add([]byte(`{"a":1,"_meta":{"progressToken":1,"x":2}}`), []byte(`{"x":3}`), "token")
	f.Add([]byte(`{"_meta" : 7 , "b":[
	]}`), []byte(`{}`), "")
	f.Add([]byte(`{}`), []byte(`x`), `"`)
	f.Fuzz(func(t *testing.T, params, meta []byte, level string) {
		if object(meta, 0, 0, nil) != len(meta) {
			meta = nil
		}
		own := append([]byte(`"progressToken":1,"l":`), appendText(nil, level)...)
		out, err := appendRequest(nil, 5, "m", params, meta, own)
		if err != nil {
			return
		}
		if bytes.ContainsAny(out, "\r\n") || !json.Valid(out) {
			t.Fatalf("%q", out)
		}
		var got struct {
			Params map[string]json.RawMessage `json:"params"`
		}
		var want map[string]json.RawMessage
		_ = json.Unmarshal(params, &want)
		if json.Unmarshal(out, &got) != nil {
			t.Fatalf("%q", out)
		}
		delete(got.Params, "_meta")
		delete(want, "_meta")
		if len(got.Params) != len(want) {
			t.Errorf("%q from %q", out, params)
		}
		m, err := parse(out)
		if err != nil && !errors.Is(err, errTwice) || err == nil && m.method != "m" {
			t.Errorf("%q: %v", out, err)
		}
		if w := withoutSubscription(m.params); m.params != nil && !json.Valid(w) {
			t.Errorf("%q", w)
		}
	})
}

// FuzzHeader: what is encoded comes back, and can be sent.
func FuzzHeader(f *testing.F) {
	for _, s := range []string{"", "a b", " a", "Zürich", "=?base64?eA==?=", "a\nb", "\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := encodeHeader(s)
		back := got
		if inner, ok := strings.CutPrefix(got, base64Prefix); ok && strings.HasSuffix(inner, base64Suffix) {
			b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, base64Suffix))
			if err != nil {
				t.Fatal(err)
			}
			back = string(b)
		}
		if back != s {
			t.Errorf("%q became %q", s, got)
		}
		if trimmed := strings.TrimSpace(got); trimmed != got {
			t.Errorf("%q has blanks around", got)
		}
		for _, c := range []byte(got) {
			if c < 0x20 || c > 0x7e {
				t.Errorf("%q cannot be sent", got)
			}
		}
	})
}

// FuzzEvents: the parser sees the same events however the stream is cut, keeps
// its bounds, and agrees with a simple one.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "data: a\r\ndata:b\r\rid: 7\nretry: 5\n\n", ":x\n\uFEFFdata: a\n\n", "\uFEFFdata: a\n\n", "data\n\ndata\ndata\n\n", "event: e\ndata: x", "id: \x00\ndata: x\n\n", "retry: -1\n\n", "datadatadatadatadata: x\n\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		whole := allEvents(t, strings.NewReader(s))
		if d := cmp.Diff(whole, allEvents(t, iotest.OneByteReader(strings.NewReader(s)))); d != "" {
			t.Errorf("cut into bytes: %s", d)
		}
		if d := cmp.Diff(simpleEvents(s), whole); d != "" && len(s) < maxField {
			t.Errorf("%q: %s", s, d)
		}
	})
}

type seenEvent struct {
	Name, ID, Data string
	HasID          bool
	Retry          time.Duration
}

func allEvents(t *testing.T, r io.Reader) (all []seenEvent) {
	in := newEvents(r, 1<<10)
	for {
		e, err := in.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			if !errors.Is(err, errEndless) {
				t.Fatal(err)
			}
			return all
		}
		if len(e.data) > 1<<10 {
			t.Fatalf("%d bytes of data", len(e.data))
		}
		if e.over == nil {
			all = append(all, seenEvent{e.name, e.id, string(e.data), e.hasID, e.retry})
		}
	}
}

// simpleEvents is the specification, for short streams.
func simpleEvents(s string) (all []seenEvent) {
	s = strings.TrimPrefix(s, "\uFEFF")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(s, "\n")
	e, data := seenEvent{Retry: -1}, []string(nil)
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if e.Data = strings.Join(data, "\n"); (data != nil || e.HasID || e.Retry >= 0) && len(e.Data) <= 1<<10 {
				all = append(all, e)
			}
			e, data = seenEvent{Retry: -1}, nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
		case "event":
			e.Name = value
		case "id":
			if !strings.Contains(value, "\x00") {
				e.ID, e.HasID = value, true
			}
		case "retry":
			n := time.Duration(0)
			ok := value != "" && len(value) < 10
			for _, c := range value {
				ok = ok && c >= '0' && c <= '9'
				n = n*10 + time.Duration(c-'0')
			}
			if ok {
				e.Retry = n * time.Millisecond
			}
		}
	}
	return all
}

func TestIDsOfLongMessages(t *testing.T) {
	for _, tt := range []struct {
		text string
		id   int64
	}{
		{`{"a":"…","id":17}`, 17}, {`…","id": 17 } ` + "\r\n", 17}, {`{"a":{"id":17}}`, 0}, {`"id":17`, 0}, {`"id":"17"}`, 0}, {`{"a":"\"id\":17}"}`, 0}, {`}`, 0}, {``, 0}, {`"id":-1}`, 0}, {`"xid":1}`, 0},
	} {
		if got, _ := tailID([]byte(tt.text)); got != tt.id {
			t.Errorf("%s: %d, want %d", tt.text, got, tt.id)
		}
	}
	for _, tt := range []struct {
		text   string
		id     int64
		method bool
	}{
		{`{"jsonrpc":"2.0","id":17,"result":{"a":"`, 17, false}, {`{"id":17`, 0, false}, {`{"method":"x","params":{"id":3`, 0, true}, {`{"result":{"id":3},"x":"`, 0, false}, {`hello`, 0, false},
	} {
		if id, method := headID([]byte(tt.text)); id != tt.id || method != tt.method {
			t.Errorf("%s: %d %t, want %d %t", tt.text, id, method, tt.id, tt.method)
		}
	}
}

func TestHeaders(t *testing.T) {
	schema := `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"b":{"type":"boolean","x-mcp-header":"B"},
		"in":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}},"plain":{"type":"string"}}}`
	h, err := HeadersOf(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		arguments string
		want      http.Header
	}{
		{`{"region":"eu","n":42,"b":false,"in":{"deep":"x"},"plain":"y"}`, http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"42"}, "Mcp-Param-B": {"false"}, "Mcp-Param-Deep": {"x"}}},
		{`{"region":"日本","n":1e2,"b":null}`, http.Header{"Mcp-Param-Region": {"=?base64?5pel5pys?="}, "Mcp-Param-N": {"100"}}},
		{`{"region":" x","n":9007199254740993,"in":3}`, http.Header{"Mcp-Param-Region": {"=?base64?IHg=?="}}},
		{`{"region":["x"],"n":1.5}`, http.Header{}},
		{``, http.Header{}},
	} {
		got := http.Header{}
		h.set(got, json.RawMessage(tt.arguments))
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.arguments, d)
		}
	}
	for _, bad := range []string{
		`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, `{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`, `{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, `{"properties":{"a":{"x-mcp-header":"A"}}}`,
		`{"properties":{"o":{"type":"object","x-mcp-header":"A"}}}`,
	} {
		if _, err := HeadersOf(json.RawMessage(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if h, err := HeadersOf(json.RawMessage(`{"type":"object"}`)); h != nil || err != nil {
		t.Errorf("%v %v", h, err)
	}
	head, err := standardHeaders(nil, "2026-07-28", &Request{Method: "resources/read", Params: json.RawMessage(`{"uri":"file:///ü"}`)})
	if want := (http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"resources/read"}, "Mcp-Name": {"=?base64?ZmlsZTovLy/DvA==?="}}); err != nil || !cmp.Equal(head, want) {
		t.Errorf("headers %v", head)
	}
}

// FuzzUnquote: a string is what encoding/json says that it is.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{`""`, `"a"`, `"a\n\t\"\\\/\b\f\r"`, `"\u00e9\u4e2d"`, `"\ud83d\ude00"`, `"\ud83d"`, `"é中😀"`, "\"\xff\\n\"", `"\u12"`, `"\x"`, `"\`, `"\"`, `5`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := Unquote(raw)
		if len(raw) == 0 || raw[0] != '"' {
			if got != "" {
				t.Errorf("%q gives %q", raw, got)
			}
			return
		}
		var want string
		if json.Valid(raw) && raw[len(raw)-1] == '"' {
			if err := json.Unmarshal(raw, &want); err != nil || got != want {
				t.Errorf("%q gives %q, want %q (%v)", raw, got, want, err)
			}
		}
	})
}
