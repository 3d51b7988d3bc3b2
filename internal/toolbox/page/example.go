package page

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/yamlin"
)

// exampleParameters makes plausible parameters from a schema: those that are
// required, or the first two.
func exampleParameters(s schema) []member {
	return exampleMembers(s, 0)
}

// member is a name with a value, in an order.
type member struct {
	name  string
	value json.RawMessage
}

func exampleMembers(s schema, depth int) []member {
	var chosen []member
	for _, p := range s.Properties {
		if p.Required {
			chosen = append(chosen, member{p.Name, example(p.Name, p.schema, depth)})
		}
	}
	if len(chosen) == 0 {
		for _, p := range s.Properties[:min(2, len(s.Properties))] {
			chosen = append(chosen, member{p.Name, example(p.Name, p.schema, depth)})
		}
	}
	return chosen
}

// example is a plausible value of a property.
func example(name string, s schema, depth int) json.RawMessage {
	if !secretProperty(name, s) {
		for _, known := range [][]json.RawMessage{s.Examples, {s.Const}, {s.Default}, s.Enum} {
			if len(known) > 0 && known[0] != nil && string(known[0]) != "null" && string(known[0]) != `""` {
				return known[0]
			}
		}
	}
	if name == Directories {
		return json.RawMessage(`["~/Documents"]`)
	}
	kind := "string"
	if len(s.Types) > 0 {
		kind = s.Types[0]
	} else if len(s.Properties) > 0 {
		kind = "object"
	} else if s.Items != nil {
		kind = "array"
	}
	switch kind {
	case "boolean":
		return json.RawMessage("true")
	case "null":
		return json.RawMessage("null")
	case "integer", "number":
		return exampleNumber(name, s, kind)
	case "array":
		return exampleArray(name, s, depth)
	case "object":
		var b strings.Builder
		b.WriteByte('{')
		if depth < 3 {
			for i, m := range exampleMembers(s, depth+1) {
				if i > 0 {
					b.WriteString(", ")
				}
				b.Write(encode(m.name))
				b.WriteString(": ")
				b.Write(m.value)
			}
		}
		b.WriteByte('}')
		return json.RawMessage(b.String())
	}
	return encode(exampleText(name, s))
}

func exampleArray(name string, s schema, depth int) json.RawMessage {
	item := schema{}
	if s.Items != nil {
		item = *s.Items
	}
	if depth >= 3 {
		return json.RawMessage("[]")
	}
	one := example(strings.TrimSuffix(name, "s"), item, depth+1)
	const most = 5
	return json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(string(one)+", ", min(max(1, s.MinItems), most)), ", ") + "]")
}

func exampleNumber(name string, s schema, kind string) json.RawMessage {
	v := 1.0
	lower := strings.ToLower(name)
	for _, row := range []struct {
		word  string
		value float64
	}{{"limit", 10}, {"max", 10}, {"count", 10}, {"port", 8080}, {"timeout", 30}, {"width", 800}, {"height", 600}, {"year", 2026}, {"temperature", 0.7}} {
		if strings.Contains(lower, row.word) {
			v = row.value
			break
		}
	}
	step := 1.0
	if s.MultipleOf != nil && *s.MultipleOf > 0 {
		step = *s.MultipleOf
	}
	low, high := math.Inf(-1), math.Inf(1)
	if s.Minimum != nil {
		low = *s.Minimum
	}
	if s.Maximum != nil {
		high = *s.Maximum
	}
	if s.ExclusiveMinimum != nil {
		low = max(low, *s.ExclusiveMinimum+step)
	}
	if s.ExclusiveMaximum != nil {
		high = min(high, *s.ExclusiveMaximum-step)
	}
	if low > high && kind == "number" && s.ExclusiveMinimum != nil && s.ExclusiveMaximum != nil {
		low = (*s.ExclusiveMinimum + *s.ExclusiveMaximum) / 2 // no whole step fits between them
		high = low
	}
	v = max(min(v, high), low)
	if kind == "integer" {
		v = math.Ceil(v)
	}
	if s.MultipleOf != nil && *s.MultipleOf > 0 {
		v = math.Ceil(v/step) * step
	}
	return encode(v)
}

// byFormat are texts of a format.
var byFormat = map[string]string{
	"date": "2026-01-31", "date-time": "2026-01-31T09:30:00Z", "time": "09:30:00Z", "duration": "PT30S",
	"email": "user@example.com", "uri": "https://example.com", "url": "https://example.com", "uri-reference": "/docs",
	"hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uuid": "123e4567-e89b-12d3-a456-426614174000",
	"path": "docs/example.txt", "regex": "^a.*z$", "json-pointer": "/a/b", "byte": "aGVsbG8=", "color": "#336699",
}

