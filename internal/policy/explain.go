package policy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// Explain is Check with every rule that met each part in Verdict.Parts. A part
// that reads as the one before it, such as a shell and what that shell reads,
// stands there once.
func (p *Policy) Explain(q Query) Verdict {
	v := p.check(q, true)
	v.Parts = slices.CompactFunc(v.Parts, func(a, b Part) bool {
		return a.Kind == b.Kind && a.Text == b.Text && a.Action == b.Action && a.Reason == b.Reason && slices.Equal(a.Matches, b.Matches)
	})
	return v
}

// Call is a call as a person writes it: "bash(git log && curl x | sh)",
// "edit(src/a.go)", "web_scrape", `read({"file_path": "a"})`.
type Call struct {
	Tool  string // normalised
	Value string // between the parentheses
}

// ParseCall reads a call as a person writes it. The error is a PARAMETER_ERROR.
func ParseCall(text string) (Call, error) {
	text = strings.TrimSpace(text)
	name, value, ok := strings.Cut(text, "(")
	name = strings.TrimSpace(name)
	if name == "" || !nameChars(name) {
		return Call{}, tool.Errorf(tool.ParameterError, "%q is not a call", shorten(text)).
			WithHint("Write it as tool(argument): bash(git log), edit(src/a.go).")
	}
	if ok {
		if value, ok = strings.CutSuffix(value, ")"); !ok {
			return Call{}, tool.Errorf(tool.ParameterError, "the call %q has no closing parenthesis at its end", shorten(text)).
				WithHint("Write it as tool(argument): bash(git log), edit(src/a.go).")
		}
	}
	if name == "delete" {
		value = "rm " + value
	}
	return Call{Tool: NormaliseName(name), Value: value}, nil
}

// Query makes what [Policy.Check] needs, with spec, which is of the call's tool.
// The value is the whole arguments if it is a JSON object, else one argument
// ("key:value"), else the tool's command, its first path, or its first required
// string.
func (c Call) Query(spec *tool.Spec) Query {
	q := Query{Spec: spec}
	if raw := []byte(c.Value); len(raw) > 0 && raw[0] == '{' && json.Valid(raw) {
		q.Arguments = bytes.Clone(raw)
		return q
	}
	if c.Value != "" {
		q.Arguments = c.arguments(primary(spec))
	}
	return q
}

// arguments writes the value as JSON arguments; key is where a value that names
// none goes.
func (c Call) arguments(key string) []byte {
	value := c.Value
	if k, v, ok := strings.Cut(value, ":"); ok && isKey(k) && key != "command" && !strings.HasPrefix(v, "//") {
		key, value = k, v
	}
	if key == "" {
		key = "value"
	}
	if key == "domain" && !strings.Contains(value, "://") {
		key, value = "url", "https://"+value
	}
	raw, err := json.Marshal(map[string]string{key: value})
	if err != nil {
		return nil
	}
	return raw
}

// primary is the argument that a bare value means.
func primary(spec *tool.Spec) string {
	if spec.Input == nil {
		return ""
	}
	for _, format := range []string{"command", "path"} {
		for _, name := range order(spec.Input) {
			if spec.Input.Properties[name].Format == format {
				return name
			}
		}
	}
	if len(spec.Input.Required) > 0 {
		return spec.Input.Required[0]
	}
	if names := order(spec.Input); len(names) > 0 {
		return names[0]
	}
	return ""
}
