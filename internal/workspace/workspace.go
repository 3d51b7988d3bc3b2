// Package workspace turns the paths that users and models write into files that
// cannot lie outside what was granted. It is the only place that resolves such
// a path. It does not know tools, permissions or editing.
//
// A [Workspace] is one root directory, where everything may be read and
// written, and further directories granted by the operator. [Workspace.Resolve]
// walks a path as the kernel would, symlinks included, and gives a [Path]: an
// open root and a name below it that holds no symlink. What is done with a Path
// goes through [os.Root], so a directory swapped for a symlink between check
// and use is refused by the kernel walk as well.
package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/toolyard/toolyard/tool"
)

// maxLinks is how many symlinks one path may pass, as in Linux.
const maxLinks = 40

// Config says what a workspace grants. The zero value grants nothing.
type Config struct {
	// Dir is the root: read and written.
	Dir string
	// Read and Write are further directories; a written one is read as well.
	Read, Write []string
	// Home is what "~" stands for. Empty means that "~" is refused.
	Home string
	// Own is the real path of a directory closed to tools even where it lies in
	// what is granted: the runtime's own home. Empty means none.
	Own string
	// Ignored tells whether a path below Dir is closed to tools by a
	// .toolyardignore file; slash-separated, relative to Dir. Nil means none is.
	Ignored func(rel string, dir bool) bool
}

// Workspace resolves paths. It is safe for concurrent use.
type Workspace struct {
	config Config
	roots  []root // the workspace first
}

// root is one granted directory.
type root struct {
	given string // as named, absolute
	real  string // with no symlink
	write bool
	dir   *os.Root
	file  *os.File // the same directory
}

