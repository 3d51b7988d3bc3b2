package check

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// secretName finds variables whose values nobody should see.
var secretName = lazily(`(?i)secret|passw|token|api_?key|private_?key|credential|access_?key`)

// canary is what a made-up secret contains, so that it is found where it appears.
const canary = "canary-8c1f5e"

// Variables are values for the variables that a tool requires and that have no
// default, so that it can be tried before it is configured. Secrets among them can
// be told from any other text.
func Variables(d *definition.Definition) map[string]string {
	_, raw := schemasOf(d, d.Raw["getSchema"])
	var schema struct {
		Properties map[string]map[string]any
		Required   []string
	}
	values := map[string]string{}
	if json.Unmarshal(raw, &schema) != nil {
		return values
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		needed := slices.Contains(schema.Required, name) || property["required"] == true
		if _, has := property["default"]; has || !needed {
			continue
		}
		values[name] = plausibleVariable(name, property)
	}
	return values
}
