package page

import (
	"fmt"
	"strings"
)

// Excerpt is what the page of mode log is about.
type Excerpt struct {
	Tool string
	Path string
	// Action is tail, head, all or grep.
	Action string
	// Filters are what else was asked for, "level WARN" or "pattern x".
	Filters []string
	// Lines of the log, oldest first, with no secrets in them.
	Lines []string
	// Matched is how many entries there are of those asked for.
	Matched int
	// More says that there are more than these.
	More bool
	Lang Lang
}

// Log is the page of mode log.
func Log(e Excerpt) Page {
	var b strings.Builder
	l := e.Lang
	fmt.Fprintf(&b, "# 📜 %s – %s\n\n", line(e.Tool), l.say("log", "日志"))
	if e.Path != "" {
		fmt.Fprintf(&b, "- **%s**: %s\n", l.say("File", "文件"), code(e.Path))
	}
	what := code(e.Action)
	for _, f := range e.Filters {
		what += ", " + code(f)
	}
	fmt.Fprintf(&b, "- **%s**: %s\n", l.say("Shown", "显示"), what)
	shown := fmt.Sprintf(l.say("%d entries", "%d 条"), len(e.Lines))
	if e.Matched > len(e.Lines) {
		shown = fmt.Sprintf(l.say("%d of %d entries", "%d / %d 条"), len(e.Lines), e.Matched)
	} else if e.More {
		shown += l.say(", there are more", "，还有更多")
	}
	fmt.Fprintf(&b, "- **%s**: %s\n\n", l.say("Entries", "条目"), shown)
	if len(e.Lines) == 0 {
		b.WriteString(l.say("There are no such entries.\n", "没有符合条件的日志。\n"))
	} else {
		fence := "```"
		all := strings.Join(e.Lines, "\n")
		for strings.Contains(all, fence) {
			fence += "`"
		}
		fmt.Fprintf(&b, "%stext\n%s\n%s\n", fence, all, fence)
	}
	lines := e.Lines
	if lines == nil {
		lines = []string{}
	}
	return Page{Markdown: b.String(), JSON: encode(struct {
		Tool    string   `json:"tool"`
		Mode    string   `json:"mode"`
		Path    string   `json:"path,omitempty"`
		Action  string   `json:"action"`
		Filters []string `json:"filters,omitempty"`
		Shown   int      `json:"shown"`
		Matched int      `json:"matched"`
		More    bool     `json:"more"`
		Lines   []string `json:"lines"`
	}{e.Tool, "log", e.Path, e.Action, e.Filters, len(lines), e.Matched, e.More, lines})}
}
