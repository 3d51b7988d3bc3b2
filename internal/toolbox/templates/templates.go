// Package templates writes the files of a new tool: a small one that works, with
// every method, a manual and tests, which passes all layers of the validation. It
// knows no toolbox, only a folder to write into.
package templates

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/tool"
)

//go:embed js py
var files embed.FS

// Options of a new tool. The zero value works.
type Options struct {
	// Author stands in the metadata. Empty is "unknown".
	Author string
}

// New writes a tool into the folder dir/name, which must not exist or be empty, and
// returns the files' names in it, sorted. lang is js or py; javascript, node and
// python are taken for them. Either all files are there or none. Errors that the
// caller can mend are *tool.Error: PARAMETER_ERROR for a bad name or language,
// CONFLICT where something is there already.
func New(dir, name, lang string, o Options) ([]string, error) {
	language, err := languageOf(lang)
	if err != nil {
		return nil, err
	}
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`).MatchString(name) {
		return nil, tool.Errorf(tool.ParameterError, "%q is no name of a tool", name).
			WithHint("Use letters, digits, - and _, beginning with a letter or a digit, at most 64.")
	}
	target := filepath.Join(dir, name)
	if err := free(target); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// Folders that begin with a dot are no tools, so nobody sees a half-written one.
	draft, err := os.MkdirTemp(dir, ".new-"+name+"-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(draft)
	names, err := write(draft, name, language, o)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(draft, 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, taken(target)
	}
	if err := os.Rename(draft, target); err != nil {
		return nil, err
	}
	return names, nil
}

func languageOf(lang string) (definition.Language, error) {
	switch strings.ToLower(lang) {
	case "js", "javascript", "node":
		return definition.JavaScript, nil
	case "py", "python":
		return definition.Python, nil
	}
	return "", tool.Errorf(tool.ParameterError, "there is no template for the language %q", lang).
		WithHint("Use js or py.")
}

// free returns an error if something stands where the tool is to be.
func free(target string) error {
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return taken(target)
	}
	entries, err := os.ReadDir(target)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return taken(target)
	}
	return nil
}

func taken(target string) error {
	return tool.Errorf(tool.Conflict, "%s is there already and not an empty folder", target).
		WithHint("Choose another name, or remove what is there.")
}

func write(dir, name string, language definition.Language, o Options) ([]string, error) {
	entries, err := files.ReadDir(string(language))
	if err != nil {
		return nil, err
	}
	var names []string
	fill := filler(name, language, o)
	for _, e := range entries {
		content, err := files.ReadFile(string(language) + "/" + e.Name())
		if err != nil {
			return nil, err
		}
		made := fileName(e.Name(), name)
		if err := os.WriteFile(filepath.Join(dir, made), []byte(fill.Replace(string(content))), 0o644); err != nil {
			return nil, err
		}
		names = append(names, made)
	}
	slices.Sort(names)
	return names, nil
}

// fileName is the name that a template's file gets in the tool. The module and the
// test have others here so that no one takes them for code of ours.
func fileName(template, name string) string {
	switch template {
	case "tool.js", "tool.py":
		return name + "." + template
	case "test.js":
		return name + ".test.js"
	case "test.py":
		return "test_" + snake(name) + ".py"
	case "gitignore":
		return ".gitignore"
	}
	return template
}

func filler(name string, language definition.Language, o Options) *strings.Replacer {
	author := o.Author
	if author == "" {
		author = "unknown"
	}
	// Within a text of either language; the template has it between quotes.
	author = strings.NewReplacer("\\", "", "'", "’", "\"", "", "\n", " ", "\r", " ").Replace(author)
	return strings.NewReplacer("{{name}}", name, "{{title}}", title(name), "{{lower}}", strings.ToLower(name),
		"{{author}}", author, "{{test}}", fileName("test."+string(language), name))
}

// snake is a name as a Python module may have it.
func snake(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "_")) }

// title is a name as a person writes it: "word-count" is "Word count".
func title(name string) string {
	words := strings.Join(strings.FieldsFunc(name, func(c rune) bool { return c == '-' || c == '_' }), " ")
	return strings.ToUpper(words[:1]) + words[1:]
}
