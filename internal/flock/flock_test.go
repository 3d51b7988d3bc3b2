package flock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/flock"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestTry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	one, two, three := open(t, path), open(t, path), open(t, path)
	for _, step := range []struct {
		what string
		try  func() (bool, error)
		want bool
	}{
		{"the first shares it", func() (bool, error) { return flock.TryShared(one) }, true},
		{"so does the second", func() (bool, error) { return flock.TryShared(two) }, true},
		{"the third cannot have it alone", func() (bool, error) { return flock.Try(three) }, false},
		{"when the others are gone it can", func() (bool, error) { one.Close(); two.Close(); return flock.Try(three) }, true},
		{"then nobody shares it", func() (bool, error) { return flock.TryShared(open(t, path)) }, false},
	} {
		if got, err := step.try(); got != step.want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", step.what, got, err, step.want)
		}
	}
	if held, err := flock.Try(one); held || err == nil {
		t.Errorf("a closed file: got %v, %v, want an error", held, err)
	}
}

func TestOpenWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "lock")
	unlock, err := flock.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := flock.Open(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a lock that is held: got %v, want the end of the wait", err)
	}
	got := make(chan error, 1)
	go func() {
		unlock, err := flock.Open(context.WithoutCancel(ctx), path)
		if err == nil {
			unlock()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}
