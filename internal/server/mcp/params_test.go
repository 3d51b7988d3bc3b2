package mcp

import (
	"encoding/json"
	"testing"
)

func TestClientName(t *testing.T) {
	for _, info := range []string{
		`{"name":"c","version":"1"}`,
		`{"version":"1","title":"x","name":"a \"b\" é"}`,
		`{}`,
		`{"name":"c"}`,
		`{"Name":"c","VERSION":"1"}`,
		`{"n\u0061me":"c","ver\u017fion":"1"}`,
		`{"name":"c","name":"d"}`,
		`{"name":"c","NAME":"d"}`,
		`{"name":null,"version":"1"}`,
		`{"name":1}`,
		`{"name":"c","version":[]}`,
		"{\"name\":\"\xff\"}",
		`[]`,
		`"c"`,
		`null`,
	} {
		t.Run(info, func(t *testing.T) {
			var want struct{ Name, Version string }
			wantBad := info[0] != '{' || json.Unmarshal([]byte(info), &want) != nil
			got, bad := clientName([]byte(info))
			if bad != wantBad || !bad && got != want.Name+"/"+want.Version {
				t.Errorf("clientName gives %q, %v; encoding/json %+v, %v", got, bad, want, wantBad)
			}
		})
	}
}
