package runtimes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/toolyard/toolyard/internal/flock"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

const (
	lockFile    = ".lock"
	currentFile = ".current" // names the version in use
	stagingName = ".tmp-"    // what an installation left that did not end
	stampFile   = ".toolyard.json"
	kept        = 2 // versions that stay: the one in use and the one before
)

// stamp is what stays known of an installed version.
type stamp struct {
	Package   string    `json:"package"`
	Version   string    `json:"version"`
	Integrity string    `json:"integrity"`
	Installed time.Time `json:"installed"`
}

// Install fetches a version of node or pnpm from the npm registry, checks its
// integrity, runs it once, and makes it the one in use. Version is an exact one, a
// range, or a tag; empty is the default. What is there already is only put in use.
// Progress may be nil; it is called from the calling goroutine. Of several that
// install at once, in any process, one works and the others wait. The error is
// DEPENDENCY_ERROR, PARAMETER_ERROR for a name or version that is none, or
// CANCELLED; then what was there before is as it was.
func (r *Runtimes) Install(ctx context.Context, name, version string, progress func(Progress)) (Runtime, error) {
	if version == "" {
		version = products[name].defaultVersion
	}
	pkg, err := packageOf(name, version, platform(), isMusl())
	if err != nil {
		return Runtime{}, err
	}
	if strings.ContainsAny(version, "/\\\x00") || strings.HasPrefix(version, ".") {
		return Runtime{}, tool.Errorf(tool.ParameterError, "%q is no version of %s", version, name).WithHint("Name one such as %s.", products[name].defaultVersion)
	}
	release, err := r.acquire(ctx, "install "+name)
	if err != nil {
		return Runtime{}, cancelled(err)
	}
	defer release()
	dir := filepath.Join(r.c.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Runtime{}, tool.Errorf(tool.DependencyError, "making a place for %s: %v", name, err).WithHint("%s must be a directory that may be written to, with room.", r.c.Dir)
	}
	unlock, err := Lock(ctx, filepath.Join(dir, lockFile))
	if err != nil {
		return Runtime{}, err
	}
	defer unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, errors.New("it took longer than "+fetchLimit.String()))
	defer cancel()
	if found, ok := r.at(name, version); ok {
		return found, r.use(name, version)
	}
	sweep(dir)
	rel, err := r.releaseOf(ctx, pkg, version)
	if err != nil {
		return Runtime{}, err
	}
	found, ok := r.at(name, rel.Version)
	if !ok {
		if found, err = r.fetch(ctx, name, rel, dir, progress); err != nil {
			return Runtime{}, err
		}
	}
	if err := r.use(name, rel.Version); err != nil {
		return Runtime{}, err
	}
	r.dropOld(name, rel.Version)
	found.Current = true
	return found, nil
}

// fetch puts a release in its place. The caller holds the lock.
func (r *Runtimes) fetch(ctx context.Context, name string, rel release, dir string, progress func(Progress)) (Runtime, error) {
	staging, err := os.MkdirTemp(dir, stagingName)
	if err != nil {
		return Runtime{}, tool.Errorf(tool.DependencyError, "making a place for %s: %v", name, err).WithHint("%s must be a directory that may be written to, with room.", r.c.Dir)
	}
	defer func() { _ = removeAll(staging) }()
	f, err := os.Create(filepath.Join(staging, "package.tgz"))
	if err != nil {
		return Runtime{}, tool.Errorf(tool.DependencyError, "making a place for %s: %v", name, err).WithHint("%s must be a directory that may be written to, with room.", r.c.Dir)
	}
	defer f.Close()
	began := time.Now()
	if err := r.download(ctx, rel, f, progress); err != nil {
		return Runtime{}, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Runtime{}, tool.Errorf(tool.DependencyError, "reading %s: %v", rel.Package, err)
	}
	tree := filepath.Join(staging, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return Runtime{}, tool.Errorf(tool.DependencyError, "making a place for %s: %v", name, err).WithHint("%s must be a directory that may be written to, with room.", r.c.Dir)
	}
	if err := extract(&interruptible{f, ctx}, tree, defaultLimits); err != nil {
		if ctx.Err() != nil {
			return Runtime{}, cancelled(context.Cause(ctx))
		}
		e := tool.Errorf(tool.DependencyError, "unpacking %s %s: %v", rel.Package, rel.Version, err).
			WithHint("Nothing was installed. Name another version, or set another registry.")
		if isDisk(err) {
			e = e.WithHint("Make room on the disk and try again.")
		}
		return Runtime{}, e
	}
	if err := r.tryOut(ctx, name, rel, tree); err != nil {
		return Runtime{}, err
	}
	text, err := json.Marshal(stamp{rel.Package, rel.Version, rel.Integrity, time.Now().UTC()})
	if err == nil {
		err = writeFile(filepath.Join(tree, stampFile), text)
	}
	if err == nil {
		err = os.Rename(tree, filepath.Join(dir, rel.Version))
	}
	if err != nil {
		return Runtime{}, tool.Errorf(tool.DependencyError, "putting %s in its place: %v", name, err).WithHint("%s must be a directory that may be written to, with room.", r.c.Dir)
	}
	r.c.Log.Info("runtime installed", "name", name, "version", rel.Version, "took", time.Since(began).Round(time.Millisecond))
	found, ok := r.at(name, rel.Version)
	if !ok {
		return Runtime{}, tool.Errorf(tool.DependencyError, "%s %s was installed and is not there", name, rel.Version)
	}
	return found, nil
}

