package policy

import (
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of one command line. What is beyond is asked, as what does not parse.
const (
	maxCommandLine = 128 << 10 // bytes
	maxCommands    = 2000      // simple commands, inner ones included
	maxInner       = 8         // command lines inside command lines
	maxNesting     = 250       // parentheses inside parentheses
)

// analysis is a command line taken apart.
type analysis struct {
	source    string // of the line that is being read now
	commands  []*command
	redirects []redirect
	// problem says why the line as a whole cannot be trusted to mean what it
	// seems to: it does not parse, or is too long.
	problem string
	// cds are the static arguments of cd, in order; lost says that some cd went
	// where nobody knows.
	cds   []string
	lost  bool
	depth int
	posix bool     // the line is read as a plain POSIX shell would
	outer *command // whose argument the present line is
	at    int      // which word of it
	// tainted: a variable was given text that arithmetic would run.
	tainted, arithmetic bool
	functions           []function
	// piped is what the next statement reads from a pipe.
	piped input
}

// input is what a command reads, as far as that is known.
type input struct {
	text  string
	known bool
	exact bool // not a guess, as of what printf makes of its arguments
}

// command is one simple command.
type command struct {
	source string // as written
	words  []word
	text   string // the words, with assignments that matter in front
	bare   string // the words alone; "" if the same as text
	base   string // with the program's base name; "" if that is its name
	plain  string // with global options of git and others left out; "" if none
	// opaque says why it cannot be known what runs; "" if it can.
	opaque  string
	dynamic bool
	// passes says that the command only runs others, which are judged.
	passes bool
	// runner says that some of the arguments are a program, but not which.
	runner  bool
	hazards []hazard
	outer   *command // the command that this one is an argument of
	at      int      // the word of outer where it stands
	line    bool     // that word is a command line, not this command's name
	ends    []int    // where each word ends in text
}

// hazard is a word that makes a command run or overwrite something that a
// wildcard is not meant to cover: it must be spelled out by the rule.
type hazard struct {
	at  int // index of the word; len(words) means all of the command
	why string
}

// redirect is a file that the shell opens.
type redirect struct {
	path   word
	write  bool
	source string
}

// function is a declared function: its name and whom it calls, for fork bombs.
type function struct {
	name string
	body *syntax.Stmt
}

// analyse takes a command line apart.
func analyse(line string) *analysis {
	a := &analysis{}
	a.line(line)
	if a.tainted && a.arithmetic {
		a.obscure("arithmetic over values that it could run", line)
	}
	return a
}

// line reads one command line, at the top or inside another.
func (a *analysis) line(text string) {
	switch {
	case len(text) > maxCommandLine:
		a.fail("the command is longer than can be checked")
		return
	case !utf8.ValidString(text):
		a.fail("the command is not UTF-8")
		return
	case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' && c != '\n' || c == 0x7f }):
		a.fail("the command holds control characters")
		return
	}
	if nesting(text) > maxNesting {
		a.fail("the command is nested too deeply")
		return
	}
	variant := syntax.LangBash
	if a.posix {
		variant = syntax.LangPOSIX
	}
	file, err := syntax.NewParser(syntax.Variant(variant)).Parse(strings.NewReader(text), "")
	if err != nil {
		a.fail("the command does not parse: " + strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	before := a.source
	a.source = text
	a.stmts(file.Stmts)
	a.source = before
}

// nesting is how deep parentheses are nested, quoted ones included. The parser
// tries some of them twice, so their number is its time.
func nesting(text string) int {
	deepest, depth := 0, 0
	for _, c := range []byte(text) {
		switch c {
		case '(':
			depth++
			deepest = max(deepest, depth)
		case ')':
			depth--
		}
	}
	return deepest
}

// inner reads a command line that is word at of outer.
func (a *analysis) inner(text string, outer *command, at int) {
	if a.depth >= maxInner {
		a.fail("command lines are nested too deeply")
		return
	}
	oldOuter, oldAt := a.outer, a.at
	a.outer, a.at = outer, at
	a.depth++
	a.line(text)
	a.depth--
	a.outer, a.at = oldOuter, oldAt
}

func (a *analysis) fail(problem string) {
	if a.problem == "" {
		a.problem = problem
	}
}

// obscure adds a part that only a rule for the whole tool covers.
func (a *analysis) obscure(why, source string) {
	a.add(&command{source: source, text: unknownText, dynamic: true, opaque: why})
}

func (a *analysis) add(c *command) {
	if len(a.commands) >= maxCommands {
		a.fail("the command has too many parts to check")
		return
	}
	if c.outer == nil {
		c.outer, c.at, c.line = a.outer, a.at, true
	}
	if a.posix && slices.ContainsFunc(a.commands, func(other *command) bool {
		return other.outer == c.outer && other.text == c.text && other.source == c.source && other.opaque == c.opaque
	}) {
		return // the same as bash would read
	}
	a.commands = append(a.commands, c)
}

// of is the source text of a node.
func (a *analysis) of(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from < 0 || to > len(a.source) || from > to {
		return ""
	}
	return strings.TrimSpace(a.source[from:to])
}

func (a *analysis) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		a.stmt(s)
	}
}

func (a *analysis) stmt(s *syntax.Stmt) {
	if s == nil {
		return
	}
	in := a.piped
	a.piped = input{}
	sources := 0
	for _, r := range s.Redirs {
		text, ok := a.redirect(r)
		if readsFrom(r) {
			sources++
			in = input{text: text, known: ok, exact: true}
		}
	}
	if sources > 1 { // the last wins, and which that is depends on more
		in = input{}
	}
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		a.call(c, in)
	case *syntax.BinaryCmd:
		a.stmt(c.X)
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			a.piped = a.printed(c.X)
		}
		a.stmt(c.Y)
	case *syntax.Subshell:
		a.stmts(c.Stmts)
	case *syntax.Block:
		a.stmts(c.Stmts)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			a.stmts(c.Cond)
			a.stmts(c.Then)
		}
	case *syntax.WhileClause:
		a.stmts(c.Cond)
		a.stmts(c.Do)
	case *syntax.ForClause:
		a.loop(c)
	case *syntax.CaseClause:
		a.word(c.Word)
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				a.word(p)
			}
			a.stmts(item.Stmts)
		}
	case *syntax.FuncDecl:
		a.declare(c)
	case *syntax.TimeClause:
		a.stmt(c.Stmt)
	case *syntax.CoprocClause:
		if c.Name != nil {
			a.setVariable(a.word(c.Name).text, word{}, a.of(c))
		}
		a.stmt(c.Stmt)
	case *syntax.DeclClause:
		a.declClause(c)
	case *syntax.ArithmCmd:
		a.arithm(c.X)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			a.arithm(x)
		}
	case *syntax.TestClause:
		a.test(c.X)
	default:
		a.obscure("this kind of statement is not known", a.of(s))
	}
}

