package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

func TestValueJSON(t *testing.T) {
	cases := []struct {
		name, schema, value, want string
	}{
		{"a string stays one, though it is a number", `{"type": "string"}`, "12", `"12"`},
		{"a string stays one, though it is JSON", `{"type": "string"}`, `{"a": 1}`, `"{\"a\": 1}"`},
		{"a string with quotes keeps them", `{"type": "string"}`, `"x"`, `"\"x\""`},
		{"a whole number", `{"type": "integer"}`, "12", "12"},
		{"no whole number", `{"type": "integer"}`, "1.5", `"1.5"`},
		{"a number", `{"type": "number"}`, "1.5", "1.5"},
		{"a truth", `{"type": "boolean"}`, "true", "true"},
		{"no truth", `{"type": "boolean"}`, "yes", `"yes"`},
		{"a list", `{"type": "array"}`, `["a", "b"]`, `["a", "b"]`},
		{"no list", `{"type": "array"}`, "a", `"a"`},
		{"a list or nothing", `{"type": ["null", "array"]}`, `["a"]`, `["a"]`},
		{"an object", `{"type": "object"}`, `{"a": 1}`, `{"a": 1}`},
		{"one of several", `{"anyOf": [{"type": "integer"}, {"type": "string"}]}`, "3", "3"},
		{"no schema: a number", "", "3", "3"},
		{"no schema: words", "", "some words", `"some words"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var schema *jsonschema.Schema
			if c.schema != "" {
				schema = new(jsonschema.Schema)
				if err := json.Unmarshal([]byte(c.schema), schema); err != nil {
					t.Fatal(err)
				}
			}
			if got := string(valueJSON(schema, c.value)); got != c.want {
				t.Errorf("valueJSON(%s, %q) = %s, want %s", c.schema, c.value, got, c.want)
			}
		})
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	cases := []struct{ text, want string }{
		{"", "0001-01-01T00:00:00Z"},
		{"15m", "2026-03-10T11:45:00Z"},
		{"24h", "2026-03-09T12:00:00Z"},
		{"7d", "2026-03-03T12:00:00Z"},
		{"2026-01-31", "2026-01-31T00:00:00Z"},
		{"2026-01-31T15:04:05Z", "2026-01-31T15:04:05Z"},
		{"2026-01-31 15:04", "2026-01-31T15:04:00Z"},
	}
	for _, c := range cases {
		got, err := parseSince(c.text, now)
		if err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("parseSince(%q) = %s, %v; want %s", c.text, got.Format(time.RFC3339), err, c.want)
		}
	}
	for _, text := range []string{"yesterday", "-1h", "d", "-3d", "2026-13-01"} {
		if got, err := parseSince(text, now); err == nil {
			t.Errorf("parseSince(%q) = %s, want an error", text, got)
		}
	}
}

func TestPrintable(t *testing.T) {
	cases := []struct{ name, in, want string }{
		{"plain", "a\tb\nü 日本", "a\tb\nü 日本"},
		{"colours pass", "\x1b[31mred\x1b[0m \x1b[38;5;1mx\x1b[m", "\x1b[31mred\x1b[0m \x1b[38;5;1mx\x1b[m"},
		{"the cursor stays", "a\x1b[2Jb\x1b[1;1Hc", "a�[2Jb�[1;1Hc"},
		{"the title stays", "\x1b]0;owned\x07", "�]0;owned�"},
		{"one-byte controls", "a\u009b2Jb", "a�2Jb"},
		{"hidden order", "rm \u202etxt.exe", "rm �txt.exe"},
		{"a backspace hides nothing", "rm -rf /\b\b\b\b", "rm -rf /����"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := printable(c.in); got != c.want {
				t.Errorf("printable(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"a", "\xfd", "\x9b2J", "\x1b[31m", "\x1b[2J", "\x1b[3", "\xff\x1b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for rest := printable(s); rest != ""; {
			if n := colourSequence(rest); n > 0 {
				rest = rest[n:]
				continue
			}
			r, size := utf8.DecodeRuneInString(rest)
			if r != '\n' && r != '\t' && r != '\r' && unicode.IsControl(r) || r == utf8.RuneError && size == 1 {
				t.Fatalf("printable(%q) has %q", s, rest[:size])
			}
			rest = rest[size:]
		}
	})
}

func FuzzParseBatch(f *testing.F) {
	for _, s := range []string{`[{"tool": "read"}]`, `{"tool": "read", "arguments": {}}` + "\n\n" + `{"tool_name": "x"}`, "[", "{}", `{"tool": 3}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		calls, err := parseBatch("f", text)
		if err == nil && len(calls) == 0 {
			t.Fatalf("parseBatch(%q) gives neither calls nor an error", text)
		}
		for _, c := range calls {
			if c.Tool == "" {
				t.Fatalf("parseBatch(%q) gives a call without a tool", text)
			}
		}
	})
}

func TestDiffColours(t *testing.T) {
	text := "Edited a: 1 replacement.\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-old\n+new\n same\nnot -a diff\n- a list\n"
	want := "Edited a: 1 replacement.\n\x1b[1m--- a/a\x1b[0m\n\x1b[1m+++ b/a\x1b[0m\n\x1b[36m@@ -1,2 +1,2 @@\x1b[0m\n\x1b[31m-old\x1b[0m\n\x1b[32m+new\x1b[0m\n same\nnot -a diff\n- a list\n"
	if got := (look{true}).diff(text); got != want {
		t.Errorf("diff(%q)\n got %q\nwant %q", text, got, want)
	}
	if got := (look{}).diff(text); got != text {
		t.Errorf("without colours diff changes the text: %q", got)
	}
}

