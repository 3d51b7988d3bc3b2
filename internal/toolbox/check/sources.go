package check

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// source is one file of code that the tool consists of.
type source struct {
	name string // slash-separated, in the tool's folder
	text string // without comments
}

var testFile = lazily(`(?i)(\.(test|spec)\.[cm]?[jt]s$)|(^test_[^/]*\.py$)|(_test\.py$)|(^tests?\.(py|[cm]?js)$)`)

// isTest reports whether a file's name is one of a test.
func isTest(name string) bool { return testFile().MatchString(name) }

func isTestFolder(name string) bool {
	return slices.Contains([]string{"test", "tests", "__tests__", "spec"}, strings.ToLower(name))
}

// code reads the files of code that the tool's author wrote, tests aside, and says
// whether there are tests.
func (r *run) code() (sources []source, tests bool) {
	found := TestFiles(r.Dir)
	_ = filepath.WalkDir(r.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // an unreadable file is no code that runs
		}
		if e.IsDir() {
			if path != r.Dir && (installed(e.Name()) || strings.HasPrefix(e.Name(), ".") || isTestFolder(e.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		name, _ := filepath.Rel(r.Dir, path)
		name = filepath.ToSlash(name)
		if isTest(e.Name()) || !isCode(name) || !e.Type().IsRegular() || len(sources) >= maxSources {
			return nil
		}
		if content, err := readFile(path, maxSource); err == nil {
			sources = append(sources, source{name, uncommented(string(content), filepath.Ext(name) == ".py")})
		}
		return nil
	})
	return sources, len(found) > 0
}

// TestFiles lists the tests of a tool's folder: the files that are named like tests,
// and all code in folders for tests. The names are relative and have slashes.
func TestFiles(dir string) []string {
	var names []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read is no test that can run
		}
		name, _ := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		switch {
		case e.IsDir() && path != dir && (installed(e.Name()) || strings.HasPrefix(e.Name(), ".")):
			return fs.SkipDir
		case e.IsDir() || !e.Type().IsRegular() || !isCode(e.Name()):
		case isTest(e.Name()), inTestFolder(name) && e.Name() != "__init__.py" && e.Name() != "conftest.py":
			names = append(names, name)
		}
		return nil
	})
	return names
}

func inTestFolder(name string) bool {
	folder, _, inFolder := strings.Cut(name, "/")
	return inFolder && isTestFolder(folder)
}

func isCode(name string) bool {
	return slices.Contains([]string{".js", ".mjs", ".cjs", ".ts", ".py"}, filepath.Ext(name))
}

// uncommented blanks the comments of a source, line by line as it was, so that
// what a comment mentions is not taken for what the code does. Texts stay.
func uncommented(src string, python bool) string {
	out := []byte(src)
	blank := func(from, to int) {
		for i := from; i < to && i < len(out); i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; i < len(src); {
		rest := src[i:]
		switch {
		case python && src[i] == '#', !python && strings.HasPrefix(rest, "//"):
			end := i + lineEnd(rest)
			blank(i, end)
			i = end
		case !python && strings.HasPrefix(rest, "/*"):
			end := len(src)
			if at := strings.Index(rest[2:], "*/"); at >= 0 {
				end = i + 2 + at + 2
			}
			blank(i, end)
			i = end
		case python && (strings.HasPrefix(rest, `"""`) || strings.HasPrefix(rest, "'''")):
			end := len(src)
			if at := strings.Index(rest[3:], rest[:3]); at >= 0 {
				end = i + 3 + at + 3
			}
			i = end
		case src[i] == '"' || src[i] == '\'' || !python && src[i] == '`':
			i += quoted(rest)
		default:
			i++
		}
	}
	return string(out)
}

func lineEnd(s string) int {
	if at := strings.IndexByte(s, '\n'); at >= 0 {
		return at
	}
	return len(s)
}

// quoted is the length of the text that s begins with. Only one in back quotes
// goes over a line's end.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == s[0]:
			return i + 1
		case s[i] == '\n' && s[0] != '`':
			return i
		}
	}
	return len(s)
}
