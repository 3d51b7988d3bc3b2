package edit

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// Sight is what a session was shown of a file.
type Sight struct {
	Hash    string // [Sum] of the whole content
	Size    int64
	ModTime time.Time
	// Lines are those really returned. Whole says that it was all of them.
	Lines []store.LineRange
	Whole bool
}

// maxRanges bounds the ranges of one record; beyond it the closest are joined.
const maxRanges = 512

// Saw records that a session was shown a file. What it saw before of the same
// content still counts.
func (e *Engine) Saw(ctx context.Context, session string, p *workspace.Path, s Sight) error {
	if session == "" {
		return nil
	}
	row := store.Seen{
		Session: session, Path: p.Real, Hash: s.Hash, Size: s.Size, ModTime: s.ModTime.UTC(),
		Lines: s.Lines, Whole: s.Whole, At: e.config.Now().UTC(),
	}
	if old, ok, err := e.sight(ctx, session, p.Real); err != nil {
		return err
	} else if ok && old.Hash == row.Hash {
		row.Whole = row.Whole || old.Whole
		row.Lines = append(slices.Clone(old.Lines), s.Lines...)
	}
	return e.putSight(ctx, row)
}

// putSight stores a record as it is.
func (e *Engine) putSight(ctx context.Context, row store.Seen) error {
	row.Lines = joinRanges(row.Lines)
	if row.Whole {
		row.Lines = nil
	}
	e.seen.put(row)
	if e.config.Sessions == nil {
		return nil
	}
	return e.config.Sessions.PutSeen(ctx, row)
}

// sight finds what a session has seen of a path.
func (e *Engine) sight(ctx context.Context, session, real string) (store.Seen, bool, error) {
	if row, ok := e.seen.get(session, real); ok {
		return row, true, nil
	}
	if e.config.Sessions == nil || session == "" {
		return store.Seen{}, false, nil
	}
	row, err := e.config.Sessions.Seen(ctx, session, real)
	if errors.Is(err, store.ErrNotFound) {
		return store.Seen{}, false, nil
	}
	if err != nil {
		return store.Seen{}, false, err
	}
	e.seen.put(row)
	return row, true, nil
}

// joinRanges sorts ranges and joins those that touch.
func joinRanges(ranges []store.LineRange) []store.LineRange {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b store.LineRange) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out); n > 0 && r.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, r.To)
		} else if r.To >= r.From {
			out = append(out, r)
		}
	}
	if len(out) > maxRanges {
		// Forget the smallest rather than claim what was not shown.
		slices.SortFunc(out, func(a, b store.LineRange) int { return (b.To - b.From) - (a.To - a.From) })
		out = out[:maxRanges]
		slices.SortFunc(out, func(a, b store.LineRange) int { return a.From - b.From })
	}
	return out
}

// checkSeen is layers 7 and 8 for a file with the given content. exact says
// that Anchored strictness is enough (false for overwriting). The notes say
// what strictness would have refused.
func (e *Engine) checkSeen(ctx context.Context, o Origin, f *file, exact bool) (notes []string, stale bool, err error) {
	if len(f.raw) == 0 {
		return nil, false, nil // nothing that could be lost unseen
	}
	row, ok, err := e.sight(ctx, o.Session, f.path.Real)
	if ok && row.Hash != f.hash && e.config.Sessions != nil {
		e.seen.drop(o.Session, f.path.Real) // another process may know better
		row, ok, err = e.sight(ctx, o.Session, f.path.Real)
	}
	if err != nil {
		return nil, false, err
	}
	lenient := exact && e.strictness(o) == Anchored
	switch {
	case ok && row.Hash == f.hash:
		return nil, false, nil
	case !ok && lenient:
		return []string{fmt.Sprintf("%s had not been read in this session.", f.path.Display)}, false, nil
	case !ok:
		return nil, false, inLayer(&tool.Error{Code: tool.Conflict, Message: notRead + " (" + f.path.Display + ")"}, 7, 6).
			WithHint("Use read on %s, then repeat the call.", f.path.Display)
	case lenient:
		return []string{fmt.Sprintf("%s has other changes since it was read; read it again before you rely on the rest of it.", f.path.Display)}, true, nil
	}
	return nil, true, inLayer(&tool.Error{Code: tool.Conflict, Message: modified + " (" + f.path.Display + ")"}, 8, 7).
		WithHint("Use read on %s, check that the change still makes sense, then repeat the call.", f.path.Display)
}

