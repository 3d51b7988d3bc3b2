package pkgs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

func readlink(name string) (string, error) { return os.Readlink(name) }

// Remove takes a tool out of the toolbox: its folder at once, by a rename, then
// its versions. Its data/, logs/, .env and run.log stay in .state/kept/<name> and
// are there again when a tool of that name is installed. Purge deletes them too,
// also those of a tool that was removed before.
func (p *Packages) Remove(ctx context.Context, name string, purge bool) error {
	unlock, err := p.begin(ctx, name, "remove")
	if err != nil {
		return err
	}
	defer unlock()
	tree, err := p.lock(ctx, name, ".tree", "", max(p.c.Wait, 0))
	if err != nil {
		return err
	}
	defer tree()
	there, err := p.exact(name)
	if err != nil {
		return err
	}
	if !there && !(purge && exists(p.kept(name))) {
		return p.notThere(name)
	}
	j := &journal{Name: name, Remove: true, Purge: purge}
	if info, err := os.Lstat(p.Dir(name)); err == nil {
		j.Inode = inode(info)
	}
	p.at("journal")
	if err := writeJSON(p.journal(name), j); err != nil {
		os.Remove(p.journal(name))
		return failure(err, "removing %s", name)
	}
	return failure(p.remove(j), "removing %s", name)
}

// remove does what a journal says, from wherever it was left. The tree is locked.
func (p *Packages) remove(j *journal) error {
	s, err := p.stage()
	if err != nil {
		return err
	}
	defer s.close()
	// Another folder of that name has been put there since.
	if info, err := os.Lstat(p.Dir(j.Name)); err == nil && inode(info) == j.Inode {
		if err := p.takeOut(j.Name, j.Purge, s); err != nil {
			return err
		}
	}
	switch {
	case !exists(p.kept(j.Name)):
	case j.Purge:
		err = os.Rename(p.kept(j.Name), filepath.Join(s.dir, "kept"))
	default:
		p.at("clean")
		err = p.onlyKept(j.Name)
	}
	if err == nil {
		err = p.forget(j.Name)
	}
	if err != nil {
		return err
	}
	p.at("removed")
	return os.Remove(p.journal(j.Name))
}

// exact reports whether a folder of exactly this name is there.
func (p *Packages) exact(name string) (bool, error) {
	other, ok, err := p.spelt(name)
	return ok && other == name, failure(err, "looking for %s", name)
}

// takeOut moves a tool's folder away.
func (p *Packages) takeOut(name string, purge bool, s *stage) error {
	if _, err := readlink(p.Dir(name)); err == nil {
		return os.Remove(p.Dir(name)) // what it leads to is not ours
	}
	if purge {
		return os.Rename(p.Dir(name), filepath.Join(s.dir, "folder"))
	}
	if err := p.makeRoom(name); err != nil {
		return err
	}
	p.at("take out")
	return os.Rename(p.Dir(name), p.kept(name))
}

