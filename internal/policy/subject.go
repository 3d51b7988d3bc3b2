package policy

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/toolyard/toolyard/tool"
)

// maxDepth bounds how deep the schema is searched for paths and commands.
const maxDepth = 8

// subjects finds the paths and commands among the arguments: string properties
// whose schema has format "path" or "command", also in lists and objects.
func subjects(spec *tool.Spec, args fields) []tool.Subject {
	if spec.Input == nil {
		return nil
	}
	var found []tool.Subject
	write := spec.Effects&tool.Write != 0
	for _, name := range order(spec.Input) {
		if raw, ok := args.get(name); ok {
			found = appendSubjects(found, spec.Input.Properties[name], raw, write, 0)
		}
	}
	return found
}

// order is the names of an object's properties, always in the same order.
func order(s *jsonschema.Schema) []string {
	if len(s.PropertyOrder) == len(s.Properties) {
		return s.PropertyOrder
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

func appendSubjects(found []tool.Subject, s *jsonschema.Schema, raw json.RawMessage, write bool, depth int) []tool.Subject {
	if s == nil || depth > maxDepth {
		return found
	}
	switch s.Format {
	case "path", "command":
		for _, text := range texts(raw) {
			switch {
			case text == "" || text == "null":
			case s.Format == "command":
				found = append(found, tool.Subject{Kind: tool.SubjectCommand, Value: text})
			default:
				found = append(found, tool.Subject{Kind: tool.SubjectPath, Value: text, Write: write})
			}
		}
		return found
	}
	switch {
	case s.Items != nil:
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) == nil {
			for _, item := range items {
				found = appendSubjects(found, s.Items, item, write, depth+1)
			}
		}
	case len(s.Properties) > 0:
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil {
			for _, name := range order(s) {
				if value, ok := object[name]; ok {
					found = appendSubjects(found, s.Properties[name], value, write, depth+1)
				}
			}
		}
	}
	return found
}

// canonical is the arguments with sorted keys and no blanks.
func canonical(raw json.RawMessage) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return string(raw)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return string(raw)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// argument gives the texts of an argument, for "key:glob": one for a string or
// a number, several for a list. "domain" that is no argument is the host of
// every argument that is a URL.
func (c *call) argument(key string) []string {
	raw, ok := c.args().get(key)
	if !ok {
		if key == "domain" {
			return c.hosts()
		}
		return nil
	}
	return texts(raw)
}

func texts(raw json.RawMessage) []string {
	if n := len(raw); n > 1 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return []string{string(raw[1 : n-1])}
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []string{text}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		var all []string
		for _, item := range list {
			all = append(all, texts(item)...)
		}
		return all
	}
	return []string{canonical(raw)}
}

// hosts are the hosts of all URLs among the arguments, in lower case.
func (c *call) hosts() []string {
	var hosts []string
	for _, argument := range c.args() {
		for _, text := range texts(argument.raw) {
			if !strings.Contains(text, "://") {
				continue
			}
			u, err := url.Parse(strings.TrimSpace(text))
			if err != nil || u.Host == "" {
				hosts = append(hosts, "")
				continue
			}
			hosts = append(hosts, strings.TrimSuffix(strings.ToLower(u.Hostname()), "."))
		}
	}
	return hosts
}

// args are the arguments, cut apart once.
func (c *call) args() fields {
	if c.decoded == nil {
		c.decoded = decodeFields(c.Arguments)
	}
	return c.decoded
}
