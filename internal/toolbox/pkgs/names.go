package pkgs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/toolyard/toolyard/tool"
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// ValidName reports whether a tool may have this name.
func ValidName(name string) bool { return namePattern.MatchString(name) && !reserved(name) }

// checkName is ValidName as an error.
func checkName(name string) error {
	if ValidName(name) {
		return nil
	}
	return tool.Errorf(tool.ParameterError, "%q is no name for a tool", name).
		WithHint("A name has up to 64 letters, digits, - and _, and begins with a letter or a digit. It comes from the file <name>.tool.js, the name in package.json or the folder.")
}

// Suffixes of the files that are tools.
const (
	suffixJS = ".tool.js"
	suffixPy = ".tool.py"
)

// ToolFile is which file of a folder is the tool: <name>.tool.js, tool.js,
// <name>.tool.py or tool.py, the first that is a regular file. False if none is.
func ToolFile(dir, name string) (string, bool) {
	for _, file := range []string{name + suffixJS, "tool.js", name + suffixPy, "tool.py"} {
		if info, err := os.Stat(dir + string(os.PathSeparator) + file); err == nil && info.Mode().IsRegular() {
			return file, true
		}
	}
	return "", false
}

// findTool is which file at the root of a package is its tool, and the name that
// the file has for it, "" if that is tool.js or tool.py.
func findTool(files []string, where string) (file, name string, err error) {
	var named []string
	for _, f := range files {
		if n, ok := cutToolSuffix(f); ok && n != "" {
			named = append(named, f)
		}
	}
	slices.Sort(named) // .tool.js before .tool.py
	if len(named) > 0 {
		first, _ := cutToolSuffix(named[0])
		for _, f := range named[1:] {
			if n, _ := cutToolSuffix(f); n != first {
				return "", "", tool.Errorf(tool.ParameterError, "%s has more than one tool: %s", where, strings.Join(named, ", ")).
					WithHint("A package is one tool. Put each into a folder of its own.")
			}
		}
		return named[0], first, nil
	}
	for _, f := range []string{"tool.js", "tool.py"} {
		if slices.Contains(files, f) {
			return f, "", nil
		}
	}
	for _, f := range files {
		if n, ok := cutToolSuffix(strings.ToLower(f)); ok && (n != "" || f != strings.ToLower(f)) || strings.EqualFold(f, "tool.js") || strings.EqualFold(f, "tool.py") {
			return "", "", tool.Errorf(tool.ParameterError, "%s has no tool: %s is written with other letters than .tool.js or .tool.py", where, f).
				WithHint("Rename it to %s.", strings.ToLower(f))
		}
	}
	return "", "", tool.Errorf(tool.ParameterError, "%s has no tool: there is no <name>.tool.js, tool.js, <name>.tool.py or tool.py at its top", where).
		WithHint("A tool's module lies at the top of its folder or archive, or in the one folder that is there.")
}

func cutToolSuffix(file string) (string, bool) {
	if n, ok := strings.CutSuffix(file, suffixJS); ok {
		return n, true
	}
	return strings.CutSuffix(file, suffixPy)
}

// devices are names that Windows keeps for itself, with any extension. An archive
// that has them cannot be unpacked there.
var devices = []string{
	"con", "prn", "aux", "nul", "conin$", "conout$",
	"com0", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9",
	"lpt0", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
}

func reserved(name string) bool {
	base, _, _ := strings.Cut(strings.ToLower(name), ".")
	return slices.Contains(devices, strings.TrimRight(base, " "))
}

const (
	maxName  = 255 // bytes of a component
	maxPath  = 1024
	maxDepth = 32
)

// cleanEntry is the path of an archive's entry as it will be below the folder,
// "" for the folder itself. The reason says why it may not be there; it follows
// the entry's name in a sentence.
func cleanEntry(raw string) (path, reason string) {
	switch {
	case !utf8.ValidString(raw):
		return "", "is not UTF-8"
	case raw == "":
		return "", "has no name"
	case len(raw) > maxPath:
		return "", "is longer than 1,024 bytes"
	case strings.HasPrefix(raw, "/"):
		return "", "is an absolute path"
	case strings.Contains(raw, `\`):
		return "", "has a backslash"
	case strings.Contains(raw, ":"):
		return "", "has a colon: a drive letter or a stream"
	}
	for _, r := range raw {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError {
			return "", "has a character that cannot be seen"
		}
	}
	var parts []string
	for part := range strings.SplitSeq(strings.TrimSuffix(raw, "/"), "/") {
		switch {
		case part == ".":
			continue
		case part == "..":
			return "", "leads out of its folder by \"..\""
		case part == "":
			return "", "has an empty component"
		case len(part) > maxName:
			return "", "has a component of more than 255 bytes"
		case strings.HasSuffix(part, ".") || strings.HasSuffix(part, " ") || strings.HasPrefix(part, " "):
			return "", "has a component that begins or ends with a blank or ends with a dot"
		case reserved(part):
			return "", "has a name that is reserved for a device"
		}
		parts = append(parts, part)
	}
	if len(parts) > maxDepth {
		return "", "is nested deeper than 32 folders"
	}
	return strings.Join(parts, "/"), ""
}

// fold maps names to one that a file system which ignores case or Unicode
// normalisation takes for the same file. APFS and NTFS do one or both.
func fold(name string) string {
	return norm.NFKC.String(strings.Map(foldRune, norm.NFKC.String(name)))
}

// foldRune is the smallest of the runes that differ from r only by case.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// nameOf makes a tool's name of that of a package, an archive or a folder:
// without scope, extension and version.
func nameOf(text string) string {
	if i := strings.LastIndexAny(text, `/\`); i >= 0 {
		text = text[i+1:]
	}
	for _, ext := range []string{".git", ".zip", ".mcpb", ".tgz", ".tar.gz", ".tar"} {
		if strings.HasSuffix(strings.ToLower(text), ext) {
			text = text[:len(text)-len(ext)]
			break
		}
	}
	return versionTail.ReplaceAllString(text, "")
}

var versionTail = regexp.MustCompile(`[-_@]v?[0-9]+(\.[0-9]+)+([-+.][0-9A-Za-z.-]+)?$`)
