package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// judgeLine judges a command line, one simple command and redirection at a
// time.
func (c *call) judgeLine(line string) {
	a := analyse(line)
	if a.problem != "" {
		c.unclear(a.problem, line)
	}
	before := len(c.parts)
	for _, cmd := range a.commands {
		if cmd.opaque == "" && cmd.passes && !c.mentions(cmd) {
			continue
		}
		c.judgeCommand(cmd)
	}
	bases, lost := c.bases(a)
	for _, r := range a.redirects {
		c.judgeFile(r.path, r.source, r.write, bases, lost)
	}
	for _, cmd := range a.commands {
		c.judgeOperands(cmd, bases)
	}
	if len(c.parts) == before { // only assignments, or nothing at all
		c.judgeNothing(line)
	}
}

// judgeNothing judges a line in which nothing runs: only rules for the whole
// tool count.
func (c *call) judgeNothing(line string) {
	j := judgement{kind: PartCommand, text: line, def: c.def}
	for _, r := range c.rules {
		j.meet(r, yes(r.pat.all()))
	}
	c.conclude(&j, note{})
}

// unclear is the part for a line that cannot be taken apart. It is asked, since
// no rule for a part of it can be checked; mode trusted lifts that, unless some
// commands are forbidden.
func (c *call) unclear(problem, line string) {
	j := judgement{kind: PartSyntax, text: line, def: tool.Ask, reason: problem}
	for _, r := range c.rules {
		if r.Action == tool.Allow {
			continue
		}
		j.sticky = j.sticky || r.Action == tool.Deny && !r.pat.all()
		j.meet(r, yes(r.pat.all()))
	}
	c.conclude(&j, note{})
}

// mentions reports whether a rule other than allow is about a command that only
// runs others.
func (c *call) mentions(cmd *command) bool {
	return slices.ContainsFunc(c.rules, func(r *Rule) bool {
		return r.Action != tool.Allow && !r.pat.all() && r.meetsLoosely(cmd) != metNot
	})
}

func (c *call) judgeCommand(cmd *command) {
	j := judgement{kind: PartCommand, text: cmd.source, def: c.def, reason: cmd.opaque}
	if cmd.passes {
		j.def = tool.Allow // by itself it does nothing
	}
	if len(cmd.hazards) > 0 && j.reason == "" {
		j.reason = cmd.hazards[0].why
	}
	for _, r := range c.rules {
		if r.Action == tool.Allow {
			j.meet(r, yes(r.allows(cmd)))
		} else {
			j.meet(r, r.meetsLoosely(cmd))
		}
	}
	c.conclude(&j, note{command: cmd})
}

// allows reports whether an allow rule covers a command: all words are known,
// they match, and the rule spells out every hazard; or the command is an
// argument of another one and the rule, which matches that, spells it out as
// far as here.
func (r *Rule) allows(cmd *command) bool {
	if r.pat.all() {
		return true
	}
	needed := -1 // the last word that must be spelled out
	for cmd != nil {
		for _, h := range cmd.hazards {
			needed = max(needed, h.at)
		}
		if !cmd.dynamic && cmd.opaque == "" {
			if spelled, ok := r.pat.shell.match(cmd.text); ok && (needed < 0 || spelled >= cmd.end(needed)) {
				return true
			}
		}
		if cmd.line {
			needed = cmd.at
		} else {
			needed = cmd.at + max(needed, 0)
		}
		cmd = cmd.outer
	}
	return false
}

// maxMaybe bounds the text that is compared with unknown parts in it; what is
// behind counts as unknown too.
const maxMaybe = 2048

// maxTails bounds the words among which the program of a runner is looked for;
// where there are more, it may be anything.
const maxTails = 64

// meetsLoosely says how an ask or deny rule meets a command: as written, without
// assignments, by the program's base name, without global options, and, for
// programs that run others, anywhere in the arguments.
func (r *Rule) meetsLoosely(cmd *command) met {
	if r.pat.all() {
		return metYes
	}
	p := r.pat.shell
	for _, text := range [...]string{cmd.text, cmd.bare, cmd.base, cmd.plain} {
		if text == "" {
			continue
		}
		if _, ok := p.match(text); ok && cmd.opaque == "" {
			return metYes
		}
	}
	if cmd.runner {
		if len(cmd.words) > maxTails {
			return metMaybe
		}
		for i := 1; i < len(cmd.words); i++ {
			tail := finish(&command{words: cmd.words[i:]}, nil)
			if tail.opaque == "" && r.meetsLoosely(tail) == metYes {
				return metYes
			}
		}
	}
	if !cmd.dynamic {
		return metNot
	}
	for _, text := range [...]string{cmd.text, cmd.bare, cmd.base, cmd.plain} {
		if len(text) > maxMaybe {
			text = text[:maxMaybe] + unknownText
		}
		if text != "" && p.maybe(text) {
			return metMaybe
		}
	}
	return metNot
}

// maxChanges bounds the cd commands that are followed.
const maxChanges = 4

// bases are the directories that a redirection may be relative to: where the
// line starts, and wherever it changes to. lost says that there are others.
func (c *call) bases(a *analysis) (bases []string, lost bool) {
	if c.base == "" {
		return nil, true
	}
	bases, lost = []string{c.base}, a.lost || len(a.cds) > maxChanges
	for i, dir := range a.cds {
		if i == maxChanges {
			break
		}
		for _, from := range slices.Clone(bases) {
			l, ok := locate(dir, from, c.Workspace, c.Home)
			if !ok {
				lost = true
			} else if !slices.Contains(bases, l.abs) {
				bases = append(bases, l.abs)
			}
		}
	}
	return bases, lost
}

