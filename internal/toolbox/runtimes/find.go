package runtimes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

const (
	askLimit  = 15 * time.Second // for a program to say its version
	askOutput = 64 << 10         // bytes
	shimFor   = time.Minute      // the answer of a shim is believed
)

// answer is what a program said of itself, as long as its file stays the same.
type answer struct {
	Path    string    `json:"path"`
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mod_time"`
	Runtime Runtime   `json:"runtime"`
	// until is when the answer of a shim is asked for again: what it leads to may
	// change while it stays as it is. Zero is never.
	until time.Time
}

// ask asks one program; path is what stands on the PATH, past symlinks and the
// shims that can be read.
type ask func(ctx context.Context, r *Runtimes, path string) (Runtime, error)

// onPath is the first program of a name on the path that is not older than
// oldest. Nil if there is none, with a sentence for each that does not fit. The
// error is one that says nothing about the program: ctx ended, no sandbox.
func (r *Runtimes) onPath(ctx context.Context, name string, files []string, oldest string, ask ask) (*Runtime, []string, error) {
	release, err := r.acquire(ctx, "find "+name)
	if err != nil {
		return nil, nil, cancelled(err)
	}
	defer release()
	least := semver.MustParse(oldest)
	var seen []string
	for _, path := range r.lookup(files...) {
		found, err := r.answerOf(ctx, name, path, ask)
		if err != nil {
			if ctx.Err() != nil {
				return nil, nil, cancelled(context.Cause(ctx))
			}
			if e := tool.AsError(err); e.Code == tool.SandboxUnavailable {
				return nil, nil, err
			}
			seen = append(seen, fmt.Sprintf("%s does not say its version (%v)", path, err))
			continue
		}
		v, err := semver.NewVersion(found.Version)
		if err != nil || v.LessThan(least) {
			seen = append(seen, fmt.Sprintf("%s is version %s", path, found.Version))
			continue
		}
		r.c.Log.Debug("runtime found", "name", name, "program", found.Program, "version", found.Version)
		return &found, nil, nil
	}
	return nil, seen, nil
}

// answerOf is what the program at path says of itself, asked once as long as it
// is the same file.
func (r *Runtimes) answerOf(ctx context.Context, name, path string, ask ask) (Runtime, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Runtime{}, err
	}
	key := name + " " + path
	r.mu.Lock()
	kept, ok := r.asked[key]
	r.mu.Unlock()
	if !ok {
		kept, ok = r.stored(key)
	}
	fresh := kept.until.IsZero() || time.Now().Before(kept.until)
	if ok && fresh && kept.Size == info.Size() && kept.ModTime.Equal(info.ModTime()) && executable(kept.Runtime.Program) {
		return kept.Runtime, nil
	}
	found, err := ask(ctx, r, path)
	if err != nil {
		return Runtime{}, err
	}
	found.Name, found.Source = name, FromPath
	kept = answer{Path: key, Size: info.Size(), ModTime: info.ModTime(), Runtime: found}
	if found.Program == path {
		r.store(kept)
	} else {
		kept.until = time.Now().Add(shimFor)
	}
	r.mu.Lock()
	r.asked[key] = kept
	r.mu.Unlock()
	return found, nil
}

// lookup lists the executables of some names on the path, in its order, without
// symlinks and past the shims that say in a file where they lead.
func (r *Runtimes) lookup(names ...string) []string {
	var found []string
	for _, dir := range filepath.SplitList(r.c.Path) {
		if !filepath.IsAbs(dir) {
			continue // a relative directory is another one for each caller
		}
		for _, name := range names {
			if goruntime.GOOS == "windows" {
				name += ".exe"
			}
			path := filepath.Join(dir, name)
			if !executable(path) {
				continue
			}
			if behind, isShim := behindShim(path); isShim && behind != "" {
				path = behind
			} else if isShim && behind == "" {
				continue // it leads to what comes later on the path
			}
			if real, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(real) != "volta-shim" {
				path = real
			}
			if !slices.Contains(found, path) {
				found = append(found, path)
			}
		}
	}
	return found
}