// tryOut runs the program once: a package may be for another kind of system, or
// hold only a part of what it needs.
func (r *Runtimes) tryOut(ctx context.Context, name string, rel release, tree string) error {
	program := programIn(name, tree)
	if program == "" {
		return tool.Errorf(tool.DependencyError, "%s %s has no %s in it", rel.Package, rel.Version, products[name].program).
			WithHint("Nothing was installed. Name another version, such as %s.", products[name].defaultVersion)
	}
	if err := os.Chmod(program, 0o755); err != nil {
		return tool.Errorf(tool.DependencyError, "making %s executable: %v", name, err)
	}
	if r.c.Runner == nil {
		return nil
	}
	home, err := os.MkdirTemp("", "toolyard-runtime-")
	if err != nil {
		return tool.Errorf(tool.DependencyError, "making a home for %s: %v", name, err)
	}
	defer func() { _ = removeAll(home) }()
	out, err := r.confined(ctx, sandbox.Cmd{
		Args: []string{program, "--version"}, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + home}, Dir: home,
		Profile: sandbox.Profile{Kind: "run", Mounts: r.Mounts(Runtime{Name: name, Program: program, Source: Managed}), Home: home, Wall: askLimit},
	})
	if e := tool.AsError(err); e != nil && e.Code == tool.SandboxUnavailable {
		r.c.Log.Warn("a runtime was not tried out, for want of a sandbox", "name", name, "error", err)
		return nil
	}
	if err == nil && versionIn(string(out)) == versionIn(rel.Version) {
		return nil
	}
	if ctx.Err() != nil {
		return cancelled(context.Cause(ctx))
	}
	if err == nil {
		err = errors.New("it says it is version " + lastLine(out))
	}
	return tool.Errorf(tool.DependencyError, "%s %s does not run on this machine: %v", name, rel.Version, err).
		WithHint("Nothing was installed. Install another version; %s is known to run.", products[name].defaultVersion)
}

// List gives the managed runtimes that are there, by name, the newest first.
func (r *Runtimes) List() []Runtime {
	var all []Runtime
	for _, name := range []string{"node", "pnpm"} {
		all = append(all, r.installed(name)...)
	}
	return all
}

// Remove takes a managed version away, or with an empty version all of them.
// The error is NOT_FOUND if it is not there.
func (r *Runtimes) Remove(ctx context.Context, name, version string) error {
	release, err := r.acquire(ctx, "install "+name)
	if err != nil {
		return cancelled(err)
	}
	defer release()
	there := r.installed(name)
	if version != "" {
		there = slices.DeleteFunc(there, func(x Runtime) bool { return x.Version != version })
	}
	if len(there) == 0 {
		return tool.Errorf(tool.NotFound, "there is no managed %s", strings.TrimSpace(name+" "+version)).
			WithHint("`toolyard runtime list` shows what there is.")
	}
	dir := filepath.Join(r.c.Dir, name)
	unlock, err := Lock(ctx, filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	defer unlock()
	for _, x := range there {
		if err := drop(dir, x.Version); err != nil {
			return tool.Errorf(tool.DependencyError, "removing %s %s: %v", name, x.Version, err)
		}
	}
	return nil
}

// drop takes a version away at once: under a name that no version has, then for
// good.
func drop(dir, version string) error {
	gone, err := os.MkdirTemp(dir, stagingName)
	if err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, version), filepath.Join(gone, "tree")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return removeAll(gone)
}

