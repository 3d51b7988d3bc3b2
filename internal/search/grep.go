package search

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Bounds of a grep.
const (
	maxWorkers   = 8
	jobFiles     = 32 // files searched in one go
	jobDirs      = 4  // directories of one job, each held open
	firstBuffer  = 256 << 10
	windowBuffer = 4 << 20  // bytes of a file looked at together
	maxLine      = 64 << 20 // bytes; a file with a longer line is given up
	maxMultiline = 16 << 20 // bytes; a larger file is given up in multi-line mode
	keepLine     = 8 << 10  // bytes of a matching line that are kept
)

// GrepOptions say what a grep looks for and how much it tells.
type GrepOptions struct {
	Pattern *Pattern
	// Before and After are lines of context.
	Before, After int
	// Lines asks for the text of lines; else they are only counted.
	Lines bool
	// FirstOnly ends a file's search with its first match.
	FirstOnly bool
	// MaxLines is how many matching lines are told of; with FirstOnly or without
	// Lines, how many files. Zero means all.
	MaxLines int
	// Budget is how long to search. Zero means as long as the context lets.
	Budget time.Duration
	// Buffers are used again from one grep to the next. Nil means new ones.
	Buffers *Buffers
	// NewHash makes the hash of a file's content, told of files with lines. Nil
	// means none.
	NewHash func() Hash
}

// Buffers keeps the memory that files are read into, a few MiB per worker, until
// the garbage collector wants it. The zero value is ready; it is safe for
// concurrent use.
type Buffers struct{ pool sync.Pool }

func (b *Buffers) get() []byte {
	if b != nil {
		if buf, ok := b.pool.Get().(*[]byte); ok {
			return *buf
		}
	}
	return make([]byte, firstBuffer)
}

func (b *Buffers) put(buf []byte) {
	if b != nil && len(buf) <= windowBuffer {
		b.pool.Put(&buf)
	}
}

// Hash is a running hash of content.
type Hash interface {
	Write(p []byte) (int, error)
	// Sum is the hash of what was written so far.
	Sum() string
}

// File is what was found in one file.
type File struct {
	Path  string // below the place
	Count int    // matching lines
	Lines []Line
	// Binary is the offset of the NUL byte that ended the search; -1 if none did.
	Binary int64
	// More says that the file has matching lines that are not in Lines.
	More bool
	// Hash, Size and ModTime are of the whole content. Hash is empty if the file
	// was not read to its end.
	Hash    string
	Size    int64
	ModTime time.Time
}

// Line is a line of a file.
type Line struct {
	Number int
	Match  bool   // else it is context
	Text   string // without its end; at most 8 KiB
	Size   int    // length of the whole line in bytes
}

// GrepReport sums a grep up.
type GrepReport struct {
	Report
	Searched int // files
	Matches  int // matching lines told of; files without Lines
	// Truncated says that there are more matches than MaxLines.
	Truncated bool
	// Partial says that the budget ended the search.
	Partial bool
	// Skipped counts files that could not be read, had a line over 64 MiB, or were
	// over 16 MiB in multi-line mode; the first names are in SkippedNames.
	Skipped      int
	SkippedNames []string
	Binary       int // binary files left out
}

// errBudget is the cause when the budget has passed.
var errBudget = errors.New("the time for the search has passed")

// errEnough ends a walk when there are enough matches.
var errEnough = errors.New("enough was found")

// Grep searches the files that a walk shows and gives those with a match to
// emit, in the walk's order, from the calling goroutine. The same tree always
// gives the same answer. An error of emit ends the search and is returned.
func Grep(ctx context.Context, at Place, o Options, g GrepOptions, emit func(*File) error) (GrepReport, error) {
	outer := ctx
	if g.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.Budget, errBudget)
		defer cancel()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w, err := newWalker(ctx, at, o)
	if err != nil {
		return GrepReport{}, err
	}
	p := newPipeline(ctx, g)
	w.visit = p.visit
	p.start(func() { p.walked, p.walkErr = w.run() })
	err = p.collect(emit, stop)
	stop(errEnough)
	p.wait()
	p.report.Report = p.walked
	if errors.Is(p.walkErr, errBudget) && err == nil {
		p.report.Partial = true
	}
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return p.report, err
	case outer.Err() != nil:
		return p.report, context.Cause(outer)
	case p.walkErr != nil && ctx.Err() == nil:
		return p.report, p.walkErr
	}
	return p.report, nil
}

// GrepFile searches one open file. Of a binary one it tells only whether it
// matches: Binary is then not -1, and there are no Lines.
func GrepFile(ctx context.Context, f *os.File, path string, g GrepOptions) (*File, GrepReport, error) {
	if g.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, g.Budget, errBudget)
		defer cancel()
	}
	s := newSearcher(ctx, g)
	s.named = true
	defer func() { g.Buffers.put(s.buf) }()
	found, err := s.search(readerOf(f), path)
	report := GrepReport{Searched: 1}
	switch {
	case errors.Is(err, errBudget):
		report.Partial = true
	case err != nil:
		return nil, report, err
	}
	if found != nil {
		report.Matches = found.Count
		if g.MaxLines > 0 && g.Lines && found.Count > g.MaxLines {
			found.trim(g.MaxLines)
			report.Matches, report.Truncated = g.MaxLines, true
		}
	}
	return found, report, nil
}

