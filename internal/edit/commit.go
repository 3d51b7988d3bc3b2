package edit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// Kinds of changes, as in the journal.
const (
	kindWrite  = "write"
	kindCreate = "create"
	kindDelete = "delete"
	kindRename = "rename"
	kindMode   = "mode"
)

// state is what is at a path: nothing, a file, or a symlink.
type state struct {
	exists bool
	raw    []byte
	hash   string
	mode   fs.FileMode // permission bits; 0 for a new file's default
	link   string      // target, if it is a symlink
}

func (f *file) state() state {
	return state{exists: f.exists, raw: f.raw, hash: f.hash, mode: f.mode}
}

// step is one change of one path, worked out but not made.
type step struct {
	kind          string
	path          *workspace.Path
	to            *workspace.Path // of a rename
	before, after state
}

// target is the path that the step leaves something at.
func (s *step) target() *workspace.Path {
	if s.to != nil {
		return s.to
	}
	return s.path
}

// staged is a step with what it needs prepared.
type staged struct {
	*step
	dir, toDir   *os.Root
	base, toBase string
	temp         string // new content, or what was there before a delete
	inPlace      bool
	made         []string // directories that were missing, outermost first
	done         bool
	left         bool // temp is still there
}

// tempPrefix begins the names of temporary files beside the files they become.
const tempPrefix = ".toolyard-"

// IsTemp reports that a base name is that of an edit's temporary file. Such
// files exist for milliseconds, or until [Engine.Recover] after a crash.
func IsTemp(base string) bool {
	return strings.HasPrefix(base, tempPrefix) && strings.HasSuffix(base, ".tmp")
}

// tempName is a new name whose prefix tells for which file.
func tempName(real string) string { return tempPrefixOf(real) + token() + ".tmp" }

func tempPrefixOf(real string) string { return tempPrefix + Sum([]byte(real))[:12] + "-" }

// commit makes the steps, all or none, in order: journal, temporary files, then
// one rename after the other. The caller holds the locks of all paths. It
// returns errChanged, wrapped, if a file is not as in its step's before.
func (e *Engine) commit(ctx context.Context, o Origin, steps []*step) error {
	return e.commitAs(ctx, o, steps, nil)
}

// commitAs is commit for an undo of rows: they become undone in the journal
// when the steps are made, and the steps' own rows with them.
func (e *Engine) commitAs(ctx context.Context, o Origin, steps []*step, undoes []store.Change) error {
	if len(steps) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	entry, err := e.begin(ctx, o, steps, undoes)
	if err != nil {
		return err
	}
	// From here on the work is finished or taken back whatever happens to ctx.
	ctx = context.WithoutCancel(ctx)
	all := make([]*staged, 0, len(steps))
	defer func() {
		for _, s := range all {
			s.close()
		}
	}()
	for _, st := range steps {
		s, err := e.stage(st)
		all = append(all, s)
		if err != nil {
			return errors.Join(writeError(st.target().Display, err), e.abandon(ctx, entry, all))
		}
	}
	for _, s := range all {
		if err := e.perform(s); err != nil {
			return errors.Join(writeError(s.target().Display, err), e.abandon(ctx, entry, all))
		}
	}
	var synced error
	for _, s := range all {
		synced = errors.Join(synced, s.settle())
	}
	if synced != nil {
		return errors.Join(writeError(steps[0].target().Display, synced), e.abandon(ctx, entry, all))
	}
	for _, s := range all {
		if s.kind == kindDelete {
			s.discard() // kept until nothing could fail any more
		}
	}
	return e.finish(ctx, entry)
}

// stage prepares a step: its directory is open and its new content lies beside
// the file under a temporary name, durable.
func (e *Engine) stage(st *step) (*staged, error) {
	s := &staged{step: st}
	var err error
	s.made = missingDirs(st.target())
	if s.dir, s.base, err = st.path.Parent(st.kind == kindCreate); err != nil {
		return s, err
	}
	if st.to != nil {
		if s.toDir, s.toBase, err = st.to.Parent(true); err != nil {
			return s, err
		}
	}
	switch {
	case st.kind == kindDelete || st.kind == kindMode, st.after.link != "":
		return s, nil
	case st.kind == kindRename && st.before.hash == st.after.hash:
		return s, nil
	}
	return s, e.stageContent(s)
}

