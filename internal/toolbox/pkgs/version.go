package pkgs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// Version is one version of a tool, whole and unchanging, that is not taken away
// until it is closed. It is safe for concurrent use.
type Version struct {
	Name   string
	Number int
	// Dir holds the version's sources. Where its folder has data, logs,
	// node_modules and .venv it has empty folders. Nobody writes there.
	Dir string
	// Installed is the folder that has its node_modules and .venv, which versions
	// with the same dependencies share; empty if it has none.
	Installed string
	// Seen is the tool's folder, where its data are and where the tool is to find
	// itself: see [Version.Mounts].
	Seen string
	// File is the module's path in Dir; empty if there is none.
	File string
	// Hash is that of the sources.
	Hash string

	pin *os.File
}

// Mounts show a sandbox the version where the tool's folder is. With
// Profile.Write = {Seen + "/data"} the tool finds the data that all versions
// share in it.
func (v *Version) Mounts() []sandbox.Mount {
	mounts := []sandbox.Mount{{Source: v.Dir, Target: v.Seen}}
	for _, name := range installed {
		if v.Installed != "" && exists(filepath.Join(v.Installed, name)) {
			mounts = append(mounts, sandbox.Mount{Source: filepath.Join(v.Installed, name), Target: filepath.Join(v.Seen, name)})
		}
	}
	return mounts
}

// Path is where a file of the tool's folder lies outside of a sandbox: rel is a
// path in it, with slashes. Those of the user, like data, are in Seen.
func (v *Version) Path(rel string) string {
	top, _, _ := strings.Cut(rel, "/")
	base := v.Dir
	switch {
	case isInstalled(top) && v.Installed != "":
		base = v.Installed
	case isKept(top):
		base = v.Seen
	}
	return filepath.Join(base, filepath.FromSlash(rel))
}

// Module is the absolute path of the module as a sandbox with [Version.Mounts]
// sees it.
func (v *Version) Module() string { return filepath.Join(v.Seen, v.File) }

// Close gives the version up.
func (v *Version) Close() error { return v.pin.Close() }

// versionMeta lies beside a version's folder: what it contains.
type versionMeta struct {
	Hash  string   `json:"hash"`
	Files Manifest `json:"files"`
	// Sources and Installed are the stamps of the folder that it was copied from.
	Sources   string `json:"sources,omitempty"`
	Installed string `json:"installed,omitempty"`
	// Tree is the folder in trees/ that has what was installed; empty if nothing.
	Tree string `json:"tree,omitempty"`
}

func (p *Packages) meta(name string, number int) (*versionMeta, error) {
	var m versionMeta
	ok, err := readJSON(p.version(name, number)+".json", &m)
	if err == nil && !ok {
		err = tool.Errorf(tool.NotFound, "version %d of %s is not kept", number, name)
	}
	return &m, err
}

// pin opens a version and keeps it from being pruned. It is nil if there is no
// such version any more.
func (p *Packages) pin(name string, number int) (*Version, error) {
	dir := p.version(name, number)
	f, err := os.OpenFile(dir+".lock", os.O_RDWR, 0o600)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	got, err := shareLock(f)
	if err != nil || !got || !same(f, dir+".lock") || !exists(dir) {
		f.Close()
		return nil, err
	}
	v := &Version{Name: name, Number: number, Dir: dir, Seen: p.Dir(name), pin: f}
	// Sandboxes know no symlinks; a folder may be one to where somebody works.
	if real, err := filepath.EvalSymlinks(v.Seen); err == nil {
		v.Seen = real
	}
	v.File, _ = ToolFile(dir, name)
	m, err := p.meta(name, number)
	if err != nil {
		f.Close()
		return nil, err
	}
	v.Hash = m.Hash
	if m.Tree != "" {
		v.Installed = p.tree(name, m.Tree)
	}
	return v, nil
}

// Current is the version of a tool that runs: the one that was installed or
// accepted last, whole even while another is being switched to and after a crash
// in the middle of that. NOT_FOUND if there is none; then take a
// [Packages.Snapshot]. The caller closes it.
func (p *Packages) Current(name string) (*Version, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	for range 100 {
		r, err := p.read(name)
		if err != nil {
			return nil, err
		}
		if r == nil || r.Removed || r.Good == 0 {
			return nil, tool.Errorf(tool.NotFound, "%s has no version that was accepted", name)
		}
		v, err := p.pin(name, r.Good)
		if err != nil {
			return nil, failure(err, "opening version %d of %s", r.Good, name)
		}
		if v != nil {
			return v, nil
		}
		// It was pruned between: the record says another one by now.
		if again, err := p.read(name); err == nil && again != nil && again.Good == r.Good && !exists(p.version(name, r.Good)) {
			return nil, tool.Errorf(tool.NotFound, "version %d of %s is gone", r.Good, name)
		}
	}
	return nil, tool.Errorf(tool.Conflict, "the versions of %s change all the time", name)
}

