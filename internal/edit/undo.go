package edit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// Scopes of an undo.
const (
	ScopeCall = "call"
	ScopeFile = "file"
	ScopeTurn = "turn"
)

// undoCall begins the Call of the journal rows that an undo makes.
const undoCall = "undo:"

// UndoRequest says what to take back.
type UndoRequest struct {
	Origin Origin
	// Workspace resolves the paths; what lies outside is skipped.
	Workspace *workspace.Workspace
	// Scope is ScopeCall (also if empty), ScopeFile or ScopeTurn.
	Scope string
	// ID is the call, or for ScopeTurn the turn. Empty means that of the last
	// change of Origin.Session. An ID may be of another session: what Workspace
	// does not let write is skipped.
	ID string
	// Path restricts to one file. ScopeFile needs it, and takes back the last
	// call that changed it.
	Path   *workspace.Path
	DryRun bool
}

// UndoReport is what an undo did.
type UndoReport struct {
	ID       string     `json:"id"` // the call or turn taken back
	Restored []Restored `json:"restored"`
	Skipped  []Skipped  `json:"skipped"`
}

// Restored is one file that is as it was before.
type Restored struct {
	Path   string `json:"path"`
	Action string `json:"action"` // restored, deleted, created, renamed or mode
	Hash   string `json:"hash,omitempty"`
	Diff   Diff   `json:"-"`
}

// Skipped is one file that was left as it is.
type Skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// maxUndo bounds the journal rows that one undo looks at.
const maxUndo = 10_000

