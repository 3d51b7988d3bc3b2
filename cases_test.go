package toolyard_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// caseRow is one line of testdata/cases/tools.jsonl: calls of tools with what
// they must do.
type caseRow struct {
	ID    string `json:"id"`
	Tool  string `json:"tool"`
	Setup struct {
		Files    map[string]string `json:"files"`
		Dirs     []string          `json:"dirs"`
		Symlinks map[string]string `json:"symlinks"`
	} `json:"setup"`
	Before []struct {
		Tool string         `json:"tool"`
		Args map[string]any `json:"args"`
	} `json:"before"`
	Args   map[string]any `json:"args"`
	Expect struct {
		IsError    *bool               `json:"is_error"`
		TextAll    []string            `json:"text_all"`
		TextNone   []string            `json:"text_none"`
		TextAny    [][]string          `json:"text_any"`
		TextRegex  json.RawMessage     `json:"text_regex"`
		TextEquals *string             `json:"text_equals"`
		TextCount  map[string]int      `json:"text_count"`
		Files      map[string]*string  `json:"files"`
		Contain    map[string][]string `json:"files_contain"`
		NotContain map[string][]string `json:"files_not_contain"`
	} `json:"expect"`
}

// casesDiffer lists the rows whose expectation ours does not meet, with the
// sentence of the specification that wins.
var casesDiffer = map[string]string{}

// TestCases runs the rows whose tools are built in. Every file that a call names
// is read before, as an agent does.
func TestCases(t *testing.T) {
	file, err := os.Open("testdata/cases/tools.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	yard, _ := open(t, nil, nil)
	var have []string
	for _, spec := range yard.Tools() {
		have = append(have, spec.Name)
	}
	ran := 0
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var row caseRow
		if err := json.Unmarshal(scanner.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(have, row.Tool) {
			continue
		}
		ran++
		t.Run(row.ID, func(t *testing.T) { runCase(t, row) })
	}
	t.Logf("%d rows", ran)
	if ran < 20 {
		t.Errorf("only %d rows ran", ran)
	}
}

func runCase(t *testing.T, row caseRow) {
	yard, dir := open(t, row.Setup.Files, nil)
	for _, name := range row.Setup.Dirs {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range row.Setup.Symlinks {
		if err := os.Symlink(strings.ReplaceAll(target, "{{workspace}}", dir), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range row.Before {
		call(t, yard, b.Tool, placed(b.Args, dir).(map[string]any))
	}
	args, _ := placed(row.Args, dir).(map[string]any)
	for name := range row.Setup.Files {
		if row.Tool != "read" && row.Args["mode"] != "append" {
			call(t, yard, "read", map[string]any{"file_path": name})
		}
	}
	result := call(t, yard, row.Tool, args)
	var wrong []string
	fail := func(format string, got any) { wrong = append(wrong, format+" got "+toJSON(got)) }
	e, text := row.Expect, result.TextContent()
	if e.IsError != nil && *e.IsError != result.IsError {
		fail("is_error", result.IsError)
	}
	for _, want := range e.TextAll {
		if !strings.Contains(text, want) {
			fail("text without "+want, text)
		}
	}
	for _, none := range e.TextNone {
		if strings.Contains(text, none) {
			fail("text with "+none, text)
		}
	}
	for _, group := range e.TextAny {
		if !slices.ContainsFunc(group, func(s string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(s)) }) {
			fail("none of "+strings.Join(group, "|"), text)
		}
	}
	if e.TextEquals != nil && text != *e.TextEquals {
		fail("text is not "+*e.TextEquals, text)
	}
	for _, pattern := range patterns(t, e.TextRegex) {
		if !regexp.MustCompile(pattern).MatchString(text) {
			fail("no match of "+pattern, text)
		}
	}
	for what, n := range e.TextCount {
		if strings.Count(text, what) != n {
			fail("count of "+what, text)
		}
	}
	wrong = append(wrong, wrongFiles(dir, row)...)
	if why, listed := casesDiffer[row.ID]; (len(wrong) > 0) != listed {
		t.Errorf("listed as different: %v (%s); text %q\n%s", listed, why, text, strings.Join(wrong, "\n"))
	}
}

func wrongFiles(dir string, row caseRow) (wrong []string) {
	read := func(name string) (string, bool) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		return string(content), err == nil
	}
	for name, want := range row.Expect.Files {
		got, exists := read(name)
		if exists != (want != nil) || want != nil && got != *want {
			wrong = append(wrong, "file "+name+" is "+toJSON(got))
		}
	}
	for name, wants := range row.Expect.Contain {
		for _, want := range wants {
			if got, _ := read(name); !strings.Contains(got, want) {
				wrong = append(wrong, "file "+name+" without "+want)
			}
		}
	}
	for name, nones := range row.Expect.NotContain {
		for _, none := range nones {
			if got, _ := read(name); strings.Contains(got, none) {
				wrong = append(wrong, "file "+name+" with "+none)
			}
		}
	}
	return wrong
}

// patterns reads text_regex, one or many.
func patterns(t *testing.T, raw json.RawMessage) []string {
	if raw == nil {
		return nil
	}
	var many []string
	if json.Unmarshal(raw, &many) == nil {
		return many
	}
	var one string
	if err := json.Unmarshal(raw, &one); err != nil {
		t.Fatal(err)
	}
	return []string{one}
}

// placed puts the workspace's path where the row has {{workspace}}.
func placed(v any, dir string) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "{{workspace}}", dir)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = placed(v[i], dir)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			out[key] = placed(value, dir)
		}
		return out
	case nil:
		return map[string]any{}
	}
	return v
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
