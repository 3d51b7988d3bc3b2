package runtimes

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// common is what most programs look at: the loader's list of libraries, the
// time, whom to trust in the network. Nothing in it is a program or a secret. To
// add one: a line here.
var common = []string{
	loaderCache, "/etc/localtime", "/etc/timezone", "/usr/share/zoneinfo",
	"/usr/lib/locale/C.utf8", "/usr/lib/locale/C.UTF-8", "/usr/lib/locale/locale-archive", "/usr/lib/ssl/openssl.cnf", "/usr/lib/ssl/certs", "/usr/lib/ssl/cert.pem",
	"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem",
	"/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
	"/etc/mime.types", "/etc/services", "/etc/protocols", "/sys/devices/system/cpu",
}

// linkedPrograms is what was found out about some files of programs.
type linkedPrograms struct {
	modTime time.Time
	libs    []string
}

const linkedMost = 256

// Mounts lists what a sandbox must show for a runtime to work, and little else:
// the program, what it links, its library, certificates and time zones; no other
// program. Of a Python the packages that are everybody's are covered by an empty
// directory. A runtime that is gone has only what is common.
func (r *Runtimes) Mounts(rt Runtime) []sandbox.Mount {
	m := newMountSet()
	m.add(common...)
	r.program(m, rt.Program)
	switch {
	case rt.Stdlib != "":
		r.python(m, rt)
	case rt.Name == "node" && rt.Source != Managed:
		// Debian's keeps a part of its own library in files.
		if slices.ContainsFunc(m.list, func(x sandbox.Mount) bool { return strings.HasPrefix(filepath.Base(x.Source), "libnode.so") }) {
			m.add("/usr/share/nodejs")
		}
	case rt.Source == Managed && rt.Name == "pnpm":
		m.add(filepath.Dir(rt.Program)) // pnpm 11 and earlier have files beside
	}
	return m.list
}

// Libraries lists what a sandbox must show for the ELF files in some directories
// to be loaded, such as native addons in node_modules, beyond those files
// themselves.
func (r *Runtimes) Libraries(dirs ...string) []sandbox.Mount {
	m := newMountSet()
	for _, dir := range dirs {
		m.add(r.linkedIn(dir)...)
	}
	return m.list
}

// program adds an executable and what it links, and the other names of it that
// stand in the same directory.
func (r *Runtimes) program(m *mountSet, program string) {
	if program == "" {
		return
	}
	m.add(program)
	m.add(r.linkedBy(program)...)
}

func (r *Runtimes) python(m *mountSet, rt Runtime) {
	// A virtual environment names its interpreter by one of these.
	dir := filepath.Dir(rt.Program)
	for _, name := range []string{"python3", "python"} {
		alias := filepath.Join(dir, name)
		if real, err := filepath.EvalSymlinks(alias); err == nil && real == rt.Program {
			m.add(alias)
		}
	}
	m.add(rt.Stdlib)
	if rt.Dynload != "" {
		m.add(rt.Dynload)
		m.add(r.linkedIn(rt.Dynload)...)
	}
	if empty := r.emptyDir(); empty != "" {
		for _, site := range rt.Site {
			if site != rt.Stdlib && below(site, rt.Stdlib) {
				m.cover(site, empty)
			}
		}
	}
}

// ownDir is where files of this package's own lie, "" if there is no such place.
func (r *Runtimes) ownDir() string { return cmp.Or(r.c.Cache, r.c.Dir) }

// emptyDir is a directory with nothing in it, "" if none can be made.
func (r *Runtimes) emptyDir() string {
	base := r.ownDir()
	if base == "" {
		return ""
	}
	dir := filepath.Join(base, "empty")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.c.Log.Warn("a tool sees packages that are everybody's", "error", err)
		return ""
	}
	_ = os.Chmod(dir, 0o555)
	return dir
}

// linkedBy are the libraries of one program, found once as long as it is the
// same file.
func (r *Runtimes) linkedBy(program string) []string {
	info, err := os.Stat(program)
	if err != nil {
		return nil
	}
	return r.linkedOnce(program, info.ModTime(), func() []string { return []string{program} })
}

// linkedIn are the libraries of the ELF files in a directory and below.
func (r *Runtimes) linkedIn(dir string) []string {
	info, err := os.Stat(dir)
	if err != nil {
		return nil
	}
	return r.linkedOnce(dir, info.ModTime(), func() []string { return objectsIn(dir) })
}

func (r *Runtimes) linkedOnce(key string, modTime time.Time, files func() []string) []string {
	// The libraries change with an update of the system, which makes the cache anew.
	if info, err := os.Stat(loaderCache); err == nil && info.ModTime().After(modTime) {
		modTime = info.ModTime()
	}
	r.mu.Lock()
	known, ok := r.linked[key]
	r.mu.Unlock()
	if ok && known.modTime.Equal(modTime) {
		return known.libs
	}
	libs := newLinker().closure(files())
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.linked) >= linkedMost {
		clear(r.linked)
	}
	r.linked[key] = linkedPrograms{modTime, libs}
	return libs
}

// objectsIn lists files that may be ELF files: libraries by their name, programs
// by their mode.
func objectsIn(dir string) []string {
	const most = 20_000
	var found []string
	looked := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if looked++; looked > most || len(found) >= maxObjects {
			return filepath.SkipAll
		}
		if err != nil || d.IsDir() || d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		name := d.Name()
		if strings.HasSuffix(name, ".so") || strings.HasSuffix(name, ".node") || strings.Contains(name, ".so.") {
			found = append(found, path)
		} else if info, err := d.Info(); err == nil && info.Mode()&0o111 != 0 {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// mountSet gathers mounts, each once.
type mountSet struct {
	list []sandbox.Mount
	seen map[string]bool
}

func newMountSet() *mountSet { return &mountSet{seen: map[string]bool{}} }

// add shows what exists where it is.
func (m *mountSet) add(paths ...string) {
	for _, path := range paths {
		if m.seen[path] {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			continue
		}
		m.seen[path] = true
		m.list = append(m.list, sandbox.Mount{Source: path})
	}
}

// cover shows source in place of target.
func (m *mountSet) cover(target, source string) {
	if !m.seen[target] {
		m.seen[target] = true
		m.list = append(m.list, sandbox.Mount{Source: source, Target: target})
	}
}

// Join puts lists of mounts together, each only once.
func Join(lists ...[]sandbox.Mount) []sandbox.Mount {
	var all []sandbox.Mount
	seen := map[sandbox.Mount]bool{}
	for _, m := range slices.Concat(lists...) {
		if !seen[m] {
			seen[m] = true
			all = append(all, m)
		}
	}
	return all
}

// below reports whether a path is dir or lies in it. Both are clean.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