// Undo takes changes back, each file all or not at all. A file that is not as
// the change left it is skipped, and said.
func (e *Engine) Undo(ctx context.Context, r UndoRequest) (*UndoReport, error) {
	rows, id, err := e.chosen(ctx, r)
	if err != nil {
		return nil, err
	}
	report := &UndoReport{ID: id, Restored: []Restored{}, Skipped: []Skipped{}}
	for _, group := range groups(rows) {
		if err := e.undoGroup(ctx, r, group, report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// chosen finds the rows to take back, the newest first.
func (e *Engine) chosen(ctx context.Context, r UndoRequest) ([]store.Change, string, error) {
	if e.config.Journal == nil {
		return nil, "", tool.Errorf(tool.NotFound, "no journal of changes is kept, so nothing can be undone")
	}
	filter := store.ChangeFilter{State: done, Limit: maxUndo}
	if r.Path != nil {
		filter.Path = r.Path.Real
	}
	switch r.Scope {
	case "", ScopeCall:
		filter.Call = r.ID
	case ScopeTurn:
		filter.Turn = r.ID
	case ScopeFile:
		if r.Path == nil {
			return nil, "", tool.Errorf(tool.ParameterError, "scope file needs file_path").WithHint("Name the file to restore.")
		}
		filter.Call = r.ID
	default:
		return nil, "", tool.Errorf(tool.ParameterError, "no scope %q", r.Scope).WithHint("Use call, file or turn.")
	}
	if r.ID == "" {
		filter.Session = r.Origin.Session
	}
	rows, err := e.config.Journal.ListChanges(ctx, filter)
	if err != nil {
		return nil, "", journalError(err)
	}
	if len(rows) == 0 {
		return nil, "", nothingToUndo(r)
	}
	id := r.ID
	if id == "" {
		// All that belongs to the newest change.
		key := func(c store.Change) string { return c.Call }
		if r.Scope == ScopeTurn {
			key = func(c store.Change) string { return c.Turn }
		}
		id = key(rows[0])
		rows = slices.DeleteFunc(rows, func(c store.Change) bool { return key(c) != id })
	}
	return rows, id, nil
}

func nothingToUndo(r UndoRequest) error {
	what := "in this session"
	switch {
	case r.ID != "":
		what = "of " + r.ID
	case r.Path != nil:
		what = "to " + r.Path.Display
	}
	return tool.Errorf(tool.NotFound, "there is no change %s that could be undone", what).
		WithHint("Changes already undone, and those older than the journal keeps, cannot be undone again. Without an id the last call of this session is taken.")
}

// groups divides rows, the newest first, into those that touch the same files:
// chains of renames belong together.
func groups(rows []store.Change) [][]store.Change {
	member := map[string]int{} // path to group
	var out [][]store.Change
	for _, c := range rows {
		at := -1
		for _, path := range []string{c.Path, c.OldPath} {
			g, known := member[path]
			if path == "" || !known {
				continue
			}
			if at < 0 {
				at = g
			} else if g != at { // two groups meet
				out[at] = append(out[at], out[g]...)
				out[g] = nil
				for p, q := range member {
					if q == g {
						member[p] = at
					}
				}
			}
		}
		if at < 0 {
			at = len(out)
			out = append(out, nil)
		}
		out[at] = append(out[at], c)
		member[c.Path] = at
		if c.OldPath != "" {
			member[c.OldPath] = at
		}
	}
	out = slices.DeleteFunc(out, func(g []store.Change) bool { return len(g) == 0 })
	for _, g := range out {
		slices.SortFunc(g, func(a, b store.Change) int { return int(b.ID - a.ID) })
	}
	return out
}

// undoGroup takes back the changes of files that belong together.
func (e *Engine) undoGroup(ctx context.Context, r UndoRequest, group []store.Change, report *UndoReport) error {
	var paths []string
	for _, c := range group {
		paths = append(paths, c.Path)
		if c.OldPath != "" {
			paths = append(paths, c.OldPath)
		}
	}
	release, err := e.locks.acquire(ctx, paths...)
	if err != nil {
		return lockError("the files", err)
	}
	defer release()
	skip := func(path, reason string) {
		report.Skipped = append(report.Skipped, Skipped{Path: path, Reason: reason})
	}
	steps, reason, err := e.undoSteps(ctx, r, group)
	if err != nil {
		return err
	}
	name := r.Workspace.Display(group[0].Path)
	if reason != "" {
		skip(name, reason)
		return nil
	}
	if !r.DryRun {
		err := e.commitUndo(ctx, r.Origin, group, steps)
		if errors.Is(err, errChanged) {
			skip(name, "it changed while it was being restored")
			return nil
		}
		if te, ok := errors.AsType[*tool.Error](err); ok {
			skip(name, te.Message)
			return nil
		}
		if err != nil {
			return err
		}
	}
	for _, s := range steps {
		restored := Restored{Path: s.target().Display, Action: undoAction(s), Hash: s.after.hash}
		if s.after.link == "" && s.before.link == "" {
			restored.Diff = e.planDiff(s)
		}
		report.Restored = append(report.Restored, restored)
		if !r.DryRun {
			if err := e.sawRestored(ctx, r.Origin, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func undoAction(s *step) string {
	switch s.kind {
	case kindDelete:
		return "deleted"
	case kindCreate:
		return "created"
	case kindRename:
		return "renamed"
	case kindMode:
		return "mode"
	}
	return "restored"
}

// sawRestored keeps a file seen that was seen before it was restored.
func (e *Engine) sawRestored(ctx context.Context, o Origin, s *step) error {
	row, ok, err := e.sight(ctx, o.Session, s.path.Real)
	if err != nil || !ok || row.Hash != s.before.hash || !s.after.exists {
		return err
	}
	row.Path, row.Hash, row.Size = s.target().Real, s.after.hash, int64(len(s.after.raw))
	return e.putSight(ctx, row)
}

// commitUndo makes the steps; the rows that they take back, and their own, are
// undone with the same stroke.
func (e *Engine) commitUndo(ctx context.Context, o Origin, group []store.Change, steps []*step) error {
	for i := range group {
		group[i].State = undone
	}
	o.Call = undoCall + o.Call
	if len(steps) == 0 { // nothing differs any more
		return e.setState(ctx, group)
	}
	return e.commitAs(ctx, o, steps, group)
}

// undoSteps works out how the files of a group become what they were; reason
// says why not.
func (e *Engine) undoSteps(ctx context.Context, r UndoRequest, group []store.Change) (steps []*step, reason string, err error) {
	if s, ok := e.undoMove(ctx, r, group); ok {
		return []*step{s}, "", nil
	}
	first, now := map[string]state{}, map[string]state{}
	at := func(real string) (state, error) {
		if s, ok := now[real]; ok {
			return s, nil
		}
		s, err := e.stateAt(ctx, r.Workspace, real)
		first[real], now[real] = s, s
		return s, err
	}
	for _, c := range group {
		is, err := at(c.Path)
		if err != nil {
			return nil, reasonOf(err), nil
		}
		// A change of mode seen around a command does not name the content.
		modeOnly := c.Kind == kindMode && c.After == "" && is.exists && uint32(is.mode.Perm()) == c.AfterMode
		if !modeOnly && (is.hash != c.After || is.link != c.AfterLink) {
			return nil, fmt.Sprintf("it changed since %s", callName(c.Call)), nil
		}
		was, err := e.stateOf(c.Before, c.BeforeMode, c.BeforeLink)
		if c.Kind == kindMode || c.Kind == kindRename && c.Before == c.After {
			was, err = is, nil // the content is the same
			was.mode = fs.FileMode(c.BeforeMode).Perm()
		}
		if errors.Is(err, errNoBlob) {
			return nil, errNoBlob.Error(), nil
		}
		if err != nil {
			return nil, reasonOf(err), nil
		}
		if c.Kind != kindRename {
			now[c.Path] = was
			continue
		}
		old, err := at(c.OldPath)
		if err != nil || old.exists {
			return nil, fmt.Sprintf("there is something at %s, its old name", r.Workspace.Display(c.OldPath)), nil
		}
		now[c.Path], now[c.OldPath] = state{}, was
	}
	return e.stepsBetween(r.Workspace, first, now)
}

// stepsBetween lists what turns the first states into the last.
func (e *Engine) stepsBetween(ws *workspace.Workspace, first, last map[string]state) (steps []*step, reason string, err error) {
	for real, to := range last {
		from := first[real]
		p, err := ws.ResolveLink(real, workspace.Write)
		if err != nil {
			return nil, reasonOf(err), nil
		}
		s := &step{kind: kindWrite, path: p, before: from, after: to}
		switch {
		case from.exists == to.exists && from.hash == to.hash && from.link == to.link:
			if !from.exists || to.mode == 0 || from.mode.Perm() == to.mode.Perm() || from.link != "" {
				continue
			}
			s.kind = kindMode
		case !to.exists:
			s.kind = kindDelete
		case !from.exists:
			s.kind = kindCreate
		case from.link != "" || to.link != "":
			// A link and a file do not turn into one another by writing.
			steps = append(steps, &step{kind: kindDelete, path: p, before: from})
			s.kind, s.before = kindCreate, state{}
		}
		steps = append(steps, s)
	}
	slices.SortStableFunc(steps, func(a, b *step) int {
		// What frees a name comes first.
		rank := func(s *step) int {
			if s.kind == kindDelete {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	return steps, "", nil
}

// undoMove undoes a lone rename by another, which keeps all that the file has.
func (e *Engine) undoMove(ctx context.Context, r UndoRequest, group []store.Change) (*step, bool) {
	if len(group) != 1 || group[0].Kind != kindRename || group[0].Before != group[0].After {
		return nil, false
	}
	c := group[0]
	from, err := r.Workspace.ResolveLink(c.Path, workspace.Write)
	if err != nil {
		return nil, false
	}
	to, err := r.Workspace.ResolveLink(c.OldPath, workspace.Write)
	if err != nil || to.Exists() {
		return nil, false
	}
	f, err := e.load(ctx, from)
	if err != nil || f.hash != c.After {
		return nil, false
	}
	s := &step{kind: kindRename, path: from, to: to, before: f.state(), after: f.state()}
	s.after.mode = fs.FileMode(c.BeforeMode).Perm()
	return s, true
}

// stateAt is what is at a real path now; a symlink is not followed.
func (e *Engine) stateAt(ctx context.Context, ws *workspace.Workspace, real string) (state, error) {
	p, err := ws.ResolveLink(real, workspace.Write)
	if err != nil {
		return state{}, err
	}
	if p.Info != nil && p.Info.Mode()&fs.ModeSymlink != 0 {
		link, err := p.Root.Readlink(p.Rel)
		return state{exists: true, link: link}, err
	}
	if p.Real != real {
		return state{}, fmt.Errorf("a part of its path has become a symlink")
	}
	f, err := e.load(ctx, p)
	if err != nil {
		return state{}, err
	}
	return f.state(), nil
}

func reasonOf(err error) string {
	if te, ok := errors.AsType[*tool.Error](err); ok {
		return te.Message
	}
	return err.Error()
}

func callName(id string) string {
	if id == "" {
		return "the change"
	}
	return "call " + id
}

// Observed is a change that somebody else made, such as a command of bash: the
// same fields as the journal's. Before is the hash of a content kept with
// [Engine.PutBlob]; "" means that there was no file.
type Observed struct {
	Path                  string // real, absolute
	Kind                  string // create, write, delete or mode
	Before, After         string
	BeforeMode, AfterMode fs.FileMode
	BeforeLink, AfterLink string
}

// PutBlob keeps a content for undo and returns its hash, durably.
func (e *Engine) PutBlob(content []byte) (string, error) {
	if e.blobs == nil {
		return Sum(content), nil
	}
	return e.blobs.put(content)
}

// Record puts changes into the journal that have already happened, so that
// undo covers them.
func (e *Engine) Record(ctx context.Context, o Origin, changes []Observed) error {
	if e.config.Journal == nil || len(changes) == 0 {
		return nil
	}
	now := e.config.Now().UTC()
	rows := make([]store.Change, 0, len(changes))
	for _, c := range changes {
		rows = append(rows, store.Change{
			Call: o.Call, Session: o.Session, Turn: o.Turn, Workspace: o.Workspace,
			Path: c.Path, Kind: c.Kind, Before: c.Before, After: c.After,
			BeforeMode: uint32(c.BeforeMode.Perm()), AfterMode: uint32(c.AfterMode.Perm()),
			BeforeLink: c.BeforeLink, AfterLink: c.AfterLink, At: now, State: done,
		})
	}
	_, err := e.config.Journal.PutChanges(ctx, rows)
	if err != nil {
		return journalError(err)
	}
	return nil
}