// unseenLines says which touched lines of the current content the session was
// never shown.
func (e *Engine) unseenLines(ctx context.Context, o Origin, f *file, touched []store.LineRange) string {
	row, ok, err := e.sight(ctx, o.Session, f.path.Real)
	if err != nil || !ok || row.Hash != f.hash || row.Whole {
		return ""
	}
	var out string
	n := 0
	for _, t := range touched {
		if slices.ContainsFunc(row.Lines, func(r store.LineRange) bool { return r.From <= t.From && t.To <= r.To }) {
			continue
		}
		if n++; n > 5 {
			out += ", …"
			break
		}
		if out != "" {
			out += ", "
		}
		if out += fmt.Sprint(t.From); t.To > t.From {
			out += fmt.Sprintf("-%d", t.To)
		}
	}
	if out == "" {
		return ""
	}
	return fmt.Sprintf("Lines %s of %s were changed though read had not shown them in this session.", out, f.path.Display)
}

// lineEdit says that lines From to To (1-based; To < From for none) became
// count lines.
type lineEdit struct{ from, to, count int }

// wrote records what a session knows of a file that it has just written.
func (e *Engine) wrote(ctx context.Context, o Origin, f *file, after []byte, edits []lineEdit, whole bool) error {
	if o.Session == "" {
		return nil
	}
	row := store.Seen{
		Session: o.Session, Path: f.path.Real, Hash: Sum(after), Size: int64(len(after)), ModTime: e.config.Now().UTC(),
		Whole: whole, At: e.config.Now().UTC(),
	}
	if old, ok, err := e.sight(ctx, o.Session, f.path.Real); err != nil {
		return err
	} else if ok && old.Hash == f.hash {
		row.Whole = row.Whole || old.Whole
		row.Lines = moveRanges(old.Lines, edits)
	}
	for i, l := range edits {
		// The lines written are known: the session gave them.
		from := l.from
		for _, before := range edits[:i] {
			from += before.count - (before.to - before.from + 1)
		}
		if l.count > 0 {
			row.Lines = append(row.Lines, store.LineRange{From: from, To: from + l.count - 1})
		}
	}
	return e.putSight(ctx, row)
}

// moveRanges carries ranges over edits, which are rising: what was replaced is
// left out.
func moveRanges(ranges []store.LineRange, edits []lineEdit) []store.LineRange {
	var out []store.LineRange
	for _, r := range ranges {
		shift, from := 0, r.From
		for _, l := range edits {
			removed := l.to - l.from + 1
			if l.from > r.To {
				break
			}
			if l.to >= from || removed == 0 && l.from > from {
				if l.from > from {
					out = append(out, store.LineRange{From: from + shift, To: l.from - 1 + shift})
				}
				from = max(from, l.to+1)
			}
			shift += l.count - removed
		}
		if from <= r.To {
			out = append(out, store.LineRange{From: from + shift, To: r.To + shift})
		}
	}
	return out
}

// seenCache holds the records used last.
type seenCache struct {
	max int

	mu   sync.Mutex
	rows map[[2]string]*list.Element
	used *list.List // of store.Seen, the latest first
}

func newSeenCache(max int) *seenCache {
	return &seenCache{max: max, rows: map[[2]string]*list.Element{}, used: list.New()}
}

func (c *seenCache) get(session, path string) (store.Seen, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.rows[[2]string{session, path}]
	if !ok {
		return store.Seen{}, false
	}
	c.used.MoveToFront(el)
	return el.Value.(store.Seen), true
}

func (c *seenCache) drop(session, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{session, path}
	if el, ok := c.rows[key]; ok {
		c.used.Remove(el)
		delete(c.rows, key)
	}
}

func (c *seenCache) put(row store.Seen) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{row.Session, row.Path}
	if el, ok := c.rows[key]; ok {
		el.Value = row
		c.used.MoveToFront(el)
		return
	}
	c.rows[key] = c.used.PushFront(row)
	if c.used.Len() > c.max {
		oldest := c.used.Back()
		c.used.Remove(oldest)
		last := oldest.Value.(store.Seen)
		delete(c.rows, [2]string{last.Session, last.Path})
	}
}
