package files

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/search"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

//go:embed grep.md
var grepManual string

// grepBudget is how long a grep searches before it answers with what it has.
const grepBudget = 20 * time.Second

type grepIn struct {
	Pattern     string   `json:"pattern" jsonschema:"what to look for: a regular expression (RE2), or text if literal"`
	Path        string   `json:"path,omitempty" jsonschema:"file or directory to search; default=.; format=path"`
	IgnoreCase  bool     `json:"-i,omitempty" alias:"case_insensitive" jsonschema:"ignore case"`
	LineNumbers *bool    `json:"-n,omitempty" jsonschema:"print line numbers; default=true"`
	Context     int      `json:"-C,omitempty" alias:"context_lines" jsonschema:"lines of context before and after; min=0; max=1000"`
	After       int      `json:"-A,omitempty" jsonschema:"lines of context after; min=0; max=1000"`
	Before      int      `json:"-B,omitempty" jsonschema:"lines of context before; min=0; max=1000"`
	Glob        string   `json:"glob,omitempty" alias:"glob_pattern" jsonschema:"which files, as ripgrep's -g: *.go at any depth, src/** below src, !*_test.go to leave out"`
	Type        string   `json:"type,omitempty" jsonschema:"language of the files: go, py, js, ts, rust, java, c, cpp, md, json, yaml, …"`
	Multiline   bool     `json:"multiline,omitempty" jsonschema:"a match may span lines;; with (?s) the dot matches newlines too"`
	Literal     bool     `json:"literal,omitempty" jsonschema:"the pattern is text, not an expression"`
	Output      string   `json:"output,omitempty" jsonschema:"what to return; default=content; enum=content|files|count"`
	MaxResults  int      `json:"max_results,omitempty" jsonschema:"how many matching lines (files, with output files or count) to return; default=100; min=1; max=1000000"`
	Offset      int      `json:"offset,omitempty" jsonschema:"how many of them to skip, to go on after a cut; default=0; min=0; max=1000000"`
	Exclude     []string `json:"exclude,omitempty" jsonschema:"patterns in gitignore syntax, relative to path, of what to leave out"`
}

type grepOut struct {
	Matches       []grepMatch `json:"matches"`
	FilesSearched int         `json:"files_searched"`
	Truncated     bool        `json:"truncated" jsonschema:"there is more than was returned"`
	Partial       bool        `json:"partial,omitempty" jsonschema:"the time ran out before everything was searched"`
	NextOffset    int         `json:"next_offset,omitempty"`
}

type grepMatch struct {
	Path  string `json:"path"`
	Line  int    `json:"line,omitempty"`
	Text  string `json:"text,omitempty"`
	Count int    `json:"count,omitempty" jsonschema:"matching lines of the file, with output count"`
}

func grepTool(d Deps) tool.Tool {
	buffers := &search.Buffers{}
	return tool.New(tool.Spec{
		Name: "grep", Title: "Search file contents", Category: "files", Manual: grepManual,
		Description: "Searches the contents of files for a regular expression (RE2: no look-around, no back-references) and prints path:line:text, sorted by path. " +
			"Files that git ignores, binary files, .git, node_modules and the like are left out. Use glob to find files by name.",
		Effects: tool.Read, Idempotent: true, ConcurrencySafe: true, Default: tool.Allow, Pages: true,
	}, func(ctx context.Context, req *tool.Request, in grepIn) (*tool.Result, grepOut, error) {
		return d.callGrep(ctx, req, in, buffers)
	})
}

func (d Deps) callGrep(ctx context.Context, req *tool.Request, in grepIn, buffers *search.Buffers) (*tool.Result, grepOut, error) {
	if in.Pattern == "" {
		return nil, grepOut{}, tool.Errorf(tool.ParameterError, "the pattern is empty").WithHint("Give the text or the regular expression to look for.")
	}
	pattern, err := search.Compile(in.Pattern, search.PatternOptions{Literal: in.Literal, IgnoreCase: in.IgnoreCase, Multiline: in.Multiline})
	if err != nil {
		return nil, grepOut{}, err
	}
	if in.MaxResults == 0 {
		in.MaxResults = defaultResults
	}
	g := search.GrepOptions{
		Pattern: pattern, Budget: grepBudget, Buffers: buffers, MaxLines: in.MaxResults + in.Offset,
		Before: max(in.Before, in.Context), After: max(in.After, in.Context),
	}
	switch in.Output {
	case "files":
		g.FirstOnly = true
	case "count":
	default:
		g.Lines = true
		if d.Edit != nil && req.Session != "" {
			g.NewHash = func() search.Hash { return edit.NewSum() }
		}
	}
	at, err := d.open(req, in.Path)
	if err != nil {
		return nil, grepOut{}, err
	}
	defer at.close()
	p := newGrepPage(in, at, maxOutput(req))
	report, err := d.runGrep(ctx, req, at, in, g, p.file)
	if err != nil && !errors.Is(err, errPageFull) {
		return nil, grepOut{}, err
	}
	p.finish(report)
	for _, note := range d.sawMatches(ctx, req, at, p.sights) {
		p.text.WriteString("\n(" + note + ")")
	}
	return tool.Text(p.text.String()), p.out, nil
}

