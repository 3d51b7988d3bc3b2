package host

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func image(t *testing.T) tool.Content {
	data, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Content{Kind: tool.KindImage, Data: data, MIME: "image/png"}
}

func words(text string) tool.Content { return tool.Content{Kind: tool.KindText, Text: text} }

func TestResult(t *testing.T) {
	png := image(t)
	sound := tool.Content{Kind: tool.KindAudio, Data: []byte("abc"), MIME: "audio/wav"}
	gone := `"(image/png of 70 bytes, block 1 of the result)"`
	for _, c := range []struct {
		name, value, structured, wrapped string
		want                             []tool.Content
	}{
		{name: "undefined", value: ``, wrapped: "undefined", want: []tool.Content{words("The tool returned nothing.")}},
		{name: "null", value: `null`, wrapped: "null", want: []tool.Content{words("The tool returned nothing.")}},
		{name: "a number", value: `-1.5`, wrapped: "number", want: []tool.Content{words("-1.5")}},
		{name: "a boolean", value: `false`, wrapped: "boolean", want: []tool.Content{words("false")}},
		{name: "a text", value: `"a\n\"b\" ü"`, want: []tool.Content{words("a\n\"b\" ü")}},
		{name: "an empty text", value: `""`, want: []tool.Content{words("")}},
		{name: "an object", value: `{"a":[1,"<x>"]}`, structured: `{"a":[1,"<x>"]}`, want: []tool.Content{words(`{"a":[1,"<x>"]}`)}},
		{name: "an empty object", value: `{}`, structured: `{}`, want: []tool.Content{words(`{}`)}},
		{name: "a list", value: `[1,2]`, want: []tool.Content{words(`[1,2]`)}},
		{name: "an empty list", value: `[]`, want: []tool.Content{words(`[]`)}},
		{name: "success", value: `{"success":true,"n":1}`, structured: `{"success":true,"n":1}`, want: []tool.Content{words(`{"success":true,"n":1}`)}},
		{
			name: "MCP content", value: `{"content":[{"type":"text","text":"a"},{"type":"image","data":"` + pixel + `","mimeType":"image/png"},{"type":"audio","data":"YWJj","mimeType":"audio/wav"}]}`,
			want: []tool.Content{words("a"), png, sound},
		},
		{
			name: "MCP with structured content", value: `{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1}}`, structured: `{"n":1}`,
			want: []tool.Content{words("a")},
		},
		{name: "MCP with only structured content", value: `{"content":[],"structuredContent":{"n":1}}`, structured: `{"n":1}`, want: []tool.Content{words(`{"n":1}`)}},
		{name: "MCP without any", value: `{"content":[]}`},
		{
			name:  "MCP resources",
			value: `{"content":[{"type":"resource_link","uri":"file:///a","name":"a"},{"type":"resource","resource":{"uri":"file:///b","mimeType":"text/plain","text":"b"}},{"type":"resource","resource":{"uri":"file:///c","blob":"YWJj"}}]}`,
			want: []tool.Content{
				{Kind: tool.KindResourceLink, URI: "file:///a", Name: "a", Raw: json.RawMessage(`{"type":"resource_link","uri":"file:///a","name":"a"}`)},
				{Kind: tool.KindResource, URI: "file:///b", MIME: "text/plain", Text: "b"}, {Kind: tool.KindResource, URI: "file:///c", Data: []byte("abc")},
			},
		},
		{
			name: "MCP annotations stay", value: `{"content":[{"type":"text","text":"a","annotations":{"priority":1}}]}`,
			want: []tool.Content{{Kind: tool.KindText, Text: "a", Raw: json.RawMessage(`{"type":"text","text":"a","annotations":{"priority":1}}`)}},
		},
		{
			name: "malformed blocks", value: `{"content":[{"type":"text","text":"a"},{"type":"image","data":"no base64","mimeType":"image/png"},"b",{"type":"text"},{"type":"film"},7,null]}`,
			want: []tool.Content{words("a"), words(`{"type":"image","data":"no base64","mimeType":"image/png"}`), words("b"), words(`{"type":"text"}`), words(`{"type":"film"}`), words("7"), words("")},
		},
		{name: "content of another kind", value: `{"content":["a","b"],"path":"x"}`, structured: `{"content":["a","b"],"path":"x"}`, want: []tool.Content{words(`{"content":["a","b"],"path":"x"}`)}},
		{name: "content that is a text", value: `{"content":"a"}`, structured: `{"content":"a"}`, want: []tool.Content{words(`{"content":"a"}`)}},
		{name: "a bare list of blocks", value: `[{"type":"text","text":"a"},{"type":"image","data":"` + pixel + `","mimeType":"image/png"}]`, want: []tool.Content{words("a"), png}},
		{name: "an image", value: `{"type":"image","data":"` + pixel + `","mimeType":"image/png"}`, want: []tool.Content{png}},
		{name: "a data URL", value: `"data:image/png;base64,` + pixel + `"`, want: []tool.Content{png}},
		{name: "a text that begins like one", value: `"data:image/png;base64,not really"`, want: []tool.Content{words("data:image/png;base64,not really")}},
		{
			name: "images of a list", value: `{"method":"shot","images":[{"data":"` + pixel + `","mimeType":"image/png"}]}`,
			structured: `{"images":[{"data":` + gone + `,"mimeType":"image/png"}],"method":"shot"}`,
		},
		{name: "base64 with its type", value: `{"base64":"` + pixel + `","mimeType":"image/png"}`, structured: `{"base64":` + gone + `,"mimeType":"image/png"}`},
		{
			name: "an image as content", value: `{"success":true,"format":"image","content":{"base64":"` + pixel + `","mimeType":"image/png","description":"d"}}`,
			structured: `{"content":{"base64":` + gone + `,"description":"d","mimeType":"image/png"},"format":"image","success":true}`,
		},
		{
			name: "an image twice", value: `{"content":{"dataUrl":"data:image/png;base64,` + pixel + `","base64":"` + pixel + `","mimeType":"image/png"}}`,
			structured: `{"content":{"base64":` + gone + `,"dataUrl":` + gone + `,"mimeType":"image/png"}}`,
		},
		{name: "a data URL in a field", value: `{"n":1,"shot":"data:image/png;base64,` + pixel + `"}`, structured: `{"n":1,"shot":` + gone + `}`},
		{
			name: "another type in base64", value: `{"base64":"YWJj","mimeType":"application/pdf"}`, structured: `{"base64":"YWJj","mimeType":"application/pdf"}`,
			want: []tool.Content{words(`{"base64":"YWJj","mimeType":"application/pdf"}`)},
		},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			if c.want == nil && c.structured != "" {
				c.want = []tool.Content{png, words(c.structured)}
			}
			got, err := Result(json.RawMessage(c.value), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Content); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			if string(got.Structured) != c.structured {
				t.Errorf("structured %s, want %s", got.Structured, c.structured)
			}
			if w := Wrapped(json.RawMessage(c.value)); w != c.wrapped {
				t.Errorf("wrapped %q, want %q", w, c.wrapped)
			}
		})
	}
}

