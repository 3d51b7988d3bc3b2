package check_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/check"
)

// faulty is a tool with an error, a warning and a note.
func faulty(t *testing.T) *check.Report {
	t.Helper()
	return row{
		change: map[string]string{js: "version: '1.2.0' → version: 'new <1>'", "README.md": "-", js + "#2": withPackage, "package.json": manifest, leftOne: leftManifest},
		set:    func(s *check.Subject, o *check.Options) { s.Trial = nil },
	}.look(t, 1, 3, 6, 9)
}

func TestText(t *testing.T) {
	t.Parallel()
	report := faulty(t)
	for lang, wants := range map[string][]string{
		"en": {"! 1 file structure", "! README.md: there is no README.md [readme]", "✗ 3 metadata", `getMetadata().version: version is "new <1>"; a semantic version is expected [meta-version]`,
			"Write three numbers, as 1.0.0.", "not checked (the tool cannot be run here): all", "· licences of what is installed: ISC 1 (left@1.3.0) [dep-licences]"},
		"zh-CN": {"! 1 文件结构", "✗ 3 元数据", `version 为 "new <1>"；应为语义化版本号`, "未检查（此处无法运行工具）：全部", "已安装包的许可证"},
	} {
		text := report.Text(lang)
		blanks := regexp.MustCompile(` +`).ReplaceAllString(text, " ")
		for _, want := range wants {
			if !strings.Contains(blanks, want) {
				t.Errorf("%s has no %q:\n%s", lang, want, text)
			}
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if last := lines[len(lines)-1]; last != report.Summary() || !regexp.MustCompile(`^\d+ passed, 1 warnings, 1 failed$`).MatchString(last) {
			t.Errorf("%s ends with %q", lang, last)
		}
	}
}

// TestCounts adds up what the rules came to.
func TestCounts(t *testing.T) {
	t.Parallel()
	report := faulty(t)
	states := map[check.State]int{}
	for _, l := range report.Layers {
		for _, c := range l.Checks {
			states[c.State]++
		}
	}
	if report.Passed != states[check.Passed] || report.Warnings != 1 || report.Failed != 1 {
		t.Errorf("got %s, with the rules %v", report.Summary(), states)
	}
	if got := check.Sum(report, report); got != strings.NewReplacer(" 1 ", " 2 ").Replace(got) || !strings.Contains(got, "2 warnings, 2 failed") {
		t.Errorf("the sum is %s", got)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	report := faulty(t)
	out, err := report.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var read check.Report
	if err := json.Unmarshal(out, &read); err != nil {
		t.Fatal(err)
	}
	found := read.Find("meta-version")
	want := check.Finding{Severity: check.Error, Layer: 3, ID: "meta-version", Where: "getMetadata().version",
		Message: `version is "new <1>"; a semantic version is expected`, Hint: "Write three numbers, as 1.0.0."}
	if len(found) != 1 || found[0].Message != want.Message || found[0].Hint != want.Hint || found[0].Where != want.Where ||
		found[0].Layer != 3 || found[0].Severity != check.Error || read.Summary() != report.Summary() {
		t.Errorf("got %+v, want %+v", found, want)
	}
}

// TestJUnit reads the report as a system would that shows tests.
func TestJUnit(t *testing.T) {
	t.Parallel()
	report := faulty(t)
	out, err := check.JUnit(report, report)
	if err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Tests int    `xml:"tests,attr"`
			Cases []struct {
				Class   string `xml:"classname,attr"`
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
				Skipped *struct{} `xml:"skipped"`
				Output  string    `xml:"system-out"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(out, &suites); err != nil {
		t.Fatal(err)
	}
	if len(suites.Suites) != 2 || suites.Failures != 2 || suites.Suites[0].Name != "greet" || suites.Tests != 2*len(suites.Suites[0].Cases) || suites.Skipped == 0 {
		t.Errorf("got %d suites, %d tests, %d failures, %d skipped", len(suites.Suites), suites.Tests, suites.Failures, suites.Skipped)
	}
	failures, outputs := 0, 0
	for _, c := range suites.Suites[0].Cases {
		if c.Failure != nil {
			failures++
			if c.Class != "greet.03 metadata" || !strings.HasPrefix(c.Name, "meta-version: ") || !strings.Contains(c.Failure.Message, `"new <1>"`) {
				t.Errorf("failed: %+v, %s", c, c.Failure.Message)
			}
		}
		if strings.Contains(c.Output, "warning: README.md") {
			outputs++
		}
	}
	if failures != 1 || outputs != 1 {
		t.Errorf("%d failures, %d outputs\n%s", failures, outputs, out)
	}
}

// TestSame runs a validation twice: the reports are the same, byte for byte.
func TestSame(t *testing.T) {
	t.Parallel()
	dir := write(t, "greet", change(t, greet(), lenient("")))
	var outs [2][]byte
	for i := range outs {
		s := subject(t, dir)
		unguarded(&s, nil)
		report := check.Run(context.Background(), s, check.Options{Release: true})
		out, err := report.JSON()
		if err != nil {
			t.Fatal(err)
		}
		outs[i] = append(out, report.Text("zh")...)
	}
	if !bytes.Equal(outs[0], outs[1]) {
		t.Error(cmp.Diff(string(outs[0]), string(outs[1])))
	}
}

// TestMany bounds what one rule reports.
func TestMany(t *testing.T) {
	t.Parallel()
	untyped := strings.ReplaceAll(manyParameters(80), "type: 'string'", "")
	report := row{change: map[string]string{js: "notes: → " + untyped + " notes:"}}.look(t, 4)
	found := report.Find("param-type")
	if last := found[len(found)-1]; len(found) != 51 || !strings.Contains(last.Message, "30 more of this kind") {
		t.Errorf("%d findings, the last is %+v", len(found), last)
	}
}

// releaseRow is one item of the checklist, and a tool for which it comes out so.
type releaseRow struct {
	id     string
	change map[string]string
	set    func(*check.Subject, *check.Options)
	want   check.State
	detail string
}

func TestRelease(t *testing.T) {
	for _, r := range releaseRows() {
		t.Run(r.id+"/"+string(r.want), func(t *testing.T) {
			t.Parallel()
			report := row{change: r.change, set: func(s *check.Subject, o *check.Options) {
				o.Release = true
				s.Previous = "1.1.9"
				s.Packed = []check.PackedFile{{Path: js, Size: 2048}, {Path: "lib/.env.example", Size: 10}}
				s.Trial.(*node).tests = &check.TestRun{Passed: true, Summary: "5 passed, 0 failed"}
				if r.set != nil {
					r.set(s, o)
				}
			}}.look(t, 1, 2, 3)
			for _, item := range report.Release {
				if item.ID == r.id && (item.State != r.want || !strings.Contains(item.Detail, r.detail)) {
					t.Errorf("%s is %s (%s), want %s (%s)", r.id, item.State, item.Detail, r.want, r.detail)
				}
				if item.ID != r.id && item.State == check.Failed && r.id != "layers" {
					t.Errorf("%s failed too: %s", item.ID, item.Detail)
				}
			}
			if r.want == check.Failed && report.Failed == 0 {
				t.Errorf("a failed item does not count: %s", report.Summary())
			}
			mark := map[check.State]string{check.Passed: "(pass)", check.Failed: "(fail)", check.Skipped: "(not checkable)"}[r.want]
			if !strings.Contains(report.Text("en"), mark) {
				t.Errorf("the text has no %s", mark)
			}
		})
	}
}

func releaseRows() []releaseRow {
	packed := func(paths ...string) func(*check.Subject, *check.Options) {
		return func(s *check.Subject, _ *check.Options) {
			s.Packed = nil
			for _, p := range paths {
				s.Packed = append(s.Packed, check.PackedFile{Path: p, Size: 4 << 20})
			}
		}
	}
	rights := map[string]string{js: "networkAccess: false → networkAccess: true"}
	return []releaseRow{
		{id: "layers", want: check.Skipped, detail: "not all layers"},
		{id: "layers", change: map[string]string{js: "name: 'Greet', → "}, want: check.Failed, detail: "errors: 1"},
		{id: "readme", want: check.Passed},
		{id: "readme", change: map[string]string{"README.md": "# x\n"}, want: check.Failed, detail: "only 3 characters"},
		{id: "version", want: check.Passed, detail: "1.2.0"},
		{id: "version-raised", want: check.Passed, detail: "1.1.9 → 1.2.0"},
		{id: "version-raised", set: func(s *check.Subject, _ *check.Options) { s.Previous = "1.2.0" }, want: check.Failed},
		{id: "version-raised", set: func(s *check.Subject, _ *check.Options) { s.Previous = "" }, want: check.Skipped},
		{id: "version-same", want: check.Passed},
		{id: "version-same", change: map[string]string{js: "'1.2.0' → '1.3.0'"}, want: check.Failed, detail: "1.2.0 ≠ 1.3.0"},
		{id: "licence", want: check.Passed, detail: "MIT"},
		{id: "licence", change: map[string]string{"package.json": `"license": "MIT",  → `}, want: check.Failed},
		{id: "licence", change: map[string]string{"package.json": `"license": "MIT",  → `, "LICENSE": "MIT"}, want: check.Passed, detail: "LICENSE"},
		{id: "tests-present", want: check.Passed},
		{id: "tests-present", change: map[string]string{"greet.test.js": "-"}, want: check.Failed},
		{id: "tests-passing", want: check.Passed, detail: "5 passed"},
		{id: "tests-passing", set: func(s *check.Subject, _ *check.Options) {
			s.Trial.(*node).tests = &check.TestRun{Summary: "4 passed, 1 failed"}
		}, want: check.Failed, detail: "1 failed"},
		{id: "tests-passing", set: func(s *check.Subject, _ *check.Options) { s.Trial.(*node).tests = nil }, want: check.Skipped},
		{id: "manual", want: check.Passed},
		{id: "manual", change: map[string]string{js: ", description: 'how often' → "}, want: check.Failed, detail: "parameters.times"},
		{id: "rights", want: check.Passed},
		{id: "rights", change: rights, want: check.Failed, detail: "not mentioned: network"},
		{id: "lockfile", want: check.Passed, detail: "no packages"},
		{id: "lockfile", change: map[string]string{"package.json": manifest, leftOne: leftManifest}, want: check.Failed},
		{id: "lockfile", change: map[string]string{"package.json": manifest, leftOne: leftManifest, "package-lock.json": "{}"}, want: check.Passed, detail: "package-lock.json"},
		{id: "licences-known", change: map[string]string{"package.json": manifest, "package-lock.json": "{}", leftOne: leftManifest}, want: check.Passed},
		{id: "licences-known", change: map[string]string{"package.json": manifest, "package-lock.json": "{}", leftOne: `{"name": "left", "version": "1.3.0"}`}, want: check.Failed, detail: "left"},
		{id: "licences-known", change: map[string]string{js: withPackage, "package.json": manifest, "package-lock.json": "{}"}, want: check.Skipped},
		{id: "secrets", want: check.Passed},
		{id: "secrets", change: map[string]string{"words.js": "export const words = { en: 'Hello', key: 'AKIA" + "ABCDEFGHIJKLMNOP' }\n"}, want: check.Failed, detail: "words.js"},
		{id: "package-clean", want: check.Passed, detail: "files: 2"},
		{id: "package-clean", set: packed("node_modules/left/index.js", ".env"), want: check.Failed, detail: "it holds .env, node_modules"},
		{id: "package-clean", set: packed(), want: check.Skipped},
		{id: "package-size", want: check.Passed, detail: "2.0 KiB"},
		{id: "package-size", set: packed("a", "b", "c"), want: check.Failed, detail: "more than 10 MiB"},
	}
}
