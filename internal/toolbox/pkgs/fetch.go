package pkgs

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// Kind says where a package came from.
type Kind string

const (
	KindDirectory Kind = "directory"
	KindArchive   Kind = "archive"
	KindNPM       Kind = "npm"
	KindGit       Kind = "git"
	KindBundle    Kind = "mcpb"
	KindSystem    Kind = "system"   // shipped with the program
	KindMigrated  Kind = "migrated" // from another program's folder
	KindEdited    Kind = "edited"   // the user's changes, kept as a version
	KindLocal     Kind = "local"    // a folder that was put into the toolbox by hand
)

// Fetched is a package that lies unpacked and checked, but not installed. The
// caller closes it, whether or not it was installed.
type Fetched struct {
	// Dir is the folder, named as the tool.
	Dir string `json:"-"`
	// Name of the tool, Version as package.json or manifest.json has it.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// File is the module's path in Dir.
	File string `json:"file"`
	Kind Kind   `json:"kind"`
	// Source is what fetches it again: an absolute path, "npm:name@range", a
	// repository's or an archive's URL. Resolved is what it was this time: a
	// version, a commit.
	Source   string `json:"source"`
	Resolved string `json:"resolved,omitempty"`
	// Integrity is "sha512-" and the hash in base64: of the archive, of the files
	// where there was none.
	Integrity string `json:"integrity"`
	// Hash is that of the files, as [Hash] has it.
	Hash string `json:"hash"`
	// Left lists what the package had and is not installed: data/, .env and what
	// else is the user's, node_modules, .git.
	Left []string `json:"left,omitempty"`

	stage *stage
}

// Close removes what is left of the package in the staging area.
func (f *Fetched) Close() error {
	if f == nil {
		return nil
	}
	return f.stage.close()
}

// Fetch gets a package, checks it and unpacks it, and finds out which tool it is.
// A source is
//
//	./dir  /dir  file.zip  file.tar  file.tar.gz  file.tgz  file.mcpb
//	https://host/file.tgz (or another archive)
//	name  name@1.2.3  name@^1  @scope/name@latest  npm:name
//	https://host/repository.git#ref  git+https://…  ssh://…  git@host:path  git+file:///dir
//
// A bare word is an npm package, as with npm; a path has a slash or an archive's
// extension. Nothing of the package is run.
func (p *Packages) Fetch(ctx context.Context, source string, progress func(Progress)) (*Fetched, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.c.Limits.Time, fmt.Errorf("fetching took longer than %v", p.c.Limits.Time))
	defer cancel()
	source = strings.TrimSpace(source)
	kind, err := sourceKind(source)
	if err != nil {
		return nil, err
	}
	s, err := p.stage()
	if err != nil {
		return nil, err
	}
	f := &Fetched{Source: source, Kind: kind, stage: s}
	if err := p.fetch(ctx, f, progress); err != nil {
		s.close()
		return nil, failure(err, "fetching %s", source)
	}
	return f, nil
}

func (p *Packages) fetch(ctx context.Context, f *Fetched, progress func(Progress)) error {
	dir := filepath.Join(f.stage.dir, "unpacked")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	hint := "" // a name for a package that has none itself
	var err error
	switch f.Kind {
	case KindNPM:
		hint, err = p.fetchNPM(ctx, f, dir, progress)
	case KindGit:
		hint, err = p.fetchGit(ctx, f, dir, progress)
	case KindDirectory:
		hint, err = p.fetchDirectory(ctx, f, dir, progress)
	default:
		if strings.HasPrefix(f.Source, "https://") {
			hint, err = p.fetchURL(ctx, f, dir, progress)
		} else {
			hint, err = p.fetchFile(ctx, f, dir, progress)
		}
	}
	if err != nil {
		return err
	}
	return p.settle(f, dir, hint)
}

var archiveExtensions = []string{".zip", ".mcpb", ".tgz", ".tar.gz", ".tar"}

func isArchive(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(archiveExtensions, func(ext string) bool { return strings.HasSuffix(name, ext) })
}

