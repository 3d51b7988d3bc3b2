package edit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/workspace"
)

// RecoverReport is what a recovery found.
type RecoverReport struct {
	Finished   int // changes that had been made in full
	RolledBack int // files set back to what they were before
	Torn       int // files that were being written in place, set back
	Temps      int // temporary files removed
	// Left are files that somebody else has changed since; they stay.
	Left []string
}

// Recover finishes or takes back what a process left half done when it died:
// each group of changes is made in full or not at all. Temporary files go. It
// leaves alone what a living process is doing. Call it at the start; it is safe
// at any time and in several processes.
func (e *Engine) Recover(ctx context.Context) (*RecoverReport, error) {
	report := &RecoverReport{}
	if e.config.Journal == nil || e.blobs == nil {
		return report, nil
	}
	if err := e.recoverTorn(ctx, report); err != nil {
		return report, err
	}
	rows, err := e.config.Journal.ListChanges(ctx, store.ChangeFilter{State: begun, Limit: maxUndo})
	if err != nil {
		return report, journalError(err)
	}
	for _, group := range commits(rows) {
		if err := e.recoverGroup(ctx, group, report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// commits divides rows into those of one commit, the newest commit first and
// each in the order it was made.
func commits(rows []store.Change) [][]store.Change {
	type key struct {
		call, session string
		at            time.Time
	}
	index := map[key]int{}
	var out [][]store.Change
	for _, c := range rows {
		k := key{c.Call, c.Session, c.At}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	for _, g := range out {
		slices.SortFunc(g, func(a, b store.Change) int { return int(a.ID - b.ID) })
	}
	return out
}

// recoverGroup decides one commit. Whoever made it holds the locks as long as
// it lives, so what is still begun under the locks belongs to nobody.
func (e *Engine) recoverGroup(ctx context.Context, group []store.Change, report *RecoverReport) error {
	var paths []string
	for _, c := range group {
		paths = append(paths, c.Path)
		if c.OldPath != "" {
			paths = append(paths, c.OldPath)
		}
	}
	release, err := e.locks.acquire(ctx, paths...)
	if err != nil {
		return err
	}
	defer release()
	if group, err = e.stillBegun(ctx, group); err != nil || len(group) == 0 {
		return err
	}
	for _, path := range paths {
		report.Temps += removeTemps(path)
	}
	made := 0
	for _, c := range group {
		if e.isMade(ctx, c) {
			made++
		}
	}
	state := undone
	if made == len(group) {
		state = done
		if strings.HasPrefix(group[0].Call, undoCall) {
			return e.recoverUndo(ctx, group, report)
		}
		report.Finished += len(group)
	} else {
		for _, c := range slices.Backward(group) {
			if err := e.rollBack(ctx, c, report); err != nil {
				return fmt.Errorf("setting back %s: %w", c.Path, err)
			}
		}
	}
	for i := range group {
		group[i].State = state
	}
	return e.setState(ctx, group)
}

// stillBegun reads the rows again.
func (e *Engine) stillBegun(ctx context.Context, group []store.Change) ([]store.Change, error) {
	rows, err := e.config.Journal.ListChanges(ctx, store.ChangeFilter{Call: group[0].Call, Session: group[0].Session, State: begun, Limit: maxUndo})
	if err != nil {
		return nil, journalError(err)
	}
	return slices.DeleteFunc(slices.Clone(group), func(c store.Change) bool {
		return !slices.ContainsFunc(rows, func(r store.Change) bool { return r.ID == c.ID })
	}), nil
}

// recoverUndo completes the journal for an undo whose files were all restored.
func (e *Engine) recoverUndo(ctx context.Context, group []store.Change, report *RecoverReport) error {
	rows := slices.Clone(group)
	for _, c := range group {
		was, err := e.config.Journal.ListChanges(ctx, store.ChangeFilter{Path: c.Path, State: done, Limit: maxUndo})
		if err != nil {
			return journalError(err)
		}
		for _, w := range was {
			if w.After == c.Before && w.Before == c.After {
				rows = append(rows, w)
				break
			}
		}
	}
	for i := range rows {
		rows[i].State = undone
	}
	report.Finished += len(group)
	return e.setState(ctx, rows)
}

// isMade reports that a change is on the disk.
func (e *Engine) isMade(ctx context.Context, c store.Change) bool {
	now, err := e.stateReal(ctx, c.Path)
	if err != nil || now.hash != c.After || now.link != c.AfterLink {
		return false
	}
	switch c.Kind {
	case kindRename:
		old, err := e.stateReal(ctx, c.OldPath)
		return err == nil && !old.exists
	case kindMode:
		return uint32(now.mode.Perm()) == c.AfterMode
	}
	return true
}

// rollBack sets one change back, if it was made.
func (e *Engine) rollBack(ctx context.Context, c store.Change, report *RecoverReport) error {
	now, err := e.stateReal(ctx, c.Path)
	if err != nil {
		report.Left = append(report.Left, c.Path)
		return nil
	}
	was, err := e.stateOf(c.Before, c.BeforeMode, c.BeforeLink)
	if c.Kind == kindRename {
		return e.rollBackRename(ctx, c, now, report)
	}
	if c.Kind == kindMode {
		if now.hash == c.After && uint32(now.mode.Perm()) == c.AfterMode {
			return e.onReal(c.Path, func(dir *os.Root, base string, p *workspace.Path) error {
				return chmod(dir, base, p, fs.FileMode(c.BeforeMode))
			})
		}
		return nil
	}
	if now.exists == was.exists && now.hash == was.hash && now.link == was.link {
		return nil
	}
	if now.hash != c.After || now.link != c.AfterLink || err != nil {
		report.Left = append(report.Left, c.Path)
		return nil
	}
	report.RolledBack++
	return e.onReal(c.Path, func(dir *os.Root, base string, p *workspace.Path) error {
		return e.restore(dir, base, p, now, was)
	})
}

// rollBackRename sets a rename back, which may have come half way when it had
// new content.
func (e *Engine) rollBackRename(ctx context.Context, c store.Change, now state, report *RecoverReport) error {
	old, err := e.stateReal(ctx, c.OldPath)
	if err != nil || !now.exists {
		return nil // never moved
	}
	if now.hash != c.After {
		report.Left = append(report.Left, c.Path)
		return nil
	}
	report.RolledBack++
	if !old.exists {
		was := now
		if c.Before != c.After {
			if was, err = e.stateOf(c.Before, c.BeforeMode, ""); err != nil {
				report.Left = append(report.Left, c.Path)
				return nil
			}
		}
		was.mode = fs.FileMode(c.BeforeMode).Perm()
		err := e.onReal(c.OldPath, func(dir *os.Root, base string, p *workspace.Path) error {
			return e.restore(dir, base, p, state{}, was)
		})
		if err != nil {
			return err
		}
	}
	return e.onReal(c.Path, func(dir *os.Root, base string, p *workspace.Path) error {
		return e.restore(dir, base, p, now, state{})
	})
}

// recoverTorn sets back files whose overwriting in place was interrupted.
func (e *Engine) recoverTorn(ctx context.Context, report *RecoverReport) error {
	notes, err := e.readTorn()
	if err != nil {
		return err
	}
	for _, note := range notes {
		if err := e.recoverOne(ctx, note, report); err != nil {
			return fmt.Errorf("setting back %s: %w", note.Path, err)
		}
	}
	return nil
}

func (e *Engine) recoverOne(ctx context.Context, note torn, report *RecoverReport) error {
	release, err := e.locks.acquire(ctx, note.Path)
	if err != nil {
		return err
	}
	defer release()
	name := e.tornFile(note.Path)
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil // its writer lives, and has finished
	}
	now, err := e.stateReal(ctx, note.Path)
	before, errBefore := e.blobs.get(note.Before)
	after, errAfter := e.blobs.get(note.After)
	switch {
	case err != nil || errBefore != nil || errAfter != nil || !now.exists:
		report.Left = append(report.Left, note.Path)
	case now.hash == note.Before || now.hash == note.After:
	case !isTorn(now.raw, before, after):
		report.Left = append(report.Left, note.Path)
	default:
		err := e.onReal(note.Path, func(dir *os.Root, base string, p *workspace.Path) error {
			f, err := openRegular(dir, base, os.O_RDWR, p)
			if err != nil {
				return err
			}
			return errors.Join(overwrite(f, before), f.Close())
		})
		if err != nil {
			return err
		}
		report.Torn++
	}
	return os.Remove(name)
}

// onReal opens the directory of a real path, which must not be reached through
// a symlink.
func (e *Engine) onReal(real string, work func(dir *os.Root, base string, p *workspace.Path) error) error {
	p, err := workspace.Real(real)
	if err != nil {
		return err
	}
	defer p.Root.Close()
	return work(p.Root, p.Rel, p)
}

// stateReal is what is at a real path now.
func (e *Engine) stateReal(_ context.Context, real string) (s state, err error) {
	err = e.onReal(real, func(dir *os.Root, base string, p *workspace.Path) error {
		if p.Info != nil && p.Info.Mode()&fs.ModeSymlink != 0 {
			link, err := dir.Readlink(base)
			s = state{exists: true, link: link}
			return err
		}
		f, err := e.loadIn(dir, base, p)
		if err == nil {
			s = f.state()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	return s, err
}

// removeTemps removes the temporary files of a path's edits and counts them.
// The path is locked, so none of them is in use.
func removeTemps(real string) int {
	n := 0
	dir := filepath.Dir(real)
	names, err := filepath.Glob(filepath.Join(globQuote(dir), tempPrefixOf(real)+"*.tmp"))
	if err != nil {
		return 0
	}
	for _, name := range names {
		if os.Remove(name) == nil {
			n++
		}
	}
	return n
}

func globQuote(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}
