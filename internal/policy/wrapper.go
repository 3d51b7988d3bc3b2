package policy

import (
	"slices"
	"strings"
)

// wrapper is a program whose arguments are another command. What it does with
// options that are not listed is not known, so then the command is not looked
// through but must be spelled out by a rule.
type wrapper struct {
	flags   string   // one-letter options without a value
	values  string   // one-letter options with a value
	long    []string // long options without a value
	longVal []string // long options with a value (--name=value or --name value)
	skip    int      // operands before the command
	assigns bool     // operands may be assignments
	judged  bool     // the wrapper itself must be allowed too
	appends bool     // unknown words are added at the end
	line    bool     // the words are joined and given to a shell
}

// wrappers are looked through. To add one: a row with its options, and a row in
// the tests' table of bypasses.
var wrappers = map[string]wrapper{
	"nohup":   {},
	"setsid":  {flags: "cfw", long: []string{"ctty", "fork", "wait"}},
	"nice":    {values: "n", longVal: []string{"adjustment"}, flags: "0123456789"},
	"ionice":  {values: "cn", flags: "t", longVal: []string{"class", "classdata"}, long: []string{"ignore"}},
	"timeout": {values: "sk", flags: "v", longVal: []string{"signal", "kill-after"}, long: []string{"foreground", "preserve-status", "verbose"}, skip: 1},
	"time":    {flags: "pv"},
	"stdbuf":  {values: "ioe", longVal: []string{"input", "output", "error"}},
	"command": {flags: "p"},
	"builtin": {},
	"exec":    {flags: "cl", values: "a"},
	"env":     {flags: "i0v", values: "uC", long: []string{"ignore-environment", "null", "debug"}, longVal: []string{"unset", "chdir"}, assigns: true},
	"xargs": {flags: "0rtxpo", values: "InPLdsEa", long: []string{"null", "no-run-if-empty", "verbose", "exit", "interactive", "open-tty"},
		longVal: []string{"replace", "max-args", "max-procs", "max-lines", "delimiter", "max-chars", "eof", "arg-file"}, appends: true},
	"sudo":     {flags: "nEHSkA", values: "ugpChrtT", long: []string{"non-interactive", "preserve-env", "set-home", "stdin"}, longVal: []string{"user", "group"}, assigns: true, judged: true},
	"doas":     {flags: "n", values: "uC", judged: true},
	"watch":    {flags: "tdgecbpx", values: "nq", long: []string{"no-title", "differences", "chgexit", "errexit", "exec"}, longVal: []string{"interval"}, judged: true, line: true},
	"busybox":  {},
	"toybox":   {},
	"chronic":  {},
	"unbuffer": {flags: "p"},
}

// runners run a program out of their arguments, but where it stands is not
// looked for: a rule must spell the command out.
var runners = []string{
	"parallel", "strace", "ltrace", "gdb", "valgrind", "script", "flock", "runuser", "su", "setpriv", "systemd-run",
	"start-stop-daemon", "chrt", "taskset", "numactl", "firejail", "bwrap", "proot", "fakeroot", "chroot", "unshare",
	"nsenter", "prlimit", "setarch", "linux64", "linux32", "at", "batch", "crontab", "screen", "tmux", "expect", "entr", "watchexec",
	"nodemon", "ld.so", "ld-linux-x86-64.so.2", "ld-linux.so.2", "ld-linux-aarch64.so.1", "perf", "capsh", "run-parts", "sg", "newgrp", "pkexec",
	"dbus-run-session", "xvfb-run", "cpulimit", "daemonize", "setuidgid", "chpst", "ssh-agent", "runcon", "rlwrap", "eatmydata", "torsocks", "proxychains", "faketime", "hyperfine", "sshpass",
}

// shells take a command line with -c, a script, or standard input.
var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish"}