// Snapshot makes a version of what lies in a tool's folder now, or finds the one
// that is the same, without reading the files if nothing touched them. It does
// not become the current one: see [Packages.Accept]. While another version is
// being switched to, it waits. The caller closes it.
func (p *Packages) Snapshot(ctx context.Context, name string) (*Version, error) {
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
	if info, err := os.Stat(p.Dir(name)); err != nil || !info.IsDir() {
		return nil, p.notThere(name)
	}
	number, err := p.snapshot(ctx, name)
	if err != nil {
		return nil, failure(err, "taking a snapshot of %s", name)
	}
	v, err := p.pin(name, number)
	if err == nil && v == nil {
		err = fs.ErrNotExist
	}
	return v, failure(err, "opening version %d of %s", number, name)
}

// snapshot is the number of the version that is what lies in the folder. The
// tree is locked.
func (p *Packages) snapshot(ctx context.Context, name string) (int, error) {
	sources, installed, err := stampOf(p.Dir(name))
	if err != nil {
		return 0, err
	}
	numbers, err := p.numbers(name)
	if err != nil {
		return 0, err
	}
	slices.Reverse(numbers)
	hash, tree := "", ""
	for _, n := range numbers {
		m, err := p.meta(name, n)
		if err != nil || m.Installed != installed {
			continue
		}
		if tree == "" {
			tree = m.Tree
		}
		if m.Sources == sources {
			return n, nil
		}
		if hash == "" {
			if hash, err = Hash(p.Dir(name)); err != nil {
				return 0, err
			}
		}
		if m.Hash == hash {
			m.Sources = sources
			return n, writeJSON(p.version(name, n)+".json", m)
		}
	}
	s, err := p.stage()
	if err != nil {
		return 0, err
	}
	defer s.close()
	number, _, err := p.keep(ctx, name, p.Dir(name), tree, s)
	if err == nil && len(numbers) > 2*p.c.Keep+2 { // edits of which none was accepted
		if r, e := p.read(name); e == nil && r != nil {
			p.prune(name, r, number)
		}
	}
	return number, err
}

// keep makes a version of a folder's content. Tree has what is installed in it, if
// that is known.
func (p *Packages) keep(ctx context.Context, name, from, tree string, s *stage) (int, *versionMeta, error) {
	numbers, err := p.numbers(name)
	if err != nil {
		return 0, nil, err
	}
	number := 1
	if len(numbers) > 0 {
		number = numbers[len(numbers)-1] + 1
	}
	if r, err := p.read(name); err == nil && r != nil { // numbers are not used again
		for _, v := range r.Versions {
			number = max(number, v.Number+1)
		}
	}
	tmp := filepath.Join(s.dir, "version")
	m := &versionMeta{Tree: tree}
	if m.Sources, m.Installed, err = stampOf(from); err != nil {
		return 0, nil, err
	}
	if m.Files, err = p.cloneSources(ctx, from, tmp); err != nil {
		return 0, nil, err
	}
	m.Hash = m.Files.Hash()
	dir := p.version(name, number)
	if err := os.MkdirAll(filepath.Join(p.versions(name), "trees"), 0o700); err != nil {
		return 0, nil, err
	}
	if m.Tree == "" && m.Installed != "" {
		if m.Tree, err = p.keepInstalled(ctx, name, from, s); err != nil {
			return 0, nil, err
		}
	}
	for _, own := range installed {
		if exists(filepath.Join(from, own)) {
			if err := os.Mkdir(filepath.Join(tmp, own), 0o755); err != nil {
				return 0, nil, err
			}
		}
	}
	p.at("version")
	if err := os.WriteFile(dir+".lock", nil, 0o600); err != nil {
		return 0, nil, err
	}
	if err := writeJSON(dir+".json", m); err != nil {
		return 0, nil, err
	}
	p.at("version folder")
	if err := os.Rename(tmp, dir); err != nil {
		os.Remove(dir + ".json")
		return 0, nil, err
	}
	return number, m, syncDir(p.versions(name))
}

func (p *Packages) tree(name, id string) string { return filepath.Join(p.versions(name), "trees", id) }

// keepInstalled makes a tree of what is installed in a folder.
func (p *Packages) keepInstalled(ctx context.Context, name, from string, s *stage) (string, error) {
	tmp, id := filepath.Join(s.dir, "tree"), randomID()
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return "", err
	}
	if err := cloneInstalled(ctx, from, tmp); err != nil {
		return "", err
	}
	p.at("tree")
	return id, os.Rename(tmp, p.tree(name, id))
}

// cloneSources makes a folder with the sources of another, and empty data and
// logs.
func (p *Packages) cloneSources(ctx context.Context, from, to string) (Manifest, error) {
	if err := os.Mkdir(to, 0o755); err != nil {
		return nil, err
	}
	c := &copying{ctx: ctx, from: from, to: to, limit: p.c.Limits}
	m, err := c.copy(isSource)
	if err == nil {
		err = durable(to, m)
	}
	for _, dir := range []string{"data", "logs"} {
		if err == nil {
			err = os.MkdirAll(filepath.Join(to, dir), 0o755)
		}
	}
	return m, err
}

