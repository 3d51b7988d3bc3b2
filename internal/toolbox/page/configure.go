package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// Status of a tool's configuration.
type Status string

// The statuses.
const (
	Configured    Status = "configured" // nothing that is required is missing
	Partly        Status = "partly"     // something is set, something required is missing
	NotConfigured Status = "not"        // nothing is set, something required is missing
)

// Configuration is what the page of mode configure is about.
type Configuration struct {
	Definition *definition.Definition
	// Values are those in the tool's .env.
	Values map[string]string
	Path   string // of the .env
	// Changed and Removed are the names that this call set and took out.
	Changed, Removed []string
	Lang             Lang
}

// item is one variable for a row.
type item struct {
	Name        string          `json:"name"`
	Value       string          `json:"value,omitempty"`
	Type        string          `json:"type,omitempty"`
	Required    bool            `json:"required"`
	Default     json.RawMessage `json:"default,omitempty"`
	Example     json.RawMessage `json:"example,omitempty"`
	Description string          `json:"description,omitempty"`
	Secret      bool            `json:"secret,omitempty"`
	State       string          `json:"state"`
}

// The states of one variable.
const (
	isSet   = "✅"  // set, and as the schema wants it
	warning = "⚠️" // the default holds, or the value is not as the schema wants it
	missing = "❌"  // required, and neither set nor with a default
)

// Configure is the page of mode configure.
func Configure(c Configuration) Page {
	s := readSchema(c.Definition.Environment)
	p := configuration{Configuration: c, schema: s, masker: newMasker(s, c.Values)}
	p.collect()
	return Page{Markdown: p.markdown(), JSON: p.json()}
}

// StatusOf is the status of values, and which required ones are missing.
func StatusOf(d *definition.Definition, values map[string]string) (Status, []string) {
	p := configuration{Configuration: Configuration{Definition: d, Values: values}, schema: readSchema(d.Environment)}
	return p.status()
}

type configuration struct {
	Configuration
	schema   schema
	masker   masker
	set, not []item
}

// has reports whether something stands for a property.
func (c *configuration) has(p property) bool {
	return c.Values[p.Name] != "" || p.Default != nil && string(p.Default) != `""` && string(p.Default) != "null"
}

func (c *configuration) status() (Status, []string) {
	without := []string{}
	for _, p := range c.schema.Properties {
		if p.Required && !c.has(p) {
			without = append(without, p.Name)
		}
	}
	for _, name := range c.schema.Required { // of a name that the schema does not describe
		if c.schema.property(name) == nil && c.Values[name] == "" {
			without = append(without, name)
		}
	}
	switch {
	case len(without) == 0:
		return Configured, without
	case len(c.Values) > 0:
		return Partly, without
	}
	return NotConfigured, without
}

func (c *configuration) collect() {
	wrong := unfit(c.Definition, c.schema, c.Values)
	for _, p := range c.schema.Properties {
		i := item{Name: p.Name, Type: p.typeText(), Required: p.Required, Description: p.Description, Secret: secretProperty(p.Name, p.schema)}
		if i.Description == "" {
			i.Description = p.Title
		}
		if !i.Secret {
			i.Default = p.Default
		}
		i.Example = example(p.Name, p.schema, 0)
		value, set := c.Values[p.Name]
		switch {
		case set:
			i.Value, i.State = c.masker.show(p.Name, value), isSet
			if value == "" && p.Required {
				i.State = missing
			} else if wrong[p.Name] {
				i.State = warning
			}
			c.set = append(c.set, i)
			continue
		case p.Required && !c.has(p):
			i.State = missing
		default:
			i.State = warning
		}
		c.not = append(c.not, i)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		if c.schema.property(name) == nil {
			i := item{Name: name, Value: c.masker.show(name, c.Values[name]), Secret: c.masker.secret[name], State: warning}
			if c.schema.Open || c.Definition.Environment == nil {
				i.State = isSet
			}
			c.set = append(c.set, i)
		}
	}
}

