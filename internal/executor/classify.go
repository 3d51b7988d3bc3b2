package executor

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// explain gives a failed result its Err if the tool did not, and makes a
// failure of a {"success": false} from a source. Whatever came as text may have
// had an effect, so it counts as begun.
func explain(spec *tool.Spec, r *tool.Result) {
	if spec.Source != "" && r.Err == nil && strings.Contains(string(r.Structured[:min(len(r.Structured), 4096)]), `"success"`) {
		unsuccessful(r)
	}
	if !r.IsError {
		return
	}
	if r.Err == nil {
		text := r.TextContent()
		code := tool.ExecutionError
		if spec.Source != "" {
			code = tool.Classify(text)
		}
		r.Err = fromText(code, text)
	}
	for _, known := range spec.Errors {
		if known.Match == "" || !strings.Contains(r.Err.Message, known.Match) {
			continue
		}
		e := *r.Err // the tool may have kept it
		e.Details = maps.Clone(e.Details)
		if e.Hint == "" {
			e.Hint = known.Solution
		}
		e.Retryable = e.Retryable || known.Retryable
		r.Err = e.WithDetail("error", known.Code)
		break
	}
}

// unsuccessful reads {"success": false, "error": text, "error_code": code}.
func unsuccessful(r *tool.Result) {
	var said struct {
		Success   *bool  `json:"success"`
		Error     string `json:"error"`
		ErrorCode string `json:"error_code"`
	}
	if json.Unmarshal(r.Structured, &said) != nil || said.Success == nil || *said.Success {
		return
	}
	if said.Error == "" {
		said.Error = "the tool says that it had no success"
	}
	code := tool.Code(said.ErrorCode)
	if code.Class() == "unknown_error" {
		code = tool.Classify(said.Error)
	}
	r.IsError, r.Err = true, fromText(code, said.Error)
	if said.ErrorCode != "" && string(code) != said.ErrorCode {
		r.Err = r.Err.WithDetail("error_code", said.ErrorCode)
	}
}

// maxMessage is how much of a failure's text is its message.
const maxMessage = 500

func fromText(code tool.Code, text string) *tool.Error {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > maxMessage {
		line = strings.ToValidUTF8(line[:maxMessage], "") + "…"
	}
	if line == "" {
		line = "the tool failed and said nothing"
	}
	err := tool.Errorf(code, "%s", strings.TrimSuffix(line, "."))
	err.Began = true
	return err
}
