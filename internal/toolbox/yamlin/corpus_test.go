package yamlin_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/yamlin"
	"github.com/toolyard/toolyard/tool"
)

// row is one line of testdata/corpus.jsonl. To add one: the text, and either
// what it is as JSON (json by value, raw to the letter), or the request, or the
// error that it is. Where repairs are not named there must be none.
type row struct {
	Name    string
	Text    string
	JSON    json.RawMessage
	Raw     string
	Request *struct {
		Tool, Mode, Language string
		Parameters           json.RawMessage
	}
	Repairs      []string // parts of what is said, one each
	Error        string   // part of the message of a text that is no YAML
	Line, Column int
	RequestError string `json:"request_error"`
}

func rows(t testing.TB) []row {
	t.Helper()
	f, err := os.Open("testdata/corpus.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []row
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var r row
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", scanner.Text(), err)
		}
		all = append(all, r)
	}
	return all
}

func TestCorpus(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows(t) {
		if seen[r.Name] {
			t.Errorf("two rows are called %q", r.Name)
		}
		seen[r.Name] = true
		t.Run(r.Name, func(t *testing.T) {
			switch {
			case r.Request != nil || r.RequestError != "":
				checkRequest(t, r)
			default:
				checkJSON(t, r)
			}
		})
	}
	if len(seen) < 80 {
		t.Errorf("%d rows", len(seen))
	}
}

func checkJSON(t *testing.T, r row) {
	raw, repairs, err := yamlin.ToJSON(r.Text)
	if r.Error != "" {
		e := tool.AsError(err)
		if err == nil || e.Code != tool.ValidationError || !strings.Contains(e.Message, r.Error) {
			t.Fatalf("%q gives %s, %v; want an error with %q", r.Text, raw, err, r.Error)
		}
		if r.Line != 0 && e.Details["line"] != r.Line || r.Column != 0 && e.Details["column"] != r.Column {
			t.Errorf("%q: the error is at %v:%v, want %d:%d: %s", r.Text, e.Details["line"], e.Details["column"], r.Line, r.Column, e.Message)
		}
		return
	}
	if err != nil {
		t.Fatalf("%q: %v", r.Text, err)
	}
	if r.Raw != "" {
		if string(raw) != r.Raw {
			t.Errorf("%q is %s, want %s", r.Text, raw, r.Raw)
		}
	} else if diff := cmp.Diff(decode(t, r.JSON), decode(t, raw)); diff != "" {
		t.Errorf("%q (-want +got):\n%s", r.Text, diff)
	}
	checkRepairs(t, r, repairs)
}

func checkRequest(t *testing.T, r row) {
	got, repairs, err := yamlin.Parse(r.Text)
	if r.RequestError != "" {
		if e := tool.AsError(err); err == nil || e.Code != tool.ValidationError || !strings.Contains(e.Message, r.RequestError) {
			t.Fatalf("%q gives %+v, %v; want an error with %q", r.Text, got, err, r.RequestError)
		}
		return
	}
	if err != nil {
		t.Fatalf("%q: %v", r.Text, err)
	}
	if got.Tool != r.Request.Tool || string(got.Mode) != r.Request.Mode || got.Language != r.Request.Language {
		t.Errorf("%q is %+v, want %+v", r.Text, got, *r.Request)
	}
	if diff := cmp.Diff(decode(t, r.Request.Parameters), decode(t, got.Parameters)); diff != "" {
		t.Errorf("%q, parameters (-want +got):\n%s", r.Text, diff)
	}
	checkRepairs(t, r, repairs)
}

func checkRepairs(t *testing.T, r row, repairs []string) {
	t.Helper()
	for _, part := range r.Repairs {
		if !strings.Contains(strings.Join(repairs, "\n"), part) {
			t.Errorf("%q: repairs %q, want one with %q", r.Text, repairs, part)
		}
	}
	if len(r.Repairs) == 0 && len(repairs) > 0 {
		t.Errorf("%q was repaired: %q", r.Text, repairs)
	}
}

func decode(t testing.TB, raw json.RawMessage) any {
	t.Helper()
	if raw == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}
