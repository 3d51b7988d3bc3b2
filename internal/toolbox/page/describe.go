package page

import (
	"fmt"
	"slices"
	"strings"
)

// Summary is a tool in toolm's description.
type Summary struct {
	Name, Description string
	Tags, Scenarios   []string
	// Failed says that no version of it loads.
	Failed bool
}

// ToolmLimit is how long toolm's description may be, in bytes.
const ToolmLimit = 4 << 10

// ToolmDescription is what toolm says of itself: what it takes, and the tools
// that there are with their scenarios and tags. It has at most limit bytes (zero
// is [ToolmLimit]); the more tools there are, the less is said of each.
func ToolmDescription(tools []Summary, limit int, l Lang) string {
	if limit <= 0 {
		limit = ToolmLimit
	}
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b Summary) int { return strings.Compare(a.Name, b.Name) })
	var failed []string
	tools = slices.DeleteFunc(tools, func(t Summary) bool {
		if t.Failed {
			failed = append(failed, t.Name)
		}
		return t.Failed
	})
	head := l.say(
		"Runs the user's own tools of the toolbox. Give yaml, or the same fields as JSON:\n"+
			"tool: NAME (or tool://NAME)\nmode: execute (default), manual (how to use it), configure (see or set its environment variables), log (its log)\nparameters: the tool's own\n"+
			"Read a tool's manual before its first use. Put text of several lines below key: |.\n",
		"运行工具箱中用户自己的工具。给出 yaml，或以 JSON 给出同样的字段：\n"+
			"tool: 名称（或 tool://名称）\nmode: execute（默认）、manual（使用手册）、configure（查看或设置环境变量）、log（日志）\nparameters: 工具自己的参数\n"+
			"首次使用某工具前请先读手册。多行文本写在 key: | 之下。\n")
	if len(tools) == 0 {
		return short(head+l.say("There are no tools yet.", "目前没有工具。"), limit-3)
	}
	head += l.say("Tools:\n", "工具：\n")
	foot := ""
	if len(failed) > 0 {
		slices.Sort(failed)
		foot = short(l.say("Not loaded: ", "未能加载：")+strings.Join(failed, ", "), 300) + "\n"
	}
	for _, detail := range []struct{ description, scenarios, each, tags int }{{300, 4, 80, 6}, {200, 2, 60, 5}, {140, 1, 60, 4}, {100, 0, 0, 3}, {70, 0, 0, 2}, {50, 0, 0, 0}} {
		text := head
		for _, t := range tools {
			text += toolLine(t, detail.description, detail.scenarios, detail.each, detail.tags, l)
			if len(text)+len(foot) > limit {
				break
			}
		}
		if text += foot; len(text) <= limit {
			return strings.TrimRight(text, "\n")
		}
	}
	return names(head, tools, limit, l)
}

func toolLine(t Summary, description, scenarios, each, tags int, l Lang) string {
	text := "- " + t.Name
	if d := line(t.Description); d != "" {
		text += ": " + short(d, description)
	}
	if n := min(scenarios, len(t.Scenarios)); n > 0 {
		var list []string
		for _, s := range t.Scenarios[:n] {
			list = append(list, short(line(s), each))
		}
		text += l.say(" Use to: ", " 场景：") + strings.Join(list, "; ")
	}
	if n := min(tags, len(t.Tags)); n > 0 {
		text += " [" + short(line(strings.Join(t.Tags[:n], ", ")), 80) + "]"
	}
	return text + "\n"
}

// names lists as many names as there is room for.
func names(head string, tools []Summary, limit int, l Lang) string {
	const room = 100 // for what says that there are more
	text := head
	for i, t := range tools {
		next := t.Name
		if i > 0 {
			next = ", " + next
		}
		if len(text)+len(next) > limit-room {
			text += fmt.Sprintf(l.say(", and %d more (find them with tool_search)", "，另有 %d 个（用 tool_search 查找）"), len(tools)-i)
			break
		}
		text += next
	}
	return short(text, limit-3)
}
