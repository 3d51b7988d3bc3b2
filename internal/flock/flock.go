// Package flock locks open files among processes, and among those who opened a
// file in one process. A lock ends with the file, also when its process is
// killed. It knows files and nothing of what they protect.
package flock

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// between is how long to wait before a lock is tried again.
const between = 5 * time.Millisecond

// Open opens the file at path, which is made with its directory where it is not
// there, and waits for its lock as long as ctx lasts. The caller unlocks.
func Open(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Wait(ctx, f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// Wait takes the lock of an open file, and waits for it as long as ctx lasts.
func Wait(ctx context.Context, f *os.File) error {
	for {
		held, err := Try(f)
		if held || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(between):
		}
	}
}

// Try takes the lock of an open file, which nobody else then has; held is false
// where somebody has it.
func Try(f *os.File) (held bool, err error) { return try(f, false) }

// TryShared takes a lock that others may share.
func TryShared(f *os.File) (held bool, err error) { return try(f, true) }
