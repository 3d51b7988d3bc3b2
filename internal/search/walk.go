package search

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/toolyard/toolyard/tool"
)

// Bounds of a walk.
const (
	maxDepth        = 1000     // directories below each other; each is held open
	direntBuffer    = 32 << 10 // bytes read from a directory at once
	maxUnreadable   = 5        // names of unreadable directories that are kept
	checkEvery      = 64       // directories between two looks at the context
	maxExpandedGlob = 256      // patterns that one glob with braces may stand for
)

// leftOut are the directories that are not entered unless they are named. To
// leave out another one, add it here and in files-shell.md.
var leftOut = []string{
	".git", ".hg", ".svn", ".bzr", ".jj", ".sl", "_darcs", ".pijul", "CVS",
	"node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache",
	".pytest_cache", ".ruff_cache", ".next", ".gradle",
}

// Place is where a search begins.
type Place struct {
	// Dir is the open directory. It stays the caller's.
	Dir *os.File
	// Path is its absolute path without a symlink.
	Path string
	// Boundary is the workspace's root, a directory at or above Path: ignore files
	// from there down count even without a repository. Empty means Path.
	Boundary string
}

// Options say what a walk shows. The zero value shows what git would track and
// hidden files too.
type Options struct {
	// ExcludesFile is git's core.excludesFile. Empty means none.
	ExcludesFile string
	// Exclude are further patterns in gitignore syntax, relative to the place.
	Exclude []string
	// Glob is a pattern as of ripgrep's -g: only files that match are shown, also
	// ignored ones; with "!" in front, those that match are not.
	Glob string
	// Type is a language of [Types]; only its files are shown.
	Type string
	// SkipHidden leaves out names that begin with a dot.
	SkipHidden bool
	// Named are names of directories that are entered although they are among
	// those usually left out.
	Named []string
	// Closed tells of an absolute path whether a rule keeps it from being shown;
	// what it closes is left out and counted. Nil closes nothing. It must not keep
	// the path.
	Closed func(path string) bool
	// MaxDepth is how many levels are shown; 1 is the place's own entries. Zero
	// means all.
	MaxDepth int
}

// Report is what a walk could not show.
type Report struct {
	// Unreadable counts directories that could not be read; Names are the first
	// of them, relative to the place.
	Unreadable int
	Names      []string
	// Closed counts the files and directories that [Options].Closed left out.
	Closed int
}

// Visit is one entry of a walk. It is valid during the visit.
type Visit struct {
	Name  string
	Depth int    // 1 is directly in the place
	path  string // a view of the walker's buffer: valid only during the visit
	kind  kind
	dir   *directory
}

// Path is the entry's path below the place, with slashes.
func (v *Visit) Path() string { return strings.Clone(v.path) }

// IsDir reports whether the entry is a directory.
func (v *Visit) IsDir() bool { return v.kind == kindDir }

// IsLink reports whether the entry is a symlink. It is not followed.
func (v *Visit) IsLink() bool { return v.kind == kindLink }

// Stat describes the entry, a symlink itself.
func (v *Visit) Stat() (size int64, mode fs.FileMode, mtime time.Time, err error) {
	m, err := v.dir.stat(v.Name)
	return m.size, m.mode, m.mtime, err
}

// SkipDir is returned for a directory that is not to be entered.
var SkipDir = fs.SkipDir

// Walk calls visit for everything below a place that the options show, depth
// first, in the order of the names' bytes. An error of visit ends the walk and
// is returned, except [SkipDir]. Walk returns the context's cause when ctx is
// done, and a *tool.Error for options that make no sense.
func Walk(ctx context.Context, at Place, o Options, visit func(*Visit) error) (Report, error) {
	w, err := newWalker(ctx, at, o)
	if err != nil {
		return Report{}, err
	}
	w.visit = visit
	return w.run()
}

type walker struct {
	ctx   context.Context // of this one walk
	at    Place
	o     Options
	visit func(*Visit) error

	levels   levels
	start    *level
	exclude  *patterns
	override *override
	types    *typeMatcher
	left     map[string]bool

	path   []byte // absolute, of the entry at hand
	root   int    // length of the place's path with its slash
	buf    []byte
	spare  [][]entry // lists to use again
	seen   int
	v      Visit
	report Report
}

func newWalker(ctx context.Context, at Place, o Options) (*walker, error) {
	w := &walker{ctx: ctx, at: at, o: o, buf: make([]byte, direntBuffer), left: map[string]bool{}}
	for _, name := range leftOut {
		w.left[name] = !slices.Contains(o.Named, name) && !slices.Contains(strings.Split(at.Path, "/"), name)
	}
	if o.ExcludesFile != "" {
		w.levels.global = readPatterns(o.ExcludesFile)
	}
	if len(o.Exclude) > 0 {
		w.exclude = &patterns{}
		for _, line := range o.Exclude {
			w.exclude.add(line)
		}
	}
	var err error
	if w.override, err = newOverride(o.Glob); err != nil {
		return nil, err
	}
	if w.types, err = newTypeMatcher(o.Type); err != nil {
		return nil, err
	}
	var shut bool
	if w.start, shut = w.levels.startLevel(at.Path, at.Boundary); shut {
		return nil, tool.Errorf(tool.PermissionDenied, "the directory is closed to tools by a .toolyardignore file").
			WithHint("Ask the person to change .toolyardignore if it is needed.")
	}
	w.path = append(append(w.path, at.Path...), '/')
	if strings.HasSuffix(at.Path, "/") {
		w.path = w.path[:len(w.path)-1]
	}
	w.root = len(w.path)
	return w, nil
}

