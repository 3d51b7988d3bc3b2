package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFields(t *testing.T) {
	for raw, want := range map[string][]string{
		`{}`: {}, ` { } `: {}, `{"a":1}`: {"a=1"}, `{"a": "x,}\"]", "b": [1, {"c": "}"}], "d": null }`: {`a="x,}\"]"`, `b=[1, {"c": "}"}]`, "d=null"},
		`{"a":1,"a":2}`: {"a=1", "a=2"}, `{"\u0061":1}`: {"a=1"}, `[]`: {}, `"x"`: {}, ``: {}, `{"a":1,}`: {}, `{"a" 1}`: {}, `{"a":}`: {}, `{"a":[}`: {}, `{"a":"\\"}`: {`a="\\"`},
	} {
		got := []string{}
		for _, f := range decodeFields([]byte(raw)) {
			got = append(got, f.name+"="+string(f.raw))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
	if raw, _ := decodeFields([]byte(`{"a":1,"a":2}`)).get("a"); string(raw) != "2" {
		t.Errorf("of two the first counts: %s", raw)
	}
}

// For what encoding/json takes, the result is that of encoding/json.
func FuzzFields(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":"x"}`, `{"a":{"b":[1,"]"]},"c":"\\\""}`, `{ "a" : true , "a":2 }`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got := decodeFields([]byte(raw))
		var want map[string]json.RawMessage
		if json.Unmarshal([]byte(raw), &want) != nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if value, ok := got.get(name); !ok || string(value) != string(want[name]) {
				t.Fatalf("%q: argument %q is %q, want %q", raw, name, value, want[name])
			}
		}
	})
}