// behindShim follows a shim of pyenv, rbenv or nodenv, a script in ROOT/shims, to
// the program in ROOT/versions that the file ROOT/version names. The empty path
// says that it leads nowhere, or to the system's own.
func behindShim(path string) (string, bool) {
	if filepath.Base(filepath.Dir(path)) != "shims" {
		return "", false
	}
	root := filepath.Dir(filepath.Dir(path))
	if info, err := os.Stat(filepath.Join(root, "versions")); err != nil || !info.IsDir() {
		return "", false
	}
	text, err := os.ReadFile(filepath.Join(root, "version"))
	if err != nil {
		return "", true
	}
	for _, version := range strings.Fields(string(text)) {
		version = strings.TrimPrefix(version, "python-")
		if version == "system" || strings.ContainsAny(version, `/\`) || strings.HasPrefix(version, ".") {
			continue
		}
		if program := filepath.Join(root, "versions", version, "bin", filepath.Base(path)); executable(program) {
			return program, true
		}
	}
	return "", true
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (info.Mode()&0o111 != 0 || goruntime.GOOS == "windows")
}

func askNode(ctx context.Context, r *Runtimes, path string) (Runtime, error) {
	const script = `process.stdout.write(JSON.stringify({version: process.versions.node, program: process.execPath}))`
	out, err := r.output(ctx, path, "-e", script)
	if err != nil {
		return Runtime{}, err
	}
	return decodeRuntime(out)
}

// pythonScript tells of the Python that a virtual environment was made from.
const pythonScript = `
import json, os, platform, sys, sysconfig
program = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix, "installed_base": sys.base_prefix, "installed_platbase": sys.base_exec_prefix}
stdlib = os.path.realpath(os.path.dirname(os.__file__))
dynload = ""
for p in sys.path:
    if os.path.basename(p) == "lib-dynload":
        dynload = os.path.realpath(p)
site = set()
for name in ("purelib", "platlib"):
    site.add(os.path.realpath(sysconfig.get_path(name, vars=base)))
for name in ("site-packages", "dist-packages"):
    site.add(os.path.join(stdlib, name))
sys.stdout.write(json.dumps({"version": platform.python_version(), "program": program, "prefix": os.path.realpath(sys.base_prefix),
    "stdlib": stdlib, "dynload": dynload, "site": sorted(p for p in site if os.path.isdir(p))}))
`

func askPython(ctx context.Context, r *Runtimes, path string) (Runtime, error) {
	out, err := r.output(ctx, path, "-I", "-S", "-c", pythonScript)
	if err != nil {
		return Runtime{}, err
	}
	found, err := decodeRuntime(out)
	if err == nil && !filepath.IsAbs(found.Stdlib) {
		return Runtime{}, errors.New("it does not tell where its library is")
	}
	// 3.13.0rc1 and 3.12.1+ are no semantic versions.
	found.Version = versionIn(found.Version)
	return found, err
}

func askVersion(ctx context.Context, r *Runtimes, path string) (Runtime, error) {
	out, err := r.output(ctx, path, "--version")
	if err != nil {
		return Runtime{}, err
	}
	version := versionIn(string(out))
	if version == "" {
		return Runtime{}, fmt.Errorf("it says %.80q", out)
	}
	return Runtime{Program: path, Version: version}, nil
}

func decodeRuntime(out []byte) (Runtime, error) {
	var found Runtime
	if err := json.Unmarshal(out, &found); err != nil || !filepath.IsAbs(found.Program) || found.Version == "" {
		return Runtime{}, fmt.Errorf("it says %.80q", out)
	}
	real, err := filepath.EvalSymlinks(found.Program)
	if err != nil {
		return Runtime{}, err
	}
	found.Program = real
	return found, nil
}

var versionPattern = lazy(`\d+(?:\.\d+){1,3}`)

// versionIn is the first thing in a text that looks like a version, "" if there
// is none. A fourth number is left out.
func versionIn(text string) string {
	v := versionPattern().FindString(text)
	if parts := strings.Split(v, "."); len(parts) > 3 {
		v = strings.Join(parts[:3], ".")
	}
	return v
}

// output runs a program of the operator's, confined, and gives what it prints on
// its standard output. It sees the operator's toolchains, which are what shims
// and version managers lead to, and has no network.
func (r *Runtimes) output(ctx context.Context, program string, args ...string) ([]byte, error) {
	chain := sandbox.Toolchains(r.c.Path, r.c.Home)
	mounts := chain.Mounts
	for _, path := range []string{program, filepath.Dir(filepath.Dir(program)) + "/lib"} {
		mounts = append(mounts, sandbox.Mount{Source: path})
	}
	env := []string{"PATH=" + r.c.Path, "LANG=C.UTF-8"}
	if r.c.Home != "" {
		env = append(env, "HOME="+r.c.Home)
	}
	return r.confined(ctx, sandbox.Cmd{
		Args: append([]string{program}, args...), Env: env,
		Profile: sandbox.Profile{Kind: "run", Mounts: mounts, Memory: 2 * sandbox.GiB, Wall: askLimit},
	})
}

// confined runs a command to its end and gives what it prints on its standard
// output.
func (r *Runtimes) confined(ctx context.Context, cmd sandbox.Cmd) ([]byte, error) {
	if r.c.Runner == nil {
		return nil, tool.Errorf(tool.SandboxUnavailable, "there is no sandbox to run %s in", cmd.Args[0])
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	out, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	bad, badW, err := os.Pipe()
	if err != nil {
		outW.Close()
		return nil, err
	}
	defer bad.Close()
	cmd.Stdout, cmd.Stderr = outW, badW
	p, err := r.c.Runner.Start(ctx, cmd)
	outW.Close()
	badW.Close()
	if err != nil {
		return nil, err
	}
	complaint := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(bad, askOutput))
		complaint <- text
	}()
	text, readErr := io.ReadAll(io.LimitReader(out, askOutput))
	result := p.Wait(ctx)
	if err := p.Close(); err != nil {
		return nil, err
	}
	said := <-complaint
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case readErr != nil:
		return nil, readErr
	case result.Ending.Reason != sandbox.EndExit || result.Ending.Code != 0:
		return nil, fmt.Errorf("it ended with %s %d: %s", result.Ending.Reason, result.Ending.Code, lastLine(said))
	}
	return text, nil
}

// lastLine is the last line of a complaint that says something, shortened.
func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return strings.ToValidUTF8(string(text[:min(len(text), 200)]), "�")
}

func cancelled(cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return tool.Errorf(tool.TimeoutError, "looking for a runtime: %v", cause)
	}
	return tool.Errorf(tool.Cancelled, "looking for a runtime: %v", cause)
}

func joinList(list []string) string { return strings.Join(list, "; ") }

// lazy is a pattern that is compiled when it is first needed: all that a package
// makes at its start, each start of the program pays for.
func lazy(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
