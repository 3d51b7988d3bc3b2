package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/tool"
)

// leaf is a simple command that a generated line runs.
type leaf struct {
	words   []string
	dynamic bool // some word is only known when it runs
}

// leaves that the generator composes lines from. None is a wrapper or has
// hazards of its own.
var leaves = [][]string{
	{"ls"}, {"ls", "-la"}, {"git", "status"}, {"git", "push"}, {"git", "push", "--force"}, {"git", "log", "-1"}, {"go", "test", "./..."}, {"go", "build"},
	{"curl", "http://x"}, {"rm", "-rf", "x"}, {"rm", "x"}, {"npm", "run", "test:a"}, {"npm", "publish"}, {"echo", "a;b"}, {"echo", "rm -rf x"}, {"echo", "$(rm x)"},
	{"cat", "it's"}, {"mytool", "a b", ""}, {"touch", "&&"}, {"docker", "ps"},
}

// patterns that the generator makes rules from: words, and whether anything may
// follow.
type wordPattern struct {
	words []string
	open  bool
}

func (p wordPattern) rule() string {
	quoted := make([]string, len(p.words))
	for i, w := range p.words {
		quoted[i] = quotePattern(w)
	}
	text := strings.Join(quoted, " ")
	if p.open {
		text += " *"
	}
	return "bash(" + text + ")"
}

func (p wordPattern) meets(words []string) bool {
	if len(words) < len(p.words) || !p.open && len(words) != len(p.words) {
		return false
	}
	return slices.Equal(p.words, words[:len(p.words)])
}

type generator struct {
	*rand.Rand
	leaves []leaf
	posix  bool // inside sh -c: only what every shell reads in the same way
}

func (g *generator) quote(w string) string {
	switch g.IntN(4) {
	case 0:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(w) + `"`
	case 1:
		if !g.posix && !strings.ContainsAny(w, "'\\") {
			return "$'" + w + "'"
		}
	case 2:
		if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz-/:.") == "" {
			return w
		}
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

func (g *generator) simple(inner string) string {
	l := leaf{words: leaves[g.IntN(len(leaves))]}
	parts := make([]string, len(l.words))
	for i, w := range l.words {
		parts[i] = g.quote(w)
	}
	if inner != "" {
		l.dynamic = true
		parts = append(parts, inner)
	}
	g.leaves = append(g.leaves, l)
	return strings.Join(parts, " ")
}

// line makes a command line that runs exactly g.leaves.
func (g *generator) line(depth int) string {
	if depth <= 0 {
		return g.simple("")
	}
	sub := func() string { return g.line(depth - 1 - g.IntN(2)) }
	switch g.IntN(24) {
	case 0, 1:
		return sub() + [...]string{"; ", " && ", " || ", " | ", " & ", "\n", ";", "&&"}[g.IntN(8)] + sub()
	case 2:
		return "( " + sub() + "\n)"
	case 3:
		return "{ " + sub() + "\n}"
	case 4:
		return "if " + sub() + "\nthen " + sub() + "\nelse " + sub() + "\nfi"
	case 5:
		return "while " + sub() + "\ndo " + sub() + "\ndone"
	case 6:
		return "for i in a b; do " + sub() + "\ndone"
	case 7:
		return "case a in a) " + sub() + "\n;; esac"
	case 8:
		return g.simple("$( " + sub() + "\n)")
	case 9:
		return g.simple("\"$( " + sub() + "\n)\"")
	case 10:
		if g.posix {
			return sub()
		}
		return g.simple("<(" + sub() + "\n)")
	case 11:
		before := g.posix
		g.posix = true
		line := sub()
		g.posix = before
		return "sh -c " + g.quote(line)
	case 12:
		return "bash -ec " + g.quote(sub())
	case 13:
		return "eval " + g.quote(sub())
	case 14:
		return [...]string{"env ", "nohup ", "timeout 5 ", "nice -n 3 ", "command ", "CI=1 ", "stdbuf -o0 ", "setsid "}[g.IntN(8)] + g.simple("")
	case 15:
		return "{ ! " + g.simple("") + "\n}"
	case 16:
		return "{ " + sub() + "\n} > /dev/null 2>&1"
	case 17:
		return "trap " + g.quote(sub()) + " EXIT"
	case 18:
		return "until " + sub() + "\ndo " + sub() + "\ndone"
	case 19:
		return "{ time " + g.simple("") + "\n}"
	case 20:
		return "f() { " + sub() + "\n}"
	case 21:
		if g.posix {
			return sub()
		}
		return "coproc { " + sub() + "\n}"
	case 22:
		return "x=$( " + sub() + "\n)"
	}
	return g.simple("")
}

// oracle is the verdict of core.md §4 about known simple commands, written a
// second time, without a parser.
func oracle(rules []oracleRule, leaves []leaf) tool.Action {
	verdict := tool.Allow
	for _, l := range leaves {
		verdict = max(verdict, oracleLeaf(rules, l))
	}
	return verdict
}

type oracleRule struct {
	wordPattern
	action tool.Action
	scope  Scope
}

func oracleLeaf(rules []oracleRule, l leaf) tool.Action {
	best, scope := tool.Ask, Scope(-1)
	for _, r := range rules {
		if !r.meets(l.words) || l.dynamic && (r.action == tool.Allow || !r.open) {
			continue
		}
		switch {
		case r.action == tool.Deny:
			return tool.Deny
		case r.scope > scope:
			best, scope = r.action, r.scope
		case r.scope == scope:
			best = max(best, r.action)
		}
	}
	return best
}

func TestRandomPoliciesAndCommands(t *testing.T) {
	runs := 100_000
	if testing.Short() {
		runs = 5_000
	}
	counts := map[tool.Action]int{}
	for seed := range uint64(runs) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
		var rules []Rule
		var simple []oracleRule
		for range 4 + g.IntN(10) {
			words := leaves[g.IntN(len(leaves))]
			p := wordPattern{words: words[:1+g.IntN(len(words))], open: g.IntN(3) > 0}
			r := oracleRule{p, [...]tool.Action{tool.Allow, tool.Allow, tool.Allow, tool.Ask, tool.Deny}[g.IntN(5)], Scope(g.IntN(5))}
			simple = append(simple, r)
			rules = append(rules, mustRule(t, r.action, p.rule(), r.scope))
		}
		line := g.line(g.IntN(4))
		p := mustPolicy(t, rules...)
		got := checkBash(p, tool.Ask, line)
		want := oracle(simple, g.leaves)
		counts[got.Action]++
		exact := !slices.ContainsFunc(g.leaves, func(l leaf) bool { return l.dynamic })
		if exact && got.Action != want || got.Action < want {
			t.Fatalf("seed %d: got %s, want %s\nline: %s\nrules: %s\nparts: %+v", seed, got.Action, want, line, describe(simple), got.Parts)
		}
	}
	t.Logf("verdicts of %d runs: %v", runs, counts)
	if counts[tool.Allow] < runs/100 || counts[tool.Deny] < runs/100 {
		t.Errorf("the generator hardly makes any %v", counts)
	}
}