// stageContent writes the new content to a temporary file that has all that
// the old file has: mode, owner, extended attributes. If it cannot have that,
// or the file has other names, the step will write in place.
func (e *Engine) stageContent(s *staged) error {
	dir, real := s.dir, s.target().Real
	if s.toDir != nil {
		dir = s.toDir
	}
	perm := fs.FileMode(0o600)
	var old *os.File
	if s.before.exists && s.before.link == "" {
		var err error
		// For writing: a read-only file is refused, although its directory would
		// let us replace it.
		old, err = openRegular(s.dir, s.base, os.O_RDWR, s.path)
		if errors.Is(err, syscall.ETXTBSY) { // a running program can be replaced
			old, err = openRegular(s.dir, s.base, os.O_RDONLY, s.path)
		}
		if err != nil {
			return err
		}
		defer old.Close()
	} else {
		perm = 0o666
		if s.after.mode != 0 {
			perm = s.after.mode.Perm()
		}
	}
	name := tempName(real)
	f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	s.temp, s.left = name, true
	_, err = f.Write(s.after.raw)
	if err == nil && old != nil {
		err = s.inherit(f, old)
	} else if err == nil && s.after.mode != 0 {
		err = f.Chmod(s.after.mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// inherit gives the temporary file what the old one has.
func (s *staged) inherit(to, old *os.File) error {
	info, err := old.Stat()
	if err != nil {
		return err
	}
	sameOwner, err := copyOwner(to, info)
	if err != nil {
		return err
	}
	sameAttributes, err := copyXattrs(to, old)
	if err != nil {
		return err
	}
	s.inPlace = s.kind == kindWrite && (links(info) > 1 || !sameOwner || !sameAttributes)
	mode := info.Mode()
	if s.after.mode != 0 {
		mode = s.after.mode
	}
	return to.Chmod(mode & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky))
}

// perform makes the change, after one more look whether the file is still as it
// was.
func (e *Engine) perform(s *staged) error {
	if err := e.unchanged(s.dir, s.base, s.path, s.before); err != nil {
		return err
	}
	if s.toDir != nil {
		if _, err := s.toDir.Lstat(s.toBase); err == nil {
			return fmt.Errorf("%s: %w: it is there now", s.to.Display, errChanged)
		}
	}
	err := e.change(s)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w: it is there now", s.target().Display, errChanged)
	}
	s.done = err == nil
	return err
}

func (e *Engine) change(s *staged) error {
	switch s.kind {
	case kindCreate:
		if s.after.link != "" {
			return s.dir.Symlink(s.after.link, s.base)
		}
		return s.took(renameNew(s.dir, s.temp, s.base))
	case kindWrite:
		if s.inPlace {
			return e.writeInPlace(s.dir, s.base, s.path, s.before, s.after)
		}
		return s.took(s.dir.Rename(s.temp, s.base))
	case kindMode:
		return chmod(s.dir, s.base, s.path, s.after.mode)
	case kindDelete:
		s.temp = tempName(s.path.Real)
		if err := s.dir.Rename(s.base, s.temp); err != nil {
			s.temp = ""
			return err
		}
		s.left = true
		return nil
	case kindRename:
		return e.rename(s)
	}
	return fmt.Errorf("no such kind of change: %q", s.kind)
}

// rename moves the file itself, so that it keeps all it has; a new content
// comes to its new name first.
func (e *Engine) rename(s *staged) error {
	if s.temp != "" {
		if err := s.took(renameNew(s.toDir, s.temp, s.toBase)); err != nil {
			return err
		}
		s.done = true
		return s.dir.Remove(s.base)
	}
	if s.after.mode != 0 && s.after.mode.Perm() != s.before.mode.Perm() {
		if err := chmod(s.dir, s.base, s.path, s.after.mode); err != nil {
			return err
		}
	}
	err := move(s.dir, s.base, s.toDir, s.toBase)
	if !errors.Is(err, errOtherDisk) {
		return err
	}
	if err := e.stageContent(s); err != nil {
		return err
	}
	return e.rename(s)
}

// linkNew gives a file its name unless there is one of that name already, where
// the kernel has no rename that refuses to replace.
func linkNew(dir *os.Root, from, to string) error {
	err := dir.Link(from, to)
	if err == nil {
		return dir.Remove(from)
	}
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	// No links on this file system: the check and the rename are two steps, which
	// the locks cover among our own processes.
	if _, statErr := dir.Lstat(to); !errors.Is(statErr, fs.ErrNotExist) {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	return dir.Rename(from, to)
}

// errOtherDisk says that a file cannot be moved by a rename.
var errOtherDisk = errors.New("not on the same disk")

// took notes that the temporary file has become the file.
func (s *staged) took(err error) error {
	if err == nil {
		s.left = false
	}
	return err
}

func chmod(dir *os.Root, base string, p *workspace.Path, mode fs.FileMode) error {
	f, err := openRegular(dir, base, os.O_RDONLY, p)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(mode&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)), f.Close())
}

