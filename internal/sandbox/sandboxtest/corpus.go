package sandboxtest

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox/testdata/attacks"
)

// Attack is something that a command must not be able to do, as a file of
// internal/sandbox/testdata/attacks declares it:
//
//	-- name --
//	key: value
//	bash:
//	  the script
//
// The keys are the fields below in lower case. A body is "bash:" or "python:",
// followed by the indented script, or "go: FUNCTION ARGUMENT…" on one line, a
// function of the helper. Several bodies run one after the other, each in a
// sandbox of its own around the same workspace. In all of them $NAME stands for
// a target: see [Target].
type Attack struct {
	Category string // the name of the file
	Name     string
	// Evidence is how a success shows: see [Evidence]. Its second word, if any, is
	// the argument.
	Evidence string
	// Uncovered says where the attack is known to succeed: a level, and the layer
	// of the level's Report.Missing that announces it. "L1 process list".
	Uncovered []string
	// Needs names what the sandbox must give for the attack to make sense:
	// "terminal", "network".
	Needs string
	// Stdin is the target that the command gets as its standard input.
	Stdin string
	// Deny is one of the profile's denied paths, Write one that may be written in
	// besides the workspace.
	Deny, Write []string
	// Net is an entry of the granted network. Where the sandbox cannot give one, the
	// attack makes no sense.
	Net []string
	// Limit is a limit of the profile, as "pids=64".
	Limit []string
	// Env is a variable that is passed to the command.
	Env []string
	// Alone keeps other attacks from running at the same time.
	Alone bool
	// Rounds is how often the bodies run. Zero is once.
	Rounds int
	// Steps are the bodies, Rivals those that run beside them: "rival-" ones in a
	// sandbox of their own, "host-" ones in none.
	Steps, Rivals []Step

	last *[]Step // whose last body the next indented line belongs to
}

// Step is one command of an attack.
type Step struct {
	Language string // "bash", "python" or "go"
	Text     string
	host     bool
}

// Attacks reads the corpus.
func Attacks() ([]*Attack, error) {
	names, err := fs.Glob(attacks.Files, "*.txt")
	if err != nil {
		return nil, err
	}
	var all []*Attack
	for _, name := range names {
		text, err := fs.ReadFile(attacks.Files, name)
		if err != nil {
			return nil, err
		}
		list, err := parseAttacks(strings.TrimSuffix(name, ".txt"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", name, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// parseAttacks reads one file. Text before the first attack is a comment.
func parseAttacks(category, text string) ([]*Attack, error) {
	var list []*Attack
	var a *Attack
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, " \t\r\n")
		if name, ok := heading(line); ok {
			a = &Attack{Category: category, Name: name}
			list = append(list, a)
			continue
		}
		if a == nil {
			continue
		}
		if err := a.line(line); err != nil {
			return nil, fmt.Errorf("%d: %s: %w", number, a.Name, err)
		}
	}
	for _, a := range list {
		if err := a.check(); err != nil {
			return nil, fmt.Errorf(" %s: %w", a.Name, err)
		}
	}
	return list, nil
}

func heading(line string) (string, bool) {
	rest, ok := strings.CutPrefix(line, "-- ")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, " --")
}

// line takes one line of an attack: of its body if it is indented.
func (a *Attack) line(line string) error {
	if line == "" || strings.HasPrefix(line, "  ") {
		if a.last != nil {
			(*a.last)[len(*a.last)-1].Text += strings.TrimPrefix(line, "  ") + "\n"
			return nil
		}
		if line != "" {
			return fmt.Errorf("%q belongs to no body", line)
		}
		return nil
	}
	key, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	a.last = nil
	switch key {
	case "evidence":
		a.Evidence = value
	case "uncovered":
		a.Uncovered = append(a.Uncovered, value)
	case "needs":
		a.Needs = value
	case "stdin":
		a.Stdin = value
	case "deny":
		a.Deny = append(a.Deny, value)
	case "net":
		a.Net = append(a.Net, value)
	case "limit":
		a.Limit = append(a.Limit, strings.Fields(value)...)
	case "env":
		a.Env = append(a.Env, value)
	case "write":
		a.Write = append(a.Write, value)
	case "alone":
		a.Alone = true
	case "rounds":
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		a.Rounds = n
	case "go":
		a.Steps = append(a.Steps, Step{Language: key, Text: value})
	case "bash", "python":
		a.Steps = append(a.Steps, Step{Language: key, Text: value})
		a.last = &a.Steps
	case "rival-bash", "rival-python", "host-bash", "host-python":
		who, language, _ := strings.Cut(key, "-")
		a.Rivals = append(a.Rivals, Step{Language: language, Text: value, host: who == "host"})
		a.last = &a.Rivals
	default:
		return fmt.Errorf("no key %q", key)
	}
	return nil
}

func (a *Attack) check() error {
	kind, _, _ := strings.Cut(a.Evidence, " ")
	switch {
	case a.Name == "":
		return fmt.Errorf("an attack has no name")
	case !slices.Contains(evidences(), kind):
		return fmt.Errorf("evidence %q: one of %s", a.Evidence, strings.Join(evidences(), ", "))
	case len(a.Steps) == 0:
		return fmt.Errorf("nothing to run")
	}
	for _, s := range a.Steps {
		if strings.TrimSpace(s.Text) == "" {
			return fmt.Errorf("an empty %s body", s.Language)
		}
	}
	return nil
}

// uncoveredAt is the layer whose absence at a level lets the attack succeed.
func (a *Attack) uncoveredAt(level string) (string, bool) {
	for _, u := range a.Uncovered {
		if at, layer, _ := strings.Cut(u, " "); at == level {
			return layer, true
		}
	}
	return "", false
}

// mentions reports whether a body names a target.
func (a *Attack) mentions(target string) bool {
	if a.Stdin == target {
		return true
	}
	named := func(s Step) bool { return strings.Contains(s.Text, target) }
	return slices.ContainsFunc(a.Net, func(e string) bool { return strings.Contains(e, target) }) || slices.ContainsFunc(a.Steps, named) || slices.ContainsFunc(a.Rivals, named) ||
		slices.ContainsFunc(a.Env, func(e string) bool { return strings.Contains(e, target) })
}

// evidences are the words that Evidence may begin with. To add one: here and in
// look.
func evidences() []string {
	return []string{
		"leak",      // the token of the target, which nothing else tells, is in the output
		"outside",   // a directory outside, or one that may only be read, is not as it was
		"protected", // a protected path is not as it was
		"denied",    // a path that the profile denies is not as it was
		"trap",      // the workspace holds a set-user-ID file, one with capabilities, or a device
		"received",  // a server outside was reached
		"victim",    // a process outside got a signal, or is not as it was
		"listens",   // somebody outside could connect to the command
		"survivor",  // a process of the command lives after its sandbox is gone
		"appears",   // the path, which may have a pattern, exists on the host
		"counts",    // the file "count" in the workspace holds more than this number
		"reason",    // the command ends, as reported, for this reason
		"says",      // the attack's word: nothing can be seen from outside
	}
}