// lookThrough finds the commands inside c's arguments and the words of c that
// a wildcard does not cover.
func (a *analysis) lookThrough(c *command, in input) {
	if len(c.words) == 0 || c.opaque != "" {
		return
	}
	name := c.name()
	if name == "command" && len(c.words) > 1 && strings.HasPrefix(c.words[1].text, "-") && strings.ContainsAny(c.words[1].text, "vV") {
		return // it only tells what would run
	}
	if w, ok := wrappers[name]; ok {
		a.wrapped(c, w)
		return
	}
	switch {
	case slices.Contains(shells, name):
		a.shell(c, in)
		return
	case slices.Contains(runners, name):
		a.runs(c)
		return
	}
	switch name {
	case "eval", "trap":
		at := 1
		if len(c.words) > 1 && c.words[1].text == "--" {
			at = 2
		}
		switch {
		case at >= len(c.words):
		case name == "eval":
			c.passes = true
			a.innerLine(c, at, joined(c.words[at:]))
		case len(c.words) > at+1 && c.words[at].text != "-":
			c.passes = true
			a.innerLine(c, at, c.words[at])
		}
	case "source", ".":
		if len(c.words) > 1 && (c.words[1].dynamic || speaks(c.words[1].text)) {
			a.reads(c, in)
		}
	case "cd", "pushd", "popd", "chdir":
		a.changeDir(c)
	case "find", "gfind":
		a.find(c)
	case "ssh", "slogin":
		a.ssh(c)
	case "alias":
		if len(c.words) > 1 {
			a.obscure("an alias changes what later names mean", c.source)
		}
	}
	a.evaluating(c, name)
	c.findHazards(name)
}

func (c *command) hazard(at int, why string) {
	c.hazards = append(c.hazards, hazard{at, why})
}

// runs notes that c runs a program of which is not known where it stands.
func (a *analysis) runs(c *command) {
	why := c.name() + " runs another program"
	c.runner = true
	c.hazard(len(c.words), why)
	a.opaqueInner(c, len(c.words), why)
}

// wrapped looks through a wrapper.
func (a *analysis) wrapped(c *command, w wrapper) {
	i, exact := w.operands(c)
	if !exact || i < len(c.words) && c.words[i].dynamic && w.assigns {
		a.runs(c)
		return
	}
	var prefix []string
	for w.assigns && i < len(c.words) && isAssignment(c.words[i].text) {
		variable, _, _ := strings.Cut(c.words[i].text, "=")
		if !harmlessVariable(variable) {
			prefix = append(prefix, c.words[i].text)
		}
		i++
	}
	if i += w.skip; i >= len(c.words) {
		return // env alone, xargs alone: nothing is run
	}
	c.passes = !w.judged
	if w.line {
		a.innerLine(c, i, joined(c.words[i:]))
		return
	}
	words := c.words[i:]
	if w.assigns && slices.ContainsFunc(c.words[1:i], func(w word) bool { return strings.HasPrefix(w.text, "-C") || strings.HasPrefix(w.text, "--ch") }) {
		a.lost = true // env -C changes the directory
	}
	if w.appends && slices.ContainsFunc(c.words[1:i], replaces) {
		words = slices.Clone(words) // the replaced text may be anywhere
		first := strings.Contains(words[0].text, "{}") || slices.ContainsFunc(c.words[1:i], words[0].holds)
		for j := range words {
			if j > 0 || first {
				words[j] = word{text: unknownText, dynamic: true}
			}
		}
	}
	a.innerWords(c, i, words, prefix, w.appends)
}

// replaces reports whether an option of xargs puts what it reads into the
// middle of the words.
func replaces(w word) bool {
	return strings.HasPrefix(w.text, "--replace") || strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.ContainsAny(w.text, "Ii")
}

// holds reports whether the text that an option of xargs replaces is in w.
func (w word) holds(option word) bool {
	text := strings.TrimPrefix(strings.TrimPrefix(option.text, "--replace="), "-I")
	return text != "" && strings.Contains(w.text, text)
}

// operands finds the first word after the options.
func (w wrapper) operands(c *command) (int, bool) {
	i := 1
	for ; i < len(c.words); i++ {
		word := c.words[i]
		if word.dynamic || !strings.HasPrefix(word.text, "-") {
			return i, !word.dynamic || w.skip == 0
		}
		if word.text == "--" {
			return i + 1, true
		}
		if long, ok := strings.CutPrefix(word.text, "--"); ok {
			name, _, hasValue := strings.Cut(long, "=")
			switch {
			case slices.Contains(w.long, name):
			case slices.Contains(w.longVal, name):
				if !hasValue {
					i++
				}
			default:
				return i, false
			}
			continue
		}
		next, ok := w.cluster(word.text[1:])
		if !ok {
			return i, false
		}
		if next {
			i++
		}
	}
	return i, true
}

