package yamlin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// Mode is what is wanted of a tool.
type Mode string

// The modes.
const (
	Execute   Mode = "execute"
	Manual    Mode = "manual"
	Configure Mode = "configure"
	Log       Mode = "log"
)

// Modes lists them, the default first.
func Modes() []Mode { return []Mode{Execute, Manual, Configure, Log} }

// Request is what is wanted of which tool.
type Request struct {
	// Tool is the plain name, without tool://.
	Tool string
	// Mode is Execute where nothing was said.
	Mode Mode
	// Parameters is a JSON object; nil if there were none.
	Parameters json.RawMessage
	// Language of headings as it was asked for; "" if it was not.
	Language string
}

// fields are the members of a request by the names that are taken for them.
var fields = map[string]string{
	"tool": "tool", "toolurl": "tool", "url": "tool", "toolname": "tool",
	"mode": "mode", "operation": "mode",
	"parameters": "parameters", "params": "parameters", "arguments": "parameters",
	"language": "language", "lang": "language",
}

// offered are the names of members to offer.
var offered = []string{"tool", "toolUrl", "url", "mode", "operation", "parameters", "language"}

// ofLog are the parameters of mode log, which may also stand beside it.
var ofLog = []string{"action", "lines", "level", "since", "pattern"}

// namePattern is the form of a tool's name.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// FromFields reads a request that came as JSON. Its err is a *tool.Error
// VALIDATION_ERROR with all faults at once.
func FromFields(members map[string]json.RawMessage) (Request, []string, error) {
	r := reader{req: Request{Mode: Execute}, set: map[string]string{}, extra: map[string]json.RawMessage{}}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		r.member(name, members[name])
	}
	r.finish()
	if err := validate.FaultsError(r.faults); err != nil {
		return Request{}, r.repairs, err.WithHint("Write tool: NAME, mode: execute, manual, configure or log, and parameters: with the tool's own below it.")
	}
	return r.req, r.repairs, nil
}

// interpret reads a request from the JSON of a text.
func interpret(raw json.RawMessage, depth int) (Request, []string, error) {
	switch raw[0] {
	case '{':
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			return Request{}, nil, tool.Errorf(tool.ValidationError, "the text is no request: %v", err)
		}
		return FromFields(members)
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return Request{}, nil, tool.Errorf(tool.ValidationError, "the text is no request: %v", err)
		}
		if name, ok := Name(text); ok {
			return Request{Tool: name, Mode: Execute}, nil, nil
		}
		if depth == 0 && strings.ContainsAny(text, "\n{") {
			if inner, repairs, err := ToJSON(text); err == nil && inner[0] == '{' {
				req, more, err := interpret(inner, 1)
				return req, slices.Concat([]string{"read the YAML inside the quoted text"}, repairs, more), err
			}
		}
		return Request{}, nil, noRequest(fmt.Sprintf("%q", cut(text, 80)))
	}
	return Request{}, nil, noRequest(cut(string(raw), 80))
}

func noRequest(got string) error {
	return validate.FaultsError([]tool.Fault{{Expected: "tool: NAME, or tool://NAME", Got: got}}).
		WithHint("Write tool: NAME, mode: execute, manual, configure or log, and parameters: with the tool's own below it.")
}

// Name takes a tool's name out of tool://name, @tool://name, toolbox:name or
// the name alone.
func Name(text string) (string, bool) {
	text = strings.TrimSpace(text)
	text = strings.TrimPrefix(text, "@")
	if len(text) > 7 && strings.EqualFold(text[:7], "tool://") {
		text = strings.TrimRight(text[7:], "/")
	}
	text = strings.TrimPrefix(text, "toolbox:")
	return text, namePattern.MatchString(text)
}

// reader fills a request from its members.
type reader struct {
	req     Request
	set     map[string]string // which name was used for a member
	extra   map[string]json.RawMessage
	faults  []tool.Fault
	repairs []string
}

func (r *reader) fault(path, expected, got string) {
	r.faults = append(r.faults, tool.Fault{Path: path, Expected: expected, Got: got})
}

func (r *reader) member(name string, raw json.RawMessage) {
	folded := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
	member, known := fields[folded]
	if !known {
		r.extra[name] = raw
		return
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) && member != "tool" {
		return
	}
	if before, twice := r.set[member]; twice {
		if member != "tool" || !r.sameTool(raw) {
			r.fault(name, "only one of "+before+" and "+name, "both")
		}
		return
	}
	r.set[member] = name
	if member == "parameters" {
		r.parameters(name, raw)
		return
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		r.fault(name, "text", cut(string(raw), 80))
		return
	}
	switch member {
	case "tool":
		plain, ok := Name(text)
		if !ok {
			r.fault(name, "the name of a tool, or tool://NAME", fmt.Sprintf("%q", cut(text, 80)))
			return
		}
		r.req.Tool = plain
	case "mode":
		r.mode(name, text)
	case "language":
		r.req.Language = strings.TrimSpace(text)
	}
}

// sameTool reports whether raw names the tool that was named already.
func (r *reader) sameTool(raw json.RawMessage) bool {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return false
	}
	name, ok := Name(text)
	return ok && name == r.req.Tool
}

func (r *reader) mode(name, text string) {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return
	}
	var names []string
	for _, m := range Modes() {
		if text == string(m) {
			r.req.Mode = m
			return
		}
		names = append(names, string(m))
	}
	expected := strings.Join(names, ", ")
	if best, near := validate.Nearest(text, names); near {
		expected = fmt.Sprintf("one of %s (did you mean %s?)", expected, best)
	} else {
		expected = "one of " + expected
	}
	r.fault(name, expected, fmt.Sprintf("%q", cut(text, 80)))
}

// parameters takes an object, or a text with one in it.
func (r *reader) parameters(name string, raw json.RawMessage) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		if json.Unmarshal(raw, &text) == nil && strings.TrimSpace(text) != "" {
			if inner, _, err := ToJSON(text); err == nil && inner[0] == '{' {
				r.repairs = append(r.repairs, "read the mapping inside the text of "+name)
				raw = inner
			}
		} else {
			return
		}
	}
	if len(raw) == 0 || raw[0] != '{' {
		r.fault(name, "a mapping of the tool's own parameters", cut(string(raw), 80))
		return
	}
	r.req.Parameters = raw
}

// finish judges the whole.
func (r *reader) finish() {
	if r.set["tool"] == "" {
		r.fault("tool", "the name of a tool, or tool://NAME", "nothing")
	}
	if r.req.Mode == Log {
		r.logParameters()
	}
	for _, name := range slices.Sorted(maps.Keys(r.extra)) {
		expected := "one of tool, mode, parameters, language; the tool's own go below parameters"
		if best, near := validate.Nearest(name, offered); near {
			expected += fmt.Sprintf(" (did you mean %s?)", best)
		}
		r.fault(name, expected, "an unknown field")
	}
}

// logParameters moves the fields of mode log that stand beside it below
// parameters.
func (r *reader) logParameters() {
	members := map[string]json.RawMessage{}
	if r.req.Parameters != nil && json.Unmarshal(r.req.Parameters, &members) != nil {
		return
	}
	moved := false
	for _, name := range ofLog {
		raw, beside := r.extra[name]
		if _, below := members[name]; !beside || below {
			continue
		}
		members[name], moved = raw, true
		delete(r.extra, name)
	}
	if !moved {
		return
	}
	if raw, err := json.Marshal(members); err == nil {
		r.req.Parameters = raw
	}
}
