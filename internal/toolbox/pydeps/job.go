package pydeps

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

const (
	envName   = ".venv"
	newName   = ".venv.new" // only where the cache is on another file system
	oldName   = ".venv.old" // only where two names cannot be exchanged
	workName  = "py-"       // in the cache, where an environment is made
	stampFile = ".toolyard.json"
	// stampVersion changes when environments are made in another way.
	stampVersion = 1
)

// staleAfter is when what is in the cache under workName is nobody's any more:
// its process was killed.
const staleAfter = time.Hour

// stamp is in an environment that was made here.
type stamp struct {
	Version  int       `json:"version"`
	Key      string    `json:"key"`
	Packages []Package `json:"packages"`
	Made     time.Time `json:"made"`
}

// job is one installation.
type job struct {
	in     *Installer
	q      Request
	python runtimes.Runtime
	need   *requirements
	env    string // the environment's final path
	seen   string // the same, as the tool sees it
}

func (j *job) do(ctx context.Context) (*Report, error) {
	key := j.key()
	if r := j.unchanged(key); r != nil {
		return r, nil
	}
	unlock, err := j.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	j.tidy()
	if r := j.unchanged(key); r != nil {
		return r, nil // another process was first
	}
	if len(j.need.list) == 0 {
		return j.without()
	}
	if r := j.adopt(); r != nil {
		return r, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, j.in.c.Limit, errTooLong)
	defer cancel()
	began := time.Now()
	b, err := newBuild(j)
	if err != nil {
		return nil, err
	}
	defer b.discard()
	packages, installer, err := b.run(ctx)
	if err != nil {
		return nil, j.explain(ctx, err)
	}
	made := stamp{Version: stampVersion, Key: key, Packages: packages, Made: time.Now().UTC()}
	if err := writeStamp(b.staging, made); err != nil {
		return nil, j.explain(ctx, err)
	}
	if err := j.swap(b.staging); err != nil {
		return nil, j.explain(ctx, err)
	}
	b.keepWheels()
	j.in.c.Log.Info("Python packages installed", "tool", filepath.Base(j.q.Dir), "packages", len(packages),
		"installer", installer, "took", time.Since(began).Round(time.Millisecond))
	r := j.report(packages)
	r.Changed, r.Installer = true, installer
	return r, nil
}

var errTooLong = errors.New("it took too long")

// key is that of all that decides what is installed.
func (j *job) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s %s\n%s\n%t\n", stampVersion, j.python.Program, j.python.Version, j.seen, j.need.pre)
	for _, q := range j.need.list {
		fmt.Fprintln(h, q)
	}
	fmt.Fprintln(h, "constraints")
	for _, q := range j.need.constraints {
		fmt.Fprintln(h, q)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// unchanged is the report if the environment is what is asked for.
func (j *job) unchanged(key string) *Report {
	if len(j.need.list) == 0 {
		if _, err := os.Lstat(j.env); errors.Is(err, fs.ErrNotExist) {
			return j.report(nil)
		}
		return nil
	}
	s, ok := readStamp(j.env)
	if !ok || s.Version != stampVersion || s.Key != key {
		return nil
	}
	if _, err := os.Stat(j.program()); err != nil {
		return nil // the Python that it was made from is gone
	}
	return j.report(s.Packages)
}

// without is a tool that needs no packages (any more). An environment that was
// not made here stays, and is used.
func (j *job) without() (*Report, error) {
	if _, ours := readStamp(j.env); !ours {
		if _, err := os.Stat(j.program()); err == nil {
			return j.report(installedIn(j.env)), nil
		}
		r := j.report(nil)
		return r, nil
	}
	// Not to oldName, from which tidy would bring it back.
	if err := os.Rename(j.env, filepath.Join(j.q.Dir, newName)); err != nil {
		return nil, tool.Errorf(tool.DependencyError, "taking away %s: %v", j.env, err)
	}
	j.tidy()
	r := j.report(nil)
	r.Changed = true
	return r, nil
}

// adopt is the report of an environment that somebody made by hand and that has
// all that is asked for.
func (j *job) adopt() *Report {
	if _, ours := readStamp(j.env); ours {
		return nil
	}
	if _, err := os.Stat(j.program()); err != nil || len(unfulfilled(j.env, j.need)) > 0 {
		return nil
	}
	return j.report(installedIn(j.env))
}

func (j *job) report(packages []Package) *Report {
	r := &Report{Env: j.env, Program: pythonIn(j.seen), Python: j.python, Packages: packages}
	if _, err := os.Stat(j.program()); err != nil {
		r.Env, r.Program = "", j.python.Program
	}
	return r
}

// program is the environment's Python, as this machine sees it.
func (j *job) program() string { return pythonIn(j.env) }

func pythonIn(env string) string {
	if goruntime.GOOS == "windows" {
		return filepath.Join(env, "Scripts", "python.exe")
	}
	return filepath.Join(env, "bin", "python")
}

// tidy takes away what an installation left that was killed, and finishes one
// that was killed between its two renames. The caller holds the lock.
func (j *job) tidy() {
	old := filepath.Join(j.q.Dir, oldName)
	if _, err := os.Lstat(j.env); errors.Is(err, fs.ErrNotExist) {
		_ = os.Rename(old, j.env)
	}
	stale, _ := filepath.Glob(filepath.Join(j.in.c.Cache, workName+"*"))
	for _, dir := range stale {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > staleAfter+j.in.c.Limit {
			_ = removeAll(dir)
		}
	}
	for _, name := range []string{newName, oldName} {
		if err := removeAll(filepath.Join(j.q.Dir, name)); err != nil {
			j.in.c.Log.Warn("something stays of an installation", "tool", filepath.Base(j.q.Dir), "error", err)
		}
	}
}

// swap puts the new environment in the place of the old one: at once where the
// system can exchange two names, else by two renames, between which tidy goes on.
func (j *job) swap(staging string) error {
	err := j.swapFrom(staging)
	if !errors.Is(err, syscall.EXDEV) {
		return err
	}
	near := filepath.Join(j.q.Dir, newName)
	if err := os.CopyFS(near, os.DirFS(staging)); err != nil {
		_ = removeAll(near)
		return err
	}
	err = j.swapFrom(near)
	_ = removeAll(near)
	return err
}

func (j *job) swapFrom(staging string) error {
	if _, err := os.Lstat(j.env); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(staging, j.env)
	}
	err := exchange(staging, j.env)
	if err == nil || errors.Is(err, syscall.EXDEV) {
		return err // what is at staging now is thrown away by the caller
	}
	old := filepath.Join(j.q.Dir, oldName)
	if err := os.Rename(j.env, old); err != nil {
		return err
	}
	if err := os.Rename(staging, j.env); err != nil {
		_ = os.Rename(old, j.env)
		return err
	}
	_ = removeAll(old)
	return nil
}

