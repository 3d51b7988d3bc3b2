package yamlin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/yamlin"
	"github.com/toolyard/toolyard/tool"
)

// TestHostile holds the reader to its bounds: whatever the text, the answer is
// there soon.
func TestHostile(t *testing.T) {
	const n = 1_000_000
	counted := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	bomb := "a: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 30; i++ {
		bomb += fmt.Sprintf("b%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	bomb += "c: *a29\n"
	long := "a: &a " + strings.Repeat("x", 1_000_000) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]\n"
	staircase := ""
	for i := range 3000 {
		staircase += strings.Repeat(" ", i) + "k:\n"
	}
	cases := []struct{ name, text, want string }{
		{"10 MB", strings.Repeat("x", 10_000_000), "10000000 or more are refused"},
		{"bomb of aliases", bomb, "too large"},
		{"aliases of a long text", long, "too large"},
		{"an alias of itself", "a: &a\n  - *a\n", "" /* it is text */},
		{"brackets", strings.Repeat("[", n), "nested more than 64 deep"},
		{"braces", strings.Repeat("{a: ", n/4), "nested more than 64 deep"},
		{"dashes", strings.Repeat("- ", n/2), "nested more than 64 deep"},
		{"staircase", staircase, "nested more than 64 deep"},
		{"keys", counted("k%d:\n"), "more than 200000 values"},
		{"items", "[" + strings.Repeat("x,", n/2) + "]", "more than 200000 values"},
		{"the same key", strings.Repeat("a: |\n x\n", n/8), "stands here again"},
		{"many mistakes", counted("k%d: @v\n"), "must be in quotes"},
		{"many colons", counted("k%d: b: c\n"), "in quotes"},
		{"many tabs", "a:\n" + strings.Repeat("\tb\n", n/3), ""},
		{"many escapes", strings.Repeat(`"\q`, n/3), ""},
		{"one line of brackets in text", "[a" + strings.Repeat("\na", n/2), "never closed"},
		{"quotes", strings.Repeat(`"`, n), ""},
		{"single quotes", strings.Repeat("'", n), ""},
		{"line feeds", strings.Repeat("\n", n), ""},
		{"blanks", strings.Repeat(" ", n), ""},
		{"comments", strings.Repeat("#\n", n/2), ""},
		{"fences", strings.Repeat("```\n", n/4), ""},
		{"returns", strings.Repeat("\r", n), ""},
		{"a long text", "a: |\n" + strings.Repeat("  some text: with \"signs\" \\n\n", n/28), ""},
		{"a long folded text", "a: >\n" + strings.Repeat("  some text\n\n", n/13), ""},
		{"a long plain text", "a: x\n" + strings.Repeat("  some text\n", n/12), ""},
		{"a long quoted text", "a: \"x\n" + strings.Repeat("  some text\n", n/12) + "\"", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			const limit = 20 * time.Second // usually some 50 ms; what is not linear takes minutes
			start := time.Now()
			raw, _, err := yamlin.ToJSON(c.text)
			if took := time.Since(start); took > limit {
				t.Errorf("it took %s", took)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %.200v, want one with %q", err, c.want)
			}
			if err != nil && len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if err == nil && !json.Valid(raw) {
				t.Errorf("no JSON: %.100s", raw)
			}
		})
	}
}

// TestLargeContent is what writers of files send.
func TestLargeContent(t *testing.T) {
	content := strings.Repeat("func main() {\n\tfmt.Println(\"a: b\\n\") // # {[\n}\n\n", 50_000)
	text := "tool: x\nparameters:\n  content: |\n"
	text += "    " + strings.TrimRight(strings.ReplaceAll(content, "\n", "\n    "), " ")
	req, repairs, err := yamlin.Parse(text)
	if err != nil || len(repairs) > 0 {
		t.Fatal(repairs, err)
	}
	var got struct{ Content string }
	if err := json.Unmarshal(req.Parameters, &got); err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimRight(content, "\n") + "\n"; got.Content != want {
		t.Errorf("%d bytes, want %d", len(got.Content), len(want))
	}
}

