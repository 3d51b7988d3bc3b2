package runtimes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// Command is a program of the machine that a tool declared.
type Command struct {
	Name string
	// Program is the executable that runs: no symlink, no shim, and of a browser the
	// program behind its start script.
	Program string
	// Dirs are directories in which it is found by its name, for the tool's PATH.
	Dirs []string
	// Mounts are what it needs to see.
	Mounts []sandbox.Mount
	// Version is set by [Runtimes.Declared] where a range was declared.
	Version string
}

// support are directories that a program needs besides its libraries, with * in
// them, by the name of the program; "real" is the program behind a start script.
// Those that do not exist are left out. ELF files in them have their libraries
// too. To add one: a row.
var support = map[string]struct {
	real []string
	dirs []string
}{
	"git": {dirs: []string{"/usr/lib/git-core", "/usr/libexec/git-core", "/usr/share/git-core", "/usr/local/libexec/git-core", "/usr/local/share/git-core"}},
	"chromium": {
		real: []string{"/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser", "/usr/lib/chromium-browser/chromium-browser"},
		dirs: append([]string{"/usr/lib/chromium", "/usr/share/chromium", "/usr/lib64/chromium-browser", "/usr/lib/chromium-browser", "/etc/chromium"}, browser...),
	},
	"chrome":      {real: []string{"/opt/google/chrome/chrome"}, dirs: append([]string{"/opt/google/chrome", "/etc/opt/chrome"}, browser...)},
	"firefox":     {real: []string{"/usr/lib/firefox-esr/firefox-esr", "/usr/lib/firefox/firefox"}, dirs: append([]string{"/usr/lib/firefox-esr", "/usr/lib/firefox", "/usr/share/firefox-esr"}, browser...)},
	"perl":        {dirs: []string{"/usr/share/perl", "/usr/share/perl5", "/usr/lib/*-linux-*/perl", "/usr/lib/*-linux-*/perl5", "/usr/lib/*-linux-*/perl-base", "/usr/lib/perl5", "/usr/lib64/perl5", "/etc/perl"}},
	"ruby":        {dirs: []string{"/usr/lib/ruby", "/usr/lib/*-linux-*/ruby", "/usr/share/ruby", "/usr/share/rubygems*", "/var/lib/gems"}},
	"php":         {dirs: []string{"/usr/lib/php", "/usr/share/php", "/etc/php"}},
	"java":        {dirs: []string{"/etc/java*", "/etc/.java"}},
	"docker":      {dirs: []string{"/usr/libexec/docker", "/usr/lib/docker", "/usr/local/lib/docker"}},
	"pandoc":      {dirs: []string{"/usr/share/pandoc"}},
	"pdftotext":   {dirs: []string{"/usr/share/poppler"}},
	"pdftoppm":    {dirs: append([]string{"/usr/share/poppler"}, fonts...)},
	"gs":          {dirs: append([]string{"/usr/share/ghostscript", "/var/lib/ghostscript"}, fonts...)},
	"convert":     {dirs: append([]string{"/etc/ImageMagick*", "/usr/share/ImageMagick*", "/usr/lib/*-linux-*/ImageMagick*"}, fonts...)},
	"magick":      {dirs: append([]string{"/etc/ImageMagick*", "/usr/share/ImageMagick*", "/usr/lib/*-linux-*/ImageMagick*"}, fonts...)},
	"ffmpeg":      {dirs: append([]string{"/usr/share/ffmpeg", "/usr/lib/*-linux-*/pulseaudio"}, fonts...)},
	"soffice":     {dirs: append([]string{"/usr/lib/libreoffice", "/etc/libreoffice", "/usr/share/libreoffice", "/opt/libreoffice*"}, fonts...)},
	"libreoffice": {dirs: append([]string{"/usr/lib/libreoffice", "/etc/libreoffice", "/usr/share/libreoffice", "/opt/libreoffice*"}, fonts...)},
	"tesseract":   {dirs: []string{"/usr/share/tesseract-ocr", "/usr/share/tessdata"}},
	"file":        {dirs: []string{"/etc/magic", "/usr/share/misc/magic.mgc", "/usr/lib/file", "/usr/share/file"}},
	"tclsh":       {dirs: []string{"/usr/share/tcltk", "/usr/lib/tcltk"}},
	"Rscript":     {dirs: []string{"/usr/lib/R", "/usr/share/R", "/etc/R"}},
	"lua":         {dirs: []string{"/usr/share/lua", "/usr/lib/*-linux-*/lua"}},
	"vim":         {dirs: []string{"/usr/share/vim"}},
	"go":          {dirs: []string{"/usr/local/go", "/usr/lib/go*", "/usr/share/go*"}},
}