// makeRoom puts data that were kept before aside, under a name that no tool has.
func (p *Packages) makeRoom(name string) error {
	if !exists(p.kept(name)) {
		return nil
	}
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s~%d", p.kept(name), n)
		err := renameNew(p.kept(name), aside)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// onlyKept removes from what was kept all that belongs to no user.
func (p *Packages) onlyKept(name string) error {
	entries, err := os.ReadDir(p.kept(name))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isKept(e.Name()) {
			if err := removeAll(filepath.Join(p.kept(name), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget removes the versions and the record. Of a tool that is shipped with the
// program it remembers that it was removed.
func (p *Packages) forget(name string) error {
	r, err := p.read(name)
	if err != nil {
		return err
	}
	p.at("forget")
	system := r != nil && slices.ContainsFunc(r.Versions, func(v Release) bool { return v.Kind == KindSystem })
	if r != nil && r.Removed {
		// it knows
	} else if system {
		err = writeJSON(p.record(name), &Record{Name: name, Removed: true})
	} else if r != nil {
		err = os.Remove(p.record(name))
	}
	if err != nil {
		return err
	}
	return p.dropAll(name)
}

// dropAll removes all versions but those that calls still run on, which go at the
// next Recover.
func (p *Packages) dropAll(name string) error {
	p.at("versions")
	numbers, err := p.numbers(name)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		p.drop(name, n)
	}
	p.dropTrees(name)
	os.Remove(filepath.Join(p.versions(name), "trees")) // if they are empty
	os.Remove(p.versions(name))
	return nil
}

// Listed is one tool of the toolbox.
type Listed struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	File string `json:"file"`
	// Release is what was installed; nil for a folder that was put there by hand.
	Release *Release `json:"release,omitempty"`
	// Earlier are the versions that can be rolled back to, the newest first.
	Earlier []Release `json:"earlier,omitempty"`
	// Clash names a tool whose name differs only by case.
	Clash string `json:"clash,omitempty"`
}

// List lists the folders that have a tool, by name. It does not look for edits.
func (p *Packages) List() ([]Listed, error) {
	entries, err := os.ReadDir(p.c.Home)
	if err != nil {
		return nil, failure(err, "reading the toolbox")
	}
	var list []Listed
	folded := map[string]string{}
	for _, e := range entries {
		name := e.Name()
		if !ValidName(name) {
			continue
		}
		file, ok := ToolFile(p.Dir(name), name)
		if !ok {
			continue
		}
		l := Listed{Name: name, Dir: p.Dir(name), File: file, Clash: folded[strings.ToLower(name)]}
		folded[strings.ToLower(name)] = name
		// A record that cannot be read hides no tool.
		if r, err := p.read(name); err == nil && r != nil && !r.Removed {
			if v, ok := r.Release(r.Base); ok {
				l.Release = &v
			}
			for _, v := range slices.Backward(r.Versions) {
				if v.Number != r.Base && exists(p.version(name, v.Number)) {
					l.Earlier = append(l.Earlier, v)
				}
			}
		}
		list = append(list, l)
	}
	return list, nil
}

// Kept lists the tools that were removed and whose data are still there.
func (p *Packages) Kept() ([]string, error) {
	entries, err := os.ReadDir(p.state("kept"))
	var names []string
	for _, e := range entries {
		if ValidName(e.Name()) && !exists(p.Dir(e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names, failure(err, "reading what was kept")
}

func (p *Packages) keptNumbers(name string) string {
	numbers, _ := p.numbers(name)
	text := make([]string, len(numbers))
	for i, n := range numbers {
		text[i] = fmt.Sprint(n)
	}
	if len(text) == 0 {
		return "none"
	}
	return strings.Join(text, ", ")
}

// Verified says how a tool's folder differs from what was installed.
type Verified struct {
	Name    string  `json:"name"`
	OK      bool    `json:"ok"`
	Release Release `json:"release"`
	// Hash is that of the folder now.
	Hash    string   `json:"hash"`
	Changed []string `json:"changed,omitempty"`
	Missing []string `json:"missing,omitempty"`
	Added   []string `json:"added,omitempty"`
	// Damaged are files of the kept version itself that are not what was
	// installed: they were changed in .state.
	Damaged []string `json:"damaged,omitempty"`
}

// Verify reads a tool's files and compares them with what was installed.
// PARAMETER_ERROR if it came from no package.
func (p *Packages) Verify(ctx context.Context, name string) (*Verified, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	unlock, err := p.lock(ctx, name, ".tree", "", max(p.c.Wait, 0))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := p.finish(name); err != nil {
		return nil, err
	}
	r, err := p.read(name)
	if err != nil {
		return nil, err
	}
	if !p.present(name) && (r == nil || r.Removed) {
		return nil, p.notThere(name)
	}
	base, ok := r.Release(p.base(r))
	if !ok {
		return nil, tool.Errorf(tool.ParameterError, "%s was put into the toolbox by hand, so there is nothing to compare it with", name)
	}
	v := &Verified{Name: name, Release: base}
	want, err := p.meta(name, base.Number)
	if err == nil {
		err = v.compare(p.Dir(name), p.version(name, base.Number), want.Files)
	}
	if err != nil {
		return nil, failure(err, "reading %s", name)
	}
	v.OK = len(v.Changed)+len(v.Missing)+len(v.Added)+len(v.Damaged) == 0 && want.Files.Hash() == base.Hash
	return v, nil
}

func (v *Verified) compare(dir, version string, want Manifest) error {
	got, err := manifestOf(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	v.Hash = got.Hash()
	for name, sum := range want {
		switch have, ok := got[name]; {
		case !ok:
			v.Missing = append(v.Missing, name)
		case have != sum && !(name == "package.json" && sameButDependencies(dir, version)) && !isLockfile(name):
			v.Changed = append(v.Changed, name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok && !isLockfile(name) {
			v.Added = append(v.Added, name)
		}
	}
	kept, err := manifestOf(version)
	if err != nil {
		return err
	}
	for name, sum := range want {
		if kept[name] != sum {
			v.Damaged = append(v.Damaged, name)
		}
	}
	for name := range kept {
		if _, ok := want[name]; !ok {
			v.Damaged = append(v.Damaged, name)
		}
	}
	for _, list := range [][]string{v.Changed, v.Missing, v.Added, v.Damaged} {
		slices.Sort(list)
	}
	return nil
}

// sameButDependencies compares two package.json.
func sameButDependencies(a, b string) bool {
	x, err := os.ReadFile(filepath.Join(a, "package.json"))
	y, err2 := os.ReadFile(filepath.Join(b, "package.json"))
	return err == nil && err2 == nil && withoutDependencies(x) == withoutDependencies(y)
}
