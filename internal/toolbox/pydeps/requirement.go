package pydeps

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/tool"
)

// Requirement is one package that a tool needs, as PEP 508 writes it.
type Requirement struct {
	Name   string // normalised: lower case, "-" between words
	Extras []string
	Range  string // of versions, PEP 440; empty is any
	Marker string // when it is needed: `python_version < "3.11"`
	Hashes []string
	From   string // the file and line that it stands in
}

// String is the requirement as pip reads it.
func (q Requirement) String() string {
	var b strings.Builder
	b.WriteString(q.Name)
	if len(q.Extras) > 0 {
		b.WriteString("[" + strings.Join(q.Extras, ",") + "]")
	}
	b.WriteString(q.Range)
	if q.Marker != "" {
		b.WriteString(" ; " + q.Marker)
	}
	for _, hash := range q.Hashes {
		b.WriteString(" --hash=" + hash)
	}
	return b.String()
}

// requirements are what a tool needs in all.
type requirements struct {
	list        []Requirement
	constraints []Requirement
	python      string // requires-python
	pre         bool   // pre-releases count
	warnings    []string
}

const (
	maxFile     = 1 << 20 // bytes of one file
	maxIncluded = 16      // files that others name
	maxListed   = 2000
)

var (
	namePattern    = lazy(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`)
	separators     = lazy(`[-_.]+`)
	hashPattern    = lazy(`^sha(?:256|384|512):[0-9a-f]{64,128}$`)
	controlPattern = lazy(`[\x00-\x08\x0a-\x1f\x7f]`)
)

// Normalize is the one spelling of a package's name, as PEP 503 says.
func Normalize(name string) string {
	return strings.ToLower(separators().ReplaceAllString(strings.TrimSpace(name), "-"))
}

// parseRequirement reads one requirement of PEP 508. What is not to be had from
// an index (an address, a path) is refused.
func parseRequirement(text string) (Requirement, error) {
	var q Requirement
	text = strings.TrimSpace(text)
	if controlPattern().MatchString(text) {
		return q, errors.New("it has a control character")
	}
	name := namePattern().FindString(text)
	if name == "" {
		return q, fmt.Errorf("%.80q is no package", text)
	}
	q.Name = Normalize(name)
	rest := strings.TrimSpace(text[len(name):])
	if extras, after, ok := strings.Cut(rest, "]"); ok && strings.HasPrefix(rest, "[") {
		for extra := range strings.SplitSeq(extras[1:], ",") {
			extra = strings.TrimSpace(extra)
			if extra == "" {
				continue
			}
			if namePattern().FindString(extra) != extra {
				return q, fmt.Errorf("%.80q is no extra", extra)
			}
			q.Extras = append(q.Extras, extra)
		}
		rest = strings.TrimSpace(after)
	}
	if strings.HasPrefix(rest, "@") {
		return q, errors.New("it is to be fetched from an address of its own")
	}
	within, marker, hasMarker := strings.Cut(rest, ";")
	within = strings.TrimSpace(within)
	if inner, opened := strings.CutPrefix(within, "("); opened { // as older tools write it
		inner, closed := strings.CutSuffix(inner, ")")
		if !closed {
			return q, fmt.Errorf("%.80q is no range of versions", within)
		}
		within = strings.TrimSpace(inner)
	}
	if within != "" && !strings.ContainsAny(within[:1], "=<>!~") {
		return q, fmt.Errorf("%.80q is no range of versions", within)
	}
	q.Marker = strings.TrimSpace(marker)
	if hasMarker && q.Marker == "" || strings.Contains(q.Marker, "--") || strings.Contains(q.Marker, "#") {
		return q, fmt.Errorf("%.80q is no condition", marker)
	}
	clauses, err := parseRange(within)
	if err != nil {
		return q, err
	}
	if strings.HasPrefix(within, "^") || strings.HasPrefix(within, "~") && !strings.HasPrefix(within, "~=") {
		return q, fmt.Errorf("%.80q is no range of versions", within) // pip does not know it
	}
	if len(clauses) > 0 {
		q.Range = strings.Join(strings.Fields(within), "")
	}
	return q, nil
}

// read gathers what a tool's folder and its definition ask for.
func read(dir string, def *definition.Definition) (*requirements, error) {
	r := &requirements{}
	f := &reader{root: dir, into: r, seen: map[string]bool{}}
	const list, project = "requirements.txt", "pyproject.toml"
	if _, err := os.Lstat(filepath.Join(dir, list)); err == nil {
		if err := f.file(list, false); err != nil {
			return nil, malformed(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, project)); err == nil {
		if err := r.project(filepath.Join(dir, project)); err != nil {
			return nil, malformed(err)
		}
	}
	if def != nil {
		if err := r.declared(def.Dependencies); err != nil {
			return nil, malformed(err)
		}
	}
	if len(r.list) > maxListed {
		return nil, malformed(fmt.Errorf("%d packages are required", len(r.list)))
	}
	return r, nil
}

func malformed(err error) error {
	if e := new(tool.Error); errors.As(err, &e) {
		return e
	}
	return tool.Errorf(tool.DependencyError, "reading what the tool needs: %v", err).
		WithHint("Write one package a line, such as requests>=2.31, in requirements.txt, or list them as project.dependencies in pyproject.toml.")
}

// reader reads requirements.txt and the files that it names.
type reader struct {
	root  string
	into  *requirements
	seen  map[string]bool
	files int
}

// open opens a file of the folder; a symlink may not lead out of it.
func openInside(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(filepath.ToSlash(name))
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
		f.Close()
		return nil, fmt.Errorf("%s is no file of at most %d bytes", name, maxFile)
	}
	return f, nil
}

func (f *reader) file(name string, constraints bool) error {
	name = filepath.Clean(name)
	if f.seen[name] {
		return nil // a circle
	}
	f.seen[name] = true
	if f.files++; f.files > maxIncluded {
		return fmt.Errorf("more than %d files are named", maxIncluded)
	}
	file, err := openInside(f.root, name)
	if err != nil {
		return err
	}
	defer file.Close()
	return f.lines(file, name, constraints)
}

func (f *reader) lines(from io.Reader, name string, constraints bool) error {
	in := bufio.NewScanner(io.LimitReader(from, maxFile))
	in.Buffer(nil, maxFile+1)
	line, number, first := "", 0, 0
	for in.Scan() {
		number++
		if line == "" {
			first = number
		}
		text := in.Text()
		if number == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		if more, ok := strings.CutSuffix(text, `\`); ok && !strings.HasPrefix(strings.TrimSpace(text), "#") {
			line += more + " "
			continue
		}
		if err := f.line(line+text, fmt.Sprintf("%s:%d", name, first), name, constraints); err != nil {
			return fmt.Errorf("%s:%d: %w", name, first, err)
		}
		line = ""
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if line != "" {
		if err := f.line(line, fmt.Sprintf("%s:%d", name, first), name, constraints); err != nil {
			return fmt.Errorf("%s:%d: %w", name, first, err)
		}
	}
	return nil
}

// comment begins at a # with a blank before it.
var comment = lazy(`(^|\s)#.*$`)

func (f *reader) line(text, from, file string, constraints bool) error {
	text = strings.TrimSpace(comment().ReplaceAllString(text, ""))
	if text == "" {
		return nil
	}
	if strings.HasPrefix(text, "-") {
		return f.option(text, file)
	}
	words := strings.Fields(text)
	options := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "--") })
	var hashes []string
	if options >= 0 {
		var err error
		if hashes, err = hashOptions(words[options:]); err != nil {
			return err
		}
		text = strings.Join(words[:options], " ")
	}
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "/") || strings.Contains(text, "://") || strings.HasPrefix(text, "git+") {
		return fmt.Errorf("%.80q is no package of an index", text)
	}
	q, err := parseRequirement(text)
	if err != nil {
		return err
	}
	q.Hashes, q.From = hashes, from
	if constraints {
		f.into.constraints = append(f.into.constraints, q)
	} else {
		f.into.list = append(f.into.list, q)
	}
	return nil
}