// Open opens the directories of c. One that is missing or is not a directory is
// an error that names it.
func Open(c Config) (*Workspace, error) {
	c.Read, c.Write = slices.Clone(c.Read), slices.Clone(c.Write)
	w := &Workspace{config: c}
	add := func(dir string, write bool) error {
		given, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		real, err := filepath.EvalSymlinks(given)
		if err != nil {
			return err
		}
		opened, err := os.OpenRoot(real)
		if err != nil {
			return err
		}
		file, err := opened.Open(".")
		if err != nil {
			opened.Close()
			return err
		}
		w.roots = append(w.roots, root{given: given, real: real, write: write, dir: opened, file: file})
		return nil
	}
	var err error
	if c.Dir != "" {
		err = add(c.Dir, true)
	}
	for _, dir := range c.Write {
		err = errors.Join(err, add(dir, true))
	}
	for _, dir := range c.Read {
		err = errors.Join(err, add(dir, false))
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// Close releases the open directories.
func (w *Workspace) Close() error {
	var err error
	for _, r := range w.roots {
		err = errors.Join(err, r.dir.Close(), r.file.Close())
	}
	return err
}

// Dir is the workspace's root with no symlink in it; "" if there is none.
func (w *Workspace) Dir() string {
	if w.config.Dir == "" {
		return ""
	}
	return w.roots[0].real
}

// Access is what a caller means to do with a path.
type Access uint8

const (
	Read  Access = iota
	Write        // also create, rename, remove
)

// Path is a resolved path: a name with no symlink below an open root.
type Path struct {
	// Given is the path as the user wrote it, absolute and lexically clean.
	Given string
	// Real is the absolute path with no symlink.
	Real string
	// Rel is Real below its root; "." is the root itself.
	Rel string
	// Display is the name to show: below the workspace, with slashes, or Real.
	Display string
	// Root is the open directory that Rel is below.
	Root *os.Root
	// Info describes what is there, nil if nothing is.
	Info fs.FileInfo
	// Link says that the name given ends in a symlink (which was followed).
	Link bool

	file *os.File        // the directory of Root
	near func() []string // names like this one
}

// Exists reports whether there was anything at the path when it was resolved.
func (p *Path) Exists() bool { return p.Info != nil }

// Resolve finds the file behind name, relative to the workspace's root. See
// [Workspace.ResolveIn].
func (w *Workspace) Resolve(name string, access Access) (*Path, error) {
	return w.ResolveIn(w.Dir(), name, access)
}

// ResolveIn finds the file behind name, which is absolute, begins with "~/", or
// is relative to base (a Real path). The file need not exist; its directory
// need not either. Errors are *tool.Error: PERMISSION_DENIED for what lies
// outside or is ignored, PARAMETER_ERROR for a name that no file can have,
// NOT_FOUND where a file stands in place of a directory.
func (w *Workspace) ResolveIn(base, name string, access Access) (*Path, error) {
	return w.resolve(base, name, access, true)
}

// ResolveLink is Resolve, but a symlink at the very end is not followed.
func (w *Workspace) ResolveLink(name string, access Access) (*Path, error) {
	return w.resolve(w.Dir(), name, access, false)
}

func (w *Workspace) resolve(base, name string, access Access, follow bool) (*Path, error) {
	given, err := w.absolute(base, name)
	if err != nil {
		return nil, err
	}
	at, rest, ok := w.locate(given)
	if !ok {
		return nil, w.outside(name)
	}
	p := &Path{Given: filepath.Clean(given)}
	if !direct(p, at, rest) {
		if err := w.walk(p, at, rest, name, follow); err != nil {
			return nil, err
		}
	}
	if err := w.check(p, name, access); err != nil {
		return nil, err
	}
	p.Display = w.Display(p.Real)
	if p.Info == nil {
		p.near = func() []string { return w.Near(name) }
	}
	return p, nil
}

// absolute makes name absolute without cleaning it: "a/../b" is for the walk to
// understand, since a may be a symlink.
func (w *Workspace) absolute(base, name string) (string, error) {
	switch {
	case name == "":
		return "", tool.Errorf(tool.ParameterError, "the path is empty").WithHint("Give a path inside the workspace.")
	case strings.ContainsRune(name, 0):
		return "", tool.Errorf(tool.ParameterError, "the path %q contains a NUL byte", name)
	case name == "~" || strings.HasPrefix(name, "~/"):
		if w.config.Home == "" {
			return "", w.outside(name)
		}
		return w.config.Home + name[1:], nil
	case filepath.IsAbs(name):
		return name, nil
	case base == "":
		return "", tool.Errorf(tool.PermissionDenied, "the path %q is relative, but there is no workspace", name).
			WithHint("Start with --workspace DIR, or give an absolute path inside a granted directory.")
	}
	return base + string(filepath.Separator) + name, nil
}

// locate finds the innermost root that an absolute path begins with, and what
// follows.
func (w *Workspace) locate(path string) (at *root, rest string, ok bool) {
	longest := -1
	for i := range w.roots {
		for _, prefix := range []string{w.roots[i].given, w.roots[i].real} {
			below, inside := below(path, prefix)
			if inside && len(prefix) > longest {
				longest, at, rest = len(prefix), &w.roots[i], below
			}
		}
	}
	return at, rest, at != nil
}

// below cuts prefix off path at a component's end.
func below(path, prefix string) (string, bool) {
	if prefix == string(filepath.Separator) {
		return strings.TrimLeft(path, "/"), strings.HasPrefix(path, "/")
	}
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok || (rest != "" && rest[0] != filepath.Separator) {
		return "", false
	}
	return strings.TrimLeft(rest, string(filepath.Separator)), true
}

// walk follows rest from at, one component at a time, and fills in p.
func (w *Workspace) walk(p *Path, at *root, rest, name string, follow bool) error {
	todo := split(rest)
	var done []string
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				up, rest, ok := w.locate(filepath.Dir(at.real))
				if !ok || at.real == filepath.Dir(at.real) {
					return w.outside(name)
				}
				at, done = up, split(rest)
				continue
			}
			done = done[:len(done)-1]
			continue
		}
		here := strings.Join(append(done, part), string(filepath.Separator))
		info, err := at.dir.Lstat(here)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// Nothing more can be a symlink. ".." after a missing name is what the
			// kernel refuses too.
			if slices.Contains(todo, "..") {
				return notFound(name)
			}
			done = append(done, part)
			for _, part := range todo {
				if part != "" && part != "." {
					done = append(done, part)
				}
			}
			p.finish(at, done, nil)
			return nil
		case errors.Is(err, syscall.ENOTDIR):
			return notDirectory(name)
		case errors.Is(err, syscall.ENAMETOOLONG):
			return tool.Errorf(tool.ParameterError, "the path %s is longer than the file system allows", shorten(name))
		case err != nil:
			return fileError(name, err)
		case info.Mode()&fs.ModeSymlink != 0 && (follow || len(todo) > 0):
			if links++; links > maxLinks {
				return tool.Errorf(tool.ParameterError, "the path %q goes through more than %d symlinks: they form a loop", name, maxLinks)
			}
			target, err := at.dir.Readlink(here)
			if err != nil {
				return fileError(name, err)
			}
			p.Link = p.Link || len(todo) == 0
			if filepath.IsAbs(target) {
				to, rest, ok := w.locate(target)
				if !ok {
					return w.outside(name)
				}
				at, done = to, nil
				todo = append(split(rest), todo...)
				continue
			}
			todo = append(split(target), todo...)
		case len(todo) > 0 && !info.IsDir() && info.Mode()&fs.ModeSymlink == 0:
			return notDirectory(name)
		default:
			done = append(done, part)
		}
	}
	here := strings.Join(done, string(filepath.Separator))
	if here == "" {
		here = "."
	}
	info, err := at.dir.Lstat(here)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(name, err)
	}
	p.finish(at, done, info)
	return nil
}

