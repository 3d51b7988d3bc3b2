package check

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// environment is layer 10.
func (r *run) environment() {
	values := map[string]string{}
	known := true
	path := filepath.Join(r.Dir, ".env")
	info, err := os.Stat(path)
	switch {
	case err != nil:
		r.skip(noFile, "env-file", "env-mode")
	default:
		if mode := info.Mode().Perm(); mode&0o077 != 0 && os.PathSeparator == '/' {
			r.found("env-mode", ".env", mode)
		}
		values, known = r.envFile(path)
	}
	switch {
	case r.Definition == nil:
		r.skip(unloaded, "env-required")
	case !known:
		r.skip(noFunction, "env-required")
	default:
		r.requiredVariables(values)
	}
}

func (r *run) envFile(path string) (values map[string]string, known bool) {
	content, err := readFile(path, maxSource)
	if err != nil {
		r.found("env-file", ".env", cause(err).Error())
		return nil, false
	}
	if r.ParseEnv == nil {
		r.skip(noFunction, "env-file")
		return nil, false
	}
	values, faults := r.ParseEnv(content)
	for _, f := range faults {
		where := ".env"
		if f.Line > 0 {
			where += ":" + strconv.Itoa(f.Line)
		}
		r.found("env-file", where, f.Message)
	}
	return values, true
}

func (r *run) requiredVariables(values map[string]string) {
	answer, ok := r.raw("getSchema")
	if !ok {
		r.skip(absent, "env-required")
		return
	}
	_, raw := schemasOf(r.Definition, answer)
	var schema struct {
		Properties map[string]map[string]any
		Required   []string
	}
	if raw == nil || json.Unmarshal(raw, &schema) != nil {
		r.skip(notAsked, "env-required")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		needed := slices.Contains(schema.Required, name) || property["required"] == true
		_, has := property["default"]
		if needed && !has && values[name] == "" && r.Definition.Runtime.Environment[name] == "" {
			r.found("env-required", name)
		}
	}
}
