package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

// wanted is what a tool of the benchmark depends on: a package of a thousand
// files, a native addon, and one that is an ES module only.
var wanted = []definition.Dependency{
	{Kind: definition.Package, Name: "lodash", Range: "^4.17.0"},
	{Kind: definition.Package, Name: "@napi-rs/canvas", Range: "^0.1.60"},
	{Kind: definition.Package, Name: "p-limit", Range: "^6.0.0"},
}

// installs measures how long dependencies take, beside pnpm itself doing the same
// without sandbox and without being checked, in interleaved runs: cold, with the
// store removed each time; from the lockfile with a filled store; and where
// nothing changed.
func installs(out io.Writer, runs int) error {
	b, err := newInstallBench()
	if err != nil {
		return err
	}
	defer b.close()
	times := map[string][]time.Duration{}
	for range runs {
		for _, step := range []struct {
			name string
			run  func() (time.Duration, error)
		}{{"cold, pnpm itself", b.bareCold}, {"cold", b.cold}, {"from lockfile, pnpm itself", b.bareWarm}, {"from lockfile, pnpm itself, copying", b.bareCopy}, {"from lockfile", b.warm}, {"nothing changed", b.fresh}} {
			took, err := step.run()
			if err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			times[step.name] = append(times[step.name], took)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "install, %d interleaved runs\tmedian\tleast\tmost\tgoal\t\n", runs)
	for _, row := range []struct {
		name, goal string
		met        func(d time.Duration) bool
	}{
		{"cold, pnpm itself", "", nil},
		{"cold", "≤ 1.5 × pnpm itself", func(d time.Duration) bool { return float64(d) <= 1.5*float64(middle(times["cold, pnpm itself"])) }},
		{"from lockfile, pnpm itself", "", nil},
		{"from lockfile, pnpm itself, copying", "", nil},
		{"from lockfile", "≤ 0.5 s", func(d time.Duration) bool { return d <= 500*time.Millisecond }},
		{"nothing changed", "< 5 ms", func(d time.Duration) bool { return d < 5*time.Millisecond }},
	} {
		all := times[row.name]
		median, goal := middle(all), row.goal
		if row.met != nil {
			goal += map[bool]string{true: " met", false: " MISSED"}[row.met(median)]
		}
		fmt.Fprintf(w, "%s\t%.1f ms\t%.1f ms\t%.1f ms\t%s\t\n", row.name, millis(median), millis(slices.Min(all)), millis(slices.Max(all)), goal)
	}
	fmt.Fprintf(w, "cold / pnpm itself\t%.2f\t\t\t\t\n", float64(middle(times["cold"]))/float64(middle(times["cold, pnpm itself"])))
	return w.Flush()
}

func middle(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// installBench holds the two contenders, each with a folder and a store.
type installBench struct {
	dir, pnpm, registry string
	box                 *sandbox.Sandbox
	in                  *deps.Installer
	tool, bare          string
}

func newInstallBench() (b *installBench, err error) {
	b = &installBench{}
	if b.dir, err = os.MkdirTemp("", "toolbox-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(b.dir)
		}
	}()
	if b.pnpm, err = fetchPNPM(b.dir); err != nil {
		return nil, err
	}
	ranges, err := b.findRegistry()
	if err != nil {
		return nil, err
	}
	b.box = sandbox.New(sandbox.Config{AllowRanges: ranges})
	b.in = deps.New(deps.Config{Runner: b.box, Cache: filepath.Join(b.dir, "cache"), Env: os.Environ(), Registry: b.registry,
		Program: func(_ context.Context, name string) (string, error) {
			if name == deps.PNPM {
				return b.pnpm, nil
			}
			return exec.LookPath(name)
		}})
	b.tool, b.bare = filepath.Join(b.dir, "tool"), filepath.Join(b.dir, "bare")
	var list []string
	for _, d := range wanted {
		list = append(list, fmt.Sprintf("%q: %q", d.Name, d.Range))
	}
	for _, dir := range []string{b.tool, b.bare} {
		if err = os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		text := "{\"name\": \"bench\", \"version\": \"1.0.0\", \"dependencies\": {" + strings.Join(list, ", ") + "}}"
		if err = os.WriteFile(filepath.Join(dir, "package.json"), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *installBench) close() {
	b.box.Close()
	os.RemoveAll(b.dir)
}

// fetchPNPM fetches the program for this machine with npm.
func fetchPNPM(dir string) (string, error) {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if arch == "" {
		return "", errors.New("there is no pnpm for " + runtime.GOARCH)
	}
	cmd := exec.Command("npm", "pack", "--silent", "@pnpm/exe."+runtime.GOOS+"-"+arch+"@latest")
	cmd.Dir = dir
	name, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("npm pack: %w", err)
	}
	if out, err := exec.Command("tar", "-xzf", filepath.Join(dir, strings.TrimSpace(string(name))), "-C", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("tar: %w: %s", err, out)
	}
	return filepath.Join(dir, "package", "pnpm"), nil
}

// findRegistry asks npm for its registry, and for the addresses of that.
func (b *installBench) findRegistry() ([]netip.Prefix, error) {
	out, err := exec.Command("npm", "config", "get", "registry").Output()
	if err != nil {
		return nil, err
	}
	b.registry = strings.TrimSpace(string(out))
	u, err := url.Parse(b.registry)
	if err != nil {
		return nil, err
	}
	addrs, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", u.Hostname())
	if err != nil {
		return nil, err
	}
	var ranges []netip.Prefix
	for _, a := range addrs {
		ranges = append(ranges, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
	}
	return ranges, nil
}

// bareInstall is pnpm as a person calls it, with the same registry and without
// scripts.
func (b *installBench) bareInstall(flags ...string) (time.Duration, error) {
	args := append([]string{"install", "--ignore-scripts", "--reporter=silent", "--registry=" + b.registry, "--store-dir=" + filepath.Join(b.dir, "bare-store")}, flags...)
	cmd := exec.Command(b.pnpm, args...)
	cmd.Dir = b.bare
	cmd.Env = append(os.Environ(), "PNPM_CONFIG_UPDATE_NOTIFIER=false", "PNPM_CONFIG_CACHE_DIR="+filepath.Join(b.dir, "bare-cache"))
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return time.Since(began), err
}

func remove(dir string, names ...string) error {
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (b *installBench) bareCold() (time.Duration, error) {
	if err := errors.Join(remove(b.dir, "bare-store", "bare-cache"), remove(b.bare, "node_modules", "pnpm-lock.yaml")); err != nil {
		return 0, err
	}
	return b.bareInstall()
}

func (b *installBench) bareWarm() (time.Duration, error) {
	if err := remove(b.bare, "node_modules"); err != nil {
		return 0, err
	}
	return b.bareInstall("--frozen-lockfile")
}

// bareCopy is pnpm with files of the folder's own, as tools have them, instead of
// hard links into the store.
func (b *installBench) bareCopy() (time.Duration, error) {
	if err := remove(b.bare, "node_modules"); err != nil {
		return 0, err
	}
	return b.bareInstall("--frozen-lockfile", "--package-import-method=copy", "--node-linker=hoisted")
}

func (b *installBench) install(changed bool) (time.Duration, error) {
	began := time.Now()
	report, err := b.in.Install(context.Background(), deps.Request{Dir: b.tool, Definition: &definition.Definition{Name: "bench", File: "tool.js", Dependencies: wanted}})
	took := time.Since(began)
	if err == nil && report.Changed != changed {
		err = fmt.Errorf("changed is %v", report.Changed)
	}
	return took, err
}

func (b *installBench) cold() (time.Duration, error) {
	if err := errors.Join(remove(b.dir, "cache"), remove(b.tool, "node_modules", "pnpm-lock.yaml")); err != nil {
		return 0, err
	}
	return b.install(true)
}

func (b *installBench) warm() (time.Duration, error) {
	if err := remove(b.tool, "node_modules"); err != nil {
		return 0, err
	}
	return b.install(true)
}

func (b *installBench) fresh() (time.Duration, error) { return b.install(false) }
