package deps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/toolyard/toolyard/tool"
)

// build is one install on its way.
type build struct {
	req      Request
	manifest *Manifest
	registry *registry
	lock     *lockfile
	// installer is "pnpm", "npm" or "bun", program where it lies.
	installer, program string
	// staging is a directory of this install's own; project in it is what the
	// installer takes for the folder.
	staging, project, home string
	// keep is the lockfile to put into the folder, "" if the author's holds.
	keep     string
	progress Progress
	packages map[string]bool // seen by the progress
}

func (b *build) tell(stage, text string) {
	if b.req.Progress == nil {
		return
	}
	if b.progress.Stage != stage {
		b.progress.Stage = stage
	}
	b.progress.Text = text
	b.req.Progress(b.progress)
}

// build makes a new node_modules and puts it in place.
func (i *Installer) build(ctx context.Context, req Request) (report *Report, err error) {
	b := &build{req: req, packages: map[string]bool{}}
	if b.manifest, err = Load(req.Dir, req.Definition); err != nil {
		return nil, err
	}
	report = &Report{Made: b.manifest.Made, Added: b.manifest.Added}
	if report.Commands, err = i.Commands(ctx, req.Definition); err != nil {
		return nil, err
	}
	if err := i.sweep(req.Dir); err != nil {
		return nil, diskError(err, req.Dir)
	}
	if len(b.manifest.Packages()) == 0 {
		report.Warnings = b.manifest.Warnings
		return report, b.without(report)
	}
	if b.registry, err = i.registry(ctx); err != nil {
		return nil, err
	}
	if err := b.registry.granted(b.manifest); err != nil {
		return nil, err
	}
	if err := i.choose(ctx, b); err != nil {
		return nil, err
	}
	if b.staging, err = i.makeStaging(b); err != nil {
		return nil, diskError(err, req.Dir)
	}
	defer os.RemoveAll(b.staging)
	if err := b.stage(); err != nil {
		return nil, err
	}
	if err := i.installInto(ctx, b); err != nil {
		return nil, err
	}
	b.tell("check", "")
	if err := i.finish(ctx, b, report); err != nil {
		return nil, err
	}
	report.Changed = true
	report.Warnings = b.manifest.Warnings
	return report, nil
}

// choose picks the installer and the lockfile.
func (i *Installer) choose(ctx context.Context, b *build) (err error) {
	switch i.c.Installer {
	case "":
		b.installer = PNPM
		if b.program, err = i.program(ctx, PNPM); err != nil {
			var other error
			b.installer = NPM
			if b.program, other = i.program(ctx, NPM); other != nil {
				return err
			}
		}
	case PNPM, NPM, Bun:
		b.installer = i.c.Installer
		if b.program, err = i.program(ctx, b.installer); err != nil {
			return err
		}
	default:
		return tool.Errorf(tool.DependencyError, "there is no installer %q", i.c.Installer).WithHint("Choose pnpm, npm or bun.")
	}
	var warnings []string
	b.lock, warnings, err = locked(b.req.Dir, b.manifest, b.installer)
	b.manifest.Warnings = append(b.manifest.Warnings, warnings...)
	if _, err := os.Lstat(filepath.Join(b.req.Dir, ".npmrc")); err == nil {
		b.manifest.Warnings = append(b.manifest.Warnings, "The tool's own .npmrc is not used: set the registry in the configuration.")
	}
	return err
}

// Bounds of packages that lie in the tool's folder.
const (
	maxLocalFiles = 10_000
	maxLocalBytes = 256 << 20
)

// stage writes what the installer starts from.
func (b *build) stage() error {
	b.project, b.home = filepath.Join(b.staging, "project"), filepath.Join(b.staging, "home")
	for _, dir := range []string{b.project, b.home} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return diskError(err, b.req.Dir)
		}
	}
	files := map[string][]byte{filepath.Join(b.project, manifestFile): b.manifest.installable(b.lock.dev()), filepath.Join(b.home, ".npmrc"): b.registry.npmrc()}
	if b.lock != nil {
		files[filepath.Join(b.project, b.lock.name)] = b.lock.text
	}
	for name, text := range files {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return diskError(err, b.req.Dir)
		}
	}
	for _, target := range b.manifest.files() {
		if !filepath.IsLocal(filepath.FromSlash(target)) || target == "." {
			return tool.Errorf(tool.DependencyError, "the package at %s lies outside of the tool's folder", target).
				WithHint("Put it into the folder, or use a version from the registry.")
		}
		if err := copyLocal(b.req.Dir, b.project, target); err != nil {
			return tool.Errorf(tool.DependencyError, "the package at %s cannot be used: %v", target, reason(err)).WithHint("Check the path in package.json.")
		}
	}
	return nil
}