func (p *Path) finish(at *root, parts []string, info fs.FileInfo) {
	p.Root, p.file = at.dir, at.file
	p.Rel = filepath.Join(parts...)
	p.Real = filepath.Join(at.real, p.Rel)
	if p.Rel == "" {
		p.Rel = "."
	}
	p.Info = info
}

// check decides whether the resolved path may be used for access.
func (w *Workspace) check(p *Path, name string, access Access) error {
	readable, writable := false, false
	for _, r := range w.roots {
		if _, inside := below(p.Real, r.real); inside {
			readable = true
			writable = writable || r.write
		}
	}
	if !readable {
		return w.outside(name)
	}
	if w.config.Own != "" {
		if _, inside := below(p.Real, w.config.Own); inside {
			return tool.Errorf(tool.PermissionDenied, "%s belongs to Toolyard itself and is closed to tools", name).
				WithHint("The person can use toolyard's own commands, such as toolyard log and toolyard config.")
		}
	}
	if access == Write && !writable {
		return tool.Errorf(tool.PermissionDenied, "%s may be read but not written", name).
			WithHint("Its directory was granted for reading only. Write inside the workspace, or ask the operator to add it to directories.write.")
	}
	if w.config.Ignored != nil && w.config.Dir != "" {
		if rel, inside := below(p.Real, w.roots[0].real); inside && rel != "" &&
			w.config.Ignored(filepath.ToSlash(rel), p.Info != nil && p.Info.IsDir()) {
			return tool.Errorf(tool.PermissionDenied, "%s is closed to tools by a .toolyardignore file", name).
				WithHint("Ask the person to change .toolyardignore if the file is needed.")
		}
	}
	return nil
}

// Inside reports whether an absolute path with no symlink lies in a granted
// directory, and whether it may be written.
func (w *Workspace) Inside(real string) (readable, writable bool) {
	for _, r := range w.roots {
		if _, inside := below(real, r.real); inside {
			readable = true
			writable = writable || r.write
		}
	}
	return readable, writable
}

// Display is the name of a real path to show: below the workspace, with
// slashes, or the path itself.
func (w *Workspace) Display(real string) string {
	if dir := w.Dir(); dir != "" {
		if rel, inside := below(real, dir); inside {
			if rel == "" {
				return "."
			}
			return filepath.ToSlash(rel)
		}
	}
	return real
}

func split(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, string(filepath.Separator))
}

func (w *Workspace) outside(name string) error {
	hint := "Only paths inside the workspace and granted directories can be used."
	if dir := w.Dir(); dir != "" {
		hint = "Use a path inside the workspace " + dir + ", or ask the operator to grant the directory (directories.read, directories.write)."
	}
	return tool.Errorf(tool.PermissionDenied, "the path %s is outside the workspace", shorten(name)).WithHint("%s", hint)
}

func notFound(name string) *tool.Error {
	return tool.Errorf(tool.NotFound, "no such file or directory: %s", shorten(name))
}

func notDirectory(name string) error {
	return tool.Errorf(tool.NotFound, "%s: a part of the path is a file, not a directory", shorten(name))
}

// fileError reports an error of the operating system without the paths that it
// may name.
func fileError(name string, err error) error {
	cause := err
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		cause = pathErr.Err
	}
	code := tool.ExecutionError
	if errors.Is(err, fs.ErrPermission) {
		code = tool.PermissionDenied
	}
	e := tool.Errorf(code, "%s: %v", shorten(name), cause)
	e.Err = err
	return e
}

// shorten quotes a path for a message and cuts what is absurdly long.
func shorten(name string) string {
	const longest = 300
	if len(name) > longest {
		name = name[:longest] + "…"
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) || !strings.Contains(name, "/") && strings.Contains(name, " ") {
		return `"` + strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(name) + `"`
	}
	return name
}