// runGrep searches a directory or one file.
func (d Deps) runGrep(ctx context.Context, req *tool.Request, at *place, in grepIn, g search.GrepOptions, emit func(*search.File) error) (search.GrepReport, error) {
	if at.Dir != nil {
		o := search.Options{ExcludesFile: d.ExcludesFile, Exclude: in.Exclude, Glob: in.Glob, Type: in.Type, Named: namedIn(in.Glob), Closed: d.closed(req, "grep")}
		return search.Grep(ctx, at.Place, o, g, emit)
	}
	f, err := at.path.Open()
	if err != nil {
		return search.GrepReport{}, err
	}
	defer f.Close()
	found, report, err := search.GrepFile(ctx, f, "", g)
	if err == nil && found != nil && found.Count > 0 {
		err = emit(found)
	}
	return report, err
}

// namedIn are the components of a glob that name something.
func namedIn(glob string) []string {
	if strings.HasPrefix(glob, "!") {
		return nil
	}
	return strings.FieldsFunc(glob, func(r rune) bool { return strings.ContainsRune("/{},", r) })
}

// errPageFull ends a search when its output is full.
var errPageFull = errors.New("the output is full")

// grepPage writes the output of one call, up to its limit.
type grepPage struct {
	in      grepIn
	at      *place
	limit   int
	text    strings.Builder
	out     grepOut
	skip    int // matches still to leave out
	shown   int // matches written
	full    bool
	started bool // a group of lines has been written
	sights  []grepSight
}

// grepSight is what was shown of one file.
type grepSight struct {
	file  *search.File
	lines []store.LineRange
}

func newGrepPage(in grepIn, at *place, limit int) *grepPage {
	return &grepPage{in: in, at: at, limit: max(limit-noteRoom, limit/2), skip: in.Offset, out: grepOut{Matches: []grepMatch{}}}
}

// file takes what was found in one file.
func (p *grepPage) file(f *search.File) error {
	name := p.at.path.Display
	if p.at.Dir != nil {
		name = p.at.display(f.Path)
	}
	if p.in.Output == "files" || p.in.Output == "count" {
		return p.one(name, f)
	}
	if f.Binary >= 0 && len(f.Lines) == 0 {
		return p.remark(fmt.Sprintf("%s: binary file matches (NUL byte at offset %d)\n", shown(name), f.Binary))
	}
	sight := grepSight{file: f}
	defer func() {
		if len(sight.lines) > 0 {
			p.sights = append(p.sights, sight)
		}
	}()
	last := 0
	for _, group := range p.groups(f.Lines) {
		for _, l := range group {
			if err := p.line(name, l, &last); err != nil {
				return err
			}
			sight.lines = append(sight.lines, store.LineRange{From: l.Number, To: l.Number})
		}
	}
	if f.Binary >= 0 {
		return p.remark(fmt.Sprintf("%s: the search ended at the NUL byte at offset %d: the file is binary from there on\n", shown(name), f.Binary))
	}
	return nil
}

// groups cuts lines into those that belong to one match each (context before,
// the match, context after up to the next one's), and leaves out those of
// matches that are skipped.
func (p *grepPage) groups(lines []search.Line) [][]search.Line {
	if p.skip == 0 {
		return [][]search.Line{lines}
	}
	for i, l := range lines {
		if !l.Match {
			continue
		}
		if p.skip == 0 {
			from := i
			for from > 0 && !lines[from-1].Match && lines[from-1].Number >= l.Number-max(p.in.Before, p.in.Context) {
				from--
			}
			return [][]search.Line{lines[from:]}
		}
		p.skip--
	}
	return nil
}

