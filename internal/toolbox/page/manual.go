package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// ManualOptions are what a manual says beside the tool's own words.
type ManualOptions struct {
	Lang Lang
	// Granted is what the tool may use of what it asks for.
	Granted Limits
	// Failure is why the tool, or its latest edit, does not load.
	Failure string
}

// Manual is the page of mode manual. What the tool wrote itself with
// generateManual stands for all of it.
func Manual(d *definition.Definition, o ManualOptions) Page {
	m := manual{d: d, o: o, l: o.Lang, parameters: readSchema(d.Parameters), environment: readSchema(d.Environment)}
	return Page{Markdown: m.markdown(), JSON: m.json()}
}

type manual struct {
	d                       *definition.Definition
	o                       ManualOptions
	l                       Lang
	parameters, environment schema
}

func (m *manual) markdown() string {
	var b strings.Builder
	if m.o.Failure != "" {
		b.WriteString("> ❌ " + m.l.say("Does not load: ", "无法加载：") + line(m.o.Failure) + "\n\n")
	}
	if strings.TrimSpace(m.d.Manual) != "" {
		b.WriteString(strings.TrimRight(m.d.Manual, "\n") + "\n")
		return b.String()
	}
	m.head(&b)
	m.heading(&b, "🎯", "Scenarios", "使用场景", m.d.Metadata.Scenarios)
	m.tables(&b)
	m.errors(&b)
	m.heading(&b, "⚠️", "Limitations", "使用限制", m.d.Metadata.Limitations)
	m.limits(&b)
	section(&b, m.l.say("💡 Example call", "💡 调用示例"))
	fmt.Fprintf(&b, "```yaml\n%s```\n", exampleCall(m.d))
	return b.String()
}

// section begins a part of a page.
func section(b *strings.Builder, heading string) { b.WriteString("\n## " + heading + "\n\n") }

func (m *manual) heading(b *strings.Builder, icon, english, chinese string, items []string) {
	if len(items) > 0 {
		section(b, icon+" "+m.l.say(english, chinese))
		list(b, items)
	}
}

func (m *manual) head(b *strings.Builder) {
	meta := m.d.Metadata
	fmt.Fprintf(b, "# %s %s\n\n", Icon(meta.Category), line(title(m.d)))
	if meta.Description != "" {
		b.WriteString("> " + line(meta.Description) + "\n\n")
	}
	row := func(english, chinese, value string) {
		if value != "" {
			b.WriteString("- **" + m.l.say(english, chinese) + "**: " + value + "\n")
		}
	}
	row("Tool", "工具", code("tool://"+m.d.Name))
	row("Version", "版本", line(meta.Version))
	row("Author", "作者", line(meta.Author))
	row("Category", "分类", line(meta.Category))
	row("Tags", "标签", line(strings.Join(meta.Tags, ", ")))
}

func (m *manual) tables(b *strings.Builder) {
	section(b, m.l.say("📝 Parameters", "📝 参数"))
	if len(m.parameters.Properties) == 0 {
		b.WriteString(m.l.say("It takes no named parameters.\n", "没有命名参数。\n"))
	} else {
		parameterTable(b, m.parameters.Properties, m.l)
	}
	if len(m.environment.Properties) > 0 {
		section(b, m.l.say("🔧 Environment variables", "🔧 环境变量"))
		parameterTable(b, m.environment.Properties, m.l)
		b.WriteString("\n" + m.l.say("Set them with `mode: configure`.", "用 `mode: configure` 设置。") + "\n")
	}
}

// parameterTable lists properties, and indented those of objects inside.
func parameterTable(b *strings.Builder, properties []property, l Lang) {
	var rows [][]string
	for _, p := range flat(properties) {
		rows = append(rows, []string{
			code(p.Name), cell(p.typeText()), l.yes(p.Required), shownDefault(p), p.choices(), describe(p, 0),
		})
	}
	table(b, []string{l.say("Name", "名称"), l.say("Type", "类型"), l.say("Required", "必需"), l.say("Default", "默认值"), l.say("Choices", "可选值"), l.say("Description", "说明")}, rows)
}

