package tool_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/tool"
)

func TestResultJSON(t *testing.T) {
	failed := func(inMeta bool, structured string) *tool.Result {
		err := tool.Errorf(tool.NotFound, "no file %s", "a<b").WithHint("Look.").WithDetail("near", []string{"ab"})
		r := tool.ErrorResult(err)
		r.ErrorInMeta = inMeta
		if structured != "" {
			r.Structured = json.RawMessage(structured)
		}
		return r
	}
	const failText = `{"content":[{"type":"text","text":"no file a<b. Look."}],`
	const failure = `{"code":"NOT_FOUND","message":"no file a<b","hint":"Look.","retryable":false,"details":{"near":["ab"]}}`
	tests := []struct {
		name string
		in   *tool.Result
		want string
	}{
		{"empty", &tool.Result{}, `{"content":[],"_meta":{"toolyard/call":{"duration_ms":0}}}`},
		{"text and structured", &tool.Result{
			Content:    []tool.Content{{Kind: tool.KindText, Text: "a\n\"b\"\x01\\ü"}},
			Structured: json.RawMessage(`{"a":1}`),
			Meta:       tool.Meta{CallID: "call_1", DurationMS: 1.23456, Attempts: 1},
		}, `{"content":[{"type":"text","text":"a\n\"b\"\u0001\\ü"}],"structuredContent":{"a":1},"_meta":{"toolyard/call":{"duration_ms":1.235,"call_id":"call_1","attempts":1}}}`},
		{"blocks", &tool.Result{Content: []tool.Content{
			{Kind: tool.KindImage, Data: []byte{1, 2}, MIME: "image/png"},
			{Kind: tool.KindAudio, Data: []byte{3}, MIME: "audio/wav"},
			{Kind: tool.KindResourceLink, URI: "artifact://x", Name: "x", MIME: "text/plain", Size: 3},
			{Kind: tool.KindResource, URI: "u", Text: "t"},
			{Kind: tool.KindResource, URI: "u", Data: []byte{1}},
			{Kind: tool.KindText, Text: "shadow", Raw: json.RawMessage("{\n\"type\":\"text\",\"text\":\"raw\"}")},
		}}, `{"content":[{"type":"image","data":"AQI=","mimeType":"image/png"},{"type":"audio","data":"Aw==","mimeType":"audio/wav"},` +
			`{"type":"resource_link","uri":"artifact://x","name":"x","mimeType":"text/plain","size":3},` +
			`{"type":"resource","resource":{"uri":"u","text":"t"}},{"type":"resource","resource":{"uri":"u","blob":"AQ=="}},` +
			`{"type":"text","text":"raw"}],"_meta":{"toolyard/call":{"duration_ms":0}}}`},
		{"error in structured content", failed(false, ""),
			failText + `"structuredContent":{"error":` + failure + `},"isError":true,"_meta":{"toolyard/call":{"duration_ms":0}}}`},
		{"error beside structured content", failed(false, `{"x":1 }`),
			failText + `"structuredContent":{"x":1,"error":` + failure + `},"isError":true,"_meta":{"toolyard/call":{"duration_ms":0}}}`},
		{"error in meta", failed(true, `{"x":1}`),
			failText + `"structuredContent":{"x":1},"isError":true,"_meta":{"toolyard/call":{"duration_ms":0},"toolyard/error":` + failure + `}}`},
		{"structured is a list", &tool.Result{Structured: json.RawMessage(`[1]`)},
			`{"content":[],"structuredContent":{"data":[1]},"_meta":{"toolyard/call":{"duration_ms":0}}}`},
		{"structured is no JSON", &tool.Result{Structured: json.RawMessage(`{"a"`)},
			`{"content":[],"structuredContent":{"raw_output":"{\"a\""},"_meta":{"toolyard/call":{"duration_ms":0}}}`},
		{"full meta", &tool.Result{Meta: tool.Meta{
			DurationMS: math.NaN(), Cached: true, Repaired: true, MatchedWith: "indentation", Truncated: true, OutputHandle: "art_1",
			Sandbox: &tool.SandboxMeta{Level: "L1", Layers: []string{"landlock"}},
			Ending:  &tool.Ending{Reason: "exit", Code: 2, Signal: "SIGHUP"}, Peaks: &tool.Peaks{MemoryBytes: 5, CPUMS: 1.5, PIDs: 2, WallMS: 3},
			Artifacts: []string{"artifact://a"}, Retried: []tool.Code{tool.TimeoutError, tool.RateLimited}, Notes: []string{"n"},
		}}, `{"content":[],"_meta":{"toolyard/call":{"duration_ms":0,"cached":true,"repaired":true,"matched_with":"indentation","truncated":true,"output_handle":"art_1",` +
			`"sandbox":{"level":"L1","layers":["landlock"],"missing":[]},"ending":{"reason":"exit","code":2,"signal":"SIGHUP"},` +
			`"peaks":{"memory_bytes":5,"cpu_ms":1.5,"pids":2,"wall_ms":3},"artifacts":["artifact://a"],"retried":["TIMEOUT_ERROR","RATE_LIMITED"],"notes":["n"]}}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := string(test.in.AppendJSON(nil))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("AppendJSON (-want +got):\n%s", diff)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("not valid JSON: %s", got)
			}
		})
	}
}

func TestErrorJSONCarriesFaultsAndRetryAfter(t *testing.T) {
	err := tool.Errorf(tool.RateLimited, "slow down")
	err.Field, err.RetryAfter = "f", 1500*time.Millisecond
	err.Faults = []tool.Fault{{Path: "a[0]", Expected: "string", Got: "1"}, {Path: "b", Expected: "x", Got: "y"}}
	got, _ := json.Marshal(err)
	want := `{"code":"RATE_LIMITED","message":"slow down","field":"f","faults":[{"path":"a[0]","expected":"string","got":"1"},{"path":"b","expected":"x","got":"y"}],"retryable":true,"retry_after_ms":1500}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func FuzzResultJSON(f *testing.F) {
	f.Add("text", []byte(`{"a":1}`), []byte("raw"), "detail\xff", true)
	f.Add("\xc3\x28\x00\u2028", []byte("{\n}"), []byte(`{"type":"text","text":"`+"\xff"+`"}`), "", false)
	f.Add("", []byte(`{"error":1}`), []byte(nil), "x", true)
	f.Fuzz(func(t *testing.T, text string, structured, raw []byte, detail string, isError bool) {
		r := &tool.Result{Content: []tool.Content{{Kind: tool.KindText, Text: text}, {Raw: raw, Text: text}, {Kind: tool.KindResource, URI: text, Data: raw}},
			Structured: structured, IsError: isError, Meta: tool.Meta{CallID: text, Notes: []string{detail}}}
		if isError {
			r.Err = tool.Errorf(tool.Internal, "%s", text).WithHint("%s", detail).WithDetail(detail, text)
		}
		got := r.AppendJSON(nil)
		if !json.Valid(got) || !utf8.Valid(got) || bytes.ContainsAny(got, "\n\r") {
			t.Fatalf("not one line of JSON in UTF-8: %q", got)
		}
		var back struct {
			Content []json.RawMessage
			IsError bool
		}
		if err := json.Unmarshal(got, &back); err != nil || len(back.Content) != 3 || back.IsError != isError {
			t.Fatalf("decoded %+v, %v", back, err)
		}
		var first struct{ Text string }
		if err := json.Unmarshal(back.Content[0], &first); err != nil || first.Text != string([]rune(text)) {
			t.Fatalf("text %q came back as %q, %v", text, first.Text, err)
		}
	})
}
