package pkgs

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// A package.json that is made or completed: the well-known keys come first, in
// the order in which npm writes them.
var packageKeys = []string{"name", "version", "description", "main", "type", "private", "keywords", "author", "license", "scripts", "dependencies"}

// packageJSON writes an object as package.json.
func packageJSON(object map[string]any) ([]byte, error) {
	keys := slices.Sorted(maps.Keys(object))
	rank := func(k string) int {
		if i := slices.Index(packageKeys, k); i >= 0 {
			return i
		}
		return len(packageKeys)
	}
	slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
	var b bytes.Buffer
	b.WriteString("{\n")
	for i, k := range keys {
		name, err := json.Marshal(k)
		if err != nil {
			return nil, err
		}
		var value bytes.Buffer
		enc := json.NewEncoder(&value)
		enc.SetEscapeHTML(false)
		enc.SetIndent("  ", "  ")
		if err := enc.Encode(object[k]); err != nil {
			return nil, err
		}
		b.WriteString("  ")
		b.Write(name)
		b.WriteString(": ")
		b.Write(bytes.TrimSpace(value.Bytes()))
		if i < len(keys)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// systemPackage completes the package.json of a tool that is shipped with the
// program.
func systemPackage(text []byte, name, file string, dependencies map[string]string) ([]byte, error) {
	object := map[string]any{}
	if text != nil {
		// Raw, so that what is not ours stays as it is written.
		raw := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &raw); err != nil {
			return nil, err
		}
		for k, v := range raw {
			object[k] = v
		}
	}
	object["name"] = "@toolyard/" + name
	for k, v := range map[string]any{"version": "1.0.0", "description": "The tool " + name + ", shipped with toolyard"} {
		raw, _ := object[k].(json.RawMessage)
		var s string
		if json.Unmarshal(raw, &s) != nil || s == "" {
			object[k] = v
		}
	}
	object["main"], object["type"], object["private"] = file, "module", true
	raw, _ := object["dependencies"].(json.RawMessage)
	var merged map[string]any
	if json.Unmarshal(raw, &merged) != nil || merged == nil {
		merged = map[string]any{}
	}
	for k, v := range dependencies {
		if _, ok := merged[k]; !ok { // where ranges differ, package.json wins
			merged[k] = v
		}
	}
	object["dependencies"] = merged
	return packageJSON(object)
}

var (
	usesModules  = regexp.MustCompile(`(?m)^\s*(export\s+(default|const|let|var|function|async|class|\{|\*)|import\s+[\w{*'"])`)
	usesCommonJS = regexp.MustCompile(`(?m)\b(module\.exports|exports\.\w+)\s*=`)
)

// makePackage writes the package.json of a tool that has none.
func makePackage(dir, name, file string) error {
	object := map[string]any{"name": name, "version": "1.0.0", "main": file, "private": true}
	if filepath.Ext(file) == ".js" {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		object["type"] = "module"
		if usesCommonJS.Match(text) && !usesModules.Match(text) {
			object["type"] = "commonjs"
		}
	}
	text, err := packageJSON(object)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "package.json"), text, 0o644)
}
