package check

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// Text is the report for a person, in English or, where lang begins with zh, in
// Chinese. Its last line is the same in both: "N passed, N warnings, N failed".
func (r *Report) Text(lang string) string {
	var b strings.Builder
	at := language(lang)
	for _, l := range r.Layers {
		fmt.Fprintf(&b, "%s %2d %s\n", mark(l.State), l.Number, l.title.in(at))
		for _, f := range l.Findings {
			writeFinding(&b, f, at)
		}
		for _, why := range l.skipped(at) {
			fmt.Fprintf(&b, "      · %s\n", why)
		}
	}
	if len(r.Release) > 0 {
		b.WriteString(words{"\nRelease\n", "\n发布检查\n"}.in(at))
	}
	for _, item := range r.Release {
		fmt.Fprintf(&b, "%s %s (%s)", mark(item.State), item.title.in(at), stateWords(item.State).in(at))
		if detail := item.detail.in(at); detail != "" {
			fmt.Fprintf(&b, ": %s", detail)
		}
		b.WriteByte('\n')
	}
	b.WriteString(r.Summary() + "\n")
	return b.String()
}

func writeFinding(b *strings.Builder, f Finding, lang int) {
	sign := map[Severity]string{Error: "✗", Warning: "!", Info: "·"}[f.Severity]
	where := ""
	if f.Where != "" {
		where = f.Where + ": "
	}
	fmt.Fprintf(b, "    %s %s%s [%s]\n", sign, where, f.message.in(lang), f.ID)
	if hint := f.hint.in(lang); hint != "" && f.Severity != Info {
		fmt.Fprintf(b, "      %s\n", hint)
	}
}

// skipped says once for each reason what was not checked for it. What there is
// nothing of is not worth a line.
func (l *Layer) skipped(lang int) []string {
	var reasons []string
	titles := map[string][]string{}
	for _, c := range l.Checks {
		if c.State != Skipped || quiet(c) && l.State != Skipped {
			continue
		}
		why := c.reason.in(lang)
		if titles[why] == nil {
			reasons = append(reasons, why)
		}
		titles[why] = append(titles[why], c.title.in(lang))
	}
	for i, why := range reasons {
		list := strings.Join(titles[why], "; ")
		if len(titles[why]) == len(l.Checks) {
			list = words{"all", "全部"}.in(lang)
		}
		reasons[i] = fmt.Sprintf(words{"not checked (%s): %s", "未检查（%s）：%s"}.in(lang), why, list)
	}
	return reasons
}

func quiet(c Check) bool {
	return slices.Contains([]words{notAsked.words(), noFile.words(), noManifest.words()}, c.reason)
}

func mark(s State) string {
	return map[State]string{Passed: "✓", Warned: "!", Failed: "✗", Skipped: "–"}[s]
}

func stateWords(s State) words {
	return map[State]words{
		Passed: {"pass", "通过"}, Failed: {"fail", "失败"}, Skipped: {"not checkable", "无法检查"}, Warned: {"warning", "警告"},
	}[s]
}

// JUnit is reports as JUnit XML, one suite a tool and one case a rule, for systems
// that show tests. A rule that found an error failed; warnings and notes are its
// output; a rule that was not checked is skipped.
func JUnit(reports ...*Report) ([]byte, error) {
	all := junitSuites{Name: "toolyard toolbox validate"}
	for _, r := range reports {
		s := junitSuite{Name: r.Tool}
		for _, l := range r.Layers {
			for _, c := range l.Checks {
				s.add(l, c)
			}
		}
		for _, item := range r.Release {
			s.item(item)
		}
		all.Tests, all.Failures, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Skipped+s.Skipped
		all.Suites = append(all.Suites, s)
	}
	var out bytes.Buffer
	out.WriteString(xml.Header)
	encoder := xml.NewEncoder(&out)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *junitSkipped `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

func (s *junitSuite) add(l *Layer, c Check) {
	made := junitCase{Class: fmt.Sprintf("%s.%02d %s", s.Name, l.Number, l.Name), Name: c.ID + ": " + c.Title}
	var errors, others []string
	for _, f := range l.Findings {
		if f.ID != c.ID {
			continue
		}
		line := f.Message
		if f.Where != "" {
			line = f.Where + ": " + line
		}
		if f.Severity == Error {
			errors = append(errors, line+". "+f.Hint)
		} else {
			others = append(others, string(f.Severity)+": "+line)
		}
	}
	if len(errors) > 0 {
		made.Failure = &junitFailure{Message: errors[0], Type: c.ID, Text: strings.Join(errors, "\n")}
	}
	if c.State == Skipped {
		made.Skipped = &junitSkipped{Message: c.Reason}
	}
	made.Output = strings.Join(others, "\n")
	s.put(made)
}

func (s *junitSuite) item(item Item) {
	made := junitCase{Class: s.Name + ".release", Name: item.ID + ": " + item.Title}
	switch item.State {
	case Failed:
		made.Failure = &junitFailure{Message: item.Detail, Type: item.ID, Text: item.Title + ": " + item.Detail}
	case Skipped:
		made.Skipped = &junitSkipped{Message: item.Detail}
	default:
		made.Output = item.Detail
	}
	s.put(made)
}

func (s *junitSuite) put(c junitCase) {
	s.Tests++
	if c.Failure != nil {
		s.Failures++
	}
	if c.Skipped != nil {
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}
