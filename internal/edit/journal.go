package edit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// States of a journal row.
const (
	begun  = "begun"
	done   = "done"
	undone = "undone" // taken back, or part of an undo
)

// entry is the journal rows of one commit.
type entry struct {
	rows []store.Change
	// undoes are the rows that this commit takes back.
	undoes []store.Change
	final  string
}

// begin keeps the old contents and writes the rows, before anything changes.
func (e *Engine) begin(ctx context.Context, o Origin, steps []*step, undoes []store.Change) (*entry, error) {
	entry := &entry{final: done, undoes: undoes}
	if len(undoes) > 0 {
		entry.final = undone
	}
	if e.config.Journal == nil {
		return entry, nil
	}
	if e.blobs == nil {
		return nil, tool.Errorf(tool.Internal, "the edit engine has a journal but no directory for old contents")
	}
	now := e.config.Now().UTC()
	for _, s := range steps {
		if s.before.exists && s.before.link == "" && s.kind != kindMode && (s.kind != kindRename || s.after.hash != s.before.hash) {
			if _, err := e.blobs.put(s.before.raw); err != nil {
				return nil, writeError("the journal", err)
			}
		}
		entry.rows = append(entry.rows, row(o, s, now))
	}
	ids, err := e.config.Journal.PutChanges(ctx, entry.rows)
	if err != nil {
		return nil, journalError(err)
	}
	for i, id := range ids {
		entry.rows[i].ID = id
	}
	return entry, nil
}

// row is the journal's line for a step.
func row(o Origin, s *step, now time.Time) store.Change {
	c := store.Change{
		Call: o.Call, Session: o.Session, Turn: o.Turn, Workspace: o.Workspace,
		Path: s.target().Real, Kind: s.kind, Before: s.before.hash, After: s.after.hash,
		BeforeMode: uint32(s.before.mode.Perm()), AfterMode: uint32(s.after.mode.Perm()),
		BeforeLink: s.before.link, AfterLink: s.after.link,
		At: now, State: begun,
	}
	if s.kind == kindRename {
		c.OldPath = s.path.Real
	}
	if s.after.exists && s.after.mode == 0 {
		c.AfterMode = c.BeforeMode
	}
	return c
}

func (e *Engine) finish(ctx context.Context, entry *entry) error {
	for i := range entry.rows {
		entry.rows[i].State = entry.final
	}
	return e.setState(ctx, append(entry.rows, entry.undoes...))
}

func (e *Engine) undone(ctx context.Context, entry *entry) error {
	for i := range entry.rows {
		entry.rows[i].State = undone
	}
	return e.setState(ctx, entry.rows)
}

func (e *Engine) setState(ctx context.Context, rows []store.Change) error {
	if e.config.Journal == nil || len(rows) == 0 {
		return nil
	}
	if err := e.config.Journal.SetChangeState(ctx, rows); err != nil {
		return fmt.Errorf("the files are as they should be, but the journal could not note it: %w", err)
	}
	return nil
}

func journalError(err error) error {
	switch {
	case errors.Is(err, store.ErrFull):
		return tool.Errorf(tool.ResourceExhausted, "no space left for the journal, so nothing was changed: %v", err).
			WithHint("Free some space under the toolyard home, then try again.")
	case errors.Is(err, store.ErrBusy):
		e := tool.Errorf(tool.ExecutionError, "the journal is locked by another process, so nothing was changed: %v", err)
		e.Retryable = true
		return e.WithHint("Try again.")
	}
	return fmt.Errorf("journal: %w", err)
}

// stateOf rebuilds what a journal row says was there. The content comes from
// the kept blobs.
func (e *Engine) stateOf(hash string, mode uint32, link string) (state, error) {
	switch {
	case link != "":
		return state{exists: true, link: link}, nil
	case hash == "":
		return state{}, nil
	}
	s := state{exists: true, hash: hash, mode: fs.FileMode(mode).Perm()}
	if e.blobs == nil {
		return s, errNoBlob
	}
	var err error
	s.raw, err = e.blobs.get(hash)
	return s, err
}