// cluster reads "-abc"; next says that its value is the next word.
func (w wrapper) cluster(letters string) (next, ok bool) {
	if letters == "" {
		return false, false
	}
	for j, letter := range letters {
		switch {
		case strings.ContainsRune(w.values, letter):
			return j+len(string(letter)) == len(letters), true
		case !strings.ContainsRune(w.flags, letter):
			return false, false
		}
	}
	return false, true
}

func isAssignment(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	return ok && isVariable(name)
}

func isVariable(s string) bool {
	for i, c := range []byte(s) {
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// innerWords adds the command that begins with word at of outer.
func (a *analysis) innerWords(outer *command, at int, words []word, prefix []string, more bool) {
	if a.depth >= maxInner {
		a.fail("commands are nested too deeply")
		return
	}
	words = slices.Clip(words)
	if more {
		words = append(words, word{text: unknownText, dynamic: true})
	}
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = strings.ReplaceAll(w.text, unknownText, "…")
	}
	inner := finish(&command{source: strings.Join(texts, " "), words: words, outer: outer, at: at}, prefix)
	a.add(inner)
	a.depth++
	a.lookThrough(inner, input{})
	a.depth--
}

// innerLine reads a command line that is word at of outer.
func (a *analysis) innerLine(outer *command, at int, line word) {
	if line.dynamic {
		a.opaqueInner(outer, at, "the command line that "+outer.name()+" gets is only known when it runs")
		return
	}
	a.inner(line.text, outer, at)
}

// opaqueInner adds a command of which only outer is known.
func (a *analysis) opaqueInner(outer *command, at int, why string) {
	a.add(&command{source: outer.source, text: unknownText, dynamic: true, outer: outer, at: at, line: true, opaque: why})
}

// joined is the words with blanks between, as eval joins them.
func joined(words []word) word {
	var out word
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
		out.dynamic = out.dynamic || w.dynamic || w.glob
	}
	out.text = b.String()
	return out
}

// shell looks into sh -c, and at what a shell reads.
func (a *analysis) shell(c *command, in input) {
	hasC := false
	for i := 1; i < len(c.words); i++ {
		w := c.words[i]
		if w.dynamic {
			c.hazard(len(c.words), "what the shell runs is only known when it runs")
			a.opaqueInner(c, i, "what the shell runs is only known when it runs")
			return
		}
		option := strings.HasPrefix(w.text, "-") || strings.HasPrefix(w.text, "+")
		switch {
		case w.text == "--" || w.text == "-":
			continue
		case strings.HasPrefix(w.text, "--"):
			switch w.text {
			case "--norc", "--noprofile", "--posix", "--login", "--verbose", "--restricted":
			default:
				c.hazard(i, "the shell's option "+w.text)
				c.hazard(len(c.words), "what the shell reads first")
				return
			}
		case option:
			hasC = hasC || strings.HasPrefix(w.text, "-") && strings.Contains(w.text, "c")
			if strings.ContainsAny(w.text, "oO") {
				i++
			}
			if strings.ContainsAny(w.text, "si") {
				c.hazard(i, "the shell's option "+w.text)
			}
		case hasC:
			c.passes = len(c.hazards) == 0
			a.innerLine(c, i, w)
			a.otherShell(c, i, w)
			return
		default:
			if speaks(w.text) {
				a.reads(c, in)
			}
			return // a script, which the rule's wildcard may mean
		}
	}
	a.reads(c, in)
}

// speaks reports whether a script's name is that of a pipe or of standard input.
func speaks(name string) bool {
	return strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/proc/") || strings.HasPrefix(name, "//")
}

// reads notes that c, a shell, runs what it reads.
func (a *analysis) reads(c *command, in input) {
	const why = "the shell runs what it reads"
	c.hazard(len(c.words), why)
	c.runner = true
	if in.known {
		a.inner(in.text, c, len(c.words))
	}
	if !in.known || !in.exact {
		a.opaqueInner(c, len(c.words), why)
	}
}