// sourceKind says what a source names.
func sourceKind(source string) (Kind, error) {
	switch {
	case source == "":
		return "", tool.Errorf(tool.ParameterError, "no source was given").
			WithHint("Name a folder (./dir), an archive, an npm package or a git repository.")
	case strings.HasPrefix(source, "-"):
		return "", tool.Errorf(tool.ParameterError, "the source %q begins with a dash", source).
			WithHint("Write ./%s if it is a folder.", source)
	case strings.ContainsFunc(source, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", tool.Errorf(tool.ParameterError, "the source has a control character")
	case isGit(source):
		return KindGit, nil
	case strings.HasPrefix(source, "npm:"):
		return KindNPM, nil
	case strings.Contains(source, "://"):
		return urlKind(source)
	case isPath(source):
		return pathKind(source)
	}
	return KindNPM, nil
}

func isPath(source string) bool {
	return filepath.IsAbs(source) || strings.HasPrefix(source, ".") || isArchive(source) ||
		strings.ContainsAny(source, `/\`) && !strings.HasPrefix(source, "@")
}

func pathKind(source string) (Kind, error) {
	info, err := os.Stat(source)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", tool.Errorf(tool.NotFound, "there is no %s", source).
			WithHint("Name a folder or an archive that exists; an npm package has no slash but that of its scope.")
	case err != nil:
		return "", failure(err, "looking at %s", source)
	case info.IsDir():
		return KindDirectory, nil
	case !info.Mode().IsRegular():
		return "", tool.Errorf(tool.ParameterError, "%s is neither a folder nor a file", source)
	case strings.HasSuffix(strings.ToLower(source), ".mcpb"):
		return KindBundle, nil
	}
	return KindArchive, nil
}

func urlKind(source string) (Kind, error) {
	u, err := url.Parse(source)
	if err != nil || u.Host == "" && u.Scheme != "file" {
		return "", tool.Errorf(tool.ParameterError, "%q is no URL", source)
	}
	switch {
	case u.Scheme == "https" && strings.HasSuffix(strings.ToLower(u.Path), ".mcpb"):
		return KindBundle, nil
	case u.Scheme == "https" && isArchive(u.Path):
		return KindArchive, nil
	case u.Scheme == "https", u.Scheme == "ssh":
		return KindGit, nil
	}
	return "", tool.Errorf(tool.ParameterError, "a package cannot be fetched by %s: from %s", u.Scheme, source).
		WithHint("Use https or ssh, or git+file:// for a repository on this machine.")
}

// fetchDirectory copies a folder.
func (p *Packages) fetchDirectory(ctx context.Context, f *Fetched, dir string, progress func(Progress)) (string, error) {
	from, err := filepath.Abs(f.Source)
	if err != nil {
		return "", err
	}
	f.Source = from
	if from, err = filepath.EvalSymlinks(from); err != nil {
		return "", err
	}
	if within(from, p.c.Home) && filepath.Dir(from) != p.c.Home || within(p.c.Home, from) {
		return "", tool.Errorf(tool.ParameterError, "%s lies around or deep in the toolbox", f.Source).
			WithHint("Name the folder of one tool.")
	}
	return f.Source, p.copyChecked(ctx, f, from, dir, progress)
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// copyChecked copies a folder's sources with the checks of an archive.
func (p *Packages) copyChecked(ctx context.Context, f *Fetched, from, to string, progress func(Progress)) error {
	u := &unpacking{ctx: ctx, what: f.Source, limits: p.c.Limits, seen: map[string]entry{}}
	c := &copying{ctx: ctx, from: from, to: to, limit: p.c.Limits, report: progress}
	c.symlink = func(name, target string) (bool, error) {
		return false, tool.Errorf(tool.ParameterError, "%s: %q is a symlink, to %q", f.Source, name, target).
			WithHint("A package has files and folders only. Put the file itself there.")
	}
	_, err := c.copy(func(name string) bool {
		top, _, nested := strings.Cut(name, "/")
		switch {
		case !isSource(name):
			if !nested || isNoise(path.Base(name)) {
				f.Left = append(f.Left, name)
			}
			return false
		case !nested && (top == ".state" || top == ".staging"):
			return false
		}
		return true
	})
	if err != nil {
		return err
	}
	return walk(to, all, func(name string, info fs.FileInfo) error {
		clean, reason := cleanEntry(name)
		if reason != "" {
			return u.refuse(name, "%s", reason)
		}
		return u.claim(name, clean, info.IsDir())
	})
}

// fetchFile unpacks an archive of this machine.
func (p *Packages) fetchFile(ctx context.Context, f *Fetched, dir string, progress func(Progress)) (string, error) {
	name, err := filepath.Abs(f.Source)
	if err != nil {
		return "", err
	}
	f.Source = name
	file, err := openRegular(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return name, p.unpack(ctx, f, file, dir, progress)
}

// fetchURL downloads an archive.
func (p *Packages) fetchURL(ctx context.Context, f *Fetched, dir string, progress func(Progress)) (string, error) {
	file, err := p.download(ctx, f, f.Source, "", progress)
	if err != nil {
		return "", err
	}
	defer file.Close()
	u, err := url.Parse(f.Source)
	if err != nil {
		return "", err
	}
	return u.Path, p.unpack(ctx, f, file, dir, progress)
}

// download writes what a URL gives into the stage.
func (p *Packages) download(ctx context.Context, f *Fetched, from, authorization string, progress func(Progress)) (*os.File, error) {
	response, err := p.get(ctx, from, authorization, "")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	file, err := os.OpenFile(filepath.Join(f.stage.dir, "download"), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	limit := p.c.Limits.Archive
	if response.ContentLength > limit {
		file.Close()
		return nil, tooLong(f.Source, limit)
	}
	n, err := io.Copy(file, io.LimitReader(&meter{r: response.Body, stage: "download", total: response.ContentLength, f: progress}, limit+1))
	switch {
	case err != nil && !full(err):
		err = unreachable(f.Source, err)
	case err == nil && n > limit:
		err = tooLong(f.Source, limit)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// get asks for a URL and returns an answer that is fine. The caller closes the
// body.
func (p *Packages) get(ctx context.Context, from, authorization, accept string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, tool.Errorf(tool.ParameterError, "%q is no URL", from)
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := p.c.HTTP.Do(request)
	if err != nil {
		return nil, unreachable(request.URL.Host, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return nil, tool.Errorf(tool.NotFound, "%s has no %s", request.URL.Host, request.URL.Path)
	}
	return nil, tool.Errorf(tool.ConnectionError, "%s answered %s", request.URL.Host, response.Status).
		WithHint("Look at the registry's address and the credentials for it, or try again later.")
}

func unreachable(what string, err error) error {
	if cause := errors.Unwrap(err); cause != nil && errors.Is(err, context.Canceled) {
		return cancelled(err)
	}
	return tool.Errorf(tool.ConnectionError, "%s cannot be reached: %v", what, err).
		WithHint("Look at the network and the registry's address, or install from a folder or an archive.")
}

func tooLong(what string, limit int64) error {
	return tool.Errorf(tool.ResourceExhausted, "%s is larger than %s", what, size(limit)).
		WithHint("A tool's package holds its sources; dependencies are installed from package.json.")
}

// meter tells how much was read.
type meter struct {
	r           io.Reader
	stage       string
	done, total int64
	f           func(Progress)
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.done += int64(n)
	report(m.f, Progress{Stage: m.stage, Done: m.done, Total: max(m.total, 0)})
	return n, err
}

// unpack unpacks an archive by what it begins with, and remembers its integrity.
func (p *Packages) unpack(ctx context.Context, f *Fetched, file *os.File, dir string, progress func(Progress)) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > p.c.Limits.Archive {
		return tooLong(f.Source, p.c.Limits.Archive)
	}
	if f.Integrity, err = integrityOf(file); err != nil {
		return err
	}
	magic := make([]byte, 4)
	file.ReadAt(magic, 0)
	if string(magic) == "PK\x03\x04" || string(magic) == "PK\x05\x06" {
		return unzip(ctx, file, info.Size(), dir, f.Source, p.c.Limits, progress)
	}
	if f.Kind == KindBundle {
		return tool.Errorf(tool.ParameterError, "%s is no bundle: an .mcpb is a zip archive", f.Source)
	}
	return untar(ctx, io.NewSectionReader(file, 0, info.Size()), info.Size(), dir, f.Source, p.c.Limits, progress)
}

func integrityOf(r io.ReaderAt) (string, error) {
	h := sha512.New()
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, 1<<62)); err != nil {
		return "", err
	}
	return "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}

// about is what a package's files say of it.
type about struct {
	Name    string          `json:"name"`
	Version string          `json:"version"`
	Server  json.RawMessage `json:"server"` // of manifest.json
}

// settle turns what was unpacked into a folder with the tool's name.
func (p *Packages) settle(f *Fetched, dir, hint string) error {
	dir, err := strip(dir)
	if err != nil {
		return err
	}
	bundle, manifest := readAbout(dir, "manifest.json")
	if f.Kind == KindBundle && !manifest {
		return tool.Errorf(tool.ParameterError, "%s is no bundle: it has no manifest.json that is a JSON object", f.Source)
	}
	files, err := topFiles(dir)
	if err != nil {
		return err
	}
	file, name, err := findTool(files, f.Source)
	if err != nil {
		if manifest && bundle.Server != nil {
			return noTool(f.Source, bundle)
		}
		return err
	}
	pkg, _ := readAbout(dir, "package.json")
	for _, candidate := range []string{name, nameOf(pkg.Name), nameOf(bundle.Name), nameOf(hint)} {
		if candidate != "" {
			name = candidate
			break
		}
	}
	if err := checkName(name); err != nil {
		return err
	}
	f.Name, f.File = name, file
	if f.Version = pkg.Version; f.Version == "" {
		f.Version = bundle.Version
	}
	left, err := leave(dir)
	if err != nil {
		return err
	}
	f.Left = append(f.Left, left...)
	f.Dir = filepath.Join(f.stage.dir, name)
	if name == "unpacked" || name == "download" { // the stage's own names
		f.Dir = filepath.Join(f.stage.dir, "package", name)
		if err := os.Mkdir(filepath.Dir(f.Dir), 0o700); err != nil {
			return err
		}
	}
	if err := os.Rename(dir, f.Dir); err != nil {
		return err
	}
	if err := os.Chmod(f.Dir, 0o755); err != nil {
		return err
	}
	if f.Hash, err = Hash(f.Dir); err == nil && f.Integrity == "" {
		f.Integrity = "sha256-" + f.Hash
	}
	return err
}

// noTool refuses a bundle that is an MCP server.
func noTool(source string, b about) error {
	var server struct {
		Type  string `json:"type"`
		Entry string `json:"entry_point"`
	}
	json.Unmarshal(b.Server, &server)
	if server.Type == "" {
		server.Type = "some"
	}
	return tool.Errorf(tool.ParameterError, "%s is a bundle with an MCP server (%s, %s), not with a tool of the toolbox", source, server.Type, server.Entry).
		WithHint("Add it as a server: toolyard gateway add. The toolbox takes bundles that have a <name>.tool.js, tool.js, <name>.tool.py or tool.py at their top.")
}

// strip goes into the one folder that an archive has at its top, if there is no
// tool beside it.
func strip(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return isNoise(e.Name()) || e.Name() == "__MACOSX" })
	if len(entries) == 1 && entries[0].IsDir() && !isKept(entries[0].Name()) && !isInstalled(entries[0].Name()) {
		return filepath.Join(dir, entries[0].Name()), nil
	}
	return dir, nil
}

// leave removes what a package must not bring.
func leave(dir string) ([]string, error) {
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if isKept(e.Name()) || isInstalled(e.Name()) || isNoise(e.Name()) {
			left = append(left, e.Name())
		}
	}
	err = walk(dir, all, func(name string, info fs.FileInfo) error {
		if strings.Contains(name, "/") && isNoise(path.Base(name)) {
			left = append(left, name)
		}
		return nil
	})
	for _, name := range left {
		if e := removeAll(filepath.Join(dir, filepath.FromSlash(name))); err == nil {
			err = e
		}
	}
	return left, err
}

// readAbout reads package.json or manifest.json; false if there is none or it is
// no JSON object: the validator tells more.
func readAbout(dir, file string) (about, bool) {
	var a about
	f, err := openRegular(filepath.Join(dir, file))
	if err != nil {
		return a, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4<<20))
	if err != nil {
		return a, false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil {
		return a, false
	}
	json.Unmarshal(object["name"], &a.Name)
	json.Unmarshal(object["version"], &a.Version)
	a.Server = object["server"]
	return a, true
}