// lock keeps other processes from the same tool.
func (j *job) lock(ctx context.Context) (unlock func(), err error) {
	sum := sha256.Sum256([]byte(j.q.Dir))
	dir := filepath.Join(j.in.c.Cache, "locks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, tool.Errorf(tool.DependencyError, "locking: %v", err)
	}
	return runtimes.Lock(ctx, filepath.Join(dir, "py-"+hex.EncodeToString(sum[:12])))
}

// explain makes a *tool.Error of whatever went wrong.
func (j *job) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, errTooLong) {
		return tool.Errorf(tool.DependencyError, "installing the tool's packages took longer than %s", j.in.c.Limit).
			WithHint("What was installed before is still there. Try again, with a nearer index or fewer packages.")
	}
	if ctx.Err() != nil {
		return ended(err)
	}
	if e := new(tool.Error); errors.As(err, &e) {
		return e
	}
	return tool.Errorf(tool.DependencyError, "installing the tool's packages: %v", err).
		WithHint("What was installed before is still there.")
}

func ended(cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return tool.Errorf(tool.TimeoutError, "installing the tool's packages: %v", cause)
	}
	return tool.Errorf(tool.Cancelled, "installing the tool's packages: %v", cause)
}

func readStamp(env string) (s stamp, ok bool) {
	f, err := os.Open(filepath.Join(env, stampFile))
	if err != nil {
		return s, false
	}
	defer f.Close()
	err = json.NewDecoder(io.LimitReader(f, maxFile)).Decode(&s)
	return s, err == nil && s.Key != ""
}

func writeStamp(env string, s stamp) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(env, stampFile), text, 0o644)
}

// installedIn lists the packages of an environment by what their dist-info says.
func installedIn(env string) []Package {
	found, _ := filepath.Glob(filepath.Join(env, "lib", "python*", "site-packages", "*.dist-info", "METADATA"))
	more, _ := filepath.Glob(filepath.Join(env, "Lib", "site-packages", "*.dist-info", "METADATA"))
	var all []Package
	for _, path := range append(found, more...) {
		if p, ok := metadata(path); ok {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func metadata(path string) (p Package, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return p, false
	}
	defer f.Close()
	return parseMetadata(f)
}

// parseMetadata reads the name and version at the head of a METADATA file.
func parseMetadata(r io.Reader) (p Package, ok bool) {
	in := bufio.NewScanner(io.LimitReader(r, maxFile))
	in.Buffer(nil, maxFile+1)
	for in.Scan() && (p.Name == "" || p.Version == "") {
		name, value, found := strings.Cut(in.Text(), ":")
		if !found {
			break // the head is over
		}
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "name":
			p.Name = Normalize(value)
		case "version":
			p.Version = strings.TrimSpace(value)
		}
	}
	return p, p.Name != "" && p.Version != ""
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

func encode64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