func TestCodeOf(t *testing.T) {
	cases := []struct {
		name string
		err  error
		want int
	}{
		{"usage", usagef("x"), 2},
		{"an id that is not there", &missing{what: "x"}, 4},
		{"a tool that is not there", tool.Errorf(tool.ToolNotFound, "x"), 4},
		{"a file that is not there", tool.Errorf(tool.NotFound, "x"), 1},
		{"denied", tool.Errorf(tool.PermissionDenied, "x"), 3},
		{"the mode", tool.Errorf(tool.ModeDenied, "x"), 3},
		{"nobody", tool.Errorf(tool.PermissionDenied, "x").WithDetail("reason", "no_channel"), 5},
		{"time", tool.Errorf(tool.TimeoutError, "x"), 124},
		{"arguments", tool.Errorf(tool.ValidationError, "x"), 1},
		{"anything", os.ErrClosed, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := codeOf(c.err); got != c.want {
				t.Errorf("codeOf(%v) = %d, want %d", c.err, got, c.want)
			}
		})
	}
}

func TestComplain(t *testing.T) {
	var out bytes.Buffer
	p := &program{stderr: &out}
	p.complain("no such file: x.", "Use glob.")
	p.complain("two things:\n  one\n  two", "Mend them.")
	want := "toolyard: no such file: x — Use glob.\ntoolyard: two things:\n  one\n  two\n  — Mend them.\n"
	if got := out.String(); got != want {
		t.Errorf("complain prints\n%q, want\n%q", got, want)
	}
}

func TestChoose(t *testing.T) {
	permission := tool.Question{Options: []tool.Option{{ID: "once"}, {ID: "always"}, {ID: "reject"}}}
	same := tool.Question{Options: []tool.Option{{ID: "alpha"}, {ID: "apple"}}, Default: "apple"}
	cases := []struct {
		name         string
		question     tool.Question
		line         string
		option, text string
		again        bool
	}{
		{"a letter", permission, "o", "once", "", false},
		{"a word", permission, "Always", "always", "", false},
		{"a number", permission, "3", "reject", "", false},
		{"with a reason", permission, "r it is Friday", "reject", "it is Friday", false},
		{"something else", permission, "yes", "", "", true},
		{"nothing", permission, "", "", "", true},
		{"letters that do not differ", same, "a", "", "", true},
		{"numbers instead", same, "1", "alpha", "", false},
		{"the default", same, "", "apple", "", false},
		{"free text", tool.Question{}, " some text ", "", "some text", false},
		{"no text", tool.Question{}, " ", "", "", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, again := choose(c.question, c.line)
			if got.Option != c.option || got.Text != c.text || again != "" != c.again {
				t.Errorf("choose(%q) = %q, %q, again %q; want %q, %q, again %v", c.line, got.Option, got.Text, again, c.option, c.text, c.again)
			}
		})
	}
}

func TestSumUp(t *testing.T) {
	var rows []store.Call
	for i := range 100 {
		rows = append(rows, store.Call{Tool: "read", Status: "ok", DurationMS: float64(i + 1), BytesOut: 10})
	}
	rows = append(rows,
		store.Call{Tool: "bash", Status: "error", Code: "EXECUTION_ERROR", DurationMS: 5},
		store.Call{Tool: "bash", Status: "refused", Code: "PERMISSION_DENIED", DurationMS: 0.1},
	)
	got := sumUp(rows)
	if len(got) != 2 || got[0].Tool != "read" || got[1].Tool != "bash" {
		t.Fatalf("sumUp gives %+v, want read, then bash", got)
	}
	r, b := got[0], got[1]
	if r.Calls != 100 || r.OK != 100 || r.MeanMS != 50.5 || r.P50MS != 50 || r.P95MS != 95 || r.P99MS != 99 || r.MaxMS != 100 || r.BytesOut != 1000 {
		t.Errorf("read is summed up as %+v", r)
	}
	if b.Calls != 2 || b.Errors != 1 || b.Refused != 1 || b.MeanMS != 5 || b.Codes["PERMISSION_DENIED"] != 1 {
		t.Errorf("bash is summed up as %+v: a refused call took no time", b)
	}
}

// TestMan: the page has no line that man would take for a request by mistake,
// and, where man is there, no warning.
func TestMan(t *testing.T) {
	var page bytes.Buffer
	writeMan(&page, (&program{}).command())
	for _, c := range Reference() {
		if !strings.Contains(page.String(), roff(c.Name)) {
			t.Errorf("the manual page does not have %s", c.Name)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("needs groff")
	}
	cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
	cmd.Stdin = &page
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}

// TestReference: every command says what it is, with an example where it takes
// arguments, and ends no summary with a full stop.
func TestReference(t *testing.T) {
	for _, c := range Reference() {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: the summary %q should be there, without a full stop", c.Name, c.Short)
		}
		if strings.ContainsAny(c.Usage, "[") && c.Example == "" {
			t.Errorf("%s takes arguments and has no example", c.Name)
		}
		for _, f := range c.Flags {
			if f.Usage == "" {
				t.Errorf("%s %s says nothing", c.Name, f.Name)
			}
		}
	}
}
