package deps

import (
	"context"
	"os"
	"path/filepath"

	"github.com/toolyard/toolyard/internal/flock"
	"github.com/toolyard/toolyard/tool"
)

// lock keeps other processes from installing into the same folder. The file
// stays, in the cache: to remove it would let two processes hold two files.
func (i *Installer) lock(ctx context.Context, dir string) (unlock func(), err error) {
	locks := filepath.Join(i.c.Cache, "locks")
	if err := i.makeCache(locks); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(locks, sum([]byte(dir))[:32]), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, tool.Errorf(tool.DependencyError, "the cache of packages cannot be written: %v", reason(err)).WithHint("Check the permissions and the room of %s.", i.c.Cache)
	}
	if err := flock.Wait(ctx, f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
