package files

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/toolyard/toolyard/internal/search"
	"github.com/toolyard/toolyard/tool"
)

//go:embed glob.md
var globManual string

type globIn struct {
	Pattern    string   `json:"pattern" jsonschema:"which files: * stops at /, ** is any number of directories, {a,b} either"`
	Path       string   `json:"path,omitempty" jsonschema:"directory that the pattern is relative to; default=.; format=path"`
	MaxResults int      `json:"max_results,omitempty" jsonschema:"how many files to return; default=100; min=1; max=100000"`
	Exclude    []string `json:"exclude,omitempty" jsonschema:"patterns in gitignore syntax, relative to path, of what to leave out"`
}

type globOut struct {
	Files     []string `json:"files"`
	Total     int      `json:"total" jsonschema:"files that match, returned or not"`
	Truncated bool     `json:"truncated"`
}

// defaultResults is how many results glob and grep give.
const defaultResults = 100

func globTool(d Deps) tool.Tool {
	return tool.New(tool.Spec{
		Name: "glob", Title: "Find files", Category: "files", Manual: globManual,
		Description: "Finds files by name pattern, newest first. Files that git ignores are left out, and so are .git, node_modules and the like unless the pattern or path names them. " +
			"Use it when you know what the name looks like; use grep to find files by content and list to see what is in a directory.",
		Effects: tool.Read, Idempotent: true, ConcurrencySafe: true, Default: tool.Allow,
	}, d.callGlob)
}

func (d Deps) callGlob(ctx context.Context, req *tool.Request, in globIn) (*tool.Result, globOut, error) {
	if in.Pattern == "" {
		return nil, globOut{}, tool.Errorf(tool.ParameterError, "the pattern is empty").WithHint(`Use "*" for the files of a directory, "**" for all below it.`)
	}
	if in.MaxResults == 0 {
		in.MaxResults = defaultResults
	}
	if _, err := search.CompileGlob(in.Pattern); err != nil {
		return nil, globOut{}, err
	}
	// Where the pattern begins with a directory, the search starts there: other
	// parts of the tree are not read, and the directory counts as named.
	dir, rest := search.SplitGlob(in.Pattern)
	start := in.Path
	switch {
	case filepath.IsAbs(in.Pattern):
		start = dir
	case dir != "":
		start = filepath.Join(in.Path, dir)
	default:
		rest = in.Pattern
	}
	pattern, err := search.CompileGlob(rest)
	if err != nil {
		return nil, globOut{}, err
	}
	at, err := d.open(req, start)
	if err != nil && dir != "" && tool.AsError(err).Code == tool.NotFound {
		return d.noDirectory(req, in)
	}
	if err != nil {
		return nil, globOut{}, err
	}
	defer at.close()
	if at.Dir == nil {
		return nil, globOut{}, notDirectory(at)
	}
	files, report, err := search.Glob(ctx, at.Place, search.Options{ExcludesFile: d.ExcludesFile, Exclude: in.Exclude, Closed: d.closed(req, "glob")}, pattern, in.MaxResults)
	if err != nil {
		return nil, globOut{}, err
	}
	out := globOut{Files: []string{}, Total: report.Total, Truncated: report.Total > len(files)}
	var text strings.Builder
	for _, f := range files {
		name := at.display(f.Path)
		out.Files = append(out.Files, name)
		text.WriteString(shown(name) + "\n")
	}
	switch {
	case report.Total == 0:
		text.WriteString("No files match " + shown(in.Pattern) + ".")
		if !strings.Contains(in.Pattern, "/") {
			text.WriteString(` "*" stops at a slash: "**/` + in.Pattern + `" looks in all directories.`)
		}
	case out.Truncated:
		fmt.Fprintf(&text, "(%s more: raise max_results, or narrow the pattern)", thousands(int64(report.Total-len(files))))
	}
	return tool.Text(strings.TrimSuffix(text.String(), "\n") + unreadNote(report.Report, at)), out, nil
}

// noDirectory answers a pattern whose directory is not there: nothing matches,
// unless the path itself is wrong.
func (d Deps) noDirectory(req *tool.Request, in globIn) (*tool.Result, globOut, error) {
	if in.Path != "" && !filepath.IsAbs(in.Pattern) {
		at, err := d.open(req, in.Path)
		if err != nil {
			return nil, globOut{}, err
		}
		at.close()
	}
	return tool.Text("No files match " + shown(in.Pattern) + ": its directory does not exist."), globOut{Files: []string{}}, nil
}

func notDirectory(at *place) error {
	return tool.Errorf(tool.ParameterError, "%s is a file, not a directory", shown(at.path.Display)).
		WithHint("Give a directory as path.")
}

// unreadNote says what a walk could not read or may not show.
func unreadNote(r search.Report, at *place) string {
	note := ""
	if r.Closed > 0 {
		note = fmt.Sprintf("\n(%s left out: permission rules keep them from being shown)", thousands(int64(r.Closed)))
	}
	if r.Unreadable == 0 {
		return note
	}
	var names []string
	for _, n := range r.Names {
		names = append(names, shown(at.display(n)))
	}
	more := ""
	if r.Unreadable > len(names) {
		more = ", …"
	}
	return fmt.Sprintf("\n(%s could not be read: %s%s)", directories(r.Unreadable), strings.Join(names, ", "), more) + note
}

func directories(n int) string {
	if n == 1 {
		return "1 directory"
	}
	return thousands(int64(n)) + " directories"
}