// line writes one line with what stands before it.
func (p *grepPage) line(name string, l search.Line, last *int) error {
	sep := "-"
	if l.Match {
		sep = ":"
	}
	var b strings.Builder
	if p.in.Before+p.in.After+p.in.Context > 0 && p.started && (*last == 0 || l.Number > *last+1) {
		b.WriteString("--\n")
	}
	b.WriteString(shown(name) + sep)
	if p.in.LineNumbers == nil || *p.in.LineNumbers {
		fmt.Fprintf(&b, "%d%s", l.Number, sep)
	}
	text := cutLine(strings.ToValidUTF8(l.Text, "\uFFFD"), l.Size)
	b.WriteString(text + "\n")
	if err := p.remark(b.String()); err != nil {
		return err
	}
	*last, p.started = l.Number, true
	if l.Match {
		p.shown++
		p.out.Matches = append(p.out.Matches, grepMatch{Path: name, Line: l.Number, Text: text})
	}
	return nil
}

// one writes the line of a file in the outputs files and count.
func (p *grepPage) one(name string, f *search.File) error {
	if p.skip > 0 {
		p.skip--
		return nil
	}
	line, m := shown(name), grepMatch{Path: name}
	if p.in.Output == "count" {
		line, m.Count = fmt.Sprintf("%s:%d", line, f.Count), f.Count
	}
	if err := p.remark(line + "\n"); err != nil {
		return err
	}
	p.shown++
	p.out.Matches = append(p.out.Matches, m)
	return nil
}

// remark writes text if there is room for it.
func (p *grepPage) remark(text string) error {
	if p.text.Len()+len(text) > p.limit {
		p.full = true
		return errPageFull
	}
	p.text.WriteString(text)
	return nil
}

// finish adds what the reader must know of the search itself.
func (p *grepPage) finish(r search.GrepReport) {
	p.out.FilesSearched, p.out.Partial = r.Searched, r.Partial
	p.out.Truncated = r.Truncated || p.full || r.Partial
	what := "matching line"
	if p.in.Output == "files" || p.in.Output == "count" {
		what = "file"
	}
	var notes []string
	if p.shown == 0 && p.text.Len() == 0 && !r.Partial && !p.full {
		notes = append(notes, p.nothing(r))
	}
	if p.full || r.Truncated {
		next := p.in.Offset + p.shown
		p.out.NextOffset = next
		why := "there are more"
		if p.full {
			why = "the output limit is reached"
		}
		notes = append(notes, fmt.Sprintf("(%s shown, %s. Go on with offset=%d, or narrow the search with path, glob or type, or use output: files.)", plural(int64(p.shown), what), why, next))
	}
	if r.Partial {
		notes = append(notes, fmt.Sprintf("(The search was ended after %v with %s searched: this is not everything. Narrow it with path, glob or type.)", grepBudget, plural(int64(r.Searched), "file")))
	}
	if r.Skipped > 0 {
		var names []string
		for _, n := range r.SkippedNames {
			names = append(names, shown(p.at.display(n)))
		}
		notes = append(notes, fmt.Sprintf("(%s could not be searched: %s)", plural(int64(r.Skipped), "file"), strings.Join(names, ", ")))
	}
	text := strings.Join(notes, "\n") + unreadNote(r.Report, p.at)
	if text == "" && p.text.Len() > 0 {
		whole := strings.TrimSuffix(p.text.String(), "\n")
		p.text.Reset()
		p.text.WriteString(whole)
	}
	p.text.WriteString(strings.TrimPrefix(text, "\n"))
}

// nothing says that nothing matched, and what might be the reason.
func (p *grepPage) nothing(r search.GrepReport) string {
	if p.in.Offset > 0 && r.Matches > 0 {
		return fmt.Sprintf("No more matches: there are %s in all.", thousands(int64(r.Matches)))
	}
	text := fmt.Sprintf("No matches (%s searched).", plural(int64(r.Searched), "file"))
	switch {
	case r.Searched == 0 && p.in.Glob != "":
		text += fmt.Sprintf(" No file fits glob %q.", p.in.Glob)
	case r.Binary > 0:
		text += fmt.Sprintf(" %s left out.", plural(int64(r.Binary), "binary file"))
	case !p.in.Literal && strings.Contains(p.in.Pattern, "$"):
		text += ` In files with CRLF line ends a carriage return stands before "$": use "\r?$" to match both.`
	}
	return text
}

// sawMatches records the files whose lines were shown.
func (d Deps) sawMatches(ctx context.Context, req *tool.Request, at *place, sights []grepSight) []string {
	var notes []string
	for _, s := range sights {
		if s.file.Hash == "" {
			continue
		}
		p := at.path
		if at.Dir != nil {
			var err error
			if p, err = at.ws.ResolveIn(at.path.Real, s.file.Path, workspace.Read); err != nil {
				continue
			}
		}
		if note := d.saw(ctx, req, p, edit.Sight{Hash: s.file.Hash, Size: s.file.Size, ModTime: s.file.ModTime, Lines: s.lines}); note != "" && len(notes) == 0 {
			notes = append(notes, note)
		}
	}
	return notes
}
