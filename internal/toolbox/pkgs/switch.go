package pkgs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// journal is a switch or a removal that was decided on:
// .state/journal/<name>.json. Where it exists it is done, if not by who began it
// then by who comes next.
type journal struct {
	Name string `json:"name"`
	// Stage is the staging directory in which put/ has what is to be put into the
	// folder.
	Stage string `json:"stage"`
	// Record is that of the new version, Before the one before.
	Record *Record `json:"record,omitempty"`
	Before *Record `json:"before,omitempty"`
	// Put are the names at the top of put/, with their inodes: one that the folder
	// has is done. Take are those that are to go from the folder.
	Put  []put    `json:"put,omitempty"`
	Take []string `json:"take,omitempty"`

	// Remove says that the tool is to go, whose folder has this inode, and Purge
	// that its data are to go too.
	Remove bool   `json:"remove,omitempty"`
	Purge  bool   `json:"purge,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
}

type put struct {
	Name  string `json:"name"`
	Inode uint64 `json:"inode"`
}

// target is what a switch is to.
type target struct {
	name    string
	dir     string // has the files of the new version
	release Release
	base    int // of the version, if it is kept already
	edit    string
}

// change switches a tool's folder to a version. The operation is locked, the tree
// not yet. The stage stays the caller's, unless the switch could neither be
// finished nor undone.
func (p *Packages) change(ctx context.Context, t target, s *stage) (*Record, error) {
	unlock, err := p.lock(ctx, t.name, ".tree", "", max(p.c.Wait, 0))
	if err != nil {
		return nil, err
	}
	defer unlock()
	before, err := p.read(t.name)
	if err != nil {
		return nil, err
	}
	now := before.clone()
	if now == nil {
		now = &Record{Name: t.name}
	}
	now.Removed = false
	now.Versions = slices.DeleteFunc(now.Versions, func(v Release) bool { return !exists(p.version(t.name, v.Number)) })
	if err := p.preserve(ctx, t.name, now); err != nil {
		return nil, failure(err, "keeping the version of %s that is there", t.name)
	}
	if t.base == 0 {
		number, m, err := p.keep(ctx, t.name, t.dir, "", s)
		if err != nil {
			return nil, failure(err, "keeping the new version of %s", t.name)
		}
		t.release.Number, t.release.Hash, t.release.Previous = number, m.Hash, now.Base
		t.edit = editHash(p.version(t.name, number), m.Files)
		now.Versions = append(now.Versions, t.release)
		t.base = number
	}
	now.Base, now.Good, now.Edit = t.base, t.base, t.edit
	err = p.carryOut(ctx, t, now, before, s)
	if err != nil {
		if t.release.Number != 0 && !exists(p.journal(t.name)) {
			p.drop(t.name, t.release.Number)
		}
		return nil, err
	}
	p.at("stamp")
	p.restamp(t.name, t.base)
	p.at("prune")
	p.prune(t.name, now)
	return now, nil
}

// restamp remembers that a folder has a version as it is, so that the next
// snapshot need not read it. Without it that reads once.
func (p *Packages) restamp(name string, number int) {
	m, err := p.meta(name, number)
	if err != nil {
		return
	}
	if m.Sources, m.Installed, err = stampOf(p.Dir(name)); err == nil {
		writeJSON(p.version(name, number)+".json", m)
	}
}

// preserve makes a version of what the folder has if that is none yet: what the
// user changed since, or a folder put there by hand.
func (p *Packages) preserve(ctx context.Context, name string, now *Record) error {
	if !p.present(name) {
		return nil
	}
	number, err := p.snapshot(ctx, name)
	if err != nil || number == now.Base {
		return err
	}
	if _, ok := now.Release(number); !ok {
		m, err := p.meta(name, number)
		if err != nil {
			return err
		}
		if base, ok := now.Release(now.Base); ok && editHash(p.version(name, number), m.Files) == now.Edit {
			// Nobody edited it: dependencies were installed since.
			replaceRelease(now, base, number, m.Hash)
			return nil
		}
		kind := KindEdited
		if now.Base == 0 {
			kind = KindLocal
		}
		now.Versions = append(now.Versions, p.local(name, number, m, kind, now.Base))
	}
	now.Base = number
	return nil
}

// replaceRelease gives a release the number and the hash of a version that is the
// same with its dependencies.
func replaceRelease(now *Record, base Release, number int, hash string) {
	for i := range now.Versions {
		if now.Versions[i].Number == base.Number {
			now.Versions[i].Number, now.Versions[i].Hash = number, hash
		}
		if now.Versions[i].Previous == base.Number {
			now.Versions[i].Previous = number
		}
	}
	if now.Base == base.Number {
		now.Base = number
	}
	if now.Good == base.Number {
		now.Good = number
	}
}

// carryOut writes the journal and does what it says.
func (p *Packages) carryOut(ctx context.Context, t target, now, before *Record, s *stage) error {
	j := &journal{Name: t.name, Stage: s.id, Record: now, Before: before}
	if err := p.prepare(ctx, t, j, s); err != nil {
		return failure(err, "preparing the new version of %s", t.name)
	}
	if err := context.Cause(ctx); err != nil {
		return cancelled(err)
	}
	p.at("journal")
	if err := writeJSON(p.journal(t.name), j); err != nil {
		os.Remove(p.journal(t.name))
		return failure(err, "writing what is to be done with %s", t.name)
	}
	// From here on it is done, also if the process ends.
	err := p.apply(j)
	if err == nil {
		return nil
	}
	if undoErr := p.undo(j); undoErr != nil {
		s.leave()
		return failure(errors.Join(err, undoErr), "switching %s; it will be tried again at the next start", t.name)
	}
	return failure(err, "switching %s; the version before is back", t.name)
}

// prepare makes put/, which has in it what is to be in the folder.
func (p *Packages) prepare(ctx context.Context, t target, j *journal, s *stage) error {
	from := filepath.Join(s.dir, "put")
	if err := removeAll(from); err != nil {
		return err
	}
	version := p.version(t.name, t.base)
	if _, err := p.cloneSources(ctx, version, from); err != nil {
		return err
	}
	m, err := p.meta(t.name, t.base)
	if err != nil {
		return err
	}
	if m.Tree != "" {
		if err := cloneInstalled(ctx, p.tree(t.name, m.Tree), from); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if isKept(e.Name()) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		j.Put = append(j.Put, put{e.Name(), inode(info)})
	}
	// What is installed comes first and the tool's file last, so that who looks at
	// the folder meanwhile finds what the file needs.
	rank := func(name string) int {
		switch {
		case isInstalled(name):
			return 0
		case strings.HasPrefix(name, "tool.") || strings.Contains(name, ".tool."):
			return 3
		case name == "package.json":
			return 2
		}
		return 1
	}
	slices.SortStableFunc(j.Put, func(a, b put) int { return rank(a.Name) - rank(b.Name) })
	there, err := os.ReadDir(p.place(t.name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range there {
		if !isKept(e.Name()) && !isNoise(e.Name()) && !slices.ContainsFunc(j.Put, func(x put) bool { return x.Name == e.Name() }) {
			j.Take = append(j.Take, e.Name())
		}
	}
	return nil
}

// place is where a tool's folder is, or the data that are left of it.
func (p *Packages) place(name string) string {
	if dir := p.Dir(name); exists(dir) || !exists(p.kept(name)) {
		return dir
	}
	return p.kept(name)
}

// apply does what a journal says, from wherever it was left. The tree is locked.
func (p *Packages) apply(j *journal) error {
	dir, stage := p.Dir(j.Name), filepath.Join(p.staging(), j.Stage)
	from := filepath.Join(stage, "put")
	p.at("record")
	if err := writeJSON(p.record(j.Name), j.Record); err != nil {
		return err
	}
	p.at("folder")
	at := p.place(j.Name)
	if !exists(at) && complete(from, j.Put) {
		if err := renameNew(from, dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	for _, e := range j.Put {
		p.at("put " + e.Name)
		if err := p.swap(filepath.Join(from, e.Name), filepath.Join(at, e.Name), filepath.Join(stage, "old-"+e.Name), e.Inode); err != nil {
			return err
		}
	}
	for _, name := range j.Take {
		p.at("take " + name)
		err := os.Rename(filepath.Join(at, name), filepath.Join(stage, "old-"+name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !exists(filepath.Join(stage, "old-"+name)) {
			return err
		}
	}
	for _, own := range []string{"data", "logs"} {
		p.at("make " + own)
		if err := os.Mkdir(filepath.Join(at, own), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	p.at("place")
	if at != dir {
		if err := renameNew(at, dir); err != nil {
			return err
		}
	}
	if err := errors.Join(syncDir(dir), syncDir(p.c.Home)); err != nil {
		return err
	}
	p.at("done")
	return os.Remove(p.journal(j.Name))
}

// complete reports whether nothing has been taken from put/ yet.
func complete(from string, names []put) bool {
	return !slices.ContainsFunc(names, func(e put) bool { return !exists(filepath.Join(from, e.Name)) })
}

// swap puts one entry in its place and what was there into the stage, at once
// where the file system can. It does nothing if that has been done.
func (p *Packages) swap(from, to, old string, ino uint64) error {
	if info, err := os.Lstat(to); err == nil && inode(info) == ino {
		return nil
	}
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if inode(info) != ino {
		return tool.Errorf(tool.Internal, "%s is not what was to be put there", from)
	}
	if exists(to) {
		if !p.noExchange {
			if ok, err := exchange(from, to); ok || err != nil {
				return err
			}
		}
		p.at("make way " + filepath.Base(to))
		if !exists(old) {
			if err := os.Rename(to, old); err != nil {
				return err
			}
		}
	}
	p.at("move in " + filepath.Base(to))
	return os.Rename(from, to)
}

// undo puts back what apply has done, after an error.
func (p *Packages) undo(j *journal) error {
	dir, stage := p.place(j.Name), filepath.Join(p.staging(), j.Stage)
	from := filepath.Join(stage, "put")
	var errs []error
	for _, name := range j.Take {
		if old := filepath.Join(stage, "old-"+name); exists(old) && !exists(filepath.Join(dir, name)) {
			errs = append(errs, os.Rename(old, filepath.Join(dir, name)))
		}
	}
	for _, e := range j.Put {
		to, new, old := filepath.Join(dir, e.Name), filepath.Join(from, e.Name), filepath.Join(stage, "old-"+e.Name)
		info, err := os.Lstat(to)
		done := err == nil && inode(info) == e.Inode
		switch {
		case done && exists(new): // they were exchanged
			if _, err := exchange(new, to); err != nil {
				errs = append(errs, err)
			}
		case done:
			errs = append(errs, os.Rename(to, new))
		}
		if exists(old) && !exists(to) {
			errs = append(errs, os.Rename(old, to))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if j.Before == nil {
		errs = append(errs, os.Remove(p.record(j.Name)))
	} else {
		errs = append(errs, writeJSON(p.record(j.Name), j.Before))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return os.Remove(p.journal(j.Name))
}

// finish does what a journal says that a process left behind. The tree is locked.
func (p *Packages) finish(name string) error {
	var j journal
	ok, err := readJSON(p.journal(name), &j)
	if err != nil || !ok {
		return failure(err, "reading what is to be done with %s", name)
	}
	if j.Remove && j.Name == name {
		return failure(p.remove(&j), "finishing to remove %s", name)
	}
	if j.Name != name || j.Record == nil || strings.ContainsAny(j.Stage, `/\`) || j.Stage == "" {
		return tool.Errorf(tool.Internal, "%s makes no sense", p.journal(name)).
			WithHint("Look at the file, and remove it if the tool's folder is whole.")
	}
	if err := p.apply(&j); err != nil {
		if again := p.anew(&j); again != nil {
			return failure(errors.Join(err, again), "finishing what was begun with %s", name)
		}
	}
	return nil
}

// anew does what a journal says from the version itself, where somebody took away
// what was prepared.
func (p *Packages) anew(old *journal) error {
	if !exists(p.version(old.Name, old.Record.Base)) {
		return fs.ErrNotExist
	}
	s, err := p.stage()
	if err != nil {
		return err
	}
	j := &journal{Name: old.Name, Stage: s.id, Record: old.Record, Before: old.Before}
	err = p.prepare(context.Background(), target{name: old.Name, base: old.Record.Base}, j, s)
	if err == nil {
		err = writeJSON(p.journal(old.Name), j)
	}
	if err != nil {
		s.close()
		return err
	}
	if err := p.apply(j); err != nil {
		s.leave()
		return err
	}
	return s.close()
}
