// Package page makes the pages that a toolbox shows of its tools: manual,
// configuration, log, help after a failure, and what toolm says of itself. Each
// is a pure function of plain data, Markdown and the same as JSON; the same data
// give the same page. It reads no files, asks no tools, and shows no value that
// is a secret.
package page

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// Page is one page in both forms. They say the same.
type Page struct {
	Markdown string
	JSON     json.RawMessage // an object
}

// Lang is the language of a page's headings. What a tool says of itself stays as
// it is.
type Lang string

// The languages.
const (
	English Lang = "en"
	Chinese Lang = "zh"
)

// Language reads a locale or a language's name: "zh-CN", "zh_TW.UTF-8", "中文".
// What it does not know, and "", is English.
func Language(s string) Lang {
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "cn" || strings.HasPrefix(s, "zh") || strings.HasPrefix(s, "chinese") || strings.Contains(s, "中文") || strings.Contains(s, "汉语") || strings.Contains(s, "漢語") {
		return Chinese
	}
	return English
}

// say chooses between two wordings.
func (l Lang) say(english, chinese string) string {
	if l == Chinese {
		return chinese
	}
	return english
}

// Limits is what a tool may use. The zero value of a field is what every tool
// has: 512 MiB, 30 s, its own data/ and shared/, no network.
type Limits struct {
	Memory int64 // bytes
	Time   time.Duration
	// Read and Write are directories beyond its own.
	Read, Write []string
	Network     []string // hosts; "all" is every one
}

// What every tool has without asking.
const (
	defaultMemory = 512 << 20
	defaultTime   = 30 * time.Second
)

// icons are shown before a category. To add one: a row with words that occur in
// the category.
var icons = []struct {
	icon  string
	words []string
}{
	{"📁", []string{"file", "filesystem", "storage", "文件"}},
	{"📄", []string{"document", "pdf", "office", "text", "文档"}},
	{"🌐", []string{"web", "network", "browser", "http", "api", "网络"}},
	{"🤖", []string{"ai", "llm", "model", "agent", "人工智能"}},
	{"🧠", []string{"thinking", "reasoning", "knowledge", "思考"}},
	{"📊", []string{"data", "analysis", "analytics", "chart", "数据"}},
	{"🗄️", []string{"database", "db", "sql", "数据库"}},
	{"💻", []string{"development", "dev", "code", "programming", "git", "开发"}},
	{"🗂️", []string{"productivity", "todo", "task", "management", "效率"}},
	{"🎬", []string{"media", "image", "video", "audio", "图像", "媒体"}},
	{"🔐", []string{"security", "crypto", "auth", "安全"}},
	{"💬", []string{"communication", "chat", "mail", "message", "通信"}},
	{"🖥️", []string{"system", "os", "shell", "terminal", "系统"}},
	{"🧪", []string{"test", "testing", "example", "demo", "测试"}},
	{"🧰", []string{"utility", "utilities", "tool", "tools", "工具"}},
}

// Icon is the sign of a category; 🔧 for one that is not known.
func Icon(category string) string {
	words := strings.FieldsFunc(strings.ToLower(category), func(r rune) bool { return strings.ContainsRune(" -_/,&", r) })
	for _, row := range icons {
		for _, word := range row.words {
			for _, w := range words {
				if w == word || w == word+"s" || word[0] >= utf8.RuneSelf && strings.Contains(w, word) {
					return row.icon
				}
			}
		}
	}
	return "🔧"
}

// title is the name that a person reads.
func title(d *definition.Definition) string {
	if d.Metadata.Name != "" {
		return d.Metadata.Name
	}
	return d.Name
}

// encode writes a value as JSON without escapes for HTML.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("{}") // only a float that JSON has no form for, and pages have none
	}
	return bytes.TrimSpace(b.Bytes())
}

// cell makes text fit for one cell of a table.
func cell(s string) string {
	s = strings.ReplaceAll(line(s), `\`, `\\`)
	return strings.ReplaceAll(s, "|", `\|`)
}

// line makes text fit for one line: nothing in it can begin a heading or a
// further row.
func line(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' || r == '\u0085' || r == '\v' || r == '\f' || r == 0
	}), " ")
}

// code is s between backticks, as many as it needs, fit for a cell.
func code(s string) string {
	if s = line(s); s == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if s[0] == '`' || s[len(s)-1] == '`' {
		s = " " + s + " "
	}
	return fence + strings.ReplaceAll(s, "|", `\|`) + fence
}

// short cuts s to n bytes at a character's start.
func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// table writes rows of cells that are fit already.
func table(b *strings.Builder, head []string, rows [][]string) {
	row := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + c + " |")
		}
		b.WriteString("\n")
	}
	row(head)
	b.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
	for _, r := range rows {
		row(r)
	}
}

// list writes lines with dots before them.
func list(b *strings.Builder, items []string) {
	for _, item := range items {
		b.WriteString("- " + line(item) + "\n")
	}
}
