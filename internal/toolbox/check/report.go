package check

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Severity says how bad a finding is.
type Severity string

const (
	Error   Severity = "error"   // the tool is not valid
	Warning Severity = "warning" // it is, and should be better
	Info    Severity = "info"    // something to know
)

// State is what became of a rule or an item of the checklist.
type State string

const (
	Passed  State = "passed"
	Warned  State = "warning"
	Failed  State = "failed"
	Skipped State = "not checked"
)

// Report is what a validation found. The same tool gives the same report.
type Report struct {
	Tool     string   `json:"tool"`
	Dir      string   `json:"dir,omitempty"`
	Layers   []*Layer `json:"layers"`
	Release  []Item   `json:"release,omitempty"`
	Passed   int      `json:"passed"`
	Warnings int      `json:"warnings"`
	Failed   int      `json:"failed"`
}

// Layer is one of the twelve parts of a validation.
type Layer struct {
	Number   int       `json:"number"`
	Name     string    `json:"name"`
	State    State     `json:"state"`
	Checks   []Check   `json:"checks"`
	Findings []Finding `json:"findings"`

	title  words
	rules  []rule
	counts map[string]int // findings by rule
}

// Check is one rule and what became of it.
type Check struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	State State  `json:"state"`
	// Reason says why it was not checked.
	Reason string `json:"reason,omitempty"`

	title, reason words
}

// Finding is one thing that a rule found.
type Finding struct {
	Severity Severity `json:"severity"`
	Layer    int      `json:"layer"`
	ID       string   `json:"id"` // the rule's
	Message  string   `json:"message"`
	// Where is a file, or a field as the tool's author would write it.
	Where string `json:"where,omitempty"`
	Hint  string `json:"hint,omitempty"`

	message, hint words
}

// Item is one line of the checklist of a release.
type Item struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	State State  `json:"state"` // passed, failed or not checked
	// Detail says what was found, or why it could not be checked.
	Detail string `json:"detail,omitempty"`

	title, detail words
}

// Summary is the last line of every report.
func (r *Report) Summary() string { return Sum(r) }

// Sum is the summary of several reports.
func Sum(reports ...*Report) string {
	var passed, warnings, failed int
	for _, r := range reports {
		passed, warnings, failed = passed+r.Passed, warnings+r.Warnings, failed+r.Failed
	}
	return fmt.Sprintf("%d passed, %d warnings, %d failed", passed, warnings, failed)
}

// Find lists the findings of a rule.
func (r *Report) Find(id string) []Finding {
	var list []Finding
	for _, l := range r.Layers {
		for _, f := range l.Findings {
			if f.ID == id {
				list = append(list, f)
			}
		}
	}
	return list
}

// JSON is the report for programs, indented, with a line end. The texts are
// English.
func (r *Report) JSON() ([]byte, error) {
	out, err := json.MarshalIndent(r, "", "  ")
	return append(out, '\n'), err
}

func (r *Report) count() {
	for _, l := range r.Layers {
		l.settle()
		for _, c := range l.Checks {
			if c.State == Passed {
				r.Passed++
			}
		}
		for _, f := range l.Findings {
			switch f.Severity {
			case Warning:
				r.Warnings++
			case Error:
				r.Failed++
			}
		}
	}
	for _, item := range r.Release {
		switch item.State {
		case Passed:
			r.Passed++
		case Failed:
			r.Failed++
		}
	}
}

func newLayer(l layer, table []rule) *Layer {
	made := &Layer{Number: l.number, Name: l.title[en], title: l.title, Findings: []Finding{}, counts: map[string]int{}}
	for _, rule := range table {
		if rule.layer == l.number {
			made.rules = append(made.rules, rule)
			made.Checks = append(made.Checks, Check{ID: rule.id, Title: rule.title[en], State: Passed, title: rule.title})
		}
	}
	return made
}

// rule finds a rule of the layer; one that is not in the table is a programmer's
// mistake.
func (l *Layer) rule(id string) rule {
	i := slices.IndexFunc(l.rules, func(r rule) bool { return r.id == id })
	if i < 0 {
		panic(fmt.Sprintf("layer %d has no rule %s", l.Number, id))
	}
	return l.rules[i]
}

func (l *Layer) add(severity Severity, id, where string, args ...any) {
	rule := l.rule(id)
	l.counts[id]++
	if l.counts[id] > maxFindings {
		return
	}
	f := Finding{Severity: severity, Layer: l.Number, ID: id, Where: where}
	for lang := range f.message {
		f.message[lang] = spoken(rule.message[lang], lang, args)
		f.hint[lang] = spoken(rule.hint[lang], lang, nil)
	}
	f.Message, f.Hint = f.message[en], f.hint[en]
	l.Findings = append(l.Findings, f)
}

func (l *Layer) skip(why reason, ids ...string) {
	for i := range l.Checks {
		c := &l.Checks[i]
		if len(ids) == 0 || slices.Contains(ids, c.ID) {
			c.State, c.reason = Skipped, why.words()
			c.Reason = c.reason[en]
		}
	}
}

// settle gives each check, and the layer, the state that follows from what was
// found.
func (l *Layer) settle() {
	worst := map[string]Severity{}
	for _, f := range l.Findings {
		if rank(f.Severity) > rank(worst[f.ID]) {
			worst[f.ID] = f.Severity
		}
	}
	seen := map[State]bool{}
	for i := range l.Checks {
		c := &l.Checks[i]
		switch worst[c.ID] {
		case Error:
			c.State, c.Reason = Failed, ""
		case Warning:
			c.State, c.Reason = Warned, ""
		}
		seen[c.State] = true
		if over := l.counts[c.ID] - maxFindings; over > 0 {
			l.Findings = append(l.Findings, more(l.Number, c.ID, over))
		}
	}
	for _, s := range []State{Failed, Warned, Passed, Skipped} {
		if seen[s] {
			l.State = s
			break
		}
	}
}

func rank(s Severity) int { return slices.Index([]Severity{"", Info, Warning, Error}, s) }

// more says how many findings of a rule are not shown.
func more(layer int, id string, n int) Finding {
	f := Finding{Severity: Info, Layer: layer, ID: id, message: words{
		en: fmt.Sprintf("%d more of this kind are not shown", n),
		zh: fmt.Sprintf("另有 %d 个同类问题未列出", n),
	}}
	f.Message = f.message[en]
	return f
}