// The specs that redirections are judged by.
var (
	writeSpec = &tool.Spec{Name: "write", Category: "files", Effects: tool.Write}
	readSpec  = &tool.Spec{Name: "read", Category: "files", Effects: tool.Read}
)

// judgeFile judges a file that the shell opens: as the tool write or read would
// be, and by rules for the whole of this tool.
func (c *call) judgeFile(w word, source string, write bool, bases []string, lost bool) {
	j, unknownPlace := c.file(w, source, write, bases, lost)
	j.def = c.def
	if !write && !unknownPlace {
		j.def = tool.Allow // the command could as well be given the name
	}
	for _, r := range c.rules {
		if r.pat.all() && (write || r.Action != tool.Ask) {
			j.meet(r, metYes)
		}
	}
	c.conclude(&j, note{tool: fileSpec(write).Name})
}

func fileSpec(write bool) *tool.Spec {
	if write {
		return writeSpec
	}
	return readSpec
}

// file collects the rules for files that meet one.
func (c *call) file(w word, source string, write bool, bases []string, lost bool) (j judgement, unknownPlace bool) {
	j = judgement{kind: PartRead, text: source}
	if write {
		j.kind = PartWrite
	}
	absolute := strings.HasPrefix(w.text, "/") || strings.HasPrefix(w.text, "~/")
	unknownPlace = w.dynamic || lost && !absolute
	if !w.dynamic {
		for _, base := range bases {
			l, ok := locate(w.text, base, c.Workspace, c.Home)
			if !ok {
				unknownPlace = true
				continue
			}
			j.where = append(j.where, c.realToo(l, &unknownPlace)...)
			if absolute {
				break
			}
		}
	}
	spec := fileSpec(write)
	for _, r := range c.policy.rules {
		if !r.sel.meets(spec, r.Action) {
			continue
		}
		switch {
		case !r.pat.given:
			j.meet(r, metYes)
		case r.Action == tool.Allow:
			j.meet(r, yes(!unknownPlace && metAll(r, j.where)))
		case metAny(r, j.where):
			j.meet(r, metYes)
		case unknownPlace:
			j.meet(r, metMaybe)
		}
	}
	if write {
		j.protect(protectedPart(j.where))
	}
	return j, unknownPlace
}

// Programs whose operands are files. Rules that forbid reading or writing those
// are applied to them as far as the names are known; what really holds is the
// sandbox.
var (
	readers = []string{"cat", "head", "tail", "less", "more", "nl", "od", "xxd", "hexdump", "strings", "base64", "tac", "rev", "sort", "cut",
		"wc", "grep", "egrep", "fgrep", "rg", "sed", "awk", "diff", "cmp", "source", ".", "cp", "mv", "install", "dd", "tar", "zip", "gzip"}
	writers = []string{"tee", "rm", "rmdir", "unlink", "touch", "mkdir", "truncate", "chmod", "chown", "ln", "shred", "cp", "mv", "install", "dd"}
)

// judgeOperands adds a part for each operand of a command that a rule for files
// or a protected path forbids or asks about.
func (c *call) judgeOperands(cmd *command, bases []string) {
	name := cmd.name()
	reads, writes := slices.Contains(readers, name), slices.Contains(writers, name)
	if name == "sed" {
		writes = slices.ContainsFunc(cmd.words, func(w word) bool { return strings.HasPrefix(w.text, "-i") || strings.HasPrefix(w.text, "--in-place") })
	}
	if !reads && !writes {
		return
	}
	copies := name == "cp" || name == "install"
	if copies && slices.ContainsFunc(cmd.words, func(w word) bool { return strings.HasPrefix(w.text, "-t") || strings.HasPrefix(w.text, "--t") }) {
		copies = false // the target comes first
	}
	if name == "cp" || name == "install" || name == "mv" || name == "ln" {
		c.judgeTarget(cmd, bases)
	}
	for i, w := range cmd.words {
		if i == 0 || w.dynamic || w.text == "" || strings.HasPrefix(w.text, "-") {
			continue
		}
		if name == "dd" {
			key, value, ok := strings.Cut(w.text, "=")
			if !ok || key != "of" && key != "if" {
				continue
			}
			w.text, writes, reads = value, key == "of", key == "if"
		}
		last := i == len(cmd.words)-1
		if writes && (!copies || last) && !harmlessFile(w.text) {
			c.judgeOperand(w, cmd, true, bases)
		}
		if reads && (name != "mv" && !copies || !last) {
			c.judgeOperand(w, cmd, false, bases)
		}
	}
}

// maxSources bounds the files of one cp whose place in a directory is judged.
const maxSources = 8

// judgeTarget judges what cp and its kin make if their last operand is a
// directory.
func (c *call) judgeTarget(cmd *command, bases []string) {
	operands, _ := operandsOf(cmd.words)
	if len(operands) < 2 {
		return
	}
	target, sources := operands[len(operands)-1], operands[:len(operands)-1]
	for _, source := range sources[:min(len(sources), maxSources)] {
		if !target.dynamic && !source.dynamic && target.text != "" {
			c.judgeOperand(word{text: target.text + "/" + path.Base(source.text)}, cmd, true, bases)
		}
	}
}

func (c *call) judgeOperand(w word, cmd *command, write bool, bases []string) {
	j, _ := c.file(w, path.Base(cmd.words[0].text)+" "+w.text, write, bases, false)
	j.def = tool.Allow
	// The word may be no file at all, so what could only be one is left out.
	j.met = slices.DeleteFunc(j.met, func(m meeting) bool { return m.how == metMaybe })
	if p := j.conclude(); p.Action != tool.Allow {
		c.conclude(&j, note{tool: fileSpec(write).Name})
	}
}
