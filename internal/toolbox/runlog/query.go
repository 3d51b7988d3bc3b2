package runlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Bounds of a page.
const (
	MaxLines = 10_000  // entries
	MaxPage  = 1 << 20 // bytes of lines

	defaultLines = 50
	block        = 64 << 10
	outOfOrder   = time.Minute // how far entries of several processes are out of order at most
)

// Action is what is read.
type Action string

const (
	Tail Action = "tail" // the newest entries
	Head Action = "head" // the oldest
	All  Action = "all"  // as many as a page holds, the newest
	Grep Action = "grep" // the newest that match a pattern
)

// Query says which entries are wanted.
type Query struct {
	// Action is tail if empty.
	Action Action
	// Lines is how many entries at most. Zero is 50, for All [MaxLines].
	Lines int
	// Level leaves out what is below it. Empty leaves out nothing.
	Level string
	// Since leaves out what is older.
	Since time.Time
	// Pattern is a regular expression (RE2) that a line must match. Grep needs it.
	Pattern string
}

// Page is what was found, the oldest first.
type Page struct {
	Entries []Entry `json:"entries"`
	// Matched is how many entries of those looked at were wanted, with those that
	// found no place in the page; Scanned how many lines were looked at.
	Matched int `json:"matched"`
	Scanned int `json:"scanned"`
	// Size of the file in bytes.
	Size int64 `json:"size"`
	// More says that there may be, or are, more entries than these.
	More bool `json:"more"`
}

// Query writes what waits, removes what is too old, and reads the file.
func (l *Log) Query(ctx context.Context, q Query) (*Page, error) {
	// Where the file cannot be written it can still be read.
	_ = l.Flush(ctx)
	_ = l.Clean()
	return Read(ctx, l.c.Path, q)
}

// Read reads the log at path, in blocks: a tail reads no more of the file than
// it needs. A file that is not there has no entries. A wrong query is
// VALIDATION_ERROR.
func Read(ctx context.Context, path string, q Query) (*Page, error) {
	r, err := compile(q)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &Page{Entries: []Entry{}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	r.page.Size = info.Size()
	if r.q.Action == Head {
		err = r.head(ctx, f)
	} else {
		err = r.tail(ctx, f, info.Size())
		slices.Reverse(r.page.Entries)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return r.page, nil
}

type reader struct {
	q       Query
	rank    int
	pattern *regexp.Regexp
	page    *Page
	bytes   int
}

func compile(q Query) (*reader, error) {
	bad := func(field, hint, format string, args ...any) error {
		err := tool.Errorf(tool.ValidationError, format, args...).WithHint("%s", hint)
		err.Field = field
		return err
	}
	if q.Action == "" {
		q.Action = Tail
	}
	r := &reader{page: &Page{Entries: []Entry{}}}
	switch q.Action {
	case Tail, Head, Grep:
		if q.Lines == 0 {
			q.Lines = defaultLines
		}
	case All:
		if q.Lines == 0 {
			q.Lines = MaxLines
		}
	default:
		return nil, bad("action", "Use tail, head, all or grep.", "there is no action %q", q.Action)
	}
	if q.Lines < 0 {
		return nil, bad("lines", "Use a number from 1 to 10000.", "%d is no number of lines", q.Lines)
	}
	q.Lines = min(q.Lines, MaxLines)
	if q.Level != "" {
		if r.rank = rank(q.Level); r.rank == 0 {
			return nil, bad("level", "Use DEBUG, INFO, WARN or ERROR.", "there is no level %q", q.Level)
		}
	}
	if q.Action == Grep && q.Pattern == "" {
		return nil, bad("pattern", "Say what to look for.", "grep needs a pattern")
	}
	if q.Pattern != "" {
		var err error
		if r.pattern, err = regexp.Compile(q.Pattern); err != nil {
			return nil, bad("pattern", "Use RE2 syntax, or escape the special characters with a backslash.",
				"the pattern %q is no regular expression: %v", q.Pattern, err)
		}
	}
	r.q = q
	return r, nil
}

// rank orders the levels; 0 is none.
func rank(name string) int {
	i := slices.Index([]string{"DEBUG", "INFO", "WARN", "ERROR"}, strings.ToUpper(name))
	if i < 0 && strings.EqualFold(name, "warning") {
		return 3
	}
	return i + 1
}

// see looks at one line and reports whether to go on.
func (r *reader) see(line []byte) bool {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		return true
	}
	r.page.Scanned++
	e, ok := Parse(line)
	if ok && !r.q.Since.IsZero() && e.Time.Before(r.q.Since) {
		// Backwards, what comes now is older still.
		return r.q.Action == Head || e.Time.After(r.q.Since.Add(-outOfOrder))
	}
	if !r.wanted(e, ok) {
		return true
	}
	r.page.Matched++
	if len(r.page.Entries) < r.q.Lines && r.bytes+len(e.Raw) <= MaxPage {
		r.page.Entries = append(r.page.Entries, e)
		r.bytes += len(e.Raw)
		return true
	}
	r.page.More = true
	return r.q.Action == Grep // which counts all
}

func (r *reader) wanted(e Entry, ok bool) bool {
	if !ok && (r.rank > 0 || !r.q.Since.IsZero()) {
		return false
	}
	if own := rank(e.Level); own != 0 && own < r.rank || own == 0 && r.rank > rank("INFO") {
		return false
	}
	return r.pattern == nil || r.pattern.MatchString(e.Raw) || ok && r.pattern.MatchString(e.Message)
}

var errEnough = errors.New("enough")

func (r *reader) head(ctx context.Context, f *os.File) error {
	err := lines(f, func(line []byte) error {
		if r.page.Scanned%1000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !r.see(line) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// tail sees the lines of the first size bytes from the last to the first.
func (r *reader) tail(ctx context.Context, f *os.File, size int64) error {
	var rest []byte // the end of a line whose beginning is not yet read
	buf := make([]byte, block)
	for size > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(size, block)
		size -= n
		if _, err := f.ReadAt(buf[:n], size); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		part := buf[:n]
		for {
			i := bytes.LastIndexByte(part, '\n')
			if i < 0 {
				break
			}
			line := append(part[i+1:len(part):len(part)], rest...)
			rest = nil
			if !r.see(line) {
				return nil
			}
			part = part[:i]
		}
		if len(rest) < maxLine {
			rest = append(bytes.Clone(part), rest...)
		} else {
			rest = append(bytes.Clone(part), rest[:maxLine-len(part)]...) // the beginning matters more
		}
	}
	r.see(rest)
	return nil
}
