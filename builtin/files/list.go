package files

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/search"
	"github.com/toolyard/toolyard/tool"
)

//go:embed list.md
var listManual string

type listIn struct {
	Path          string   `json:"path,omitempty" jsonschema:"directory to list; default=.; format=path"`
	Recursive     bool     `json:"recursive,omitempty" jsonschema:"also list what is in its directories"`
	IncludeHidden bool     `json:"include_hidden,omitempty" jsonschema:"also list names that begin with a dot"`
	Detailed      bool     `json:"detailed,omitempty" jsonschema:"print mode and modification time as well"`
	MaxDepth      int      `json:"max_depth,omitempty" jsonschema:"how many levels to list with recursive; default=5; min=1; max=1000"`
	Offset        int      `json:"offset,omitempty" jsonschema:"how many entries to skip, to go on after a cut; default=0; min=0"`
	Exclude       []string `json:"exclude,omitempty" jsonschema:"patterns in gitignore syntax, relative to path, of what to leave out"`
}

type listOut struct {
	Entries    []listEntry `json:"entries"`
	Total      int         `json:"total" jsonschema:"entries there are, returned or not"`
	Truncated  bool        `json:"truncated"`
	NextOffset int         `json:"next_offset,omitempty"`
}

type listEntry struct {
	Path    string `json:"path"`
	Type    string `json:"type" jsonschema:"file, directory, symlink or other"`
	Size    int64  `json:"size,omitempty" jsonschema:"bytes, of a file"`
	Target  string `json:"target,omitempty" jsonschema:"where a symlink points"`
	Mode    string `json:"mode,omitempty"`
	ModTime string `json:"mtime,omitempty"`
}

const defaultDepth = 5

func listTool(d Deps) tool.Tool {
	return tool.New(tool.Spec{
		Name: "list", Title: "List a directory", Category: "files", Manual: listManual,
		Description: "Lists a directory as a tree with sizes. Files that git ignores are left out, and so are hidden names unless asked for. " +
			"Use glob to find files by name pattern, read for the content of a file.",
		Effects: tool.Read, Idempotent: true, ConcurrencySafe: true, Default: tool.Allow, Pages: true,
	}, d.callList)
}

func (d Deps) callList(ctx context.Context, req *tool.Request, in listIn) (*tool.Result, listOut, error) {
	at, err := d.open(req, in.Path)
	if err != nil {
		return nil, listOut{}, err
	}
	defer at.close()
	if at.Dir == nil {
		return nil, listOut{}, notDirectory(at)
	}
	if in.MaxDepth == 0 {
		in.MaxDepth = defaultDepth
	}
	depth := 1
	if in.Recursive {
		depth = in.MaxDepth
	}
	limit := maxOutput(req)
	p := &listPage{in: in, at: at, limit: max(limit-noteRoom, limit/2), out: listOut{Entries: []listEntry{}}}
	p.text.WriteString(shown(strings.TrimSuffix(at.path.Display, "/")) + "/\n")
	o := search.Options{ExcludesFile: d.ExcludesFile, Exclude: in.Exclude, SkipHidden: !in.IncludeHidden, MaxDepth: depth, Closed: d.closed(req, "list")}
	report, err := search.Walk(ctx, at.Place, o, p.entry)
	if err != nil {
		return nil, listOut{}, err
	}
	switch {
	case p.out.Total == 0:
		p.text.WriteString("(nothing to list: the directory is empty, or what is in it is hidden or ignored)")
	case in.Offset >= p.out.Total:
		return nil, listOut{}, tool.Errorf(tool.ParameterError, "offset %d is past the end: there are %s", in.Offset, entries(p.out.Total)).
			WithHint("Use an offset below %d.", p.out.Total)
	case p.full:
		p.out.Truncated, p.out.NextOffset = true, in.Offset+len(p.out.Entries)
		fmt.Fprintf(&p.text, "(%d to %d of %s shown. Go on with offset=%d, or narrow it with path, max_depth or exclude.)",
			in.Offset+1, p.out.NextOffset, entries(p.out.Total), p.out.NextOffset)
	}
	text := strings.TrimSuffix(p.text.String(), "\n") + unreadNote(report, at)
	return tool.Text(text), p.out, nil
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return thousands(int64(n)) + " entries"
}

// listPage writes the tree, up to the output's limit.
type listPage struct {
	in    listIn
	at    *place
	limit int
	text  strings.Builder
	full  bool
	out   listOut
}

func (p *listPage) entry(v *search.Visit) error {
	p.out.Total++
	if p.full || p.out.Total <= p.in.Offset {
		return nil
	}
	size, mode, mtime, err := v.Stat()
	if errors.Is(err, fs.ErrNotExist) {
		p.out.Total--
		if v.IsDir() {
			return search.SkipDir
		}
		return nil
	}
	e := listEntry{Path: p.at.display(v.Path()), Type: "other"}
	name, tail := shown(v.Name), ""
	switch {
	case v.IsDir():
		e.Type = "directory"
		name += "/"
	case v.IsLink():
		e.Type = "symlink"
		if target, err := os.Readlink(filepath.Join(p.at.Path, filepath.FromSlash(v.Path()))); err == nil {
			e.Target = target
			tail = " -> " + shown(target)
		}
	case mode.IsRegular():
		e.Type, e.Size = "file", size
		tail = "  " + humanSize(size)
	}
	indent := strings.Repeat("  ", v.Depth)
	line := indent + name + tail + "\n"
	if p.in.Detailed && err == nil {
		e.Mode, e.ModTime = mode.String(), mtime.UTC().Format(time.RFC3339)
		line = fmt.Sprintf("%s %s %s", e.Mode, mtime.UTC().Format("2006-01-02 15:04"), line)
	}
	if len(p.out.Entries) > 0 && p.text.Len()+len(line) > p.limit {
		p.full = true
		return nil
	}
	p.text.WriteString(line)
	p.out.Entries = append(p.out.Entries, e)
	return nil
}

// humanSize is a size in bytes, or in binary units with one decimal.
func humanSize(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1024 && unit < 4 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[unit])
}