// known has business errors of each kind.
var known = &definition.Definition{BusinessErrors: []definition.BusinessError{
	{Code: "OUT_OF_STOCK", Description: "d", Match: `nothing\s+left`, Flags: "i", Solution: "Order more.", Retryable: true},
	{Code: "AHEAD", Match: `(?=x)y|plain \(text\)`, Solution: "Look ahead."},
	{Code: "TIMEOUT", Match: `超时|timeout`},
}}

func TestUnsuccessful(t *testing.T) {
	for _, c := range []struct {
		name, value, message, hint, business, result string
		code                                         tool.Code
		retryable                                    bool
	}{
		{name: "a text", value: `{"success":false,"error":"no such file x"}`, code: tool.NotFound, message: "no such file x"},
		{name: "our own code", value: `{"success":false,"error":"x","error_code":"CONFLICT"}`, code: tool.Conflict, message: "x"},
		{
			name: "a business code", value: `{"success":false,"error":"sold out","error_code":"OUT_OF_STOCK"}`, code: tool.ExecutionError, message: "sold out", hint: "Order more.",
			business: "OUT_OF_STOCK", retryable: true,
		},
		{name: "a business text", value: `{"success":false,"error":"Nothing left."}`, code: tool.ExecutionError, message: "Nothing left", hint: "Order more.", business: "OUT_OF_STOCK", retryable: true},
		{name: "nothing said", value: `{"success":false,"failed":2,"results":[1]}`, code: tool.ExecutionError, message: "the tool says that it had no success", result: `{"failed":2,"results":[1]}`},
		{name: "an object", value: `{"success":false,"error":{"message":"connection refused","code":"ECONNREFUSED"}}`, code: tool.ConnectionError, message: "connection refused", retryable: true},
		{name: "a message", value: `{"success":false,"message":"it went wrong"}`, code: tool.ExecutionError, message: "it went wrong"},
		{name: "MCP", value: `{"isError":true,"content":[{"type":"text","text":"permission denied"}]}`, code: tool.PermissionDenied, message: "permission denied"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			r, err := Result(json.RawMessage(c.value), known)
			if err == nil {
				t.Fatalf("it is a success: %+v", r)
			}
			if err.Code != c.code || err.Message != c.message || err.Hint != c.hint || err.Retryable != c.retryable || !err.Began {
				t.Errorf("got %+v, want %s %q %q %v", err, c.code, c.message, c.hint, c.retryable)
			}
			if got := businessCode(err); got != c.business {
				t.Errorf("business error %q, want %q", got, c.business)
			}
			if rest, _ := err.Details["result"].(json.RawMessage); string(rest) != c.result {
				t.Errorf("result %s, want %s", rest, c.result)
			}
		})
	}
}