// copyLocal copies a file or directory that package.json names.
func copyLocal(from, to, target string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close()
	files, bytes := 0, int64(0)
	return fs.WalkDir(root.FS(), target, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case e.IsDir() && (e.Name() == modulesDir || strings.HasPrefix(e.Name(), stagingPrefix)):
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, filepath.FromSlash(name)), 0o700)
		case !e.Type().IsRegular():
			return nil
		}
		text, err := readIn(root, name, maxLocalBytes)
		if files, bytes = files+1, bytes+int64(len(text)); err == nil && (files > maxLocalFiles || bytes > maxLocalBytes) {
			err = fmt.Errorf("it has more than %d files or %d bytes", maxLocalFiles, maxLocalBytes)
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, filepath.FromSlash(path.Dir(name))), 0o700); err != nil {
			return err
		}
		copied := filepath.Join(to, filepath.FromSlash(name))
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return os.Chtimes(copied, info.ModTime(), info.ModTime()) // the stamp goes by it
	})
}

// finish checks what was installed, runs the scripts that may, and puts all in
// place.
func (i *Installer) finish(ctx context.Context, b *build, report *Report) error {
	modules := filepath.Join(b.project, modulesDir)
	if err := os.Mkdir(modules, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return diskError(err, b.req.Dir)
	}
	if info, err := os.Lstat(modules); err != nil || !info.IsDir() {
		return tool.Errorf(tool.DependencyError, "%s made no directory of packages", b.installer).WithHint("Report this with the versions of toolyard and %s.", b.installer)
	}
	root, err := os.OpenRoot(b.project)
	if err != nil {
		return diskError(err, b.req.Dir)
	}
	defer root.Close()
	if unmet := b.manifest.Unmet(b.project); len(unmet) > 0 {
		e := tool.Errorf(tool.DependencyError, "after the installation %s", strings.TrimSuffix(lowerFirst(unmet[0].Why), ".")).
			WithHint("Correct the range in package.json, or make the lockfile anew.")
		return e.WithDetail("unmet", unmet)
	}
	var scripts []Script
	report.Packages, scripts = survey(root)
	if err := i.runScripts(ctx, b, scripts); err != nil {
		return err
	}
	report.Scripts, report.Installer, report.Registry = scripts, b.installer, b.registry.address
	if b.lock != nil {
		report.Lockfile = b.lock.name
	}
	if b.keep != "" {
		report.Lockfile = b.keep
	}
	return b.commit(root, report)
}

// commit puts lockfile, package.json and node_modules into the folder. The stamp
// comes with node_modules and names the hashes of all, so an end in between only
// means that the next install finds work to do.
func (b *build) commit(root *os.Root, report *Report) error {
	var text []byte
	if b.keep != "" {
		var err error
		if text, err = readIn(root, b.keep, maxLock); err != nil {
			return diskError(err, b.req.Dir)
		}
	}
	s := newStamp(root, b.manifest, *report)
	s.Locks = map[string]string{}
	if dir, err := os.OpenRoot(b.req.Dir); err == nil {
		s.Locks = lockSums(dir)
		s.Manifest = b.manifest.hash(dir)
		dir.Close()
	}
	if text != nil {
		s.Locks[b.keep] = sum(text)
	}
	if err := os.WriteFile(filepath.Join(b.project, modulesDir, stampFile), encode(s), 0o644); err != nil {
		return diskError(err, b.req.Dir)
	}
	if err := swapIn(filepath.Join(b.project, modulesDir), filepath.Join(b.req.Dir, modulesDir), filepath.Join(b.staging, "old")); err != nil {
		return diskError(err, b.req.Dir)
	}
	if text != nil {
		if err := writeFile(b.req.Dir, b.keep, text, 0o644); err != nil {
			return diskError(err, b.req.Dir)
		}
	}
	return b.writeManifest()
}

func (b *build) writeManifest() error {
	if !b.manifest.Changed() {
		return nil
	}
	if err := writeFile(b.req.Dir, manifestFile, b.manifest.Bytes(), 0o644); err != nil {
		return diskError(err, b.req.Dir)
	}
	return nil
}

