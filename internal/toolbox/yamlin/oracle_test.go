package yamlin_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/yamlin"
)

// differs are the texts of the corpus that go-yaml reads otherwise, and why ours
// is right.
var differs = map[string]string{
	"block at the end without a line feed": "js-yaml, which tools were written for, ends the text with a line feed, and so does a client that trims it",
	"no numbers":                           "underscores and 0b are of YAML 1.1",
	"integers":                             "017 is decimal in YAML 1.2",
	"floats":                               "1e3 is a number in YAML 1.2",
	"large integers keep their digits":     "there they are floats",
	"byte order mark":                      "there it is part of the first key",
}

// TestOracle compares with another reader what of the corpus is read without
// repairs.
func TestOracle(t *testing.T) {
	compared := 0
	for _, r := range rows(t) {
		if r.Error != "" || r.RequestError != "" || len(r.Repairs) > 0 {
			continue
		}
		raw, repairs, err := yamlin.ToJSON(r.Text)
		if err != nil || len(repairs) > 0 {
			continue
		}
		var theirs any
		if err := yaml.Unmarshal([]byte(r.Text), &theirs); err != nil {
			if differs[r.Name] == "" {
				t.Errorf("%s: the other reader: %v", r.Name, firstLine(err))
			}
			continue
		}
		other, err := json.Marshal(theirs)
		if err != nil {
			if differs[r.Name] == "" {
				t.Errorf("%s: %v", r.Name, err)
			}
			continue
		}
		compared++
		var a, b any
		if json.Unmarshal(raw, &a) != nil || json.Unmarshal(other, &b) != nil {
			t.Fatalf("%s: %s, %s", r.Name, raw, other)
		}
		if diff := cmp.Diff(b, a); (diff != "") != (differs[r.Name] != "") {
			t.Errorf("%s: %q (-theirs +ours):\n%s", r.Name, r.Text, diff)
		}
	}
	if compared < 60 {
		t.Errorf("only %d texts were compared", compared)
	}
}

// TestWrittenByAnother reads what another writer makes of random values.
func TestWrittenByAnother(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		const signs = "abc XYZ19:#-?[]{},&*!|>'\"%@`\\/\n\t~=<+._é日\u00a0🎉"
		runes := []rune(signs)
		b := make([]rune, rng.IntN(12))
		for i := range b {
			b[i] = runes[rng.IntN(len(runes))]
		}
		return string(b)
	}
	var value func(depth int) any
	value = func(depth int) any {
		switch n := rng.IntN(10); {
		case n < 2 && depth < 4:
			m := map[string]any{}
			for range rng.IntN(4) {
				m["k"+text()] = value(depth + 1)
			}
			return m
		case n < 4 && depth < 4:
			l := make([]any, rng.IntN(4))
			for i := range l {
				l[i] = value(depth + 1)
			}
			return l
		case n == 4:
			return rng.IntN(2) == 0
		case n == 5:
			return float64(rng.IntN(2000)) - 1000.5
		case n == 6:
			return nil
		}
		return text()
	}
	read, theirs := 0, 0
	for range 4000 {
		want := map[string]any{"a": value(0), "b": value(0)}
		written, err := yaml.Marshal(want)
		if err != nil {
			continue
		}
		var back any
		if yaml.Unmarshal(written, &back) != nil || cmp.Diff(want, back) != "" {
			theirs++ // it cannot read it itself
			continue
		}
		raw, repairs, err := yamlin.ToJSON(string(written))
		if err != nil || len(repairs) > 0 {
			theirs++ // it leaves ` and the like without quotes, which YAML forbids
			continue
		}
		var got any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(want), got); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", written, diff)
		}
		read++
	}
	if read < 2000 {
		t.Errorf("only %d values were compared, %d were no YAML", read, theirs)
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