// flat lists properties with those of objects inside, three levels deep, as
// "a.b" and "list[].b".
func flat(properties []property) []property {
	var all []property
	var add func(prefix string, properties []property, depth int)
	add = func(prefix string, properties []property, depth int) {
		for _, p := range properties {
			inside, between := p.Properties, "."
			if len(inside) == 0 && p.Items != nil {
				inside, between = p.Items.Properties, "[]."
			}
			p.Name = prefix + p.Name
			all = append(all, p)
			if depth < 2 {
				add(p.Name+between, inside, depth+1)
			}
		}
	}
	add("", properties, 0)
	return all
}

// describe is a description for a cell, cut to most bytes; 0 is all.
func describe(p property, most int) string {
	text := p.Description
	if text == "" {
		text = p.Title
	}
	if most > 0 {
		text = short(text, most)
	}
	return cell(text)
}

func (l Lang) yes(is bool) string {
	if is {
		return l.say("yes", "是")
	}
	return l.say("no", "否")
}

// shownDefault is a default for a cell. That of a secret is not shown.
func shownDefault(p property) string {
	switch {
	case p.Default == nil:
		return "–"
	case secretProperty(p.Name, p.schema):
		return dots
	}
	text := plain(p.Default)
	if text == "" {
		text = `""`
	}
	return code(short(text, 200))
}

func (m *manual) errors(b *strings.Builder) {
	if len(m.d.BusinessErrors) == 0 {
		return
	}
	section(b, m.l.say("🚨 Business errors", "🚨 业务错误"))
	var rows [][]string
	for _, e := range m.d.BusinessErrors {
		rows = append(rows, []string{code(e.Code), cell(e.Description), cell(e.Solution), m.l.yes(e.Retryable)})
	}
	table(b, []string{m.l.say("Code", "代码"), m.l.say("Description", "说明"), m.l.say("Solution", "解决办法"), m.l.say("Retryable", "可重试")}, rows)
}

// limitRow is one limit: what was asked for and what is given.
type limitRow struct {
	name, english, chinese string
	asked, given           string
}

