package pydeps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

const (
	buildMemory = 2 * sandbox.GiB
	buildPIDs   = 256
	buildDisk   = 8 * sandbox.GiB // bytes, wheels and what comes out of them
)

// build makes an environment in the cache, which is mostly on the same file
// system. The sandbox shows that directory under the final name, so every path that an installer writes is
// the right one after the rename.
type build struct {
	*job
	work    string // wheels, the list, a home; seen under the same path
	staging string // the environment, in work, as this machine sees it
	pip     string // what stands on sys.path for pip to be found
	trust   string // the installer's option for an index without TLS
	mounts  []sandbox.Mount
	// whole says that nothing was built from source, so that the wheels may serve
	// other tools.
	whole bool
}

func newBuild(j *job) (*build, error) {
	b := &build{job: j, whole: true}
	base := filepath.Join(j.in.c.Cache, "wheels")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, j.explain(context.Background(), err)
	}
	var err error
	if b.work, err = os.MkdirTemp(j.in.c.Cache, workName); err != nil {
		return nil, j.explain(context.Background(), err)
	}
	if b.work, err = filepath.EvalSymlinks(b.work); err != nil {
		return nil, j.explain(context.Background(), err)
	}
	b.staging = filepath.Join(b.work, "env")
	for _, dir := range []string{"wheels", "home", "tmp"} {
		if err := os.Mkdir(filepath.Join(b.work, dir), 0o755); err != nil {
			b.discard()
			return nil, j.explain(context.Background(), err)
		}
	}
	if err := b.lists(); err != nil {
		b.discard()
		return nil, j.explain(context.Background(), err)
	}
	return b, nil
}

