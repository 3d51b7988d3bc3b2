package policy

import (
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// suggest gives, for each asked part, the narrowest rule that lets it run. Each
// is tried: what would not help is left out.
func (c *call) suggest() []string {
	var rules []string
	var helped []int
	for i, part := range c.parts {
		if part.Action != tool.Ask || part.sticky && !part.Protected {
			continue
		}
		for _, text := range c.candidates(part, c.notes[i]) {
			if !c.helps(text, i) {
				continue
			}
			helped = append(helped, i)
			if !slices.Contains(rules, text) {
				rules = append(rules, text)
			}
			break
		}
	}
	// A rule that spells an outer command out may make others needless.
	for i := 0; i < len(rules) && len(rules) > 1; i++ {
		others := slices.Delete(slices.Clone(rules), i, i+1)
		needed := slices.ContainsFunc(helped, func(part int) bool {
			return !slices.ContainsFunc(others, func(text string) bool { return c.helps(text, part) })
		})
		if !needed {
			rules, i = others, i-1
		}
	}
	return rules
}

// candidates are rules for a part, the best first.
func (c *call) candidates(p Part, n note) []string {
	switch p.Kind {
	case PartCommand:
		cmd := n.command
		if cmd != nil && !cmd.dynamic && cmd.opaque == "" {
			return commandRules(c.name, cmd)
		}
		for ; cmd != nil; cmd = cmd.outer { // spell out what it is an argument of
			if !cmd.dynamic && cmd.opaque == "" {
				return []string{literalRule(c.name, cmd)}
			}
		}
		return nil
	case PartRead, PartWrite:
		name := c.name
		if n.tool != "" {
			name = n.tool
		}
		if len(n.where) == 0 {
			return nil
		}
		return []string{name + "(" + placePattern(n.where[len(n.where)-1]) + ")", name + "(" + placePattern(n.where[0]) + ")"}
	case PartText, PartCall:
		if hosts := c.hosts(); len(hosts) == 1 && hosts[0] != "" {
			return []string{c.name + "(domain:" + escapeGlob(hosts[0]) + ")"}
		}
		return []string{c.name}
	}
	return nil
}

// placePattern is the pattern of one path.
func placePattern(l location) string {
	if l.rel != "" && l.rel != "." {
		return "/" + escapePath(l.rel)
	}
	return "/" + escapePath(l.abs)
}

// deep are programs whose first word says little: a rule for them names so many
// words.
var deep = map[string]int{
	"git": 2, "go": 2, "npm": 2, "pnpm": 2, "yarn": 2, "bun": 2, "cargo": 2, "docker": 2, "podman": 2, "kubectl": 2, "pip": 2, "pip3": 2, "uv": 2,
	"make": 2, "apt": 2, "apt-get": 2, "brew": 2, "systemctl": 2, "gh": 3, "terraform": 2, "dotnet": 2, "mvn": 2, "gradle": 2, "poetry": 2,
}

// plainPrograms only look at what they are given: a rule for them may leave the
// arguments open. All others are suggested as they stand.
var plainPrograms = []string{
	"ls", "cat", "head", "tail", "wc", "grep", "rg", "find", "fd", "echo", "printf", "pwd", "date", "which", "file", "stat", "du", "df", "tree", "diff",
	"cmp", "sort", "uniq", "cut", "tr", "jq", "basename", "dirname", "realpath", "sha256sum", "md5sum", "id", "whoami", "uname", "true", "false", "test", "[",
	"pytest", "jest", "vitest", "eslint", "tsc", "gofmt", "golint", "staticcheck", "ruff", "mypy", "black", "prettier",
}

// commandRules are the rules for one command: with its arguments open where the
// program is harmless or the subcommand says what it does, then word for word.
func commandRules(name string, cmd *command) []string {
	literal := literalRule(name, cmd)
	exact := quoteWords(cmd)
	n := deep[cmd.words[0].text]
	if n == 2 && len(exact) > 2 && exact[1] == "run" {
		n = 3 // npm run test
	}
	if n == 0 && slices.Contains(plainPrograms, cmd.words[0].text) {
		n = 1
	}
	if cmd.bare != "" || n == 0 || len(exact) < n || slices.ContainsFunc(cmd.words[:n], func(w word) bool { return strings.HasPrefix(w.text, "-") }) {
		return []string{literal}
	}
	return []string{name + "(" + strings.Join(exact[:n], " ") + " *)", literal}
}

// literalRule is the rule for one command word for word.
func literalRule(name string, cmd *command) string {
	prefix := strings.TrimSuffix(cmd.text, joinWords(cmd.words))
	return name + "(" + quotePrefix(prefix) + strings.Join(quoteWords(cmd), " ") + ")"
}

func quoteWords(cmd *command) []string {
	quoted := make([]string, len(cmd.words))
	for i, w := range cmd.words {
		quoted[i] = quotePattern(w.text)
	}
	return quoted
}

func joinWords(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, string(rune(sep)))
}

func quotePrefix(prefix string) string {
	text := ""
	for each := range strings.SplitSeq(strings.TrimSuffix(prefix, string(rune(sep))), string(rune(sep))) {
		if each != "" {
			text += quotePattern(each) + " "
		}
	}
	return text
}

// quotePattern writes a word so that a pattern means exactly it.
func quotePattern(text string) string {
	switch {
	case text == "":
		return "''"
	case !strings.ContainsAny(text, " \t*\\'\""):
		return text
	case !strings.Contains(text, "'"):
		return "'" + text + "'"
	}
	return strings.NewReplacer(`\`, `\\`, " ", `\ `, "\t", "\\\t", "*", `\*`, "'", `\'`, `"`, `\"`).Replace(text)
}

// helps reports whether a rule would let a part run.
func (c *call) helps(text string, part int) bool {
	p, n := c.parts[part], c.notes[part]
	r, err := ParseRule(tool.Allow, text, Session, "")
	if err != nil {
		return false
	}
	switch p.Kind {
	case PartCommand:
		return n.command != nil && r.allows(n.command)
	case PartRead, PartWrite:
		return r.pat.given && metAll(&r, n.where) && (!p.Protected || r.pat.path.names(protectedPart(n.where)))
	}
	if !r.pat.given {
		return true
	}
	return c.meetsKey(&r) == metYes
}