// printed is what a statement prints, if it is an echo or printf of known words.
func (a *analysis) printed(s *syntax.Stmt) input {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || len(s.Redirs) > 0 {
		return input{}
	}
	quiet := &analysis{source: a.source}
	var words []word
	for _, arg := range call.Args {
		words = append(words, quiet.words(arg)...)
	}
	if name := words[0].text; name != "echo" && name != "printf" {
		return input{}
	}
	words = words[1:]
	for len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
		words = words[1:]
	}
	text := joined(words)
	return input{text: text.text, known: !text.dynamic}
}

// readsFrom reports whether r gives a command its standard input.
func readsFrom(r *syntax.Redirect) bool {
	switch r.Op {
	case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return r.N == nil || strings.Trim(r.N.Value, "0") == ""
	}
	return false
}

func (a *analysis) declare(f *syntax.FuncDecl) {
	if f.Name != nil {
		a.functions = append(a.functions, function{f.Name.Value, f.Body})
	}
	a.stmt(f.Body)
}

func (a *analysis) loop(c *syntax.ForClause) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		a.setVariable(l.Name.Value, word{}, a.of(c.Loop))
		for _, w := range l.Items {
			a.taint(a.words(w)...)
		}
	case *syntax.CStyleLoop:
		a.arithm(l.Init)
		a.arithm(l.Cond)
		a.arithm(l.Post)
	}
	a.stmts(c.Do)
}

// test walks [[ … ]]. Comparing numbers evaluates arithmetic; -v evaluates an
// index.
func (a *analysis) test(x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.Word:
		a.word(x)
	case *syntax.ParenTest:
		a.test(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
			if w, ok := x.X.(*syntax.Word); ok {
				a.evaluated(a.word(w), a.of(x))
				return
			}
		}
		a.test(x.X)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if w, ok := side.(*syntax.Word); ok {
					a.evaluated(a.word(w), a.of(x))
				}
			}
			return
		}
		a.test(x.X)
		a.test(x.Y)
	}
}