// byName are texts for what a name says; the first word that occurs in it is
// taken.
var byName = []struct{ word, text string }{
	{"url", "https://example.com"}, {"uri", "https://example.com"}, {"link", "https://example.com"},
	{"email", "user@example.com"}, {"pdf", "docs/example.pdf"}, {"image", "pictures/example.png"},
	{"dir", "docs"}, {"folder", "docs"}, {"pattern", "*.md"}, {"glob", "*.md"},
	{"source", "docs/example.txt"}, {"destination", "docs/copy.txt"}, {"target", "docs/copy.txt"},
	{"path", "docs/example.txt"}, {"filename", "example.txt"}, {"file", "docs/example.txt"},
	{"date", "2026-01-31"}, {"host", "example.com"}, {"domain", "example.com"},
	{"query", "example"}, {"keyword", "example"}, {"search", "example"}, {"prompt", "Write a short greeting."},
	{"thought", "First look at what is known."}, {"content", "Hello, world"}, {"text", "Hello, world"}, {"message", "Hello, world"},
	{"description", "An example"}, {"title", "Example"}, {"lang", "en"}, {"encoding", "utf-8"}, {"model", "example-model"},
	{"code", "1 + 1"}, {"command", "list"}, {"name", "example"}, {"id", "example-1"},
}

func exampleText(name string, s schema) string {
	text := "example"
	if secretProperty(name, s) {
		text = "your-" + strings.ReplaceAll(strings.ToLower(name), "_", "-")
	} else if known, ok := byFormat[s.Format]; ok {
		text = known
	} else {
		lower := strings.ToLower(name)
		for _, row := range byName {
			if strings.Contains(lower, row.word) {
				text = row.text
				break
			}
		}
	}
	if n := utf8.RuneCountInString(text); n < s.MinLength && s.MinLength <= 1000 {
		text += strings.Repeat("x", s.MinLength-n)
	}
	if s.MaxLength != nil && *s.MaxLength >= 0 && utf8.RuneCountInString(text) > *s.MaxLength {
		text = string([]rune(text)[:*s.MaxLength])
	}
	return fitting(text, s.Pattern)
}

// fitting chooses a text that a pattern takes, if one of a few does.
func fitting(text, pattern string) string {
	if pattern == "" {
		return text
	}
	re, err := regexp.Compile(pattern)
	if err != nil || re.MatchString(text) {
		return text
	}
	for _, other := range []string{"example", "EXAMPLE", "Example", "example-1", "example_1", "EXAMPLE_1", "a", "A", "1", "12", "123", "1234", "123456", "1.0.0",
		"2026-01-31", "09:30", "2026-01-31T09:30:00Z", "#336699", "https://example.com", "user@example.com", "docs/example.txt", "/docs/example.txt", "example.com", "zh-CN", "en", "en-US", "abc123", "deadbeef", "1-3"} {
		if re.MatchString(other) {
			return other
		}
	}
	return text
}

// exampleCall is the YAML of a call of toolm with plausible parameters.
func exampleCall(d *definition.Definition) string {
	var b strings.Builder
	b.WriteString("tool: " + d.Name + "\nmode: execute\n")
	parameters := exampleParameters(readSchema(d.Parameters))
	if len(parameters) > 0 {
		b.WriteString("parameters:\n")
	}
	for _, m := range parameters {
		b.WriteString("  " + yamlKey(m.name) + ": " + yamlValue(m.value) + "\n")
	}
	return b.String()
}

// bare is text that needs no quotes in YAML.
var bare = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)

func yamlKey(name string) string {
	if bare.MatchString(name) && yamlin.Text(name) {
		return name
	}
	return string(encode(name))
}

// yamlValue writes JSON as YAML, of which it is a part: only text that needs no
// quotes loses them.
func yamlValue(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && len(text) < 80 && bare.MatchString(text) && yamlin.Text(text) {
		return text
	}
	return string(raw)
}

// exampleJSON is the same call as an object.
func exampleJSON(d *definition.Definition) map[string]any {
	parameters := orderedObject(exampleParameters(readSchema(d.Parameters)))
	return map[string]any{"tool": d.Name, "mode": "execute", "parameters": parameters}
}

func orderedObject(members []member) json.RawMessage {
	var b strings.Builder
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(m.name))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}
