package policy

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// SelfHarm reports whether a command line would obviously destroy the machine
// it runs on, and in what way. It reads the parsed command, so quoting, spacing,
// the order of flags and wrappers such as sudo or sh -c make no difference, and
// a command that only speaks of it ("echo mkfs") is fine. What keeps the machine
// safe is the sandbox, not this list.
func SelfHarm(line string) (reason string, harmful bool) {
	a := analyse(line)
	for _, f := range a.functions {
		if forkBomb(f) {
			return "a fork bomb: the function " + f.name + " starts itself again and again", true
		}
	}
	for _, cmd := range a.commands {
		if reason := a.harm(cmd.words); reason != "" {
			return reason, true
		}
		if !cmd.runner {
			continue
		}
		for i := 1; i < min(len(cmd.words), maxTails); i++ {
			if reason := a.harm(cmd.words[i:]); reason != "" {
				return reason, true
			}
		}
	}
	for _, r := range a.redirects {
		if r.write && isDevice(r.path.text) {
			return "it writes to the device " + r.path.text, true
		}
	}
	return "", false
}

// harm says what one simple command would destroy; "" is nothing.
func (a *analysis) harm(words []word) string {
	if len(words) == 0 {
		return ""
	}
	name := path.Base(words[0].text)
	operands, flags := operandsOf(words)
	recursive := flag(flags, "rR", "--recursive")
	switch {
	case name == "mkfs" || strings.HasPrefix(name, "mkfs.") || name == "mke2fs" || name == "wipefs" && flag(flags, "a", "--all") || name == "blkdiscard":
		if len(operands) > 0 {
			return name + " erases a file system"
		}
	case name == "dd":
		return harmfulCopy(words)
	case name == "rm" && recursive:
		if slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--no-preserve") }) {
			return "rm --no-preserve-root is meant to remove everything"
		}
		if what := a.vital(operands); what != "" {
			return "rm would remove " + what
		}
	case (name == "chmod" || name == "chown" || name == "chgrp") && recursive:
		if len(operands) > 1 {
			if what := a.vital(operands[1:]); what != "" && !strings.HasPrefix(what, "the home") {
				return name + " would change everything in " + what
			}
		}
	case name == "mv" && len(operands) > 1:
		if what := a.vital(operands[:len(operands)-1]); what != "" {
			return "mv would move " + what + " away"
		}
	case name == "find":
		return a.harmfulFind(words)
	case name == "tee" || name == "cp" || name == "shred" || name == "truncate":
		for _, w := range operands {
			if isDevice(w.text) && (name != "cp" || w.text == operands[len(operands)-1].text) {
				return name + " writes to the device " + w.text
			}
		}
	}
	return ""
}

// operandsOf splits the words behind the name into operands and options.
func operandsOf(words []word) (operands []word, flags []string) {
	literal := false
	for _, w := range words[1:] {
		switch {
		case !literal && w.text == "--":
			literal = true
		case !literal && len(w.text) > 1 && w.text[0] == '-':
			flags = append(flags, w.text)
		default:
			operands = append(operands, w)
		}
	}
	return operands, flags
}

// flag reports whether one of the options is among flags: a letter, also in a
// cluster, or the long name, also cut short.
func flag(flags []string, letters, long string) bool {
	return slices.ContainsFunc(flags, func(f string) bool {
		if strings.HasPrefix(f, "--") {
			return len(f) > 3 && strings.HasPrefix(long, f)
		}
		return strings.ContainsAny(f[1:], letters)
	})
}

// vitalDirs are directories that no machine lives without.
var vitalDirs = []string{"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/sbin", "/sys", "/usr", "/var",
	"/Users", "/System", "/Library", "/Applications"}