func hashOptions(words []string) ([]string, error) {
	var hashes []string
	for i := 0; i < len(words); i++ {
		name, value, ok := strings.Cut(words[i], "=")
		if name != "--hash" {
			return nil, fmt.Errorf("the option %.80q is not for a tool to choose", words[i])
		}
		if !ok && i+1 < len(words) {
			i++
			value = words[i]
		}
		if !hashPattern().MatchString(value) {
			return nil, fmt.Errorf("%.80q is no hash", value)
		}
		hashes = append(hashes, value)
	}
	return hashes, nil
}

// option reads a line that is for pip. Where packages come from is the
// operator's to say, so an option for that is refused and not passed over: the
// packages would be others than those that the author meant.
func (f *reader) option(text, file string) error {
	name, value, _ := strings.Cut(text, " ")
	if n, v, ok := strings.Cut(name, "="); ok {
		name, value = n, v
	} else if len(name) > 2 && !strings.HasPrefix(name, "--") {
		name, value = name[:2], name[2:]+value // -rother.txt
	}
	value = strings.TrimSpace(value)
	switch name {
	case "-r", "--requirement", "-c", "--constraint":
		if value == "" || filepath.IsAbs(value) || strings.Contains(value, "://") {
			return fmt.Errorf("%.80q is no file of the tool's folder", value)
		}
		return f.file(filepath.Join(filepath.Dir(file), value), name == "-c" || name == "--constraint")
	case "--pre":
		f.into.pre = true
		return nil
	case "--require-hashes", "--prefer-binary", "--only-binary":
		return nil // it is so
	}
	return fmt.Errorf("the option %.80q is not for a tool to choose", name)
}