var fonts = []string{"/etc/fonts", "/usr/share/fonts", "/usr/share/fontconfig", "/usr/local/share/fonts", "/var/cache/fontconfig"}

// browser is what browsers look at besides: fonts, keyboards, types, and the
// libraries that they load by name, which no file says that they need.
var browser = append([]string{
	"/usr/share/X11/xkb", "/usr/share/X11/locale", "/usr/share/mime", "/usr/share/icons/hicolor", "/usr/share/glib-2.0/schemas", "/usr/share/drirc.d", "/usr/share/libdrm",
	"/usr/lib/*-linux-*/nss", "/usr/lib/*-linux-*/libsoftokn3.so", "/usr/lib/*-linux-*/libfreebl3.so", "/usr/lib/*-linux-*/libfreeblpriv3.so", "/usr/lib/*-linux-*/libnssckbi.so", "/usr/lib/*-linux-*/pkcs11",
	"/usr/lib64/libsoftokn3.so", "/usr/lib64/libfreebl3.so", "/usr/lib64/libnssckbi.so",
}, fonts...)

// sameAs are other names of the programs in support.
var sameAs = map[string]string{
	"chromium-browser": "chromium", "google-chrome": "chrome", "google-chrome-stable": "chrome", "firefox-esr": "firefox", "ffprobe": "ffmpeg",
	"identify": "convert", "mogrify": "convert", "pdfinfo": "pdftotext", "pdftocairo": "pdftoppm", "lua5.4": "lua", "lua5.3": "lua", "gofmt": "go", "javac": "java",
}

// maxInterpreters bounds how many scripts lead to another.
const maxInterpreters = 4

// Command finds a program that a tool declared and what it needs to see. The name
// is that of a file on the path, or an absolute path. The error is
// DEPENDENCY_ERROR if it is not there.
func (r *Runtimes) Command(ctx context.Context, name string) (Command, error) {
	c := Command{Name: name}
	if name == "" || name != filepath.Base(name) && !filepath.IsAbs(name) || strings.ContainsRune(name, 0) {
		return c, tool.Errorf(tool.DependencyError, "%q is no name of a command", name).WithHint("Name a program as it is typed, such as git.")
	}
	m := newMountSet()
	m.add(common...)
	if err := r.command(ctx, &c, m, name, 0); err != nil {
		return c, err
	}
	c.Mounts = m.list
	return c, nil
}

// Declared is [Runtimes.Command] for a declared range of versions, such as ">=20";
// an empty one and "*" are any. The error is DEPENDENCY_ERROR as well where the
// program is of another version, or does not tell.
func (r *Runtimes) Declared(ctx context.Context, name, within string) (Command, error) {
	c, err := r.Command(ctx, name)
	if within = strings.TrimSpace(within); err != nil || within == "" || within == "*" || within == "latest" {
		return c, err
	}
	constraint, err := semver.NewConstraint(within)
	if err != nil {
		return c, tool.Errorf(tool.DependencyError, "the command %s is wanted in version %q, which is no range of versions", name, within).
			WithHint("Write it like >=20 or ^2.30.")
	}
	if c.Version, err = r.versionOf(ctx, c); err != nil {
		return c, tool.Errorf(tool.DependencyError, "the command %s is wanted in version %s and does not tell its own: %v", name, within, err).
			WithHint("Declare it with * if any version will do.")
	}
	v, err := semver.NewVersion(c.Version)
	if err == nil && constraint.Check(v) {
		return c, nil
	}
	return c, tool.Errorf(tool.DependencyError, "the command %s is of version %s and %s is required", name, c.Version, within).
		WithHint("Install %s %s, or change what the tool declares.", name, within)
}