// evaluated handles text that the shell evaluates once more, as arithmetic or
// as the name of a variable with an index.
func (a *analysis) evaluated(w word, source string) {
	if strings.ContainsAny(w.text, "$`[") {
		a.obscure("the shell evaluates this text a second time", source)
	}
	if !isNumber(w.text) {
		a.arithmetic = true
	}
}

func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// arithm walks an arithmetic expression.
func (a *analysis) arithm(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case *syntax.BinaryArithm:
		a.arithm(x.X)
		a.arithm(x.Y)
	case *syntax.UnaryArithm:
		a.arithm(x.X)
	case *syntax.ParenArithm:
		a.arithm(x.X)
	case *syntax.FlagsArithm:
		a.arithm(x.X)
	case *syntax.Word:
		if w := a.word(x); !isNumber(w.text) {
			a.arithmetic = true
			if strings.ContainsAny(w.text, "$`") {
				a.obscure("the shell evaluates this text a second time", a.of(x))
			}
		}
	}
}

// expansion walks what is inside $… in a word.
func (a *analysis) expansion(part syntax.WordPart) {
	switch part := part.(type) {
	case *syntax.CmdSubst:
		a.stmts(part.Stmts)
	case *syntax.ProcSubst:
		a.stmts(part.Stmts)
	case *syntax.ArithmExp:
		a.arithm(part.X)
	case *syntax.ParamExp:
		a.parameter(part)
	default:
		a.obscure("this kind of expansion is not known", a.of(part))
	}
}

func (a *analysis) parameter(p *syntax.ParamExp) {
	if p.NestedParam != nil {
		a.expansion(p.NestedParam)
	}
	if p.Excl && p.Names == 0 {
		a.arithmetic = true // ${!x}: the value may hold an index
	}
	a.arithm(p.Index)
	if p.Slice != nil {
		a.arithm(p.Slice.Offset)
		a.arithm(p.Slice.Length)
	}
	if p.Repl != nil {
		a.word(p.Repl.Orig)
		a.word(p.Repl.With)
	}
	if p.Exp == nil {
		return
	}
	value := a.word(p.Exp.Word)
	switch p.Exp.Op {
	case syntax.OtherParamOps: // ${x@P} runs the substitutions in x
		a.obscure("${…@…} may run what the variable holds", a.of(p))
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if p.Param != nil {
			a.setVariable(p.Param.Value, value, a.of(p))
		}
	}
}

// redirect notes the file that r opens; for a here-document or string it gives
// the text, if that is known.
func (a *analysis) redirect(r *syntax.Redirect) (stdin string, ok bool) {
	if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
		a.setVariable(strings.Trim(r.N.Value, "{}"), word{}, a.of(r))
	}
	source := r.Op.String() + " " + a.of(r.Word)
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if r.Hdoc == nil {
			return "", true
		}
		body := a.heredoc(r)
		return body.text, !body.dynamic
	case syntax.WordHdoc:
		w := a.word(r.Word)
		return w.text, !w.dynamic
	}
	names := a.words(r.Word)
	target := names[0]
	if len(names) > 1 || target.glob {
		target = word{text: unknownText, dynamic: true}
	}
	switch r.Op {
	case syntax.DplIn, syntax.DplOut:
		if !target.dynamic && strings.Trim(target.text, "0123456789-") == "" {
			return "", false // 2>&1
		}
	}
	if !target.dynamic && harmlessFile(target.text) {
		return "", false
	}
	read := r.Op == syntax.RdrIn || r.Op == syntax.DplIn
	if strings.HasPrefix(path.Clean(target.text), "/dev/tcp/") || strings.HasPrefix(path.Clean(target.text), "/dev/udp/") {
		a.obscure("the shell opens a network connection", source)
		return "", false
	}
	a.redirects = append(a.redirects, redirect{path: target, write: !read, source: source})
	return "", false
}

