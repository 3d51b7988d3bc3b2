package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/storetest"
)

func openTest(t testing.TB, path string, o options) *DB {
	t.Helper()
	d, err := open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return openTest(t, filepath.Join(t.TempDir(), "home", "toolyard.db"), options{})
	})
}