func businessCode(err *tool.Error) string {
	business, _ := err.Details["business"].(map[string]any)
	code, _ := business["code"].(string)
	return code
}

func TestFailure(t *testing.T) {
	stack := "Error: x\n    at execute (/a/b.js:1:2)"
	for _, c := range []struct {
		name              string
		thrown            worker.Thrown
		code              tool.Code
		message, business string
	}{
		{"plain", worker.Thrown{Name: "Error", Message: "x", Stack: stack}, tool.ExecutionError, "x", ""},
		{"a type", worker.Thrown{Name: "TypeError", Message: "x is no function."}, tool.ExecutionError, "TypeError: x is no function", ""},
		{"a code", worker.Thrown{Name: "Error", Message: "ENOENT: no such file or directory, open 'x'", Code: "ENOENT"}, tool.NotFound, "ENOENT: no such file or directory, open 'x'", ""},
		{"only a code", worker.Thrown{Name: "Error", Message: "it did not work", Code: "ECONNRESET"}, tool.ConnectionError, "it did not work", ""},
		{"an own code", worker.Thrown{Name: "Error", Message: "that exists", Code: "CONFLICT"}, tool.Conflict, "that exists", ""},
		{"a module", worker.Thrown{Name: "Error", Message: "Cannot find module 'x'\nRequire stack:\n- /a/b.js", Code: "MODULE_NOT_FOUND"}, tool.DependencyError, "Cannot find module 'x'", ""},
		{"a stack in the message", worker.Thrown{Name: "Error", Message: "it broke\n    at f (/x.js:1:1)\n    at g (/x.js:2:1)"}, tool.ExecutionError, "it broke", ""},
		{"a traceback", worker.Thrown{Name: "Exception", Message: "Traceback (most recent call last):\n  File \"/x.py\", line 1, in f\nValueError: bad"}, tool.ExecutionError, "ValueError: bad", ""},
		{"nothing", worker.Thrown{Name: "Error"}, tool.ExecutionError, "the tool failed and said nothing", ""},
		{"long", worker.Thrown{Name: "Error", Message: strings.Repeat("ü", 5000)}, tool.ExecutionError, strings.Repeat("ü", 500) + "…", ""},
		{"by code first", worker.Thrown{Name: "Error", Message: "timeout", Code: "OUT_OF_STOCK"}, tool.TimeoutError, "timeout", "OUT_OF_STOCK"},
		{"by match", worker.Thrown{Name: "Error", Message: "there is NOTHING  LEFT"}, tool.ExecutionError, "there is NOTHING  LEFT", "OUT_OF_STOCK"},
		{"an alternative that Go can read", worker.Thrown{Name: "Error", Message: "a plain (text)"}, tool.ExecutionError, "a plain (text)", "AHEAD"},
		{"not ASCII", worker.Thrown{Name: "Error", Message: "操作超时"}, tool.ExecutionError, "操作超时", "TIMEOUT"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			given := tool.Errorf(tool.ExecutionError, "%s", c.thrown.Error()).WithDetail("stack", c.thrown.Stack).WithDetail("name", c.thrown.Name)
			given.Err = &c.thrown
			got := Failure(given, known)
			if got.Code != c.code || got.Message != c.message || businessCode(got) != c.business {
				t.Errorf("got %s %q %q, want %s %q %q", got.Code, got.Message, businessCode(got), c.code, c.message, c.business)
			}
			if _, shown := got.Details["stack"]; shown || given.Details["stack"] == nil || Stack(got) != c.thrown.Stack {
				t.Errorf("the stack: %v, %q", got.Details, Stack(got))
			}
		})
	}
	if Failure(nil, known) != nil {
		t.Error("no error is one")
	}
	if got := Failure(errors.New("x"), nil); got.Code != tool.Internal {
		t.Errorf("an error of ours: %+v", got)
	}
	limit := tool.Errorf(tool.TimeoutError, "the tool ran longer than its limit, timeout").WithHint("Ask for less.")
	if got := Failure(limit, known); got.Code != tool.TimeoutError || got.Hint != "Ask for less." || businessCode(got) != "" {
		t.Errorf("the runtime's own: %+v", got)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		source, flags, text string
		want                bool
	}{
		{`a.c`, "", "xabcx", true},
		{`A.C`, "", "xabcx", false},
		{`A.C`, "gi", "xabcx", true},
		{`^b`, "m", "a\nb", true},
		{`a.b`, "s", "a\nb", true},
		{`\/path\/x`, "", "a/path/x", true},
		{`\u8def径`, "u", "路径越权", true},
		{`\u{8def}`, "u", "路", true},
		{`\x41`, "", "A", true},
		{`[^]`, "", "\n", true},
		{`a[]b`, "", "ab", false},
		{`[[]x`, "", "[x", true},
		{`\e\-`, "", "e-", true},
		{`(?<name>a)b`, "", "ab", true},
		{`(?!x)never|(?<=y)none|good`, "", "good", true},
		{`(?!x)never`, "", "never", false},
		{`(a)\1`, "", "aa", false},
		{`(a)\1|b\.c`, "", "b.c", true},
		{`[`, "", "[", false},
		{`*`, "", "*", false},
		{``, "", "x", false},
		{`((a{1000}){1000}){1000}`, "", "a", false},
		{strings.Repeat("a", 3000), "", strings.Repeat("a", 3000), false},
		{`x*y`, "", strings.Repeat("x", 1<<20) + "y", false},
	} {
		if got := matches(&definition.BusinessError{Match: c.source, Flags: c.flags}, c.text); got != c.want {
			t.Errorf("/%.60s/%s on %.60q: %v, want %v", c.source, c.flags, c.text, got, c.want)
		}
	}
}

func FuzzMatches(f *testing.F) {
	for _, s := range []string{`a|b`, `[^]`, `\u{8def}`, `(?<a>x)\k<a>`, `\`, `[\]]`, `(a{9}){9}`} {
		f.Add(s, "gimsuy", "abc")
	}
	f.Fuzz(func(t *testing.T, source, flags, text string) {
		matches(&definition.BusinessError{Match: source, Flags: flags}, text)
	})
}

func FuzzResult(f *testing.F) {
	for _, s := range []string{``, `1`, `"data:image/png;base64,YQ=="`, `{"content":[{"type":"text"}]}`, `{"images":[{"data":"YQ==","mimeType":"image/png"}]}`, `{"success":false,"error":{"message":"x"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) > 0 && !json.Valid(value) {
			return
		}
		r, err := Result(value, known)
		if (r == nil) == (err == nil) {
			t.Fatalf("%s: %v and %v", value, r, err)
		}
		if r != nil && r.Structured != nil && !json.Valid(r.Structured) {
			t.Fatalf("%s: structured is %s", value, r.Structured)
		}
		if r != nil {
			if out := r.AppendJSON(nil); !json.Valid(out) {
				t.Fatalf("%s: on the wire %s", value, out)
			}
		}
	})
}
