package upstream

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestText holds the scan of a string, which looks at eight bytes at a time,
// against encoding/json, with each byte at each place.
func TestText(t *testing.T) {
	for place := range 20 {
		for _, length := range []int{place + 1, place + 2, place + 9, place + 16} {
			for c := range 256 {
				inner := []byte(strings.Repeat("a", length))
				inner[place] = byte(c)
				raw := []byte(`"` + string(inner) + `"`)
				if got, want := text(raw, 0) == len(raw), json.Valid(raw); got != want {
					t.Fatalf("%q: %t, encoding/json says %t", raw, got, want)
				}
			}
		}
	}
	for _, raw := range []string{`"`, `"abcdefgh`, `"abcdefg\`, `"abcdefgh\"`, `"abcdefgh\u00`} {
		if text([]byte(raw), 0) >= 0 {
			t.Errorf("%s counts as a string", raw)
		}
	}
}

func TestMembersElements(t *testing.T) {
	for _, test := range []struct{ raw, want string }{
		{` {"a": [1, 2], "b\u0062": {"a": null}} `, `a=[1, 2] bb={"a": null} `}, {`{}`, ""}, {`[]`, "!"}, {`{"a":1`, "!"}, {`{"a":1}x`, "!"}, {``, "!"}, {`null`, "!"},
	} {
		var got string
		if err := Members(json.RawMessage(test.raw), func(key string, value json.RawMessage) { got += key + "=" + string(value) + " " }); err != nil {
			got = "!"
		}
		if got != test.want {
			t.Errorf("members of %s: %s", test.raw, got)
		}
	}
	if got, err := Elements(json.RawMessage(` [1, {"a": 2}] `)); err != nil || len(got) != 2 || string(got[1]) != `{"a": 2}` {
		t.Errorf("elements: %s, %v", got, err)
	}
	for _, raw := range []string{``, `{}`, `[1`, `[1]]`, `null`} {
		if got, err := Elements(json.RawMessage(raw)); err == nil {
			t.Errorf("elements of %s: %s", raw, got)
		}
	}
}
