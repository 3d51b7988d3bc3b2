package sqlite

import (
	"context"
	"fmt"

	"github.com/toolyard/toolyard/internal/store"
)

// defaultChanges is the length of a list of changes whose limit is zero.
const defaultChanges = 1000

// PutChange inserts a change and returns its ID when the disk has it.
func (d *DB) PutChange(ctx context.Context, c store.Change) (int64, error) {
	ids, err := d.PutChanges(ctx, []store.Change{c})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// PutChanges inserts many in one transaction, durably.
func (d *DB) PutChanges(ctx context.Context, changes []store.Change) ([]int64, error) {
	ids := make([]int64, 0, len(changes))
	if len(changes) == 0 {
		return ids, nil
	}
	err := d.changeDurably(ctx, func(t tx) error {
		for _, c := range changes {
			r, err := t.exec(`INSERT INTO changes (call, session, turn, workspace, path, kind, old_path, before, after,
				before_mode, after_mode, before_link, after_link, at, state)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				c.Call, c.Session, c.Turn, c.Workspace, c.Path, c.Kind, c.OldPath, c.Before, c.After,
				c.BeforeMode, c.AfterMode, c.BeforeLink, c.AfterLink, micros(c.At), c.State)
			if err != nil {
				return err
			}
			id, err := r.LastInsertId()
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// SetChangeState updates the state and After fields of changes in one
// transaction; ErrNotFound, and nothing is changed, if one is not there. It does
// not wait for the disk: after a power failure the change may be begun again,
// which recovery settles by looking at the file.
func (d *DB) SetChangeState(ctx context.Context, changes []store.Change) error {
	return d.change(ctx, func(t tx) error {
		for _, c := range changes {
			r, err := t.exec(`UPDATE changes SET state = ?, after = ?, after_mode = ?, after_link = ? WHERE id = ?`,
				c.State, c.After, c.AfterMode, c.AfterLink, c.ID)
			if err := touched(r, err); err != nil {
				return fmt.Errorf("change %d: %w", c.ID, err)
			}
		}
		return nil
	})
}

func scanChange(scan func(...any) error) (c store.Change, err error) {
	var at int64
	err = scan(&c.ID, &c.Call, &c.Session, &c.Turn, &c.Workspace, &c.Path, &c.Kind, &c.OldPath, &c.Before, &c.After,
		&c.BeforeMode, &c.AfterMode, &c.BeforeLink, &c.AfterLink, &at, &c.State)
	c.At = moment(at)
	return c, err
}

// ListChanges gives the newest first.
func (d *DB) ListChanges(ctx context.Context, f store.ChangeFilter) ([]store.Change, error) {
	var w where
	w.equal("session", f.Session)
	w.equal("call", f.Call)
	w.equal("turn", f.Turn)
	w.equal("workspace", f.Workspace)
	w.equal("path", f.Path)
	if f.State == "begun" {
		w.add("state = 'begun'") // written out, so that its partial index is used
	} else {
		w.equal("state", f.State)
	}
	return list(ctx, d, `SELECT id, call, session, turn, workspace, path, kind, old_path, before, after,
		before_mode, after_mode, before_link, after_link, at, state FROM changes `+w.String()+`ORDER BY id DESC LIMIT ?`,
		append(w.args, limit(f.Limit, defaultChanges)), scanChange)
}
