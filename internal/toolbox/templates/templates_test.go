package templates_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/templates"
	"github.com/toolyard/toolyard/tool"
)

func TestFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		name, lang string
		want       []string
	}{
		"javascript": {"word-count", "js", []string{".gitignore", "README.md", "package.json", "word-count.test.js", "word-count.tool.js"}},
		"python":     {"Word-Count", "python", []string{".gitignore", "README.md", "Word-Count.tool.py", "requirements.txt", "test_word_count.py"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "toolbox")
			got, err := templates.New(dir, tt.name, tt.lang, templates.Options{Author: `O'Neil "x" \`})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("in the toolbox are %v, %v", entries, err)
			}
			for _, file := range got {
				content, err := os.ReadFile(filepath.Join(dir, tt.name, file))
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(string(content), "{{") {
					t.Errorf("%s has something that is not filled in:\n%s", file, content)
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		name, lang string
		there      string // a file that is there already
		code       tool.Code
		want       string
	}{
		"no name":         {"", "js", "", tool.ParameterError, `""`},
		"dots":            {"../x", "js", "", tool.ParameterError, `"../x"`},
		"blank":           {"my tool", "js", "", tool.ParameterError, `"my tool"`},
		"dash first":      {"-x", "js", "", tool.ParameterError, `"-x"`},
		"long":            {strings.Repeat("x", 65), "js", "", tool.ParameterError, "xxx"},
		"language":        {"x", "ruby", "", tool.ParameterError, `"ruby"`},
		"a file is there": {"x", "js", "x", tool.Conflict, "x is there already"},
		"a tool is there": {"x", "py", "x/tool.py", tool.Conflict, "x is there already"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.there != "" {
				path := filepath.Join(dir, tt.there)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("mine"), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := templates.New(dir, tt.name, tt.lang, templates.Options{})
			failed, ok := errors.AsType[*tool.Error](err)
			if !ok || failed.Code != tt.code || !strings.Contains(failed.Message, tt.want) || failed.Hint == "" {
				t.Errorf("got %#v, want %s with %q", err, tt.code, tt.want)
			}
			if tt.there != "" {
				if content, err := os.ReadFile(filepath.Join(dir, tt.there)); err != nil || string(content) != "mine" {
					t.Errorf("what was there is now %q, %v", content, err)
				}
			}
			if entries, _ := filepath.Glob(filepath.Join(dir, ".new-*")); len(entries) > 0 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

func TestEmptyFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := templates.New(dir, "mine", "js", templates.Options{}); err != nil || !slices.Contains(got, "mine.tool.js") {
		t.Errorf("got %v, %v", got, err)
	}
}
