package config

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/tool"
)

const envPrefix = "TOOLYARD_"

// otherVariables begin like settings but are read elsewhere.
var otherVariables = []string{"TOOLYARD_HOME", "TOOLYARD_MASTER_KEY", "TOOLYARD_TOKEN", "TOOLYARD_LAUNCH"}

// environment sets what TOOLYARD_… variables say: TOOLYARD_SANDBOX__MIN_LEVEL
// is sandbox.minLevel, TOOLYARD_TOOLS__WEB_SEARCH__TIMEOUT is
// tools.web_search.timeout.
func (r *reader) environment(o Options) {
	for _, pair := range slices.Sorted(slices.Values(o.Environ)) {
		name, text, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok || slices.Contains(otherVariables, name) {
			continue
		}
		r.from = origin{layer: Environment, name: "environment " + name, dir: o.Dir}
		segments := strings.Split(rest, "__")
		if len(segments) > 1 && (strings.EqualFold(segments[0], "tools") || strings.EqualFold(segments[0], "profiles")) {
			segments[1] = strings.ToLower(segments[1])
		}
		r.byPath(strings.Join(segments, "."), value{text: text})
	}
}

// byPath sets the setting at a path, whose names may be in any case, from a text
// or a list of texts.
func (r *reader) byPath(path string, v value) {
	at, full, name := r.tree, "", ""
	segments := strings.Split(path, ".")
	for i, segment := range segments {
		if i == 1 && full == "tools" {
			name = policy.NormaliseName(segment)
			at, full = at.children["*"], "tools."+name
			continue
		}
		if i == 1 && full == "profiles" {
			name = segment
			at, full = at.children["*"], join(full, name)
			continue
		}
		next := at.children[fold(segment)]
		if next == nil {
			expected := "a known setting"
			if near := nearest(segment, at.names); near != "" {
				expected += " (did you mean " + join(full, near) + "?)"
			}
			r.faults = append(r.faults, tool.Fault{Path: r.from.name, Expected: expected, Got: path})
			return
		}
		full, at = join(full, at.named(segment)), next
	}
	if at.key == nil {
		r.faults = append(r.faults, tool.Fault{Path: r.from.name, Expected: "a setting below " + full, Got: path})
		return
	}
	if v.kind == scalar && at.key.isList() {
		v = r.listText(at.key, v.text)
	}
	r.set(at.key, name, full, v, nil)
}

func (k *Key) isList() bool {
	return slices.Contains([]kind{texts, words, paths, rules, hosts, ranges}, k.kind)
}

// listText reads a list from one text: a YAML list in brackets, else items
// between commas. Rules, which may hold commas, stand one a line.
func (r *reader) listText(k *Key, text string) value {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if file, err := parse([]byte(text)); err == nil && len(file.Docs) == 1 {
			r.anchors = map[string]ast.Node{}
			v := r.value(file.Docs[0].Body, 0)
			return v.without()
		}
	}
	if k.kind == rules {
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return listOf(lines)
	}
	return listOf(splitList(text))
}

// without is v with no positions: lines of a variable mean nothing.
func (v value) without() value {
	v.line, v.col = 0, 0
	for i := range v.list {
		v.list[i] = v.list[i].without()
	}
	return v
}

func splitList(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

func keysOf(m map[string]string) iter.Seq[string] { return maps.Keys(m) }
