package executor

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// notAsExpected are the rows of engine.jsonl where the specification wins, with
// its sentence.
var notAsExpected = map[string]string{
	// core.md §2: "RESOURCE_EXHAUSTED (…) → EXECUTION_ERROR": what matches nothing
	// is an execution_error; there is no unknown class.
	"classify_error-21": "execution_error",
}

func TestEngineCases(t *testing.T) {
	f, err := os.Open("testdata/engine.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := 0
	for lines := bufio.NewScanner(f); lines.Scan(); rows++ {
		var row struct {
			ID, Unit string
			Input    struct {
				Message string
				Attempt int
			}
			Expect struct {
				Type       string
				Retryable  bool
				MaxRetries int `json:"max_retries"`
				Seconds    float64
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		t.Run(row.ID, func(t *testing.T) {
			switch row.Unit {
			case "classify_error":
				want := row.Expect.Type
				if class, ours := notAsExpected[row.ID]; ours {
					want = class
				}
				code := tool.Classify(row.Input.Message)
				retries, _ := code.Retries()
				err := tool.Errorf(code, "%s", row.Input.Message)
				if code.Class() != want || retries != row.Expect.MaxRetries || err.Retryable != row.Expect.Retryable {
					t.Errorf("Classify(%q) = %s (%s), %d retries, retryable %v; want %s, %d, %v",
						row.Input.Message, code, code.Class(), retries, err.Retryable, want, row.Expect.MaxRetries, row.Expect.Retryable)
				}
			case "retry_delay":
				b := Backoff{Jitter: -1}.filled()
				if got := b.delay(row.Input.Attempt, 0.99); got != time.Duration(row.Expect.Seconds*float64(time.Second)) {
					t.Errorf("delay(%d) = %s, want %g s", row.Input.Attempt, got, row.Expect.Seconds)
				}
			default:
				t.Fatalf("unknown unit %q", row.Unit)
			}
		})
	}
	if rows != 17 {
		t.Errorf("%d rows, want 17", rows)
	}
}

func TestBackoffJitterStaysWithinItsShare(t *testing.T) {
	b := Backoff{}.filled()
	for n, base := range []float64{1, 2, 4, 8, 16, 30, 30} {
		low, high := b.delay(n, 0).Seconds(), b.delay(n, 0.999999).Seconds()
		if low < 0.749*base || low > 0.751*base || high < 1.249*base || high > 1.251*base {
			t.Errorf("delay(%d) is between %g and %g s, want 25 %% around %g", n, low, high, base)
		}
	}
	if got := b.delay(500, 0.5); got != 30*time.Second {
		t.Errorf("delay(500) = %s", got)
	}
}

func TestExplainReadsUnsuccessfulResults(t *testing.T) {
	source := &tool.Spec{Name: "x", Source: "srv", Errors: []tool.BusinessError{{Code: "E7", Match: "seven", Solution: "Count again.", Retryable: true}}}
	r := &tool.Result{Structured: []byte(`{"success":false,"error":"connection reset by seven","error_code":"E_NET"}`)}
	explain(source, r)
	if !r.IsError || r.Err.Code != tool.ConnectionError || !r.Err.Began || r.Err.Hint != "Count again." || r.Err.Details["error"] != "E7" || r.Err.Details["error_code"] != "E_NET" {
		t.Errorf("err = %+v", r.Err)
	}
	r = &tool.Result{Structured: []byte(`{"success":false,"error":"x","error_code":"NOT_FOUND"}`)}
	if explain(source, r); r.Err == nil || r.Err.Code != tool.NotFound {
		t.Errorf("err = %+v", r.Err)
	}
	r = &tool.Result{Structured: []byte(`{"success":false,"error":"x"}`)}
	if explain(&tool.Spec{Name: "builtin"}, r); r.IsError {
		t.Error("a built-in's own output was taken for a failure")
	}
	r = tool.Text("request timeout\nmore")
	r.IsError = true
	if explain(source, r); r.Err.Code != tool.TimeoutError || r.Err.Message != "request timeout" {
		t.Errorf("err = %+v", r.Err)
	}
}
