package check

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// defaultTime is how long a call may take that asked for nothing: what is longer
// is long.
const defaultTime = 30 * time.Second

// practice is layer 12. What it finds in sources it finds by their text, so all of
// it is a warning.
func (r *run) practice() {
	sources, tests := r.code()
	if !tests {
		r.found("tests", "")
	}
	for _, s := range sources {
		for _, found := range shellStrings(s, r.lang == definition.Python) {
			r.found("shell-string", found.where, found.text)
		}
		for _, found := range loggedSecrets(s) {
			r.found("secret-logged", found.where, found.text)
		}
	}
	if r.Definition == nil {
		r.skip(unloaded, "when", "scenario", "limit", "idempotent", "progress")
		return
	}
	r.described()
	if limit := r.Definition.Runtime.MaxExecutionTime; limit > defaultTime && !mentions(sources, "progress(") {
		r.found("progress", r.module, limit.String())
	}
	r.repeated()
}

var saysWhen = lazily(`(?i)\b(use[ds]?|using|useful|when|whenever|while|for|if|before|after|instead|helps?|lets?|allows?)\b|用于|用来|适用|适合|使用|时候|时[，。,、]|当.+时|如果|需要|以便|帮助|可以|支持`)

func (r *run) described() {
	if _, ok := r.answered("getMetadata", "when", "scenario", "limit"); !ok {
		return
	}
	m := r.Definition.Metadata
	where := r.spelled("getMetadata") + "()"
	if m.Description != "" && !saysWhen().MatchString(m.Description) {
		r.found("when", where+".description")
	}
	if len(m.Scenarios) == 0 {
		r.found("scenario", where+".scenarios")
	}
	if len(m.Limitations) == 0 {
		r.found("limit", where+".limitations")
	}
}

func mentions(sources []source, text string) bool {
	return slices.ContainsFunc(sources, func(s source) bool { return strings.Contains(s.text, text) })
}

var readingName = lazily(`(?i)(^|[-_])(get|read|reader|list|search|find|show|view|viewer|query|lookup|stats|info)($|[-_])`)

// reads reports whether a tool claims to read only: by a tag, or by its name.
func (r *run) reads() bool {
	return readingName().MatchString(r.Name) || slices.ContainsFunc(r.Definition.Metadata.Tags, func(tag string) bool {
		return slices.Contains([]string{"read", "read-only", "readonly", "search", "query", "只读", "查询", "搜索"}, strings.ToLower(tag))
	})
}

// repeated makes the trial run of a tool that reads once more, and looks at what is
// changed after it; and at both for secrets that got into the log.
func (r *run) repeated() {
	if r.Trial == nil {
		r.skip(noTrial, "idempotent")
		return
	}
	base := r.trialRun()
	r.canaries(base.outcome.Lines)
	switch {
	case base.err != nil || base.failure != nil:
		r.skip(noValue, "idempotent")
		return
	case !r.reads():
		r.skip(notAsked, "idempotent")
		return
	}
	passed, err := r.Trial.Validate(base.params)
	if err != nil {
		return
	}
	again, failed, err := r.execute(passed)
	if err == nil && failed == nil && len(again.Changed) > 0 {
		r.found("idempotent", "execute()", strings.Join(again.Changed, ", "))
	}
}

func (r *run) canaries(lines []string) {
	for _, line := range lines {
		if at := strings.Index(line, canary+"-"); at >= 0 {
			name, _, _ := strings.Cut(line[at+len(canary)+1:], `"`)
			name = strings.ToUpper(regexp.MustCompile(`^[a-z0-9_]*`).FindString(name))
			r.found("secret-logged", "run.log", words{"the value of " + name, name + " 的值"})
			return
		}
	}
}

// place is something found in a source.
type place struct {
	where string // "tool.js:12"
	text  string
}

var (
	logging   = lazily(`\b(?:logger|console|logging|log)\.\w+\(|\bprint\(`)
	secretish = lazily(`(?i)\b[a-z0-9_$]*(?:secret|passw|token|api_?key|private_?key|access_?key|credential)[a-z0-9_$]*`)
	// counted are words that look like a secret's and are none.
	counted   = lazily(`(?i)tokens|tokeni|token_?(count|s|limit|usage|type)|^(has|is|no|needs?|missing)_?[a-z]|_?(name|length|count|type|id|present|set|valid)$`)
	variables = lazily(`(?i)(?:environment\.get\(|process\.env[.\[]|environ(?:\.get\(|\[)|getenv\()\s*['"]?([A-Z0-9_]*(?:SECRET|PASSW|TOKEN|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY|CREDENTIAL)[A-Z0-9_]*)`)
)

// loggedSecrets finds calls of a log whose arguments are named like secrets.
func loggedSecrets(s source) []place {
	var found []place
	for _, at := range logging().FindAllStringIndex(s.text, -1) {
		whole := arguments(s.text[at[1]:])
		name := ""
		if m := variables().FindStringSubmatch(whole); m != nil {
			name = m[1]
		}
		for _, word := range secretish().FindAllString(expressions(whole), -1) {
			if name == "" && !counted().MatchString(word) {
				name = word
			}
		}
		if name != "" {
			found = append(found, place{s.at(at[0]), name})
		}
	}
	return found
}