// sweep takes away what installations left that were killed. The caller holds
// the lock, so none of them is going on.
func sweep(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), stagingName) {
			_ = removeAll(filepath.Join(dir, e.Name()))
		}
	}
}

// dropOld keeps the version in use and the newest installed besides: workers that
// run may still start processes of it.
func (r *Runtimes) dropOld(name, current string) {
	there := slices.DeleteFunc(r.installed(name), func(x Runtime) bool { return x.Version == current })
	slices.SortStableFunc(there, func(a, b Runtime) int { return installedAt(b).Compare(installedAt(a)) })
	for _, old := range there[min(len(there), kept-1):] {
		if err := drop(filepath.Join(r.c.Dir, name), old.Version); err != nil {
			r.c.Log.Warn("an old runtime stays", "name", name, "version", old.Version, "error", err)
		}
	}
}

func installedAt(x Runtime) time.Time {
	dir := x.Program
	for range strings.Count(products[x.Name].program, "/") + 1 {
		dir = filepath.Dir(dir)
	}
	s, _ := readStamp(dir)
	return s.Installed
}

func readStamp(dir string) (s stamp, ok bool) {
	text, err := os.ReadFile(filepath.Join(dir, stampFile))
	ok = err == nil && json.Unmarshal(text, &s) == nil && s.Version != ""
	return s, ok
}

// at is the managed version of that exact number, if it is whole.
func (r *Runtimes) at(name, version string) (Runtime, bool) {
	dir, err := filepath.Abs(filepath.Join(r.c.Dir, name, version))
	if err != nil || r.c.Dir == "" {
		return Runtime{}, false
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	s, ok := readStamp(dir)
	program := programIn(name, dir)
	if !ok || s.Version != version || program == "" {
		return Runtime{}, false
	}
	return Runtime{Name: name, Program: program, Version: version, Source: Managed}, true
}

// installed lists the managed versions of one name, the newest first.
func (r *Runtimes) installed(name string) []Runtime {
	entries, _ := os.ReadDir(filepath.Join(r.c.Dir, name))
	current, _ := os.ReadFile(filepath.Join(r.c.Dir, name, currentFile))
	var all []Runtime
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !e.IsDir() {
			continue
		}
		if x, ok := r.at(name, e.Name()); ok {
			x.Current = x.Version == strings.TrimSpace(string(current))
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b Runtime) int { return compareVersions(b.Version, a.Version) })
	if len(all) > 0 && !slices.ContainsFunc(all, func(x Runtime) bool { return x.Current }) {
		all[0].Current = true
	}
	return all
}

func compareVersions(a, b string) int {
	va, errA := semver.NewVersion(a)
	vb, errB := semver.NewVersion(b)
	if errA != nil || errB != nil {
		return cmp.Compare(a, b)
	}
	return va.Compare(vb)
}

// managed is the managed version in use.
func (r *Runtimes) managed(name string) (Runtime, bool) {
	if text, err := os.ReadFile(filepath.Join(r.c.Dir, name, currentFile)); err == nil {
		if x, ok := r.at(name, strings.TrimSpace(string(text))); ok {
			x.Current = true
			return x, true
		}
	}
	for _, x := range r.installed(name) {
		return x, true
	}
	return Runtime{}, false
}

// use makes a version the one in use.
func (r *Runtimes) use(name, version string) error {
	if err := writeFile(filepath.Join(r.c.Dir, name, currentFile), []byte(version+"\n")); err != nil {
		return tool.Errorf(tool.DependencyError, "putting %s %s in use: %v", name, version, err)
	}
	return nil
}

// interruptible ends with the context.
type interruptible struct {
	io.Reader
	ctx context.Context
}

func (i *interruptible) Read(p []byte) (int, error) {
	if i.ctx.Err() != nil {
		return 0, context.Cause(i.ctx)
	}
	return i.Reader.Read(p)
}

// removeAll is os.RemoveAll also where directories may not be written to.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

func isDisk(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, fs.ErrPermission)
}

// Lock holds a file that only one process can hold, until unlock or the end of the
// process. It waits until ctx ends. The error is a *tool.Error.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, tool.Errorf(tool.DependencyError, "locking: %v", err)
	}
	switch err := flock.Wait(ctx, f); {
	case err == nil:
		return func() { f.Close() }, nil
	case ctx.Err() != nil:
		f.Close()
		return nil, cancelled(err)
	default:
		f.Close()
		return nil, tool.Errorf(tool.DependencyError, "locking %s: %v", path, err)
	}
}
