package pydeps

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

// pipDir is where a pip that lies among other packages is shown alone.
const pipDir = "/opt/toolyard/pip"

// findPip finds the pip that Python brings for ensurepip, else one that is
// installed for everybody.
func (b *build) findPip(ctx context.Context) error {
	for _, dir := range []string{filepath.Join(b.python.Stdlib, "ensurepip", "_bundled"), "/usr/share/python-wheels"} {
		wheels, _ := filepath.Glob(filepath.Join(dir, "pip-*.whl"))
		slices.SortFunc(wheels, func(x, y string) int { return compareWheels(y, x) })
		if len(wheels) > 0 {
			return b.unpackPip(ctx, wheels[0])
		}
	}
	for _, dir := range append([]string{"/usr/lib/python3/dist-packages"}, b.python.Site...) {
		if _, err := os.Stat(filepath.Join(dir, "pip", "__main__.py")); err == nil {
			b.pip = pipDir
			b.mounts = append(slices.Clone(b.mounts), sandbox.Mount{Source: filepath.Join(dir, "pip"), Target: filepath.Join(pipDir, "pip")})
			return nil
		}
	}
	return tool.Errorf(tool.DependencyError, "the Python at %s has no pip", b.python.Program).
		WithHint("Install uv, or the package of your system that has pip for Python, such as python3-venv.")
}

// unpackScript unpacks a wheel and compiles what is in it.
const unpackScript = `import compileall, sys, zipfile
zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])
compileall.compile_dir(sys.argv[2], quiet=2)`

// unpackPip keeps a pip that is compiled: out of its wheel Python compiles it each
// time, which takes longer than all the rest of an installation.
func (b *build) unpackPip(ctx context.Context, wheel string) error {
	base := filepath.Join(b.in.c.Cache, "pip")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	base, err := filepath.EvalSymlinks(base)
	if err != nil {
		return err
	}
	b.pip = filepath.Join(base, strings.TrimSuffix(filepath.Base(wheel), ".whl")+"-"+b.python.Version)
	b.mounts = append(slices.Clone(b.mounts), sandbox.Mount{Source: b.pip})
	if _, err := os.Stat(b.pip); err == nil {
		return nil
	}
	unlock, err := runtimes.Lock(ctx, filepath.Join(base, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(b.pip); err == nil {
		return nil
	}
	b.tell("preparing pip")
	made := filepath.Join(b.work, "pip")
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	mounts := append(slices.Clone(b.mounts), sandbox.Mount{Source: wheel})
	args := []string{b.python.Program, "-I", "-S", "-c", unpackScript, wheel, made}
	if err := b.execute(ctx, b.command(mounts, sandbox.Network{}, nil, args)); err != nil {
		return err
	}
	return os.Rename(made, b.pip)
}
