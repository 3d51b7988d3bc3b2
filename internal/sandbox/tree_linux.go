//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/tool"
)

// access is what may be done at a place in the sandbox's file system.
type access int

const (
	readOnly access = iota
	readWrite
	hidden // nothing is there, although something above it is granted
)

// place is one thing of the host that is visible at one path of the sandbox.
type place struct {
	source string // real path on the host: no symlinks in it
	target string
	access access
	dir    bool
	// within says that target lies in another place, so its mount point exists.
	within bool
	id     identity // of the file at source, or at target where it is hidden
}

// identity tells a file from every other one, also from a later one with the
// same number or the same one under its name again.
type identity struct {
	major, minor uint32
	inode        uint64
	// since is when a directory was made. For a file it is when anything of it
	// changed, which giving it a name and taking one away do.
	since unix.StatxTimestamp
}

func identify(path string) identity {
	id, _, _ := identifyAt(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
	return id
}

func identifyAt(dirFD int, path string, flags int) (id identity, dir bool, err error) {
	const mask = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_BTIME | unix.STATX_CTIME
	var st unix.Statx_t
	if err := unix.Statx(dirFD, path, flags, mask, &st); err != nil {
		return id, false, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	id = identity{st.Dev_major, st.Dev_minor, st.Ino, st.Ctime}
	dir = st.Mode&unix.S_IFMT == unix.S_IFDIR
	if dir && st.Mask&unix.STATX_BTIME != 0 {
		id.since = st.Btime
	}
	return id, dir, nil
}

// resolve finds the real path of an absolute one, and what is there. Most have no
// symlink in them, which one call tells.
func resolve(path string) (real string, dir bool, id identity, err error) {
	path = filepath.Clean(path)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	if fd, err := unix.Openat2(unix.AT_FDCWD, path, &how); err == nil {
		defer unix.Close(fd)
		id, dir, err := identifyAt(fd, "", unix.AT_EMPTY_PATH)
		return path, dir, id, err
	}
	if real, err = filepath.EvalSymlinks(path); err != nil {
		return "", false, id, err
	}
	id, dir, err = identifyAt(unix.AT_FDCWD, real, unix.AT_SYMLINK_NOFOLLOW)
	return real, dir, id, err
}

// tree is the file system of a sandbox: what is mounted where, parents before
// children, and which symlinks lead there.
type tree struct {
	places []place
	links  map[string]string // path → what it points to
	// guarded are protected paths that could not be mounted because they do not
	// exist: patterns below a place.
	guarded []guarded
	// roots are the directories granted for writing.
	roots []root
	// sockets are those of the machine's processes that lie in a place: see
	// findSockets.
	sockets []place
	// owner is what the system says of the first directory to write in.
	owner any
	// tmp is the command's own directory for temporary files, where /tmp is the
	// machine's.
	tmp string
}

// root is a directory granted for writing.
type root struct{ name, real string }

// ownDirs are made by the sandbox itself and cannot be granted from the host.
var ownDirs = []string{"/proc", "/dev"}

// newTree resolves a profile's paths on the host.
func newTree(p *Profile) (*tree, error) {
	t := &tree{links: map[string]string{}}
	for _, path := range append(slices.Clone(p.Write), p.Home) {
		if real, err := filepath.EvalSymlinks(path); err == nil && path != "" {
			t.roots = append(t.roots, root{filepath.Clean(path), real})
		}
	}
	for _, path := range p.Read {
		if err := t.grant(Mount{Source: path}, true); err != nil {
			return nil, err
		}
	}
	for _, m := range p.Mounts {
		if p.Network.Mode == NetworkDomains && t.grantBrowser(m) {
			continue
		}
		if err := t.grant(m, true); err != nil {
			return nil, err
		}
	}
	if p.Network.Mode != NetworkNone {
		for _, path := range certificatePaths {
			if err := t.grant(Mount{Source: path}, true); err != nil {
				return nil, err
			}
		}
	}
	for _, path := range p.Write {
		if err := t.grant(Mount{Source: path, Write: true}, false); err != nil {
			return nil, err
		}
		if info, err := os.Stat(path); err == nil && t.owner == nil {
			t.owner = info.Sys()
		}
	}
	if p.Home != "" {
		if err := t.grant(Mount{Source: p.Home, Write: true}, false); err != nil {
			return nil, err
		}
	}
	t.settle()
	t.protect(p)
	t.keepHome(p)
	t.deny(p)
	if err := t.findSockets(); err != nil {
		return nil, err
	}
	return t, nil
}

// grant adds a path. What does not exist is left out if optional.
func (t *tree) grant(m Mount, optional bool) error {
	if !filepath.IsAbs(m.Source) {
		return tool.Errorf(tool.ParameterError, "sandbox path %q is not absolute", m.Source)
	}
	target := m.target()
	for _, own := range ownDirs {
		if inside(target, own) {
			return tool.Errorf(tool.ParameterError, "sandbox path %s cannot be granted: the sandbox has its own %s", target, own)
		}
	}
	real, dir, id, err := resolve(m.Source)
	if err != nil {
		if optional {
			return nil
		}
		return tool.Errorf(tool.ParameterError, "sandbox path %s: %v", m.Source, err)
	}
	if root := t.throughWritable(m.Source, real); root != "" {
		if optional {
			return nil
		}
		return tool.Errorf(tool.ParameterError, "sandbox path %s goes through a symlink in %s, where commands may write", m.Source, root).
			WithHint("Name the directory that it leads to, %s, if that is what commands shall have.", real)
	}
	if m.Target == "" && real != target {
		// The name leads to the real place, as outside.
		t.links[target] = real
		target = real
	}
	if target == "/" {
		return tool.Errorf(tool.ParameterError, "sandbox path / cannot be granted as a whole").
			WithHint("Name the directories that the command needs.")
	}
	a := readOnly
	if m.Write {
		a = readWrite
	}
	t.places = append(t.places, place{source: real, target: target, access: a, dir: dir, id: id})
	return nil
}

// throughWritable is the directory granted for writing in which a symlink lies
// that path goes through to real, "" if there is none: a command may have put it
// there, and may change it at any time.
func (t *tree) throughWritable(path, real string) string {
	path = filepath.Clean(path)
	for _, root := range t.roots {
		for _, name := range []string{root.name, root.real} {
			if path == name || !inside(path, name) {
				continue
			}
			if real != filepath.Join(root.real, strings.TrimPrefix(path, name)) {
				return root.name
			}
		}
	}
	return ""
}

// settle sorts the places, drops what another place shows already, and lets
// writing win over reading where both were granted for the same path.
func (t *tree) settle() {
	slices.SortStableFunc(t.places, func(a, b place) int {
		if c := strings.Compare(a.target, b.target); c != 0 {
			return c
		}
		return int(b.access) - int(a.access) // readWrite first
	})
	kept := t.places[:0]
	for _, p := range t.places {
		above := covering(kept, p.target)
		if above != nil {
			same := filepath.Join(above.source, strings.TrimPrefix(p.target, above.target)) == p.source
			if same && above.access >= p.access || above.target == p.target {
				continue
			}
			p.within = true
		}
		kept = append(kept, p)
	}
	t.places = kept
	for name, to := range t.links {
		if covering(t.places, name) != nil || name == to {
			delete(t.links, name) // the symlink itself is visible
		}
	}
}

// covering is the last place that shows path.
func covering(places []place, path string) *place {
	for i := len(places) - 1; i >= 0; i-- {
		if p := &places[i]; inside(path, p.target) {
			return p
		}
	}
	return nil
}

// keepHome leaves the private home writable where a protected directory is
// around it, as ~/.toolyard is in a workspace that is the home directory.
func (t *tree) keepHome(p *Profile) {
	if p.Home == "" {
		return
	}
	home, err := filepath.EvalSymlinks(p.Home)
	if err != nil {
		return // it could not have been granted
	}
	if above := covering(t.places, home); above != nil && above.access == readOnly && above.target != home {
		t.pin(home, readWrite)
	}
}

// deny hides paths.
func (t *tree) deny(p *Profile) {
	for _, name := range p.Deny {
		for _, path := range t.below(p, name) {
			info, err := os.Lstat(path)
			if err != nil || info.Mode()&os.ModeSymlink != 0 {
				continue // a symlink has nothing of its own to hide; what it leads to is denied by its name
			}
			t.places = slices.DeleteFunc(t.places, func(q place) bool { return inside(q.target, path) })
			if covering(t.places, path) != nil {
				t.pinAbove(path)
				t.places = append(t.places, place{target: path, access: hidden, dir: info.IsDir(), within: true, id: identify(path)})
			}
		}
	}
}

// pinAbove makes mount points of the directories between a path and the grant
// that it lies in. A directory that holds a mount can be renamed, and what it
// holds with it: the next command would find the path under a name that nobody
// denied.
func (t *tree) pinAbove(path string) {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		above := covering(t.places, dir)
		if above == nil || above.access != readWrite || above.target == dir && !above.within {
			return
		}
		t.pin(dir, readWrite)
	}
}

// below is name itself if it is absolute, resolved, else name below each
// directory granted for writing.
func (t *tree) below(p *Profile, name string) []string {
	if filepath.IsAbs(name) {
		if real, err := filepath.EvalSymlinks(name); err == nil {
			return []string{real}
		}
		return nil
	}
	var paths []string
	for _, root := range t.writable(p) {
		paths = append(paths, filepath.Join(root, name))
	}
	return paths
}

// writable lists the real directories granted for writing, less the home.
func (t *tree) writable(p *Profile) []string {
	var roots []string
	for _, w := range p.Write {
		if real, err := filepath.EvalSymlinks(w); err == nil && w != p.Home {
			roots = append(roots, real)
		}
	}
	return roots
}