// trim leaves the first n matching lines and what belongs to them.
func (f *File) trim(n int) {
	f.Count, f.More = n, true
	for i, l := range f.Lines {
		if l.Match {
			if n--; n < 0 {
				// Context before the first line that goes stays only if it follows
				// the last line that stays.
				end := i
				for end > 0 && !f.Lines[end-1].Match {
					end--
				}
				f.Lines = f.Lines[:end]
				return
			}
		}
	}
}

// job is a run of files, in the walk's order, searched by one worker.
type job struct {
	files []jobFile
	dirs  int
	done  chan struct{}

	found    []*File
	searched int
	binary   int
	skipped  []string
	// cut says that the context ended before the job.
	cut bool
}

type jobFile struct {
	dir  *directory
	name string
}

// pipeline connects one walk, a few workers and the caller, who takes the jobs
// in the order in which the walk made them.
type pipeline struct {
	ctx     context.Context
	g       GrepOptions
	jobs    chan *job // for the workers
	order   chan *job // for the caller
	walked  Report
	walkErr error
	running chan struct{} // one token per goroutine that has ended
	started int
	next    *job
	report  GrepReport
}

func newPipeline(ctx context.Context, g GrepOptions) *pipeline {
	workers := min(runtime.GOMAXPROCS(0), maxWorkers)
	return &pipeline{
		ctx: ctx, g: g,
		jobs: make(chan *job, 4*workers), order: make(chan *job, 4*workers),
		running: make(chan struct{}, workers+1), started: workers + 1,
	}
}

// start runs the walk and the workers. wait waits for them.
func (p *pipeline) start(walk func()) {
	go func() {
		walk()
		p.flush()
		close(p.jobs)
		close(p.order)
		p.running <- struct{}{}
	}()
	for range p.started - 1 {
		go func() {
			s := newSearcher(p.ctx, p.g)
			for j := range p.jobs {
				s.job(j)
			}
			p.g.Buffers.put(s.buf)
			p.running <- struct{}{}
		}()
	}
}

func (p *pipeline) wait() {
	for range p.started {
		<-p.running
	}
}

// visit adds a file to the next job.
func (p *pipeline) visit(v *Visit) error {
	if v.kind != kindFile {
		return nil
	}
	if p.next == nil {
		p.next = &job{done: make(chan struct{}), files: make([]jobFile, 0, jobFiles)}
	}
	j := p.next
	if n := len(j.files); n == 0 || j.files[n-1].dir != v.dir {
		j.dirs++
	}
	v.dir.retain()
	j.files = append(j.files, jobFile{v.dir, v.Name})
	if len(j.files) == jobFiles || j.dirs > jobDirs {
		p.flush()
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
	}
	return nil
}

// flush hands the next job on. Once the context is done nobody may be taking
// jobs any more, but the workers still do, so this does not hang.
func (p *pipeline) flush() {
	j := p.next
	if j == nil {
		return
	}
	p.next = nil
	select {
	case p.order <- j:
	case <-p.ctx.Done():
	}
	p.jobs <- j
}

// collect gives what was found to emit until the walk has ended or there is
// enough.
func (p *pipeline) collect(emit func(*File) error, stop context.CancelCauseFunc) error {
	for j := range p.order {
		<-j.done
		p.report.Searched += j.searched
		p.report.Binary += j.binary
		p.report.Skipped += len(j.skipped)
		for _, name := range j.skipped {
			if len(p.report.SkippedNames) < maxUnreadable {
				p.report.SkippedNames = append(p.report.SkippedNames, name)
			}
		}
		for _, f := range j.found {
			if err := p.take(f, emit); err != nil {
				stop(errEnough)
				return err
			}
		}
		if j.cut {
			p.report.Partial = errors.Is(context.Cause(p.ctx), errBudget)
			return nil
		}
	}
	return nil
}

func (p *pipeline) take(f *File, emit func(*File) error) error {
	n := 1
	if p.g.Lines {
		n = f.Count
	}
	full := false
	if room := p.g.MaxLines - p.report.Matches; p.g.MaxLines > 0 && n > room {
		p.report.Truncated, full = true, true
		if room == 0 {
			return errEnough
		}
		f.trim(room)
		n = room
	}
	p.report.Matches += n
	if err := emit(f); err != nil {
		return err
	}
	if full {
		return errEnough
	}
	return nil
}

// job searches the files of j.
func (s *searcher) job(j *job) {
	defer close(j.done)
	for _, f := range j.files {
		if s.ctx.Err() != nil {
			j.cut = true
		}
		if !j.cut {
			s.one(j, f)
		}
		f.dir.release()
	}
}

func (s *searcher) one(j *job, f jobFile) {
	r, err := f.dir.open(f.name)
	if err == nil {
		s.dir, s.name = f.dir, f.name
		var found *File
		found, err = s.search(r, "")
		r.close()
		if err == nil {
			j.searched++
		}
		if found != nil && found.Count > 0 {
			found.Path = strings.Clone(f.dir.path + f.name)
			j.found = append(j.found, found)
		} else if s.binary {
			j.binary++
		}
	}
	switch {
	case err == nil:
	case s.ctx.Err() != nil:
		j.cut = true
	default:
		j.skipped = append(j.skipped, f.dir.path+f.name)
	}
}