func TestErrorShowsTheLine(t *testing.T) {
	_, _, err := yamlin.Parse("tool: x\nparameters:\n  a: 1\n   b: 2\n")
	e := tool.AsError(err)
	want := "the text is not YAML: line 4, column 4: this line is indented by 3 spaces, but the line above it is no key of it\n" +
		"4 |    b: 2\n" +
		"  |    ^"
	if e.Message != want {
		t.Errorf("got:\n%s\nwant:\n%s", e.Message, want)
	}
	if e.Details["line"] != 4 || e.Details["column"] != 4 || e.Details["text"] != "   b: 2" || e.Hint == "" {
		t.Errorf("details %v, hint %q", e.Details, e.Hint)
	}
	_, _, err = yamlin.Parse("tool: x\na:\n  b: \"" + strings.Repeat("日本, ", 100) + "\x00" + strings.Repeat("x", 1000))
	lines := strings.Split(tool.AsError(err).Message, "\n")
	if len(lines) != 3 || len([]rune(lines[1])) > 140 {
		t.Errorf("a long line is shown as\n%s", tool.AsError(err).Message)
	}
}

func TestFromFields(t *testing.T) {
	raw := func(pairs ...string) map[string]json.RawMessage {
		m := map[string]json.RawMessage{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = json.RawMessage(pairs[i+1])
		}
		return m
	}
	for _, c := range []struct {
		name   string
		in     map[string]json.RawMessage
		want   yamlin.Request
		faults []string
	}{
		{"plain", raw("tool", `"x"`), yamlin.Request{Tool: "x", Mode: yamlin.Execute}, nil},
		{"all", raw("toolUrl", `"tool://x"`, "operation", `"log"`, "parameters", `{"lines": 3}`, "language", `"zh"`), yamlin.Request{Tool: "x", Mode: yamlin.Log, Parameters: json.RawMessage(`{"lines": 3}`), Language: "zh"}, nil},
		{"parameters keep their order and digits", raw("tool", `"x"`, "parameters", `{"z": 12345678901234567890, "a": "<&>"}`), yamlin.Request{Tool: "x", Mode: yamlin.Execute, Parameters: json.RawMessage(`{"z": 12345678901234567890, "a": "<&>"}`)}, nil},
		{"two modes", raw("tool", `"x"`, "mode", `"log"`, "operation", `"manual"`), yamlin.Request{}, []string{"operation"}},
		{"all faults at once", raw("tool", `7`, "mode", `"x"`, "parameters", `[]`, "extra", `1`), yamlin.Request{}, []string{"mode", "parameters", "tool", "extra"}},
		{"nothing", nil, yamlin.Request{}, []string{"tool"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := yamlin.FromFields(c.in)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var paths []string
			if err != nil {
				for _, f := range tool.AsError(err).Faults {
					paths = append(paths, f.Path)
				}
			}
			if diff := cmp.Diff(c.faults, paths); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzToJSON: nothing panics; what comes out is JSON; JSON is YAML, so that it
// means the same when it is read again; and an error says where.
func FuzzToJSON(f *testing.F) {
	for _, r := range rows(f) {
		f.Add(r.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, _, err := yamlin.ToJSON(text)
		if err != nil {
			if e := tool.AsError(err); e.Code != tool.ValidationError || e.Details["line"] == nil {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q gives %s", text, raw)
		}
		again, repairs, err := yamlin.ToJSON(string(raw))
		if err != nil || len(repairs) > 0 || string(again) != string(raw) {
			t.Fatalf("%q gives %s, which gives %s, %q, %v", text, raw, again, repairs, err)
		}
		if _, _, err := yamlin.Parse(text); err != nil && tool.AsError(err).Code != tool.ValidationError {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