// project reads what PEP 621 has in pyproject.toml.
func (r *requirements) project(path string) error {
	f, err := openInside(filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return err
	}
	defer f.Close()
	var doc struct {
		Project struct {
			Dependencies []string `toml:"dependencies"`
			Python       string   `toml:"requires-python"`
		} `toml:"project"`
	}
	if _, err := toml.NewDecoder(io.LimitReader(f, maxFile)).Decode(&doc); err != nil {
		var at toml.ParseError
		if errors.As(err, &at) {
			return fmt.Errorf("pyproject.toml:%d: %s", at.Position.Line, at.Message)
		}
		return fmt.Errorf("pyproject.toml: %w", err)
	}
	if _, err := parseRange(doc.Project.Python); err != nil {
		return fmt.Errorf("pyproject.toml: requires-python: %w", err)
	}
	r.python = doc.Project.Python
	for _, text := range doc.Project.Dependencies {
		q, err := parseRequirement(text)
		if err != nil {
			return fmt.Errorf("pyproject.toml: project.dependencies: %q: %w", text, err)
		}
		q.From = "pyproject.toml"
		r.list = append(r.list, q)
	}
	return nil
}

// declared adds what the tool says itself and no file has. Where a file has
// another range, that one counts.
func (r *requirements) declared(all []definition.Dependency) error {
	for _, d := range all {
		if d.Kind != definition.Package {
			continue
		}
		name, within := namePattern().FindString(d.Name), d.Range
		clauses, err := parseRange(within)
		if name == "" || name != d.Name || err != nil {
			return fmt.Errorf("the tool's dependency %.80q: %.80q is no package and range of versions", d.Name, within)
		}
		q := Requirement{Name: Normalize(name), Range: rangeText(clauses), From: "the tool itself"}
		i := slices.IndexFunc(r.list, func(have Requirement) bool { return have.Name == q.Name })
		switch {
		case i < 0:
			r.list = append(r.list, q)
		case q.Range != "" && r.list[i].Range != q.Range:
			r.warnings = append(r.warnings, fmt.Sprintf("%s: %s has %q and the tool itself says %q; the file counts",
				q.Name, r.list[i].From, r.list[i].Range, d.Range))
		}
	}
	return nil
}

// rangeText writes clauses as pip reads them.
func rangeText(clauses []clause) string {
	parts := make([]string, 0, len(clauses))
	for _, c := range clauses {
		text := c.text
		if c.version != nil {
			text = c.version.String()
		}
		if c.wild {
			text += ".*"
		}
		parts = append(parts, c.operator+text)
	}
	return strings.Join(parts, ",")
}

// String is the version in its normal form.
func (v *version) String() string {
	var b strings.Builder
	if v.epoch.Sign() != 0 {
		b.WriteString(v.epoch.String() + "!")
	}
	for i, n := range v.release {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(n.String())
	}
	if v.pre != "" {
		b.WriteString(v.pre + v.preN.String())
	}
	if v.post != nil {
		b.WriteString(".post" + v.post.String())
	}
	if v.dev != nil {
		b.WriteString(".dev" + v.dev.String())
	}
	if v.local != nil {
		b.WriteString("+" + strings.Join(v.local, "."))
	}
	return b.String()
}
