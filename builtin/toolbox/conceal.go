package toolbox

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/yamlin"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// unseen stands for a value that is not recorded.
const unseen = "••••••"

// conceal gives toolm's arguments without the values that mode configure sets:
// which of them are secrets only the tool's schema says, and the record is
// written before anybody has read it. Names stay. What cannot be read is left
// out whole.
func conceal(raw json.RawMessage) json.RawMessage {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &members) != nil {
		var inner string
		if json.Unmarshal(raw, &inner) != nil || json.Unmarshal([]byte(inner), &members) != nil {
			return leftOut(len(raw))
		}
	}
	var yaml string
	if json.Unmarshal(members["yaml"], &yaml) == nil && mayConfigure(yaml) {
		req, _, err := yamlin.Parse(yaml)
		if err != nil {
			return leftOut(len(raw))
		}
		if req.Mode == yamlin.Configure {
			return encode(map[string]any{"tool": req.Tool, "mode": req.Mode, "parameters": namesOf(req.Parameters)})
		}
	}
	for _, name := range []string{"mode", "operation"} {
		var mode string
		if json.Unmarshal(members[name], &mode) == nil && mode == string(yamlin.Configure) {
			for _, name := range []string{"parameters", "params", "arguments"} {
				if members[name] != nil {
					members[name] = encode(namesOf(members[name]))
				}
			}
			return encode(members)
		}
	}
	return raw
}

// mayConfigure reports whether a text can be of mode configure: it says so, or
// has escapes in which anything can be said.
func mayConfigure(yaml string) bool {
	return strings.Contains(strings.ToLower(yaml), string(yamlin.Configure)) || strings.Contains(yaml, `\`)
}

func leftOut(size int) json.RawMessage {
	return encode(map[string]any{"_concealed": true, "_bytes": size})
}

// namesOf is an object with its values left out.
func namesOf(parameters json.RawMessage) any {
	var members map[string]json.RawMessage
	if json.Unmarshal(parameters, &members) != nil {
		return unseen
	}
	names := map[string]any{}
	for name, value := range members {
		if names[name] = unseen; string(value) == "null" {
			names[name] = nil
		}
	}
	return names
}

// unshown takes the line out of a syntax error in a text that may set secrets.
func unshown(in toolmIn, err error) error {
	if in.YAML == "" || !strings.Contains(strings.ToLower(in.YAML), string(yamlin.Configure)) {
		return err
	}
	e := *tool.AsError(err)
	if len(e.Faults) > 0 {
		faults := slices.Clone(e.Faults)
		for i := range faults {
			if faults[i].Path != "mode" && faults[i].Path != "operation" {
				faults[i].Got = "what is not shown"
			}
		}
		return validate.FaultsError(faults).WithHint("%s", e.Hint)
	}
	e.Message, _, _ = strings.Cut(e.Message, "\n")
	e.Details, e.Err = maps.Clone(e.Details), nil
	delete(e.Details, "text")
	return &e
}