// without is an install of nothing: what an earlier one made goes away.
func (b *build) without(report *Report) error {
	root, err := os.OpenRoot(b.req.Dir)
	if err != nil {
		return diskError(err, b.req.Dir)
	}
	defer root.Close()
	if readStamp(root) != nil {
		if b.staging, err = os.MkdirTemp(b.req.Dir, stagingPrefix); err != nil {
			return diskError(err, b.req.Dir)
		}
		defer os.RemoveAll(b.staging)
		if err := os.Rename(filepath.Join(b.req.Dir, modulesDir), filepath.Join(b.staging, "old")); err != nil {
			return diskError(err, b.req.Dir)
		}
		report.Changed = true
	}
	return b.writeManifest()
}

// swapIn puts a directory at a place, and what was there into old or where the
// directory was.
func swapIn(made, place, old string) error {
	_, err := os.Lstat(place)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Rename(made, place)
	}
	if err != nil {
		return err
	}
	if exchange(made, place) {
		return nil
	}
	if err := os.Rename(place, old); err != nil {
		return err
	}
	if err := os.Rename(made, place); err != nil {
		return errors.Join(err, os.Rename(old, place))
	}
	return nil
}

// nearby is where pnpm's staging directories lie if they can: beside its store and
// in the same grant of the sandbox, which lets no link pass from one to another.
func (i *Installer) nearby() string { return filepath.Join(i.c.Cache, PNPM, "staging") }

// makeStaging makes a directory from which node_modules can be renamed into the
// tool's folder.
func (i *Installer) makeStaging(b *build) (string, error) {
	if b.installer == PNPM && !i.own(b.req) {
		if staging, err := makeNearby(i.nearby(), b.req.Dir); err == nil {
			return staging, nil
		}
	}
	return os.MkdirTemp(b.req.Dir, stagingPrefix)
}

// makeNearby fails where the tool's folder is on another file system, which is
// tried.
func makeNearby(parent, dir string) (string, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	staging, err := os.MkdirTemp(parent, nearbyPrefix(dir))
	if err != nil {
		return "", err
	}
	from, to := filepath.Join(staging, "probe"), filepath.Join(dir, stagingPrefix+filepath.Base(staging))
	err = os.Mkdir(from, 0o700)
	if err == nil {
		err = os.Rename(from, to)
	}
	if err == nil {
		err = os.Remove(to)
	}
	if err != nil {
		os.RemoveAll(staging)
		return "", err
	}
	return staging, nil
}

// nearbyPrefix begins the names of a folder's staging directories near the store.
func nearbyPrefix(dir string) string { return sum([]byte(dir))[:32] + "-" }

// leftovers are what installs into a folder left that were killed, or what one
// that runs now is working in.
func (i *Installer) leftovers(dir string) (found []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), stagingPrefix) {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	near, _ := os.ReadDir(i.nearby()) // it may not be there yet
	for _, e := range near {
		if strings.HasPrefix(e.Name(), nearbyPrefix(dir)) {
			found = append(found, filepath.Join(i.nearby(), e.Name()))
		}
	}
	return found, err
}

// tidy sweeps where nothing is to be installed, if nobody else is installing.
func (i *Installer) tidy(dir string) {
	if left, err := i.leftovers(dir); err != nil || len(left) == 0 {
		return
	}
	now, stop := context.WithCancel(context.Background())
	stop() // do not wait
	if unlock, err := i.lock(now, dir); err == nil {
		defer unlock()
		_ = i.sweep(dir)
	}
}

// sweep removes what installs left that were killed. The caller holds the lock,
// so none of it is in use. Where such an install was killed between the two
// renames of a system without exchange, the old node_modules is put back.
func (i *Installer) sweep(dir string) error {
	all, err := i.leftovers(dir)
	if err != nil {
		return err
	}
	place := filepath.Join(dir, modulesDir)
	for _, left := range all {
		if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
			_ = os.Rename(filepath.Join(left, "old"), place)
		}
		if err := os.RemoveAll(left); err != nil {
			return err
		}
	}
	return nil
}

// diskError is a failure of our own writing.
func diskError(err error, dir string) error {
	var known *tool.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return diskFull(err)
	}
	e := tool.Errorf(tool.DependencyError, "the tool's folder cannot be written: %v", reason(err)).WithHint("Check the permissions of %s.", dir)
	e.Err = err
	return e
}

func diskFull(err error) error {
	e := tool.Errorf(tool.DependencyError, "the disk is full").WithHint("Make room and call again; what was installed before is as it was.")
	e.Err = err
	return e
}

func lowerFirst(text string) string {
	if len(text) > 1 && text[1] >= 'a' && text[1] <= 'z' {
		return strings.ToLower(text[:1]) + text[1:]
	}
	return text
}