func describe(rules []oracleRule) string {
	text := ""
	for _, r := range rules {
		text += fmt.Sprintf("%s %s %s; ", r.scope, r.action, r.rule())
	}
	return text
}

func FuzzShell(f *testing.F) {
	for _, command := range bypasses {
		f.Add(command)
	}
	f.Add("f() { f | f & }; f")
	deny, err := ParseRule(tool.Deny, "bash(rm *)", User, "")
	if err != nil {
		f.Fatal(err)
	}
	open, err := ParseRule(tool.Allow, "bash(ls *)", User, "")
	if err != nil {
		f.Fatal(err)
	}
	p, err := New([]Rule{deny, open})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, command string) {
		v := checkBash(p, tool.Ask, command)
		if len(v.Parts) == 0 || v.Action < tool.Allow || v.Action > tool.Deny {
			t.Fatalf("%q: no verdict: %+v", command, v)
		}
		// What is added at the end of an allowed line is judged as well. Behind a
		// backslash it would go on with that line: ls rm x.
		if v.Action == tool.Allow && !strings.HasSuffix(command, `\`) {
			if more := checkBash(p, tool.Ask, command+"\nrm x\n"); more.Action == tool.Allow {
				t.Fatalf("%q with rm x behind it is allowed", command)
			}
		}
		SelfHarm(command)
		for _, text := range v.Suggest {
			if _, err := ParseRule(tool.Allow, text, User, ""); err != nil {
				t.Fatalf("%q: suggests %q, which does not parse: %v", command, text, err)
			}
		}
	})
}

func FuzzParseRule(f *testing.F) {
	for _, text := range narrow {
		f.Add(text, "ls x")
	}
	for _, text := range []string{"edit(src/**)", "read(//etc/**)", "x:y(a:b)", "effect:write(*)", "category:git", "*", `bash("a b" * 'c')`, "mcp__a__b(c)"} {
		f.Add(text, "src/a")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		r, err := ParseRule(tool.Allow, text, User, "")
		if err != nil {
			return
		}
		again, err := ParseRule(tool.Allow, r.String(), User, "")
		if err != nil {
			t.Fatalf("%q is written as %q, which does not parse: %v", text, r.String(), err)
		}
		if again.String() != r.String() {
			t.Fatalf("%q is written as %q, then as %q", text, r.String(), again.String())
		}
		p, err := New([]Rule{r})
		if err != nil {
			t.Fatal(err)
		}
		checkBash(p, tool.Ask, value)
		p.Check(Query{Spec: pathSpec("edit", tool.Write, tool.Ask), Arguments: args(t, "file_path", value), Workspace: "/workspace", Home: "/home/me"})
	})
}

func benchPolicy(b *testing.B) *Policy {
	var rules []Rule
	for i := range 50 {
		text := fmt.Sprintf("bash(tool%d sub *)", i)
		if i%2 == 0 {
			text = fmt.Sprintf("edit(dir%d/**/x*.go)", i)
		}
		rules = append(rules, mustRule(b, tool.Action(1+i%3), text, Scope(i%5)))
	}
	rules = append(rules, mustRule(b, tool.Allow, "bash(go test *)", User), mustRule(b, tool.Allow, "bash(git *)", User), mustRule(b, tool.Allow, "edit(src/**)", User))
	return mustPolicy(b, rules...)
}

func BenchmarkCheckPath(b *testing.B) {
	p, spec, raw := benchPolicy(b), pathSpec("edit", tool.Write, tool.Ask), args(b, "file_path", "src/internal/a.go", "content", "package a")
	b.ReportAllocs()
	for b.Loop() {
		if v := p.Check(Query{Spec: spec, Arguments: raw, Workspace: "/workspace", Home: "/home/me"}); v.Action != tool.Allow {
			b.Fatal(v.Reason)
		}
	}
}

func BenchmarkCheckShell(b *testing.B) {
	p := benchPolicy(b)
	b.ReportAllocs()
	for b.Loop() {
		if v := checkBash(p, tool.Ask, "git status && go test ./internal/... 2>&1 | git log -5"); v.Action != tool.Allow {
			b.Fatal(v.Reason)
		}
	}
}
