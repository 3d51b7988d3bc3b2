package runtimes

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxObjects = 4096    // files of one program and all that it links
	maxDynamic = 1 << 20 // bytes of a dynamic section
	maxStrings = 1 << 24 // bytes of its strings
	maxString  = 1 << 16 // bytes of one of them
)

// object is what an ELF file says of what it needs.
type object struct {
	path    string
	class   elf.Class
	machine elf.Machine
	interp  string
	needed  []string
	rpath   []string // searched for all below it, if there is no runpath
	runpath []string
	nix     bool // has a runpath, even an empty one
}

var errNoObject = errors.New("not an ELF file")

// readObject reads the program headers and the dynamic section that they name,
// as the loader does: a stripped file may have no sections.
func readObject(path string) (*object, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o, err := parseObject(f)
	if err != nil {
		return nil, err
	}
	o.path = path
	expand := strings.NewReplacer("$ORIGIN", filepath.Dir(path), "${ORIGIN}", filepath.Dir(path),
		"$LIB", "lib", "${LIB}", "lib", "$PLATFORM", "", "${PLATFORM}", "")
	for _, dirs := range []*[]string{&o.rpath, &o.runpath} {
		for i, dir := range *dirs {
			(*dirs)[i] = expand.Replace(dir)
		}
		*dirs = slices.DeleteFunc(*dirs, func(dir string) bool { return !filepath.IsAbs(dir) })
	}
	return o, nil
}

func parseObject(r io.ReaderAt) (*object, error) {
	var magic [4]byte
	if _, err := r.ReadAt(magic[:], 0); err != nil || string(magic[:]) != elf.ELFMAG {
		return nil, errNoObject
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	o := &object{class: f.Class, machine: f.Machine}
	var dynamic []byte
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_INTERP:
			text, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			if err != nil {
				return nil, err
			}
			o.interp = string(bytes.TrimRight(text, "\x00"))
		case elf.PT_DYNAMIC:
			if dynamic, err = io.ReadAll(io.LimitReader(p.Open(), maxDynamic)); err != nil {
				return nil, err
			}
		}
	}
	if dynamic == nil {
		return o, nil // linked statically
	}
	return o, o.dynamic(f, dynamic)
}

func (o *object) dynamic(f *elf.File, table []byte) error {
	values := map[elf.DynTag][]uint64{}
	for len(table) > 0 {
		var tag elf.DynTag
		var value uint64
		tag, value, table = nextDynamic(f, table)
		if tag == elf.DT_NULL {
			break
		}
		values[tag] = append(values[tag], value)
	}
	if len(values[elf.DT_STRTAB]) == 0 {
		return nil
	}
	strs, err := stringsAt(f, values[elf.DT_STRTAB][0], values[elf.DT_STRSZ])
	if err != nil {
		return err
	}
	text := func(at uint64) string {
		read, e := readString(strs, at)
		if err == nil {
			err = e
		}
		return read
	}
	for _, at := range values[elf.DT_NEEDED][:min(len(values[elf.DT_NEEDED]), maxObjects)] {
		if name := text(at); name != "" {
			o.needed = append(o.needed, name)
		}
	}
	for _, at := range values[elf.DT_RPATH] {
		o.rpath = append(o.rpath, strings.Split(text(at), ":")...)
	}
	for _, at := range values[elf.DT_RUNPATH] {
		o.nix = true
		o.runpath = append(o.runpath, strings.Split(text(at), ":")...)
	}
	return err
}

func nextDynamic(f *elf.File, table []byte) (elf.DynTag, uint64, []byte) {
	switch {
	case f.Class == elf.ELFCLASS64 && len(table) >= 16:
		return elf.DynTag(f.ByteOrder.Uint64(table)), f.ByteOrder.Uint64(table[8:]), table[16:]
	case f.Class == elf.ELFCLASS32 && len(table) >= 8:
		return elf.DynTag(f.ByteOrder.Uint32(table)), uint64(f.ByteOrder.Uint32(table[4:])), table[8:]
	}
	return elf.DT_NULL, 0, nil
}

// stringsAt is the string table at an address of the loaded file. It may be large,
// and little of it is wanted.
func stringsAt(f *elf.File, address uint64, sizes []uint64) (*io.SectionReader, error) {
	if len(sizes) == 0 || sizes[0] > maxStrings {
		return nil, errors.New("its table of strings has no size")
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || address < p.Vaddr || address-p.Vaddr >= p.Filesz {
			continue
		}
		size := min(sizes[0], p.Filesz-(address-p.Vaddr))
		return io.NewSectionReader(p.ReaderAt, int64(address-p.Vaddr), int64(size)), nil
	}
	return nil, errors.New("its table of strings lies nowhere")
}

