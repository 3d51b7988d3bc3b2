package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// What comes before the database is open waits for it.
func TestMethodsWaitForOpening(t *testing.T) {
	d := newDB(filepath.Join(t.TempDir(), "x.db"), options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Opened":     func() error { return d.Opened(ctx) },
		"Setting":    func() error { _, err := d.Setting(ctx, "a"); return err },
		"ListRules":  func() error { _, err := d.ListRules(ctx); return err },
		"PutSetting": func() error { return d.PutSetting(ctx, "a", "b") },
		"Flush":      func() error { return d.Flush(ctx) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s before the database is open: %v, want the end of the wait", name, err)
		}
	}
	// A queued call does not wait and is not lost.
	if err := d.PutCall(t.Context(), store.Call{ID: "early"}); err != nil {
		t.Fatal(err)
	}
	put := make(chan error, 1)
	go func() { put <- d.PutSetting(t.Context(), "a", "b") }()
	if err := d.open(options{}); err != nil {
		t.Fatal(err)
	}
	if err := <-put; err != nil {
		t.Errorf("PutSetting: %v", err)
	}
	if err := d.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := d.Call(t.Context(), "early"); err != nil {
		t.Errorf("the early call: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenInBackground(t *testing.T) {
	t.Run("closed at once", func(t *testing.T) {
		if err := OpenInBackground(filepath.Join(t.TempDir(), "x.db")).Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("cannot be opened", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.db")
		if err := os.WriteFile(path, []byte("a text that is longer than the head of a database would be, and says so at some length"), 0o600); err != nil {
			t.Fatal(err)
		}
		d := OpenInBackground(path)
		refused := func(what string, err error) {
			t.Helper()
			if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != tool.DependencyError || e.Hint == "" {
				t.Errorf("%s: %v, want DEPENDENCY_ERROR with a hint", what, err)
			}
		}
		refused("Opened", d.Opened(t.Context()))
		_, err := d.Setting(t.Context(), "a")
		refused("Setting", err)
		refused("PutSetting", d.PutSetting(t.Context(), "a", "b"))
		if err := d.Close(); err != nil {
			t.Errorf("Close with nothing to lose: %v", err)
		}
	})
}
