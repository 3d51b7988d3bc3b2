package files

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/search"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of what is shown.
const (
	maxLineChars = 2000 // characters of a line before it is cut
	noteRoom     = 600  // bytes of an output kept free for closing remarks
)

// place is a resolved path that a search begins at.
type place struct {
	ws   *workspace.Workspace
	path *workspace.Path
	search.Place
}

// open resolves name and opens it if it is a directory; Place.Dir is nil for a
// file. The caller calls close.
func (d Deps) open(req *tool.Request, name string) (*place, error) {
	ws, err := d.Workspace(req.Workspace)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = "."
	}
	p, err := ws.Resolve(name, workspace.Read)
	if err != nil {
		return nil, err
	}
	if !p.Exists() {
		return nil, missing(ws, p, name)
	}
	at := &place{ws: ws, path: p}
	if !p.Info.IsDir() {
		return at, p.Regular()
	}
	dir, err := p.Root.Open(p.Rel)
	if err != nil {
		return nil, unreadable(p.Display, err)
	}
	at.Place = search.Place{Dir: dir, Path: p.Real}
	if root := ws.Dir(); root != "" {
		if rel, err := filepath.Rel(root, p.Real); err == nil && filepath.IsLocal(rel) {
			at.Boundary = root
		}
	}
	return at, nil
}

// missing says that nothing is at a path, and what is there instead.
func missing(ws *workspace.Workspace, p *workspace.Path, name string) error {
	e := tool.Errorf(tool.NotFound, "no such file or directory: %s", shown(p.Display))
	if filepath.Base(name) != filepath.Base(p.Display) && filepath.Base(name) != ".." && name != "." {
		e.Message += fmt.Sprintf(", to which the symlink %s leads", shown(name))
	}
	var near []string
	for _, n := range ws.Near(name) {
		near = append(near, shown(n))
	}
	if len(near) == 0 {
		return e.WithHint("Use glob or list to find the right path.")
	}
	return e.WithHint("Did you mean %s?", strings.Join(near, ", ")).WithDetail("near", near)
}

func (p *place) close() {
	if p.Dir != nil {
		p.Dir.Close()
	}
}

// display is the name to show of what lies below the place.
func (p *place) display(below string) string {
	if p.path.Display == "." {
		return below
	}
	return path.Join(p.path.Display, below)
}

func unreadable(name string, err error) error {
	code := tool.ExecutionError
	if os.IsPermission(err) {
		code = tool.PermissionDenied
	}
	e := tool.Errorf(code, "%s cannot be read", shown(name))
	e.Err = err
	return e.WithHint("Check its permissions.")
}

// shown is a name as it can stand in a line: quoted if it holds what would break
// the line, and always UTF-8.
func shown(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return strconv.Quote(name)
	}
	return name
}

// maxOutput is the number of bytes that a call may return.
func maxOutput(req *tool.Request) int {
	if req.MaxOutput > 0 {
		return req.MaxOutput
	}
	return tool.DefaultMaxOutput
}

// saw tells the engine what a session was shown. That it could not be recorded
// must not fail the reading.
func (d Deps) saw(ctx context.Context, req *tool.Request, p *workspace.Path, s edit.Sight) string {
	if d.Edit == nil {
		return ""
	}
	if err := d.Edit.Saw(ctx, req.Session, p, s); err != nil {
		return fmt.Sprintf("That this file was read could not be recorded (%v), so writing to it may be refused.", err)
	}
	return ""
}

// cutLine cuts a line after 2,000 characters and says how many are missing. size
// is the length of the whole line in bytes where line is only its beginning; 0
// means that line is all of it.
func cutLine(line string, size int) string {
	if len(line) <= maxLineChars && size <= len(line) {
		return line
	}
	chars := 0
	for i := range line {
		if chars == maxLineChars {
			if size > len(line) {
				return fmt.Sprintf("%s… [line cut, %s bytes in all]", line[:i], thousands(int64(size)))
			}
			return fmt.Sprintf("%s… [line cut, %s more characters]", line[:i], thousands(int64(utf8.RuneCountInString(line[i:]))))
		}
		chars++
	}
	if size > len(line) {
		return fmt.Sprintf("%s… [line cut, %s bytes in all]", line, thousands(int64(size)))
	}
	return line
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural is "1 file", "2 files".
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// resourced adds to a tool which files its calls read.
type resourced struct {
	tool.Tool
	deps  Deps
	names func(req *tool.Request) []string
}

// Subjects gives every file to the policy, those of a list too.
func (r resourced) Subjects(req *tool.Request) []tool.Subject {
	var list []tool.Subject
	for _, name := range r.names(req) {
		list = append(list, tool.Subject{Kind: tool.SubjectPath, Value: name})
	}
	return list
}

// resolvedName is the key of a name that was resolved for reading.
type resolvedName string

// resolve finds the file behind a name, once for a call: what Resources has
// found is what is read.
func (d Deps) resolve(req *tool.Request, ws *workspace.Workspace, name string) (*workspace.Path, error) {
	return tool.Remember(req, resolvedName(name), func() (*workspace.Path, error) { return ws.Resolve(name, workspace.Read) })
}

// Resources names the files that a call reads. A name that does not resolve
// will be refused by the call; until then it stands for itself.
func (r resourced) Resources(req *tool.Request) []tool.Resource {
	ws, err := r.deps.Workspace(req.Workspace)
	var list []tool.Resource
	for _, name := range r.names(req) {
		key := name
		if err == nil {
			if p, err := r.deps.resolve(req, ws, name); err == nil {
				key = p.Real
			}
		}
		list = append(list, tool.Resource{Key: key, Access: tool.ReadAccess})
	}
	return list
}