// otherShell reads the command line of a shell that is not bash, or may not be,
// a second time. All that either reading runs is judged.
func (a *analysis) otherShell(c *command, at int, line word) {
	switch c.name() {
	case "bash", "rbash":
		return
	case "sh", "dash", "ash":
	default: // zsh, fish, ksh: languages of their own
		c.passes = false
		c.hazard(len(c.words), c.name()+" reads its commands in another way")
		a.opaqueInner(c, at, c.name()+" reads its commands in another way")
		return
	}
	before := a.posix
	a.posix = true
	a.innerLine(c, at, line)
	a.posix = before
}

// changeDir follows cd, since redirections are relative to it.
func (a *analysis) changeDir(c *command) {
	switch {
	case len(c.words) == 2 && c.name() != "popd" && !c.dynamic && !c.words[1].glob && !strings.HasPrefix(c.words[1].text, "-") && !strings.HasPrefix(c.words[1].text, "+"):
		a.cds = append(a.cds, c.words[1].text)
	default:
		a.lost = true
	}
}

// find looks into -exec and its kin, -delete and the options that write.
func (a *analysis) find(c *command) {
	for i := 1; i < len(c.words); i++ {
		switch c.words[i].text {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(c.words) && c.words[end].text != ";" && !(c.words[end].text == "+" && c.words[end-1].text == "{}") {
				end++
			}
			if i+1 < end {
				a.innerWords(c, i+1, found(c.words[i+1:end]), nil, false)
			}
			i = end
		case "-delete":
			a.innerWords(c, i, []word{{text: "rm"}, {text: unknownText, dynamic: true}}, nil, false)
		case "-fprint", "-fprint0", "-fprintf", "-fls":
			if i+1 < len(c.words) {
				a.redirects = append(a.redirects, redirect{path: c.words[i+1], write: true, source: c.words[i].text + " " + c.words[i+1].text})
				c.hazard(i+1, "find writes a file")
			}
		}
	}
}

// found marks the words in which find puts a name together with other text: as
// the argument of a shell they would be read as part of the program.
func found(words []word) []word {
	out := slices.Clone(words)
	for i, w := range out {
		if strings.Contains(w.text, "{}") && (w.text != "{}" || i == 0) {
			out[i] = word{text: strings.ReplaceAll(w.text, "{}", unknownText), dynamic: true}
		}
	}
	return out
}

// ssh reads the remote command line, which the remote shell gets.
func (a *analysis) ssh(c *command) {
	const values = "BbcDEeFIiJLlmOopQRSWw"
	for i := 1; i < len(c.words); i++ {
		w := c.words[i].text
		if strings.HasPrefix(w, "-") {
			if strings.ContainsAny(w, "oF") {
				c.hazard(len(c.words), "options of ssh can run programs")
			}
			if len(w) == 2 && strings.Contains(values, w[1:]) {
				i++
			}
			continue
		}
		if i+1 < len(c.words) {
			c.hazard(i+1, "ssh runs a command elsewhere")
			a.innerLine(c, i+1, joined(c.words[i+1:]))
		}
		return
	}
}

// evaluating handles builtins that evaluate the names of variables they are
// given, or set variables.
func (a *analysis) evaluating(c *command, name string) {
	switch name {
	case "printf", "read", "unset", "test", "[", "mapfile", "readarray", "wait", "getopts", "let":
	case "export", "declare", "typeset", "local", "readonly", "nameref":
		for i, w := range c.words[1:] {
			variable, _, _ := strings.Cut(w.text, "=")
			option := strings.HasPrefix(w.text, "-")
			if option && strings.Contains(w.text, "n") || !option && !harmlessVariable(strings.TrimSuffix(variable, "+")) {
				c.hazard(i+1, "it sets the variable "+variable)
			}
		}
		return
	default:
		return
	}
	for i, w := range c.words[1:] {
		bare, index, _ := strings.Cut(w.text, "[")
		if strings.ContainsAny(index, "$`") {
			c.hazard(len(c.words), "the shell evaluates this text a second time")
		}
		sets := name == "read" || name == "mapfile" || name == "readarray" || name == "getopts" || name == "unset" ||
			name == "printf" && i == 1 && c.words[1].text == "-v"
		if sets && isVariable(bare) && !harmlessVariable(bare) {
			c.hazard(i+1, "it sets the variable "+bare)
		}
	}
}