func (m *manual) limitRows() []limitRow {
	r := m.d.Runtime
	memory, time := r.MaxMemory, r.MaxExecutionTime
	if memory <= 0 {
		memory = defaultMemory
	}
	if time <= 0 {
		time = defaultTime
	}
	given := m.o.Granted
	if given.Memory <= 0 {
		given.Memory = min(memory, defaultMemory)
	}
	if given.Time <= 0 {
		given.Time = min(time, defaultTime)
	}
	network := strings.Join(r.Network.Domains, ", ")
	if r.Network.All {
		network = "all"
	}
	directories := "data/"
	if len(r.Directories) > 0 {
		directories = strings.Join(r.Directories, ", ")
	}
	dirs := []string{"data/", "shared/"}
	for _, dir := range slices.Concat(given.Read, given.Write) {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	none := m.l.say("none", "无")
	return []limitRow{
		{"memory", "Memory", "内存", size(memory), size(min(memory, max(given.Memory, 1)))},
		{"time", "Time of a call", "单次运行时间", time.String(), min(time, given.Time).String()},
		{"directories", "Directories", "目录", directories, strings.Join(dirs, ", ")},
		{"network", "Network", "网络", orText(network, none), orText(strings.Join(given.Network, ", "), none)},
	}
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// size is bytes as a person writes them.
func size(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

func (m *manual) limits(b *strings.Builder) {
	section(b, m.l.say("🛡️ Runtime limits", "🛡️ 运行限制"))
	var rows [][]string
	for _, r := range m.limitRows() {
		rows = append(rows, []string{m.l.say(r.english, r.chinese), cell(r.asked), cell(r.given)})
	}
	table(b, []string{m.l.say("Limit", "限制"), m.l.say("Asked for", "请求"), m.l.say("Given", "授予")}, rows)
	if len(m.d.Dependencies) > 0 {
		b.WriteString("\n" + m.l.say("Dependencies: ", "依赖："))
		var names []string
		for _, d := range m.d.Dependencies {
			names = append(names, code(strings.TrimSpace(d.Name+" "+d.Range)))
		}
		b.WriteString(strings.Join(names, ", ") + "\n")
	}
}

// parameterJSON is a property as data.
type parameterJSON struct {
	Name        string            `json:"name"`
	Type        string            `json:"type"`
	Required    bool              `json:"required"`
	Default     json.RawMessage   `json:"default,omitempty"`
	Choices     []json.RawMessage `json:"choices,omitempty"`
	Minimum     *float64          `json:"minimum,omitempty"`
	Maximum     *float64          `json:"maximum,omitempty"`
	Description string            `json:"description,omitempty"`
	Secret      bool              `json:"secret,omitempty"`
}

func parametersJSON(properties []property) []parameterJSON {
	all := []parameterJSON{}
	for _, p := range flat(properties) {
		one := parameterJSON{Name: p.Name, Type: p.typeText(), Required: p.Required, Default: p.Default, Choices: p.Enum, Minimum: p.Minimum, Maximum: p.Maximum, Description: p.Description}
		if one.Description == "" {
			one.Description = p.Title
		}
		if secretProperty(p.Name, p.schema) {
			one.Secret, one.Default = true, nil
		}
		all = append(all, one)
	}
	return all
}

func (m *manual) json() json.RawMessage {
	if strings.TrimSpace(m.d.Manual) != "" {
		return encode(struct {
			Tool    string `json:"tool"`
			Mode    string `json:"mode"`
			Failure string `json:"failure,omitempty"`
			Manual  string `json:"manual"`
		}{m.d.Name, "manual", m.o.Failure, m.d.Manual})
	}
	asked, given := map[string]string{}, map[string]string{}
	for _, r := range m.limitRows() {
		asked[r.name], given[r.name] = r.asked, r.given
	}
	errors := []definition.BusinessError{}
	for _, e := range m.d.BusinessErrors {
		errors = append(errors, definition.BusinessError{Code: e.Code, Description: e.Description, Solution: e.Solution, Retryable: e.Retryable})
	}
	meta := m.d.Metadata
	return encode(struct {
		Tool        string                     `json:"tool"`
		Mode        string                     `json:"mode"`
		Failure     string                     `json:"failure,omitempty"`
		Name        string                     `json:"name"`
		Description string                     `json:"description"`
		Version     string                     `json:"version,omitempty"`
		Author      string                     `json:"author,omitempty"`
		Category    string                     `json:"category,omitempty"`
		Icon        string                     `json:"icon"`
		Tags        []string                   `json:"tags,omitempty"`
		Scenarios   []string                   `json:"scenarios,omitempty"`
		Parameters  []parameterJSON            `json:"parameters"`
		Environment []parameterJSON            `json:"environment"`
		Errors      []definition.BusinessError `json:"business_errors"`
		Limitations []string                   `json:"limitations,omitempty"`
		Limits      map[string]any             `json:"limits"`
		Depends     []definition.Dependency    `json:"dependencies,omitempty"`
		Example     map[string]any             `json:"example"`
	}{
		m.d.Name, "manual", m.o.Failure, title(m.d), meta.Description, meta.Version, meta.Author, meta.Category, Icon(meta.Category), meta.Tags, meta.Scenarios,
		parametersJSON(m.parameters.Properties), parametersJSON(m.environment.Properties), errors, meta.Limitations,
		map[string]any{"asked": asked, "given": given}, m.d.Dependencies, exampleJSON(m.d),
	})
}

// Help is a short page for a call that failed: what the tool takes and an
// example.
func Help(d *definition.Definition, l Lang) Page {
	const most = 25 // parameters
	var b strings.Builder
	s := readSchema(d.Parameters)
	fmt.Fprintf(&b, "### %s %s\n\n", Icon(d.Metadata.Category), line(title(d)))
	shown := s.Properties
	if len(shown) > most {
		shown = shown[:most]
	}
	if len(shown) > 0 {
		var rows [][]string
		for _, p := range shown {
			rows = append(rows, []string{code(p.Name), cell(p.typeText()), l.yes(p.Required), short(p.choices(), 300), describe(p, 160)})
		}
		table(&b, []string{l.say("Parameter", "参数"), l.say("Type", "类型"), l.say("Required", "必需"), l.say("Choices", "可选值"), l.say("Description", "说明")}, rows)
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s\n```yaml\n%s```\n%s\n", l.say("Example:", "示例："), exampleCall(d),
		l.say("All about it: ", "完整手册：")+code("tool: "+d.Name+", mode: manual"))
	return Page{Markdown: b.String(), JSON: encode(struct {
		Parameters []parameterJSON `json:"parameters"`
		Example    map[string]any  `json:"example"`
		Manual     map[string]any  `json:"manual"`
	}{parametersJSON(shown), exampleJSON(d), map[string]any{"tool": d.Name, "mode": "manual"}})}
}
