//go:build amd64 || arm64

package docker

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// sources are the places of a container with what was there when its plan was
// made. The daemon mounts by name, and between plan and start another command in
// the same workspace could have put a symlink in the way: so, before the command
// passes its gate, what is mounted is compared with what was meant.
type sources struct {
	places []sandbox.Bind
	stats  []unix.Statx_t
}

// openSources looks at the places without following a symlink.
func openSources(places []sandbox.Bind) (*sources, error) {
	s := &sources{}
	for _, p := range places {
		var st unix.Statx_t
		if !p.Hidden {
			fd, err := openIn(unix.AT_FDCWD, p.Source, 0)
			if err == nil {
				err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st)
				unix.Close(fd)
			}
			if err != nil {
				return nil, tool.Errorf(tool.Conflict, "%s has changed while the command was being started: %v", p.Source, err).WithHint("Try again.")
			}
		}
		s.places = append(s.places, p)
		s.stats = append(s.stats, st)
	}
	return s, nil
}

func openIn(dir int, path string, resolve uint64) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// verify looks at the places in the root of a process.
func (s *sources) verify(pid int) error {
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("the container's files cannot be looked at: %w", err)
	}
	defer root.Close()
	for i, p := range s.places {
		if err := verify(int(root.Fd()), p, &s.stats[i]); err != nil {
			return tool.Errorf(tool.Conflict, "%s is not what was to be mounted: %v", p.Target, err).WithHint("Try again.")
		}
	}
	return nil
}

func verify(root int, p sandbox.Bind, want *unix.Statx_t) error {
	fd, err := openIn(root, strings.TrimPrefix(p.Target, "/"), unix.RESOLVE_IN_ROOT)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var got unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &got); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	const mountRoot = unix.STATX_ATTR_MOUNT_ROOT
	switch {
	case got.Attributes_mask&mountRoot != 0 && got.Attributes&mountRoot == 0:
		return fmt.Errorf("nothing is mounted there")
	case !p.Hidden && (got.Ino != want.Ino || got.Dev_major != want.Dev_major || got.Dev_minor != want.Dev_minor):
		return fmt.Errorf("another file is mounted there")
	case !p.Write && fs.Flags&unix.ST_RDONLY == 0:
		return fmt.Errorf("it can be written to")
	case p.Hidden && got.Mode&0o777 != 0:
		return fmt.Errorf("it is not hidden")
	}
	return nil
}