// lists writes what is required in pip's own form: nothing of the tool's files
// but packages comes to the installer.
func (b *build) lists() error {
	for name, list := range map[string][]Requirement{"requirements.txt": b.need.list, "constraints.txt": b.need.constraints} {
		var text strings.Builder
		for _, q := range list {
			fmt.Fprintln(&text, q)
		}
		if err := os.WriteFile(filepath.Join(b.work, name), []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// discard takes away what did not become the environment.
func (b *build) discard() {
	if err := removeAll(b.work); err != nil {
		b.in.c.Log.Warn("something stays of an installation", "tool", filepath.Base(b.q.Dir), "error", err)
	}
}

// run makes the environment and says what is in it, and which program made it.
func (b *build) run(ctx context.Context) ([]Package, string, error) {
	b.mounts = b.in.c.Runtimes.Mounts(b.python)
	uv, err := b.in.c.Runtimes.UV(ctx)
	if err == nil && len(b.q.Allow) == 0 {
		if err = b.withUV(ctx, uv); err == nil {
			return installedIn(b.staging), "uv", nil
		}
		if ctx.Err() != nil {
			return nil, "", err
		}
		b.in.c.Log.Info("uv failed, pip is tried", "tool", filepath.Base(b.q.Dir), "error", err)
	}
	if err := b.withPip(ctx); err != nil {
		return nil, "", err
	}
	return b.packages(), "pip", nil
}

// fresh empties the place of the environment.
func (b *build) fresh() error {
	if err := removeAll(b.staging); err != nil {
		return err
	}
	return os.Mkdir(b.staging, 0o755)
}

func (b *build) withUV(ctx context.Context, uv runtimes.Runtime) error {
	if err := b.fresh(); err != nil {
		return err
	}
	// uv checks what it keeps by the index's hashes; a cache of its own, since its
	// form is nobody else's.
	b.trust = "--allow-insecure-host"
	cache := filepath.Join(b.in.c.Cache, "uv")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	mounts := runtimes.Join(b.mounts, b.in.c.Runtimes.Mounts(uv))
	common := []string{"--no-config", "--no-progress", "--cache-dir", cache}
	if b.offline() {
		common = append(common, "--offline")
	}
	make := append([]string{uv.Program, "venv", "--python", b.python.Program, "--no-project", "--allow-existing"}, common...)
	if err := b.confined(ctx, mounts, sandbox.Network{}, []string{cache}, append(make, b.seen)...); err != nil {
		return err
	}
	install := append([]string{uv.Program, "pip", "install", "--python", pythonIn(b.seen), "--only-binary", ":all:", "--compile-bytecode", "--link-mode", "copy"}, common...)
	install = append(install, b.sources(b.in.c.NoIndex)...) // offline its cache answers for the index
	if b.hashed() {
		install = append(install, "--require-hashes") // as pip does by itself
	}
	if b.need.pre {
		install = append(install, "--prerelease", "allow")
	}
	return b.confined(ctx, mounts, b.in.network(b.q.Offline), []string{cache}, append(install, b.asked()...)...)
}

func (b *build) hashed() bool {
	return slices.ContainsFunc(b.need.list, func(q Requirement) bool { return len(q.Hashes) > 0 })
}

func (b *build) offline() bool { return b.q.Offline || b.in.c.NoIndex }

// asked are the arguments that name what is wanted.
func (b *build) asked() []string {
	return []string{"-r", filepath.Join(b.work, "requirements.txt"), "-c", filepath.Join(b.work, "constraints.txt")}
}

// sources are the arguments that say where packages come from.
func (b *build) sources(noIndex bool) []string {
	var args []string
	for _, dir := range b.in.c.Wheels {
		args = append(args, "--find-links", dir)
	}
	if noIndex {
		return append(args, "--no-index")
	}
	args = append(args, "--index-url", b.in.c.Index)
	if strings.HasPrefix(b.in.c.Index, "http:") {
		args = append(args, b.trust, b.in.host) // the operator named it
	}
	return args
}

// withPip makes the environment with Python's own venv and the pip that Python
// brings. It first gathers wheels, with the network, and then installs from them
// without one.
func (b *build) withPip(ctx context.Context) error {
	if err := b.findPip(ctx); err != nil {
		return err
	}
	if err := b.fresh(); err != nil {
		return err
	}
	b.trust = "--trusted-host"
	b.tell("making the virtual environment")
	if err := b.confined(ctx, b.mounts, sandbox.Network{}, nil, b.python.Program, "-I", "-m", "venv", "--without-pip", b.seen); err != nil {
		return err
	}
	cached := filepath.Join(b.in.c.Cache, "wheels")
	from := []string{"--no-index", "--find-links", filepath.Join(b.work, "wheels")}
	if b.offline() && len(b.q.Allow) == 0 {
		from = []string{"--no-index", "--find-links", cached}
		for _, dir := range b.in.c.Wheels {
			from = append(from, "--find-links", dir)
		}
	} else if err := b.gather(ctx, cached); err != nil {
		return err
	}
	b.tell("installing")
	install := append([]string{"install", "--only-binary", ":all:", "--no-warn-script-location"}, from...)
	return b.runPip(ctx, sandbox.Network{}, append(install, b.asked()...)...)
}

// gather brings the wheels of all that is needed. Only if some are not to be had,
// those that may be are built from source.
func (b *build) gather(ctx context.Context, cached string) error {
	args := []string{"wheel", "--only-binary", ":all:", "--wheel-dir", filepath.Join(b.work, "wheels"), "--find-links", cached}
	args = append(append(args, b.sources(b.offline())...), b.asked()...)
	err := b.runPip(ctx, b.in.network(b.q.Offline), args...)
	if err == nil || len(b.q.Allow) == 0 || ctx.Err() != nil {
		return err
	}
	b.whole = false
	for _, name := range b.q.Allow {
		args = append(args, "--no-binary", Normalize(name))
	}
	b.tell("building " + strings.Join(b.q.Allow, ", ") + " from source")
	return b.runPip(ctx, b.in.network(b.q.Offline), args...)
}

// pipStart runs pip from a wheel, or a directory that holds it.
const pipStart = `import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)`

func (b *build) runPip(ctx context.Context, network sandbox.Network, args ...string) error {
	all := []string{pythonIn(b.seen), "-I", "-c", pipStart, b.pip, args[0], "--no-input", "--no-cache-dir", "--disable-pip-version-check", "--progress-bar", "off", "--retries", "2"}
	if b.need.pre {
		all = append(all, "--pre")
	}
	return b.confined(ctx, b.mounts, network, nil, append(all, args[1:]...)...)
}

func compareWheels(x, y string) int {
	_, a, _ := wheelName(filepath.Base(x))
	_, b, _ := wheelName(filepath.Base(y))
	va, errA := parseVersion(a)
	vb, errB := parseVersion(b)
	if errA != nil || errB != nil {
		return strings.Compare(x, y)
	}
	return va.compare(vb)
}

// wheelName is the package and version that a wheel's file name says.
func wheelName(file string) (name, version string, ok bool) {
	stem, ok := strings.CutSuffix(file, ".whl")
	parts := strings.Split(stem, "-")
	if !ok || len(parts) < 5 || len(parts) > 6 || parts[0] == "" || parts[1] == "" {
		return "", "", false
	}
	return Normalize(parts[0]), parts[1], true
}

// packages are what is installed, with the wheels that were gathered for it.
func (b *build) packages() []Package {
	all := installedIn(b.staging)
	wheels, _ := filepath.Glob(filepath.Join(b.work, "wheels", "*.whl"))
	for _, path := range wheels {
		name, _, ok := wheelName(filepath.Base(path))
		i := slices.IndexFunc(all, func(p Package) bool { return p.Name == name })
		if !ok || i < 0 {
			continue
		}
		all[i].Wheel = filepath.Base(path)
		all[i].SHA256, _ = sum(path)
		all[i].Built = !b.whole && slices.ContainsFunc(b.q.Allow, func(allowed string) bool { return Normalize(allowed) == name })
	}
	return all
}

func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// keepWheels puts the wheels where other tools find them. None that was made here
// is among them: the code of a package ran while it was.
func (b *build) keepWheels() {
	if !b.whole {
		return
	}
	wheels, _ := filepath.Glob(filepath.Join(b.work, "wheels", "*.whl"))
	for _, path := range wheels {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if err := os.Rename(path, filepath.Join(b.in.c.Cache, "wheels", filepath.Base(path))); err != nil {
			b.in.c.Log.Debug("a wheel is not kept", "error", err)
		}
	}
}

// confined runs one program of the installation, with the environment's place.
func (b *build) confined(ctx context.Context, mounts []sandbox.Mount, network sandbox.Network, write []string, args ...string) error {
	mounts = append(slices.Clone(mounts), sandbox.Mount{Source: b.staging, Target: b.seen, Write: true})
	return b.execute(ctx, b.command(mounts, network, write, args))
}

func (b *build) command(mounts []sandbox.Mount, network sandbox.Network, write, args []string) sandbox.Cmd {
	cmd := sandbox.Cmd{
		Args: args, Dir: b.work,
		Env: []string{
			"PATH=" + filepath.Dir(pythonIn(b.seen)), "HOME=" + filepath.Join(b.work, "home"), "TMPDIR=" + filepath.Join(b.work, "tmp"),
			"LANG=C.UTF-8", "PIP_CONFIG_FILE=/dev/null", "UV_NATIVE_TLS=true", "UV_PYTHON_DOWNLOADS=never",
		},
		Profile: sandbox.Profile{
			Kind: "toolbox", Read: append(slices.Clone(b.in.c.Wheels), filepath.Join(b.in.c.Cache, "wheels")), Write: append([]string{b.work}, write...),
			Mounts: mounts, Protected: []string{}, Network: network, Memory: buildMemory, PIDs: buildPIDs, Disk: buildDisk, Wall: b.in.c.Limit,
		},
	}
	if b.in.authorization != "" && network.Mode != "" {
		cmd.Inject = []netproxy.Injection{{Host: hostOf(b.in.host), Header: "Authorization", Value: b.in.authorization}}
	}
	return cmd
}

func (b *build) execute(ctx context.Context, cmd sandbox.Cmd) error {
	out, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = outW, outW
	p, err := b.in.c.Runner.Start(ctx, cmd)
	outW.Close()
	if err != nil {
		return err
	}
	said := newLog(b.tell)
	_, readErr := io.Copy(said, out)
	result := p.Wait(ctx)
	if err := p.Close(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if result.Ending.Reason == sandbox.EndExit && result.Ending.Code == 0 {
		return nil
	}
	return errors.Join(b.failure(result, said), readErr)
}

func (b *build) tell(text string) {
	if b.q.Progress != nil {
		b.q.Progress(text)
	}
}

// failure makes an error of what an installer said.
func (b *build) failure(result sandbox.Result, said *log) error {
	reason := said.reason()
	if result.Ending.Reason != sandbox.EndExit {
		reason = strings.TrimSuffix("the installer was ended ("+result.Ending.Reason+"): "+reason, ": ")
	}
	e := tool.Errorf(tool.DependencyError, "installing the tool's packages: %s", reason).WithDetail("log", said.tail())
	refused := slices.IndexFunc(result.Violations, func(v sandbox.Violation) bool { return v.Kind == "network" })
	switch name := said.missing(); {
	case refused < 0 && !b.offline() && said.unreachable() != "":
		return tool.Errorf(tool.DependencyError, "the Python index cannot be reached: %s", said.unreachable()).WithDetail("log", said.tail()).
			WithHint("Check the network and the index's address. What was installed before is still there.")
	case refused >= 0 && !b.offline():
		return e.WithHint("The index leads to %s, which is not granted to it. Name that host beside the index in the configuration.", result.Violations[refused].Target)
	case name != "" && b.offline():
		return e.WithHint("There is no network for it: put a wheel of %s into the wheels directory, or install once with the index.", name)
	case name != "":
		return e.WithHint("Compare the name and the range of %s with what the index has. If it is there only as source, allow it to be built.", name)
	}
	return e.WithHint("What was installed before is still there.")
}
