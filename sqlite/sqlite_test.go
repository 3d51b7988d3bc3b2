package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/sqlite"
	"github.com/toolyard/toolyard/tool"
)

var _ store.Store = (*sqlite.DB)(nil)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "x.db")
	for _, want := range []string{"", "kept"} {
		db, err := sqlite.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := db.Setting(t.Context(), "a")
		if got != want || want == "" && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("setting %q, %v, want %q", got, err, want)
		}
		if err := db.PutSetting(t.Context(), "a", "kept"); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, []byte("this is a text and not a database at all, whatever its name says"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(path)
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Hint == "" {
		t.Errorf("got %#v, want a *tool.Error with a hint", err)
	}
}
