//go:build unix

package dotenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/toolyard/toolyard/internal/flock"
	"github.com/toolyard/toolyard/tool"
)

const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

const lockWait = 5 * time.Second

// locked runs do while no other process or goroutine does, for files of the
// same folder. The lock is on the folder, so that none is left behind. A tool
// can read its folder and so hold its lock: then this gives up.
func locked(path string, do func() error) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer dir.Close() // gives the lock up
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	switch err := flock.Wait(ctx, dir); {
	case err == nil:
		return do()
	case ctx.Err() != nil:
		return tool.Errorf(tool.Conflict, "another process holds %s for more than %s", dir.Name(), lockWait).
			WithHint("Stop the tool's running calls and try again.")
	default:
		return fmt.Errorf("locking %s: %w", dir.Name(), err)
	}
}

// syncDir makes the rename durable, where the file system can.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