var (
	shellJS     = lazily(`(^|[^\w$])((?:child_process|childProcess|cp)\.)?(exec(?:Sync|Async|P|Promise)?)\(`)
	shellPython = lazily(`\b(?:os\.(?:system|popen)|subprocess\.\w+|create_subprocess_shell)\(`)
	spawned     = lazily(`\bspawn(?:Sync)?\(`)
	oneName     = lazily(`^\s*([A-Za-z_$][\w$]*)\s*$`)
)

// shellStrings finds shell commands that are put together from values.
func shellStrings(s source, python bool) []place {
	var found []place
	note := func(at int, args string) {
		first := firstArgument(args)
		if assembled(first) || assignedText(s.text, first) {
			found = append(found, place{s.at(at), strings.TrimSpace(brief([]byte(first)))})
		}
	}
	if python {
		for _, at := range shellPython().FindAllStringIndex(s.text, -1) {
			args := arguments(s.text[at[1]:])
			if !strings.HasPrefix(s.text[at[0]:], "subprocess.") || strings.Contains(strings.ReplaceAll(args, " ", ""), "shell=True") {
				note(at[0], args)
			}
		}
		return found
	}
	if !strings.Contains(s.text, "child_process") {
		return nil
	}
	for _, at := range shellJS().FindAllStringSubmatchIndex(s.text, -1) {
		// re.exec(text) is no command, child_process.exec(text) is.
		if before := s.text[at[2]:at[3]]; before == "." && at[4] < 0 {
			continue
		}
		note(at[6], arguments(s.text[at[1]:]))
	}
	for _, at := range spawned().FindAllStringIndex(s.text, -1) {
		if args := arguments(s.text[at[1]:]); strings.Contains(strings.ReplaceAll(args, " ", ""), "shell:true") {
			note(at[0], args)
		}
	}
	return found
}

// assembled reports whether an expression makes a text out of values, or is a
// parameter itself.
func assembled(expression string) bool {
	bare := expressions(expression)
	return strings.Contains(bare, "${") || strings.Contains(bare, "+") || strings.Contains(bare, "{") && isFormatted(expression) ||
		strings.Contains(bare, ".format(") || strings.Contains(bare, "%") || strings.Contains(bare, ".join(") ||
		regexp.MustCompile(`\b(params|args|parameters|input)\b`).MatchString(bare)
}

func isFormatted(expression string) bool {
	return regexp.MustCompile(`\b[rRbB]?[fF][rRbB]?["']`).MatchString(expression)
}

// assignedText reports whether an expression is a name that got such a text.
func assignedText(text, expression string) bool {
	m := oneName().FindStringSubmatch(expression)
	if m == nil {
		return false
	}
	given := regexp.MustCompile(`(?:^|[^\w$.])` + regexp.QuoteMeta(m[1]) + `\s*=([^=][^\n;]*)`)
	for _, value := range given.FindAllStringSubmatch(text, -1) {
		if assembled(value[1]) {
			return true
		}
	}
	return false
}

func (s source) at(offset int) string {
	return s.name + ":" + strconv.Itoa(1+strings.Count(s.text[:offset], "\n"))
}

// maxArguments is how far the end of a call is looked for.
const maxArguments = 4096

// arguments is what stands between a call's parentheses, the first of which is just
// before s.
func arguments(s string) string {
	s = s[:min(len(s), maxArguments)]
	depth := 1
	for i := 0; i < len(s); {
		switch s[i] {
		case '"', '\'', '`':
			i += quoted(s[i:])
			continue
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return s[:i]
			}
		}
		i++
	}
	return s
}

// firstArgument is what stands before the first comma.
func firstArgument(args string) string {
	depth := 0
	for i := 0; i < len(args); {
		switch args[i] {
		case '"', '\'', '`':
			i += quoted(args[i:])
			continue
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				return args[:i]
			}
		}
		i++
	}
	return args
}

// expressions is a text of code without what stands between quotes; of a template
// the expressions stay, as ${…}, and of an f-string as {…}.
func expressions(code string) string {
	var b strings.Builder
	for i := 0; i < len(code); {
		c := code[i]
		if c != '"' && c != '\'' && c != '`' {
			b.WriteByte(c)
			i++
			continue
		}
		n := quoted(code[i:])
		text := code[i : i+n]
		formatted := c != '`' && i > 0 && strings.ContainsRune("fF", rune(code[i-1]))
		open := "${"
		if formatted {
			open = "{"
		}
		if c == '`' || formatted {
			for rest := text; ; {
				at := strings.Index(rest, open)
				if at < 0 {
					break
				}
				inner := arguments(rest[at+len(open):])
				b.WriteString(open + inner + "} ")
				rest = rest[min(len(rest), at+len(open)+len(inner)):]
			}
		}
		b.WriteByte(' ')
		i += n
	}
	return b.String()
}