// heredoc reads the body of a here-document, whose quotes mean nothing.
func (a *analysis) heredoc(r *syntax.Redirect) word {
	var out word
	var b strings.Builder
	quoted := false
	for _, part := range r.Word.Parts {
		lit, ok := part.(*syntax.Lit)
		quoted = quoted || !ok || strings.Contains(lit.Value, `\`)
	}
	for _, part := range r.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		switch {
		case !ok:
			a.wordPart(part, &b, &out)
		case quoted:
			b.WriteString(lit.Value)
		default:
			unquoteDouble(lit.Value, &b)
		}
	}
	out.text = b.String()
	return out
}

// harmlessFile reports whether opening name for writing changes nothing.
func harmlessFile(name string) bool {
	switch name {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero":
		return true
	}
	fd, ok := strings.CutPrefix(name, "/dev/fd/")
	return ok && strings.Trim(fd, "0123456789") == ""
}

// call reads a simple command.
func (a *analysis) call(c *syntax.CallExpr, in input) {
	var prefix []string
	for _, as := range c.Assigns {
		if text, matters := a.assign(as); matters {
			prefix = append(prefix, text)
		}
	}
	if len(c.Args) == 0 {
		for _, text := range prefix {
			w := word{text: text, dynamic: strings.Contains(text, unknownText)}
			a.add(finish(&command{source: a.of(c), words: []word{w}}, nil))
		}
		return
	}
	cmd := &command{source: a.of(c)}
	for _, w := range c.Args {
		cmd.words = append(cmd.words, a.words(w)...)
	}
	finish(cmd, prefix)
	a.add(cmd)
	a.lookThrough(cmd, in)
}

// finish fills in the texts of a command.
func finish(c *command, prefix []string) *command {
	var b strings.Builder
	for _, text := range prefix {
		b.WriteString(text)
		b.WriteByte(sep)
	}
	start := b.Len()
	c.ends = make([]int, len(c.words))
	for i, w := range c.words {
		if i > 0 {
			b.WriteByte(sep)
		} else if w.glob {
			w = word{text: unknownText, dynamic: true}
		}
		b.WriteString(w.text)
		c.ends[i] = b.Len()
		c.dynamic = c.dynamic || w.dynamic || strings.ContainsAny(w.text, "\x00\x01\x02")
	}
	c.text = b.String()
	c.dynamic = c.dynamic || strings.Contains(c.text[:start], unknownText)
	if start > 0 {
		c.bare = c.text[start:]
	}
	if len(c.words) == 0 {
		return c
	}
	name := c.words[0]
	if name.glob || name.dynamic {
		c.opaque, c.dynamic = "which program runs is only known when it runs", true
	}
	words := c.text[start:]
	if i := strings.LastIndexByte(name.text, '/'); i >= 0 && c.opaque == "" {
		c.base = words[i+1:]
		words = c.base
	}
	c.plain = plainText(c, words)
	return c
}

// name is the program's base name.
func (c *command) name() string {
	if len(c.words) == 0 {
		return ""
	}
	return path.Base(c.words[0].text)
}

// end is how much of text must be spelled out to name word i.
func (c *command) end(i int) int {
	if i < len(c.ends) {
		return c.ends[i]
	}
	return math.MaxInt
}

// assign reads one assignment: its text, and whether it can change what runs.
func (a *analysis) assign(as *syntax.Assign) (text string, matters bool) {
	a.arithm(as.Index)
	value := a.word(as.Value)
	if as.Array != nil {
		for _, e := range as.Array.Elems {
			a.arithm(e.Index)
			a.taint(a.word(e.Value))
		}
		value = word{text: unknownText, dynamic: true}
	}
	a.taint(value)
	if as.Name == nil {
		return value.text, true
	}
	if as.Naked || harmlessVariable(as.Name.Value) {
		return "", false
	}
	return as.Name.Value + "=" + value.text, true
}

// setVariable notes that a variable gets a value in some other way than by an
// assignment.
func (a *analysis) setVariable(name string, value word, source string) {
	a.taint(value)
	if !harmlessVariable(name) {
		a.obscure("it sets the variable "+name, source)
	}
}

// taint notes values that arithmetic would run.
func (a *analysis) taint(values ...word) {
	for _, v := range values {
		if strings.ContainsAny(v.text, "$`[") || v.dynamic {
			a.tainted = true
		}
	}
}

func (a *analysis) declClause(d *syntax.DeclClause) {
	for _, as := range d.Args {
		if as.Name == nil {
			value := a.word(as.Value)
			option := strings.HasPrefix(value.text, "-") && d.Variant.Value != "export"
			if value.dynamic || strings.ContainsAny(value.text, "=$`[") || option && strings.Contains(value.text, "n") {
				a.obscure("what "+d.Variant.Value+" sets is only known when it runs", a.of(d)) // -n gives a second name
			} else if option && strings.Contains(value.text, "i") {
				a.arithmetic = true // -i evaluates what is assigned
			}
			continue
		}
		if text, matters := a.assign(as); matters {
			w := word{text: text, dynamic: strings.Contains(text, unknownText)}
			a.add(finish(&command{source: a.of(d), words: []word{w}}, nil))
		}
	}
}