// durable waits until the files are on the disk: each by itself, or if there are
// many with all else that waits.
func durable(dir string, m Manifest) error {
	const many = 32
	if len(m) > many {
		if done, err := syncFS(dir); done || err != nil {
			return err
		}
	}
	for name, sum := range m {
		if strings.HasPrefix(sum, "l") {
			continue
		}
		f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// cloneInstalled makes node_modules and .venv like those of another folder, of
// hard links where that can be. They are not made durable: after a
// power failure they can be installed again.
func cloneInstalled(ctx context.Context, from, to string) error {
	for _, dir := range installed {
		info, err := os.Stat(filepath.Join(from, dir))
		if err != nil || !info.IsDir() {
			continue
		}
		if err := os.Mkdir(filepath.Join(to, dir), 0o755); err != nil {
			return err
		}
		c := &copying{ctx: ctx, from: filepath.Join(from, dir), to: filepath.Join(to, dir), link: true}
		if _, err := c.copy(all); err != nil {
			return err
		}
	}
	return nil
}

// Accept makes a version the current one: it was validated, and from now on it is
// the last good one.
func (p *Packages) Accept(ctx context.Context, v *Version) error {
	unlock, err := p.lock(ctx, v.Name, ".tree", "", max(p.c.Wait, 0))
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.finish(v.Name); err != nil {
		return err
	}
	r, err := p.read(v.Name)
	if err != nil {
		return err
	}
	if r == nil || r.Removed {
		r = &Record{Name: v.Name}
	}
	if r.Good == v.Number {
		return nil
	}
	if r.Base == 0 { // a folder that was put there by hand
		m, err := p.meta(v.Name, v.Number)
		if err != nil {
			return err
		}
		r.Base, r.Edit = v.Number, editHash(v.Dir, m.Files)
		r.Versions = append(r.Versions, p.local(v.Name, v.Number, m, KindLocal, 0))
	}
	r.Good = v.Number
	if err := writeJSON(p.record(v.Name), r); err != nil {
		return failure(err, "accepting version %d of %s", v.Number, v.Name)
	}
	p.prune(v.Name, r)
	return nil
}

// local is the release of a version that came from no package.
func (p *Packages) local(name string, number int, m *versionMeta, kind Kind, previous int) Release {
	dir := p.version(name, number)
	pkg, _ := readAbout(dir, "package.json")
	file, _ := ToolFile(dir, name)
	return Release{
		Number: number, Version: pkg.Version, Kind: kind, Integrity: "sha256-" + m.Hash, Hash: m.Hash, File: file,
		At: p.c.Now().UTC(), Previous: previous,
	}
}

// prune takes away versions that nobody needs: neither the current ones, nor the
// last few, nor those that are pinned. The tree is locked. What fails is
// left for the next time.
func (p *Packages) prune(name string, r *Record, also ...int) {
	needed := map[int]bool{r.Base: true, r.Good: true}
	for _, n := range also {
		needed[n] = true
	}
	for n, left := r.Base, p.c.Keep; left > 0; left-- {
		v, ok := r.Release(n)
		if !ok || v.Previous == 0 {
			break
		}
		n = v.Previous
		needed[n] = true
	}
	// And the newest, so that a rollback can be taken back.
	for _, v := range r.Versions[max(0, len(r.Versions)-p.c.Keep-1):] {
		needed[v.Number] = true
	}
	numbers, err := p.numbers(name)
	if err != nil {
		return
	}
	for _, n := range numbers {
		if !needed[n] {
			p.drop(name, n)
		}
	}
	p.dropTrees(name)
}

// dropTrees removes the trees that no version has. The tree of the tool is
// locked.
func (p *Packages) dropTrees(name string) {
	trees, err := os.ReadDir(filepath.Join(p.versions(name), "trees"))
	if err != nil || len(trees) == 0 {
		return
	}
	needed := map[string]bool{}
	numbers, err := p.numbers(name)
	if err != nil {
		return
	}
	for _, n := range numbers {
		m, err := p.meta(name, n)
		if err != nil {
			return
		}
		needed[m.Tree] = true
	}
	s, err := p.stage()
	if err != nil {
		return
	}
	defer s.close()
	for _, t := range trees {
		if !needed[t.Name()] {
			p.at("drop tree")
			os.Rename(p.tree(name, t.Name()), filepath.Join(s.dir, t.Name()))
		}
	}
}

// drop removes one version unless it is pinned.
func (p *Packages) drop(name string, number int) {
	dir := p.version(name, number)
	f, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	if got, err := tryLock(f); err != nil || !got {
		return
	}
	s, err := p.stage()
	if err != nil {
		return
	}
	defer s.close()
	p.at("drop")
	if os.Rename(dir, filepath.Join(s.dir, strconv.Itoa(number))) == nil {
		p.at("dropped")
		os.Remove(dir + ".json")
		os.Remove(dir + ".lock")
	}
}