// versionOf asks a command for its version, once as long as it is the same file.
func (r *Runtimes) versionOf(ctx context.Context, c Command) (string, error) {
	ask := func(ctx context.Context, r *Runtimes, path string) (Runtime, error) {
		var last error
		for _, flag := range []string{"--version", "-version", "version", "-V"} {
			out, err := r.confined(ctx, sandbox.Cmd{
				Args: []string{path, flag}, Env: []string{"PATH=" + strings.Join(c.Dirs, ":"), "LANG=C.UTF-8", "HOME=/tmp"},
				Profile: sandbox.Profile{Kind: "run", Mounts: c.Mounts, Memory: 2 * sandbox.GiB, Wall: askLimit},
			})
			if version := versionIn(string(out)); err == nil && version != "" {
				return Runtime{Program: path, Version: version}, nil
			}
			if last = err; ctx.Err() != nil {
				return Runtime{}, context.Cause(ctx)
			}
		}
		if last == nil {
			last = errors.New("it prints none")
		}
		return Runtime{}, last
	}
	found, err := r.answerOf(ctx, "command", c.Program, ask)
	return found.Version, err
}

// command adds the program of one name and, if it is a script, of its
// interpreter.
func (r *Runtimes) command(ctx context.Context, c *Command, m *mountSet, name string, depth int) error {
	if depth > maxInterpreters {
		return tool.Errorf(tool.DependencyError, "the command %s is a script of a script without end", c.Name)
	}
	if rt, ok := r.languageOf(ctx, name); ok {
		for _, x := range r.Mounts(rt) {
			m.cover(targetOf(x), x.Source)
		}
		c.found(rt.Program)
		return nil
	}
	path, err := r.find(name)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return tool.Errorf(tool.DependencyError, "the command %s: %v", name, err)
	}
	known := supportOf(name)
	if behind := r.behindScript(known, real); behind != "" {
		if start := r.stubFile(behind); start != "" {
			m.cover(path, start)
			c.Dirs = appendNew(c.Dirs, filepath.Dir(path))
		}
		real = behind
	} else {
		m.add(path)
		c.Dirs = appendNew(c.Dirs, filepath.Dir(path))
	}
	c.found(real)
	r.program(m, real)
	r.supports(m, known)
	if home := privateHome(real); home != "" {
		m.add(home)
		m.add(r.linkedIn(home)...)
	}
	return r.interpreter(ctx, c, m, real, depth)
}

// behindScript is the program that a known start script comes to, "" if there is
// none: such a script would need a shell and more.
func (r *Runtimes) behindScript(known, real string) string {
	if isObject(real) {
		return ""
	}
	for _, program := range support[known].real {
		if executable(program) {
			return program
		}
	}
	return ""
}

// found notes the program; of a script and its interpreter the script counts.
func (c *Command) found(program string) {
	if c.Program == "" {
		c.Program = program
	}
	c.Dirs = appendNew(c.Dirs, filepath.Dir(program))
}

func (r *Runtimes) supports(m *mountSet, known string) {
	for _, pattern := range support[known].dirs {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			m.add(path)
			if strings.Contains(path, "/lib") || strings.HasPrefix(path, "/opt/") {
				m.add(r.linkedIn(path)...)
			}
		}
	}
}