// vital names the first operand that is the root, the home directory or a
// system directory, or all that lies in it.
func (a *analysis) vital(operands []word) string {
	for _, w := range operands {
		if what := vitalPlace(w); what != "" {
			return what
		}
		all := strings.TrimPrefix(w.text, "./")
		if !w.dynamic && (all == "" || all == "." || w.glob && strings.Trim(all, "*.?") == "") {
			for _, dir := range a.cds {
				if what := vitalPlace(word{text: dir}); what != "" {
					return what
				}
			}
		}
	}
	return ""
}

func vitalPlace(w word) string {
	text := w.text
	if w.dynamic {
		text = strings.Trim(w.source, `"`)
		rest, ok := strings.CutPrefix(text, "$HOME")
		if !ok {
			rest, ok = strings.CutPrefix(text, "${HOME}")
		}
		rest = strings.TrimLeft(rest, `"`)
		if ok && (rest == "" || strings.Trim(rest, "/*.") == "") {
			return "the home directory"
		}
		return ""
	}
	if rest, ok := strings.CutPrefix(text, "~"); ok && strings.Trim(rest, "/*.") == "" {
		return "the home directory"
	}
	if !strings.HasPrefix(text, "/") {
		return ""
	}
	text = path.Clean(text)
	if w.glob {
		dir, last := path.Split(text)
		if strings.Trim(last, "*.?") == "" {
			text = path.Clean(dir)
		}
	}
	switch {
	case text == "/":
		return "the whole file system"
	case slices.Contains(vitalDirs, text):
		return text
	}
	return ""
}

// isDevice reports whether a path is a disk or the memory.
func isDevice(name string) bool {
	name = path.Clean(name)
	device, ok := strings.CutPrefix(name, "/dev/")
	if !ok {
		return false
	}
	for _, prefix := range []string{"sd", "hd", "vd", "xvd", "nvme", "mmcblk", "loop", "mapper/", "disk", "dm-", "md", "rdisk", "mem", "kmem", "port"} {
		if strings.HasPrefix(device, prefix) {
			return true
		}
	}
	return false
}

// harmfulCopy is about dd.
func harmfulCopy(words []word) string {
	var from, to string
	bounded := false
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w.text, "=")
		switch key {
		case "of":
			to = path.Clean(value)
		case "if":
			from = path.Clean(value)
		case "count":
			bounded = true
		}
	}
	if strings.HasPrefix(to, "/dev/") && !harmlessFile(to) && !strings.HasPrefix(to, "/dev/shm/") {
		return "dd writes to the device " + to
	}
	endless := from == "/dev/zero" || from == "/dev/urandom" || from == "/dev/random"
	if endless && !bounded && to != "" && !strings.HasPrefix(to, "/dev/") {
		return "dd without count fills the disk with " + from
	}
	return ""
}

// harmfulFind is about find / -delete with nothing that chooses files.
func (a *analysis) harmfulFind(words []word) string {
	var roots []word
	deletes := false
	for i, w := range words[1:] {
		switch {
		case !strings.HasPrefix(w.text, "-"):
			if len(roots) == i {
				roots = append(roots, w)
			}
		case w.text == "-delete":
			deletes = true
		case w.text != "-type" && w.text != "-depth" && w.text != "-xdev" && w.text != "-mount":
			return ""
		}
	}
	if what := a.vital(roots); deletes && what != "" {
		return "find would remove " + what
	}
	return ""
}

// forkBomb reports whether a function pipes itself into itself, or starts
// itself in the background and once more.
func forkBomb(f function) bool {
	calls, background, piped := 0, false, false
	calling := func(s *syntax.Stmt) bool { return callsItself(s, f.name) }
	syntax.Walk(f.body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryCmd:
			if (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && calling(n.X) && calling(n.Y) {
				piped = true
			}
		case *syntax.Stmt:
			if n.Background && calling(n) {
				background = true
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 && n.Args[0].Lit() == f.name {
				calls++
			}
		}
		return true
	})
	return piped || background && calls > 1
}

func callsItself(s *syntax.Stmt, name string) bool {
	found := false
	syntax.Walk(s, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 && c.Args[0].Lit() == name {
			found = true
		}
		return !found
	})
	return found
}