// unchanged is the compare of compare-and-swap.
func (e *Engine) unchanged(dir *os.Root, base string, p *workspace.Path, want state) error {
	if want.link != "" {
		if is, err := dir.Readlink(base); err != nil || is != want.link {
			return fmt.Errorf("%s: %w", p.Display, errChanged)
		}
		return nil
	}
	now, err := e.loadIn(dir, base, p)
	if err != nil {
		return err
	}
	if now.exists != want.exists || now.hash != want.hash {
		return fmt.Errorf("%s: %w", p.Display, errChanged)
	}
	return nil
}

// settle makes the names durable.
func (s *staged) settle() error {
	var err error
	for _, dir := range []*os.Root{s.dir, s.toDir} {
		if dir == nil {
			continue
		}
		d, openErr := dir.Open(".")
		if openErr != nil {
			err = errors.Join(err, openErr)
			continue
		}
		err = errors.Join(err, syncDir(d), d.Close())
	}
	return err
}

// discard removes the temporary file, if there is one.
func (s *staged) discard() {
	if !s.left {
		return
	}
	dir := s.dir
	if s.toDir != nil {
		dir = s.toDir
	}
	if dir.Remove(s.temp) == nil {
		s.left = false
	}
}

func (s *staged) close() {
	if s.kind != kindDelete || !s.done {
		s.discard()
	}
	for _, dir := range []*os.Root{s.dir, s.toDir} {
		if dir != nil {
			dir.Close()
		}
	}
}

// missingDirs lists the directories that would have to be made for p, outermost
// first.
func missingDirs(p *workspace.Path) []string {
	var made []string
	for dir := filepath.Dir(p.Rel); dir != "."; dir = filepath.Dir(dir) {
		if _, err := p.Root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append([]string{dir}, made...)
	}
	return made
}

// abandon takes back what was done, the last first, and says so in the journal.
func (e *Engine) abandon(ctx context.Context, entry *entry, all []*staged) error {
	var failed error
	for i := len(all) - 1; i >= 0; i-- {
		s := all[i]
		if s.done {
			if err := e.takeBack(s); err != nil {
				failed = errors.Join(failed, tool.Errorf(tool.Internal, "%s could not be set back: %v", s.target().Display, err))
				continue
			}
			s.done = false
			failed = errors.Join(failed, s.settle())
		}
		s.discard()
		for j := len(s.made) - 1; j >= 0; j-- {
			s.target().Root.Remove(s.made[j]) // only if it is empty
		}
	}
	if failed != nil {
		return failed // the journal still says begun: Recover tries again
	}
	return e.undone(ctx, entry)
}

// takeBack undoes one step that was done. A file that somebody has changed in
// between is left to them.
func (e *Engine) takeBack(s *staged) error {
	switch s.kind {
	case kindCreate:
		if err := e.unchanged(s.dir, s.base, s.path, s.after); err != nil {
			return err
		}
		return s.dir.Remove(s.base)
	case kindDelete:
		return s.took(renameNew(s.dir, s.temp, s.base))
	case kindMode:
		return chmod(s.dir, s.base, s.path, s.before.mode)
	case kindRename:
		if s.temp == "" {
			if err := move(s.toDir, s.toBase, s.dir, s.base); err != nil {
				return err
			}
			return chmod(s.dir, s.base, s.path, s.before.mode)
		}
		if err := e.restore(s.dir, s.base, s.path, state{}, s.before); err != nil && !errors.Is(err, errChanged) {
			return err
		}
		return s.toDir.Remove(s.toBase)
	}
	return e.restore(s.dir, s.base, s.path, s.after, s.before)
}

// restore makes what is at a path, which must be as from, into to, durably.
func (e *Engine) restore(dir *os.Root, base string, p *workspace.Path, from, to state) error {
	st := &step{kind: kindWrite, path: p, before: from, after: to}
	switch {
	case !to.exists && !from.exists:
		return nil
	case !to.exists:
		st.kind = kindDelete
	case !from.exists:
		st.kind = kindCreate
	}
	s := &staged{step: st, dir: dir, base: base}
	defer s.discard()
	if st.kind != kindDelete && to.link == "" {
		if err := e.stageContent(s); err != nil {
			return err
		}
	}
	if err := e.perform(s); err != nil {
		return err
	}
	return s.settle()
}
