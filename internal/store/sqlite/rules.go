package sqlite

import (
	"context"
	"encoding/json"

	"github.com/toolyard/toolyard/internal/store"
)

// PutRule inserts a rule, or replaces the one with the same scope, key and text,
// and returns its ID, which a replaced rule keeps.
func (d *DB) PutRule(ctx context.Context, r store.Rule) (id int64, err error) {
	overrides := ""
	if len(r.Overrides) > 0 {
		b, err := json.Marshal(r.Overrides)
		if err != nil {
			return 0, err
		}
		overrides = string(b)
	}
	err = d.changeDurably(ctx, func(t tx) error {
		s, err := t.stmt(`INSERT INTO rules (scope, scope_key, action, rule, overrides, by, created) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (scope, scope_key, rule) DO UPDATE SET
				action = excluded.action, overrides = excluded.overrides, by = excluded.by, created = excluded.created
			RETURNING id`)
		if err != nil {
			return err
		}
		return s.QueryRow(r.Scope, r.ScopeKey, r.Action, r.Rule, overrides, r.By, micros(r.Created)).Scan(&id)
	})
	return id, err
}

// DeleteRule deletes a rule; ErrNotFound if there is none.
func (d *DB) DeleteRule(ctx context.Context, id int64) error {
	return d.changeDurably(ctx, func(t tx) error { return touched(t.exec(`DELETE FROM rules WHERE id = ?`, id)) })
}

// ListRules gives all rules, oldest first.
func (d *DB) ListRules(ctx context.Context) ([]store.Rule, error) {
	return list(ctx, d, `SELECT id, scope, scope_key, action, rule, overrides, by, created FROM rules ORDER BY created, id`, nil,
		func(scan func(...any) error) (r store.Rule, err error) {
			var created int64
			var overrides string
			if err = scan(&r.ID, &r.Scope, &r.ScopeKey, &r.Action, &r.Rule, &overrides, &r.By, &created); err != nil {
				return r, err
			}
			r.Created = moment(created)
			if overrides != "" {
				err = json.Unmarshal([]byte(overrides), &r.Overrides)
			}
			return r, err
		})
}

// PutSetting inserts or replaces a value, durably: trust is a setting.
func (d *DB) PutSetting(ctx context.Context, name, value string) error {
	return d.changeDurably(ctx, func(t tx) error {
		_, err := t.exec(`INSERT OR REPLACE INTO settings (name, value) VALUES (?, ?)`, name, value)
		return err
	})
}

// Setting finds a value.
func (d *DB) Setting(ctx context.Context, name string) (string, error) {
	return one(ctx, d, `SELECT value FROM settings WHERE name = ?`, []any{name},
		func(scan func(...any) error) (s string, err error) { err = scan(&s); return s, err })
}

// DeleteSetting deletes a value; ErrNotFound if there is none.
func (d *DB) DeleteSetting(ctx context.Context, name string) error {
	return d.changeDurably(ctx, func(t tx) error { return touched(t.exec(`DELETE FROM settings WHERE name = ?`, name)) })
}

// ListSettings gives those whose name begins with prefix.
func (d *DB) ListSettings(ctx context.Context, prefix string) (map[string]string, error) {
	type setting struct{ name, value string }
	found, err := list(ctx, d, `SELECT name, value FROM settings WHERE substr(name, 1, length(?1)) = ?1`, []any{prefix},
		func(scan func(...any) error) (s setting, err error) { err = scan(&s.name, &s.value); return s, err })
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(found))
	for _, s := range found {
		out[s.name] = s.value
	}
	return out, nil
}
