// Package patch reads patches and works out where they apply. It knows two
// formats: the unified diff, as git apply takes it, and the V4A envelope
// ("*** Begin Patch"). It changes no file: [File.Splices] turns the content of
// one file into the replacements to make, and the engine in internal/edit makes
// them.
//
// A unified hunk must match word for word; only its line number may be off, and
// only if there is one place where it fits. A V4A chunk has no line numbers, so
// it is found by its text, exactly or by one of the looser comparisons of the
// edit tools, and again only in one place.
package patch

import (
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// Bounds of one patch.
const (
	maxFiles = 10_000
	maxHunks = 100_000
)

// Kind says what happens to a file.
type Kind string

const (
	Modify Kind = "modify" // content, mode or nothing but its place in the patch
	Create Kind = "create"
	Delete Kind = "delete"
	Rename Kind = "rename" // from Old to New, perhaps with changes
	Copy   Kind = "copy"   // New is made from Old, perhaps with changes
)

// File is what a patch says of one file.
type File struct {
	Kind Kind
	// Old and New are the names before and after, stripped; equal unless Kind is
	// Rename or Copy. Old is the name to read, New the name to write.
	Old, New string
	// OldMode and NewMode are permission bits; 0 where the patch does not say.
	OldMode, NewMode uint32
	Hunks            []Hunk
	binary           *binary
	v4a              bool
}

// Hunk is one group of changed lines with the lines around it.
type Hunk struct {
	Header string // as written: "@@ -1,4 +1,4 @@ func main()"
	// OldLine and NewLine are 1-based, 0 where the patch does not say.
	OldLine, NewLine int
	// Anchors are the V4A "@@ class A" lines to go to first.
	Anchors []string
	// EndOfFile says that the hunk must match the file's last lines.
	EndOfFile bool
	Lines     []Line
	at        int // line of the patch, for messages
}

// Line is one line of a hunk. Op is ' ', '-' or '+'.
type Line struct {
	Op   byte
	Text string // with no line ending
	// NoEOL says that the line is the file's last and has no newline.
	NoEOL bool
}

// Options steer Parse.
type Options struct {
	// Strip is how many leading components are cut from the names of a unified
	// diff, as patch -p. Nil cuts one where the names begin with "a/" and "b/" (or
	// git's other prefixes), else none.
	Strip *int
	// Name is the file that a patch with hunks and no file names applies to.
	Name string
}

// Parse reads a patch in either format. A fault is a PARAMETER_ERROR that names
// the line of the patch.
func Parse(text string, o Options) ([]File, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if strings.TrimSpace(line) == beginPatch {
			return parseV4A(lines)
		}
		break
	}
	return parseUnified(lines, o)
}

// Creates reports whether the file must not be there before.
func (f *File) Creates() bool { return f.Kind == Create || f.Kind == Rename || f.Kind == Copy }

func faultf(line int, format string, args ...any) *tool.Error {
	e := tool.Errorf(tool.ParameterError, "line %d of the patch: "+format, append([]any{line}, args...)...)
	return e.WithHint("Send the whole patch again, as a unified diff or between *** Begin Patch and *** End Patch.").
		WithDetail("patch_line", line)
}