// languageOf is the runtime that a name means: that of tools in that language
// are the same program.
func (r *Runtimes) languageOf(ctx context.Context, name string) (Runtime, bool) {
	var rt Runtime
	var err error
	switch name {
	case "node", "nodejs":
		rt, err = r.Node(ctx)
	case "python3", "python":
		rt, err = r.Python(ctx)
	case "pnpm":
		rt, ok := r.managed("pnpm")
		return rt, ok
	default:
		return rt, false
	}
	return rt, err == nil
}

// find is the file of a command on the path, past shims.
func (r *Runtimes) find(name string) (string, error) {
	notThere := tool.Errorf(tool.DependencyError, "there is no command %s on PATH", name).
		WithHint("Install %s, or put the directory that it is in on PATH.", filepath.Base(name)).WithDetail("command", name)
	if filepath.IsAbs(name) {
		if executable(name) {
			return filepath.Clean(name), nil
		}
		return "", notThere
	}
	for _, dir := range filepath.SplitList(r.c.Path) {
		path := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) || !executable(path) {
			continue
		}
		if behind, isShim := behindShim(path); !isShim {
			return path, nil
		} else if behind != "" {
			return behind, nil
		}
	}
	return "", notThere
}

// interpreter adds what runs a script.
func (r *Runtimes) interpreter(ctx context.Context, c *Command, m *mountSet, script string, depth int) error {
	words := shebang(script)
	if len(words) == 0 {
		return nil
	}
	program := words[0]
	if filepath.Base(program) == "env" {
		m.add(program)
		r.program(m, program)
		if len(words) < 2 {
			return nil
		}
		program = words[1]
	}
	if env, base := virtualEnv(program); env != "" {
		m.add(env)
		m.add(r.linkedIn(filepath.Join(env, "lib"))...)
		program = base
	}
	return r.command(ctx, c, m, program, depth+1)
}

// shebang are the words of a script's first line: the interpreter, and the
// program that env is to find. Nil if the file is no script.
func shebang(path string) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 512)).ReadBytes('\n')
	text, ok := bytes.CutPrefix(line, []byte("#!"))
	if !ok {
		return nil
	}
	words := strings.Fields(string(text))
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return nil
	}
	if filepath.Base(words[0]) != "env" {
		return words[:1]
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return []string{words[0], word}
		}
	}
	return words[:1]
}

// virtualEnv is the virtual environment that a Python lies in, with the program
// that it was made from.
func virtualEnv(program string) (dir, base string) {
	if !filepath.IsAbs(program) {
		return "", ""
	}
	dir = filepath.Dir(filepath.Dir(program))
	if _, err := os.Stat(filepath.Join(dir, "pyvenv.cfg")); err != nil {
		return "", ""
	}
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return "", ""
	}
	return dir, real
}

// privateHome is the directory that a program has for itself: the package of a
// script from npm, the installation of a Java. "" where it lies among others.
func privateHome(program string) string {
	if i := strings.LastIndex(program, "/node_modules/"); i >= 0 {
		rest := strings.Split(program[i+len("/node_modules/"):], "/")
		n := 1
		if strings.HasPrefix(rest[0], "@") {
			n = 2
		}
		if len(rest) > n {
			return program[:i] + "/node_modules/" + strings.Join(rest[:n], "/")
		}
		return ""
	}
	root := filepath.Dir(filepath.Dir(program))
	if filepath.Base(filepath.Dir(program)) != "bin" {
		return ""
	}
	for _, sign := range []string{"pkg/tool", "lib/modules", "lib/rustlib", "conf/security"} {
		if _, err := os.Stat(filepath.Join(root, sign)); err == nil {
			return root
		}
	}
	return ""
}

func supportOf(name string) string {
	name = filepath.Base(name)
	if other := sameAs[name]; other != "" {
		return other
	}
	if strings.HasPrefix(name, "perl5") {
		return "perl"
	}
	return name
}

func isObject(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "\x7fELF"
}

func targetOf(m sandbox.Mount) string {
	if m.Target != "" {
		return m.Target
	}
	return m.Source
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
