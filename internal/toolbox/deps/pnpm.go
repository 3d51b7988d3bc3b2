package deps

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// installInto runs the installer in the staging directory.
func (i *Installer) installInto(ctx context.Context, b *build) error {
	b.tell("resolve", "")
	switch b.installer {
	case PNPM:
		return i.pnpm(ctx, b)
	case Bun:
		return i.bun(ctx, b)
	}
	return i.npm(ctx, b)
}

// start runs one command of an installer, with the registry as its network.
func (i *Installer) start(ctx context.Context, b *build, args, env []string, cache string, line func(string)) (outcome, error) {
	node, err := i.program(ctx, "node")
	if err != nil && b.installer == NPM {
		return outcome{}, err
	}
	chain, search := i.toolchain(b.program, node)
	if err := i.makeCache(cache); err != nil {
		return outcome{}, err
	}
	write := []string{cache}
	if !strings.HasPrefix(b.staging, cache+string(filepath.Separator)) {
		write = append(write, b.staging)
	}
	profile := i.profile(ctx, chain, b.home, write...)
	profile.Read = slices.Clone(b.registry.reads)
	if !b.req.Offline {
		profile.Network = sandbox.NetworkOf(b.registry.hosts)
	}
	env = append([]string{"HOME=" + b.home, "PATH=" + joinPath(search), "LANG=C.UTF-8", "XDG_CACHE_HOME=" + filepath.Join(b.home, ".cache"), "NO_COLOR=1", "CI="}, env...)
	return i.run(ctx, command{args: args, env: env, dir: b.project, profile: profile, line: line})
}

// own reports whether a tool's files must not be links into the store.
func (i *Installer) own(r Request) bool {
	return i.c.Copy || slices.Contains(slices.Collect(maps.Values(r.Allow)), true)
}

func (i *Installer) makeCache(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return tool.Errorf(tool.DependencyError, "the cache of packages cannot be written: %v", reason(err)).WithHint("Check the permissions and the room of %s.", i.c.Cache)
	}
	return nil
}

// retries of a registry, with times in milliseconds: one that is down is given up
// after a second or two, because somebody waits.
var retries = []string{"fetch_retries=2", "fetch_retry_factor=2", "fetch_retry_mintimeout=300", "fetch_retry_maxtimeout=2000", "fetch_timeout=60000"}

func (i *Installer) pnpm(ctx context.Context, b *build) error {
	cache := filepath.Join(i.c.Cache, PNPM)
	store := "--store-dir=" + filepath.Join(cache, "store")
	env := []string{"PNPM_CONFIG_UPDATE_NOTIFIER=false", "PNPM_CONFIG_CACHE_DIR=" + filepath.Join(cache, "metadata"), "PNPM_CONFIG_STATE_DIR=" + filepath.Join(b.home, "state")}
	for _, r := range retries {
		env = append(env, "PNPM_CONFIG_"+strings.ToUpper(r))
	}
	if err := i.makeCache(cache); err != nil {
		return err
	}
	frozen := b.lock != nil && b.lock.name == pnpmLock
	if b.lock != nil && b.lock.name != pnpmLock {
		if err := i.pnpmImport(ctx, b, env, cache, store); err != nil {
			if errors.Is(err, errOtherVersions) {
				return i.npmInstead(ctx, b)
			}
			return err
		}
		frozen = b.lock.fits
	}
	// Flat, because tools use packages that they do not name. A script that was
	// allowed writes in node_modules, so then the files are the folder's own: see
	// the package's comment.
	own := i.own(b.req)
	args := []string{b.program, "install", "--prod", "--ignore-scripts", "--ignore-pnpmfile", "--ignore-workspace", "--no-runtime",
		"--node-linker=hoisted", "--package-import-method=" + importMethod(cache, b.home, own), "--reporter=ndjson", store}
	if b.lock != nil && b.lock.name != pnpmLock && frozen {
		args = append(args, "--frozen-lockfile")
	} else {
		args = append(args, "--no-frozen-lockfile")
	}
	if b.req.Offline {
		args = append(args, "--offline")
	}
	out, err := i.start(ctx, b, args, env, cache, b.heardPNPM)
	if err != nil {
		return err
	}
	if !out.ok() {
		forget(filepath.Join(cache, "metadata"), out.output)
		return i.failure(ctx, b, out)
	}
	if b.lock == nil || !b.lock.fits || b.lock.name == yarnLock || b.lock.name == pnpmLock {
		b.keep = pnpmLock
	}
	return nil
}

// pnpmImport makes pnpm's lockfile of another's.
func (i *Installer) pnpmImport(ctx context.Context, b *build, env []string, cache, store string) error {
	args := []string{b.program, "import", "--reporter=ndjson", store}
	if b.req.Offline {
		args = append(args, "--offline")
	}
	out, err := i.start(ctx, b, args, env, cache, nil)
	if err != nil {
		return err
	}
	if !out.ok() {
		return i.failure(ctx, b, out)
	}
	if err := os.Remove(filepath.Join(b.project, b.lock.name)); err != nil {
		return diskError(err, b.req.Dir)
	}
	if b.lock.npm == nil || !b.lock.fits {
		return nil
	}
	text, err := readFile(b.project, pnpmLock, maxLock)
	if err != nil {
		return diskError(err, b.req.Dir)
	}
	return b.lock.npm.compare(text)
}

// npmInstead installs with npm what pnpm would choose other versions of.
func (i *Installer) npmInstead(ctx context.Context, b *build) error {
	program, err := i.program(ctx, NPM)
	if err != nil {
		return tool.Errorf(tool.DependencyError, "pnpm cannot keep to %s, and there is no npm on this machine", b.lock.name).
			WithHint("Install npm, or replace %s by %s.", b.lock.name, pnpmLock)
	}
	b.installer, b.program = NPM, program
	if err := os.Remove(filepath.Join(b.project, pnpmLock)); err != nil {
		return diskError(err, b.req.Dir)
	}
	if err := os.WriteFile(filepath.Join(b.project, b.lock.name), b.lock.text, 0o600); err != nil {
		return diskError(err, b.req.Dir)
	}
	return i.npm(ctx, b)
}

// event is a line of pnpm's reporter.
type event struct {
	Name      string `json:"name"`
	Level     string `json:"level"`
	Code      string `json:"code"`
	Message   string `json:"message"`
	Status    string `json:"status"`
	PackageID string `json:"packageId"`
}

// heardPNPM turns pnpm's reporter into progress.
func (b *build) heardPNPM(line string) {
	if b.req.Progress == nil || !strings.Contains(line, `"pnpm:progress"`) {
		return
	}
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		return
	}
	switch e.Status {
	case "resolved":
		b.progress.Total++
		b.tell("resolve", e.PackageID)
	case "fetched", "found_in_store":
		if !b.packages[e.PackageID] {
			b.packages[e.PackageID] = true
			b.progress.Done = min(b.progress.Done+1, max(b.progress.Total, b.progress.Done))
			b.tell("fetch", e.PackageID)
		}
	}
}

// forget removes what pnpm remembers of a package whose content was not what its
// checksum says: for some minutes it would not ask again for the checksum, which
// may be what was wrong.
func forget(metadata, output string) {
	code, text := said(output)
	m := tarball.FindStringSubmatch(text)
	if !strings.Contains(code, "INTEGRITY") || m == nil {
		return
	}
	name := filepath.FromSlash("/" + m[1] + ".jsonl")
	_ = filepath.WalkDir(metadata, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, name) {
			return os.Remove(path)
		}
		return nil
	})
}