func (c *configuration) markdown() string {
	var b strings.Builder
	status, without := c.status()
	d, l := c.Definition, c.Lang
	fmt.Fprintf(&b, "# %s %s – %s\n\n", Icon(d.Metadata.Category), line(title(d)), l.say("configuration", "配置"))
	row := func(english, chinese, value string) {
		if value != "" {
			b.WriteString("- **" + l.say(english, chinese) + "**: " + value + "\n")
		}
	}
	row("Tool", "工具", code("tool://"+d.Name))
	row("Version", "版本", line(d.Metadata.Version))
	row("Status", "状态", statusText(status, l))
	row("File", "文件", code(c.Path))
	row("Changed now", "本次修改", codes(c.Changed))
	row("Removed now", "本次删除", codes(c.Removed))
	section(&b, l.say("Set", "已设置"))
	if len(c.set) == 0 {
		b.WriteString(l.say("Nothing is set.\n", "尚未设置。\n"))
	} else {
		c.table(&b, c.set)
	}
	section(&b, l.say("Default", "默认"))
	if len(c.not) == 0 {
		b.WriteString(l.say("Everything is set.\n", "没有使用默认值的项。\n"))
	} else {
		c.table(&b, c.not)
	}
	b.WriteString("\n" + l.say("✅ set · ⚠️ the default holds, or the value is not as it should be · ❌ required and missing", "✅ 已设置 · ⚠️ 使用默认值，或值不符合要求 · ❌ 必需但缺失") + "\n")
	section(&b, l.say("Required items", "必需项检查"))
	c.required(&b, without)
	section(&b, l.say("How to change", "如何修改"))
	fmt.Fprintf(&b, "```yaml\n%s```\n%s\n", c.change(), l.say("null removes a value, so that its default holds.", "值为 null 时删除该项并恢复默认值。"))
	return b.String()
}

func codes(names []string) string {
	var list []string
	for _, name := range names {
		list = append(list, code(name))
	}
	return strings.Join(list, ", ")
}

func statusText(s Status, l Lang) string {
	switch s {
	case Configured:
		return "✅ " + l.say("configured", "已配置")
	case Partly:
		return "⚠️ " + l.say("partly", "部分配置")
	}
	return "❌ " + l.say("not", "未配置")
}

func (c *configuration) table(b *strings.Builder, items []item) {
	l := c.Lang
	var rows [][]string
	for _, i := range items {
		def := "–"
		switch {
		case i.Default != nil:
			def = code(short(orText(plain(i.Default), `""`), 200))
		case i.Secret && c.schema.property(i.Name) != nil && c.schema.property(i.Name).Default != nil:
			def = dots
		}
		value, sample := "–", "–"
		if _, set := c.Values[i.Name]; set {
			value = code(short(orText(i.Value, `""`), 200))
		}
		if i.Example != nil {
			sample = code(short(plain(i.Example), 120))
		}
		rows = append(rows, []string{code(i.Name), value, cell(orText(i.Type, "–")), l.yes(i.Required), def, sample, cell(i.Description), i.State})
	}
	table(b, []string{l.say("Name", "名称"), l.say("Value", "值"), l.say("Type", "类型"), l.say("Required", "必需"), l.say("Default", "默认值"), l.say("Example", "示例"), l.say("Description", "说明"), l.say("State", "状态")}, rows)
}

func (c *configuration) required(b *strings.Builder, without []string) {
	names := slices.Clone(without)
	for _, p := range c.schema.Properties {
		if p.Required && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		b.WriteString(c.Lang.say("Nothing is required.\n", "没有必需项。\n"))
	}
	for _, name := range names {
		state := isSet
		if slices.Contains(without, name) {
			state = missing
		}
		b.WriteString("- " + state + " " + code(name) + "\n")
	}
}

// change is the YAML of a call that sets what is missing, else the first
// variable.
func (c *configuration) change() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tool: %s\nmode: configure\nparameters:", c.Definition.Name)
	_, without := c.status()
	var chosen []member
	for _, p := range c.schema.Properties {
		if slices.Contains(without, p.Name) {
			chosen = append(chosen, member{p.Name, example(p.Name, p.schema, 0)})
		}
	}
	if len(chosen) == 0 && len(c.schema.Properties) > 0 {
		p := c.schema.Properties[0]
		chosen = append(chosen, member{p.Name, example(p.Name, p.schema, 0)})
	}
	if len(chosen) == 0 {
		return b.String() + " {}\n"
	}
	b.WriteString("\n")
	for _, m := range chosen {
		b.WriteString("  " + yamlKey(m.name) + ": " + yamlValue(m.value) + "\n")
	}
	return b.String()
}

func (c *configuration) json() json.RawMessage {
	status, without := c.status()
	none := func(items []item) []item {
		if items == nil {
			return []item{}
		}
		return items
	}
	return encode(struct {
		Tool    string   `json:"tool"`
		Mode    string   `json:"mode"`
		Version string   `json:"version,omitempty"`
		Status  Status   `json:"status"`
		Path    string   `json:"path"`
		Changed []string `json:"changed,omitempty"`
		Removed []string `json:"removed,omitempty"`
		Set     []item   `json:"set"`
		Default []item   `json:"default"`
		Missing []string `json:"missing"`
		Change  string   `json:"how_to_change"`
	}{c.Definition.Name, "configure", c.Definition.Metadata.Version, status, c.Path, c.Changed, c.Removed, none(c.set), none(c.not), without, c.change()})
}
