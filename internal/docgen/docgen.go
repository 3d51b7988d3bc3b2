// Package docgen writes the generated parts of README.md and docs/: what the
// specs of the tools, the table of error codes, the OpenAPI document, the keys
// of the configuration and the help of the commands already say. It only reads
// them; it changes no behaviour and is not part of the program.
package docgen

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// section is one generated part. In a page it stands between two marks:
//
//	<!-- begin generated: errors -->
//	<!-- end generated -->
type section struct {
	name  string
	write func() (string, error)
}

// sections lists the parts. To add one: a function in a file of its own, a line
// here, and the two marks in a page.
func sections() []section {
	return []section{
		{"tool table", toolTable},
		{"tools", tools},
		{"errors", errorCodes},
		{"http routes", httpRoutes},
		{"settings", settings},
		{"commands", commands},
		{"seccomp", seccompRules},
	}
}

// files lists what is generated as a whole, by path.
func files() map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){
		"deploy/docker/seccomp.json": containerProfile,
	}
}

const (
	beginMark = "<!-- begin generated: "
	markEnd   = " -->\n"
	endMark   = "<!-- end generated -->"
)

// Generate gives the pages below root that hold generated parts, and the files
// that are generated as a whole, as they should be, by path relative to root. Everything outside of the marks stays as it is.
func Generate(root string) (map[string][]byte, error) {
	parts := map[string]string{}
	for _, s := range sections() {
		text, err := s.write()
		if err != nil {
			return nil, fmt.Errorf("generating %s: %w", s.name, err)
		}
		parts[s.name] = text
	}
	names, err := pages(root)
	if err != nil {
		return nil, err
	}
	generated, used := map[string][]byte{}, map[string]bool{}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(content, []byte(beginMark)) {
			continue
		}
		page, err := fill(string(content), parts, used)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		generated[name] = []byte(page)
	}
	for name, write := range files() {
		content, err := write()
		if err != nil {
			return nil, fmt.Errorf("generating %s: %w", name, err)
		}
		generated[name] = content
	}
	for name := range parts {
		if !used[name] {
			return nil, fmt.Errorf("no page has the mark %q", beginMark+name+markEnd)
		}
	}
	return generated, nil
}

// pages lists the Markdown of the root and of docs/.
func pages(root string) ([]string, error) {
	names := []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		name, err := filepath.Rel(root, path)
		names = append(names, name)
		return err
	})
	return names, err
}

// fill puts the parts between their marks.
func fill(page string, parts map[string]string, used map[string]bool) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(page, beginMark)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, rest, marked := strings.Cut(rest, markEnd)
		part, known := parts[name]
		if !marked || !known {
			return "", fmt.Errorf("there is no generated part %q", name)
		}
		_, after, ended := strings.Cut(rest, endMark)
		if !ended {
			return "", fmt.Errorf("the part %q has no %s", name, endMark)
		}
		used[name] = true
		b.WriteString(beginMark + name + markEnd + "\n" + strings.TrimSpace(part) + "\n\n" + endMark)
		page = after
	}
}

// Write writes the pages that Generate gives and returns the names of those that
// have changed.
func Write(root string) ([]string, error) {
	generated, err := Generate(root)
	if err != nil {
		return nil, err
	}
	var changed []string
	for name, content := range generated {
		path := filepath.Join(root, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
			continue
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return nil, err
		}
		changed = append(changed, name)
	}
	return changed, nil
}

// cell is text inside a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// escape is prose inside a table or a paragraph: one line, with the characters
// that Markdown would take for its own.
func escape(text string) string {
	return strings.NewReplacer("*", `\*`, "<", `\<`).Replace(cell(text))
}

// code is text as code inside a table.
func code(text string) string { return "`" + strings.ReplaceAll(text, "|", `\|`) + "`" }