func (w *walker) run() (Report, error) {
	h, err := openHandle(w.at.Dir)
	if err != nil {
		return w.report, err
	}
	d := newDirectory(h, "")
	defer d.release()
	err = w.directory(d, w.start, 1)
	return w.report, err
}

// view is a string over w.path, valid until it changes.
func (w *walker) view(from int) string {
	b := w.path[from:]
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (w *walker) directory(d *directory, above *level, depth int) error {
	if w.seen++; w.seen%checkEvery == 0 && w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	list, err := d.entries(w.buf, w.take())
	defer func() { w.spare = append(w.spare, list) }()
	if err != nil && len(list) == 0 {
		w.unreadable()
		return nil
	}
	sortEntries(list)
	l := w.levelHere(d, above, list)
	length := len(w.path)
	for i := range list {
		e := &list[i]
		w.path = append(w.path[:length], e.name...)
		if !w.shows(l, e) {
			continue
		}
		if w.o.Closed != nil && w.o.Closed(w.view(0)) {
			w.report.Closed++
			continue
		}
		w.v = Visit{Name: e.name, path: w.view(w.root), Depth: depth, kind: e.kind, dir: d}
		err := w.visit(&w.v)
		if err == nil && e.kind == kindDir && (w.o.MaxDepth == 0 || depth < w.o.MaxDepth) {
			err = w.enter(d, e, l, depth)
		}
		if err != nil && (!errors.Is(err, SkipDir) || e.kind != kindDir) {
			return err
		}
	}
	w.path = w.path[:length]
	return nil
}

func (w *walker) enter(d *directory, e *entry, l *level, depth int) error {
	if depth >= maxDepth {
		w.unreadable()
		return nil
	}
	h, err := d.sub(e.name)
	if err != nil {
		w.unreadable()
		return nil
	}
	w.path = append(w.path, '/')
	sub := newDirectory(h, string(w.path[w.root:]))
	defer sub.release()
	return w.directory(sub, l, depth+1)
}

func (w *walker) take() []entry {
	if n := len(w.spare); n > 0 {
		list := w.spare[n-1]
		w.spare = w.spare[:n-1]
		clear(list)
		return list[:0]
	}
	return nil
}

func (w *walker) unreadable() {
	w.report.Unreadable++
	if len(w.report.Names) < maxUnreadable {
		w.report.Names = append(w.report.Names, strings.TrimSuffix(string(w.path[w.root:]), "/"))
	}
}

// levelHere reads what the directory itself holds of ignore files.
func (w *walker) levelHere(d *directory, above *level, list []entry) *level {
	var git, closed *patterns
	isTop := false
	// The names with a dot stand together in a sorted list.
	i, _ := slices.BinarySearchFunc(list, ".", func(e entry, s string) int { return strings.Compare(e.name, s) })
	for ; i < len(list) && list[i].name[0] == '.'; i++ {
		switch e := &list[i]; {
		case e.name == gitName:
			isTop = true
		case e.name == gitignoreName && e.kind == kindFile:
			git = readPatternsIn(d, e.name)
		case e.name == closedName && e.kind == kindFile:
			closed = readPatternsIn(d, e.name)
		}
	}
	if git == nil && closed == nil && !isTop {
		return above
	}
	dir := strings.TrimSuffix(string(w.path), "/")
	if dir == "" {
		dir = "/"
	}
	return w.levels.below(above, dir, git, closed, isTop)
}

func readPatternsIn(d *directory, name string) *patterns {
	r, err := d.open(name)
	if err != nil {
		return nil
	}
	defer r.close()
	var content []byte
	buf := make([]byte, 4096)
	for len(content) < maxPatternFile {
		n, err := r.read(buf)
		content = append(content, buf[:n]...)
		if err != nil {
			break
		}
	}
	if len(content) == 0 {
		return nil
	}
	return parsePatterns(content)
}

// shows decides about the entry whose path is in w.path.
func (w *walker) shows(l *level, e *entry) bool {
	dir := e.kind == kindDir
	if dir && w.left[e.name] {
		return false
	}
	ignored, shut := l.ignored(w.view(0), e.name, dir)
	if shut {
		return false
	}
	below := w.view(w.root)
	if w.exclude != nil && w.exclude.match(below, e.name, dir) == excluded {
		return false
	}
	if w.override != nil {
		switch w.override.match(below, w.boundaryView(), e.name, dir) {
		case excluded:
			return false
		case included:
			return dir || w.types.match(e.name)
		}
	}
	if ignored == excluded {
		return false
	}
	if w.o.SkipHidden && e.name[0] == '.' && ignored != included {
		return false
	}
	return dir || w.types.match(e.name)
}

// boundaryView is the path at hand below the boundary; "" if it is not below.
func (w *walker) boundaryView() string {
	if w.at.Boundary == "" || !within(w.at.Path, w.at.Boundary) {
		return ""
	}
	return w.view(baseOf(w.at.Boundary))
}
