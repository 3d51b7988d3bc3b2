package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// What was seen is found at once, wherever its row is on its way to the disk.
func TestQueuedSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	d := openTest(t, path, options{delay: time.Hour})
	other := openTest(t, path, options{})
	put := func(hash string) {
		t.Helper()
		row := store.Seen{Session: "s", Path: "/a", Hash: hash, Lines: []store.LineRange{{From: 1, To: 2}}}
		if err := d.PutSeen(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, d *DB, hash string) {
		t.Helper()
		got, err := d.Seen(t.Context(), "s", "/a")
		if hash == "" && errors.Is(err, store.ErrNotFound) {
			return
		}
		if err != nil || got.Hash != hash {
			t.Errorf("%s: Seen gives %q, %v, want %q", when, got.Hash, err, hash)
		}
	}

	put("one")
	want("queued", d, "one")
	want("queued by somebody else", other, "")
	group := d.queue.take() // as flush does
	want("being written", d, "one")
	put("two")
	want("a newer one is queued", d, "two")
	d.queue.settle(group, fmt.Errorf("%w: test", store.ErrBusy), nil)
	want("the older one was put back", d, "two")
	if n, row := d.queue.rows.bytes, d.queue.rows.seen[[2]string{"s", "/a"}]; n != seenSize(&row) {
		t.Errorf("the queue counts %d bytes, want %d", n, seenSize(&row))
	}
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("written", d, "two")
	want("written by somebody else", other, "two")
	put("three")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	want("written by Close", other, "three")
	if err := d.PutSeen(t.Context(), store.Seen{}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("PutSeen after Close: %v, want ErrClosed", err)
	}
	if _, err := d.Seen(t.Context(), "s", "/a"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Seen after Close: %v, want ErrClosed", err)
	}
}