// readString reads one string of a table. One without an end is none.
func readString(table *io.SectionReader, at uint64) (string, error) {
	if at >= uint64(table.Size()) {
		return "", nil
	}
	block := make([]byte, 128)
	var text []byte
	for from := int64(at); len(text) < maxString; {
		n, err := table.ReadAt(block, from)
		if end := bytes.IndexByte(block[:n], 0); end >= 0 {
			return string(append(text, block[:end]...)), nil
		}
		if errors.Is(err, io.EOF) && from+int64(n) >= table.Size() {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		text = append(text, block[:n]...)
		from += int64(n)
		block = make([]byte, 2*len(block))
	}
	return "", nil
}

func stringAt(table []byte, at uint64) string {
	if at >= uint64(len(table)) {
		return ""
	}
	end := bytes.IndexByte(table[at:], 0)
	if end < 0 {
		return ""
	}
	return string(table[at : at+uint64(end)])
}

// linker finds the libraries of programs as the machine's loader would.
type linker struct {
	cache    map[string][]string // of ld.so.cache: paths by name
	defaults []string
	objects  map[string]*object // by path; nil if it is none
}

// loaderCache is where glibc keeps which libraries there are.
const loaderCache = "/etc/ld.so.cache"

func newLinker() *linker {
	l := &linker{objects: map[string]*object{}}
	if text, err := os.ReadFile(loaderCache); err == nil {
		l.cache = parseCache(text)
	}
	return l
}

// optional are libraries that the C library loads when they are needed, and
// programs work without until then. To add one: a name here.
var optional = []string{"libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"}

// closure lists the loader and all libraries that some ELF files need, directly
// or through others, under the paths where the loader finds them. Files that are
// no ELF files need nothing. What a file needs and is not there is left out: the
// program may do without it.
func (l *linker) closure(files []string) []string {
	type job struct {
		path      string
		ancestors []string // search directories of those that needed it
	}
	var found []string
	seen := map[string]bool{}
	var queue []job
	for _, path := range files {
		if !seen[path] {
			seen[path] = true
			queue = append(queue, job{path: path})
		}
	}
	add := func(path string, ancestors []string) {
		if path != "" && !seen[path] && len(seen) < maxObjects {
			seen[path] = true
			found = append(found, path)
			queue = append(queue, job{path, ancestors})
		}
	}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		o := l.object(next.path)
		if o == nil {
			continue
		}
		search := slices.Clone(next.ancestors)
		if !o.nix {
			search = slices.Concat(o.rpath, search)
		}
		if o.interp != "" {
			add(o.interp, nil)
		}
		for _, name := range o.needed {
			for _, path := range l.find(name, o, search) {
				add(path, search)
			}
		}
		if slices.Contains(o.needed, "libc.so.6") {
			for _, name := range optional {
				for _, path := range l.find(name, o, nil) {
					add(path, nil)
				}
			}
		}
	}
	return found
}

func (l *linker) object(path string) *object {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	if o, ok := l.objects[real]; ok {
		return o
	}
	o, err := readObject(real)
	if err != nil {
		o = nil
	}
	l.objects[real] = o
	return o
}

// find is where the loader looks for a library that o needs: the first place of
// the search directories, else every entry of the cache (there may be one for
// each kind of processor), else the default directories.
func (l *linker) find(name string, o *object, search []string) []string {
	if strings.Contains(name, "/") {
		if filepath.IsAbs(name) {
			return []string{name}
		}
		return nil
	}
	for _, dir := range slices.Concat(search, o.runpath) {
		if path := filepath.Join(dir, name); l.fits(path, o) {
			return []string{path}
		}
	}
	var found []string
	for _, path := range l.cache[name] {
		if l.fits(path, o) {
			found = append(found, path)
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, dir := range l.directories(o) {
		if path := filepath.Join(dir, name); l.fits(path, o) {
			return []string{path}
		}
	}
	return nil
}

func (l *linker) fits(path string, o *object) bool {
	lib := l.object(path)
	return lib != nil && lib.class == o.class && lib.machine == o.machine
}

// directories are those that the loader of o searches at last.
func (l *linker) directories(o *object) []string {
	if l.defaults == nil {
		l.defaults = []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}
		found, _ := filepath.Glob("/lib/*-linux-*")
		more, _ := filepath.Glob("/usr/lib/*-linux-*")
		l.defaults = slices.Concat(found, more, l.defaults)
	}
	if o.interp == "" {
		return l.defaults
	}
	dirs := l.defaults
	if real, err := filepath.EvalSymlinks(o.interp); err == nil {
		dirs = append([]string{filepath.Dir(real)}, dirs...)
	}
	return dirs
}

// The formats of ld.so.cache, from glibc's sysdeps/generic/dl-cache.h.
const (
	oldCacheMagic = "ld.so-1.7.0"
	newCacheMagic = "glibc-ld.so.cache1.1"
)

// parseCache reads the paths of libraries, by name, from an ld.so.cache. A file
// that is none has none.
func parseCache(text []byte) map[string][]string {
	if bytes.HasPrefix(text, []byte(oldCacheMagic)) {
		// The old table, of which nothing is needed, stands before the new one.
		if len(text) < 16 {
			return nil
		}
		skip := 16 + 12*uint64(binary.NativeEndian.Uint32(text[12:]))
		skip = (skip + 7) &^ 7
		if skip > uint64(len(text)) {
			return nil
		}
		text = text[skip:]
	}
	const header, row = 48, 24
	if !bytes.HasPrefix(text, []byte(newCacheMagic)) || len(text) < header {
		return nil
	}
	rows := uint64(binary.NativeEndian.Uint32(text[20:]))
	if rows > uint64(len(text)-header)/row {
		return nil
	}
	found := make(map[string][]string, rows)
	for i := range rows {
		entry := text[header+i*row:]
		name := stringAt(text, uint64(binary.NativeEndian.Uint32(entry[4:])))
		path := stringAt(text, uint64(binary.NativeEndian.Uint32(entry[8:])))
		if name != "" && filepath.IsAbs(path) && !slices.Contains(found[name], path) {
			found[name] = append(found[name], path)
		}
	}
	return found
}
