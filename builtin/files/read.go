package files

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/text"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

//go:embed read.md
var readManual string

type readIn struct {
	FilePath string `json:"file_path" alias:"path" jsonschema:"the file; format=path"`
	Offset   int    `json:"offset,omitempty" jsonschema:"lines to skip: 10 starts at line 11; default=0; min=0"`
	Limit    int    `json:"limit,omitempty" jsonschema:"how many lines to return; default=2000; min=1"`
	Pages    string `json:"pages,omitempty" jsonschema:"pages of a PDF, as in 1-3,5"`
	Raw      bool   `json:"raw,omitempty" jsonschema:"the text as it is: no line numbers, no cut lines"`
}

type readOut struct {
	TotalLines    int    `json:"total_lines"`
	Offset        int    `json:"offset"`
	LinesReturned int    `json:"lines_returned"`
	Encoding      string `json:"encoding"`
	Hash          string `json:"hash"`
	Kind          string `json:"kind" jsonschema:"text, notebook, pdf, image or binary"`
	Size          int64  `json:"size"`
	NextOffset    int    `json:"next_offset,omitempty" jsonschema:"where to go on, if there is more"`
}

// defaultLines is how many lines a read returns.
const defaultLines = 2000

func readTool(d Deps) tool.Tool {
	return resourced{deps: d, Tool: tool.New(tool.Spec{
		Name: "read", Title: "Read a file", Category: "files", Manual: readManual,
		Description: "Reads a file: text with line numbers, a notebook as cells, a PDF by page, an image as an image. Long files come in parts: go on with the offset that is named. " +
			"A file must be read before it is changed. Use grep to find the place in a large file first.",
		Effects: tool.Read, Idempotent: true, ConcurrencySafe: true, Default: tool.Allow, Pages: true,
	}, d.callRead), names: func(req *tool.Request) []string {
		in, err := tool.Arguments[readIn](req)
		if err != nil {
			return nil
		}
		return []string{in.FilePath}
	}}
}

func (d Deps) callRead(ctx context.Context, req *tool.Request, in readIn) (*tool.Result, readOut, error) {
	r, err := d.readFile(ctx, req, in, maxOutput(req))
	if err != nil {
		return nil, readOut{}, err
	}
	return &tool.Result{Content: r.content}, r.out, nil
}

// reading is one file, read.
type reading struct {
	content []tool.Content
	out     readOut
}

func textBlock(s string) tool.Content { return tool.Content{Kind: tool.KindText, Text: s} }

// source is an open file on its way through a reader.
type source struct {
	path *workspace.Path
	file *os.File // nil if whole and small
	info os.FileInfo
	head []byte // the first bytes
	// whole says that head is all of the file.
	whole bool
	sum   *edit.Summer // of what rest has given
}

// hash is the sum of the file, which has been read to its end.
func (s *source) hash() string {
	if s.whole {
		return edit.Sum(s.head)
	}
	return s.sum.Sum()
}

// smallFile is the size below which a file is read at once, into a buffer that is
// used again. Larger buffers would cost memory with many reads at the same time.
const smallFile = 16 << 10

// readFile reads one file into at most limit bytes of text, and records what
// was shown.
func (d Deps) readFile(ctx context.Context, req *tool.Request, in readIn, limit int) (*reading, error) {
	if in.Limit == 0 {
		in.Limit = defaultLines
	}
	ws, err := d.Workspace(req.Workspace)
	if err != nil {
		return nil, err
	}
	p, err := d.resolve(req, ws, in.FilePath)
	if err != nil {
		return nil, err
	}
	if !p.Exists() {
		return nil, missing(ws, p, in.FilePath)
	}
	s := &source{path: p}
	buf := d.buffers.Get().(*[smallFile]byte)
	defer d.buffers.Put(buf) // what is made of the file is made by then
	if s.head, s.info, s.whole = p.Small(buf[:]); !s.whole {
		if s.file, err = p.Open(); err != nil {
			return nil, err
		}
		defer s.file.Close()
		if s.info, err = s.file.Stat(); err == nil {
			err = s.begin()
		}
		if err != nil {
			return nil, unreadable(p.Display, err)
		}
	}
	r, sight, err := d.readKind(ctx, s, in, limit)
	if err != nil {
		return nil, err
	}
	sight.Hash, sight.Size, sight.ModTime = r.out.Hash, s.info.Size(), s.info.ModTime()
	if note := d.saw(ctx, req, p, sight); note != "" {
		r.content = append(r.content, textBlock(note))
	}
	return r, nil
}

// begin reads the first bytes: those that tell what the file is, and one more
// than there should be, to see its end.
func (s *source) begin() error {
	room := int64(text.Window)
	if size := s.info.Size(); size > 0 && size < room { // /proc says 0 of everything
		room = size + 1
	}
	s.head = make([]byte, room)
	n, err := io.ReadFull(s.file, s.head)
	s.head = s.head[:n]
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		s.whole, err = true, nil
	}
	return err
}

// readKind reads a file as what it is.
func (d Deps) readKind(ctx context.Context, s *source, in readIn, limit int) (*reading, edit.Sight, error) {
	if kind := imageKind(s.head); kind != "" && !in.Raw {
		return s.image(ctx, kind)
	}
	if bytes.HasPrefix(s.head, []byte("%PDF-")) {
		return s.pdf(ctx, in, limit)
	}
	if in.Pages != "" {
		return nil, edit.Sight{}, tool.Errorf(tool.ParameterError, "pages is only for PDF files, and %s is none", shown(s.path.Display)).
			WithHint("Use offset and limit.")
	}
	if !in.Raw && strings.EqualFold(path.Ext(s.path.Rel), ".ipynb") && s.info.Size() <= maxNotebook {
		if r, sight, err := s.notebook(ctx, in, limit); err != nil || r != nil {
			return r, sight, err
		}
	}
	enc := text.Detect(s.head)
	if enc.IsBinary() {
		return s.binary(ctx)
	}
	return s.text(ctx, enc, in, limit)
}

// rest is the file from its beginning; what is read is hashed.
func (s *source) rest(ctx context.Context) io.Reader {
	s.sum = edit.NewSum()
	if s.whole {
		return io.TeeReader(bytes.NewReader(s.head), s.sum)
	}
	return io.TeeReader(io.MultiReader(bytes.NewReader(s.head), &ctxReader{ctx, s.file}), s.sum)
}

// ctxReader ends with the context. It is an io.Reader for one call.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// text reads a window of lines.
func (s *source) text(ctx context.Context, enc text.Encoding, in readIn, limit int) (*reading, edit.Sight, error) {
	w := &window{skip: in.Offset, want: in.Limit, raw: in.Raw, limit: max(limit-noteRoom, limit/2)}
	if in.Raw {
		w.limit = limit
	}
	if s.whole && enc.IsUTF8() && !enc.BOM {
		w.all(s.head)
	} else if err := w.from(enc.Reader(s.rest(ctx)), s.info.Size()); err != nil {
		return nil, edit.Sight{}, s.failed(err)
	}
	return s.windowed(w, in, enc.String(), "text")
}

// failed is the error of a read that broke off.
func (s *source) failed(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return unreadable(s.path.Display, e)
	}
	return err
}

// windowed makes the result of a window that has been filled.
func (s *source) windowed(w *window, in readIn, encoding, kind string) (*reading, edit.Sight, error) {
	name := shown(s.path.Display)
	if w.total > 0 && in.Offset >= w.total {
		return nil, edit.Sight{}, tool.Errorf(tool.ParameterError, "offset %d is past the end of %s, which has %s", in.Offset, name, plural(int64(w.total), "line")).
			WithHint("Use an offset below %d.", w.total).WithDetail("total_lines", w.total)
	}
	r := &reading{out: readOut{
		TotalLines: w.total, Offset: in.Offset, LinesReturned: w.lines, Encoding: encoding, Hash: s.hash(), Kind: kind, Size: s.info.Size(),
	}}
	sight := edit.Sight{Whole: w.total == 0 || (w.lines == w.total && !w.broken)}
	if w.lines > 0 && kind == "text" {
		sight.Lines = []store.LineRange{{From: in.Offset + 1, To: in.Offset + w.lines}}
	}
	if w.total == 0 {
		r.out.Offset = 0
		if !in.Raw {
			r.content = []tool.Content{textBlock(name + " is empty: it has no lines.")}
		} else {
			r.content = []tool.Content{textBlock("")}
		}
		return r, sight, nil
	}
	if end := in.Offset + w.lines; end < w.total {
		r.out.NextOffset = end
	}
	notes := w.notes(r.out)
	if in.Raw {
		r.content = []tool.Content{textBlock(w.text.String())}
		if r.out.NextOffset > 0 || w.broken || w.invalid {
			r.content = append(r.content, textBlock(notes))
		}
		return r, sight, nil
	}
	w.text.WriteString(notes)
	r.content = []tool.Content{textBlock(w.text.String())}
	return r, sight, nil
}

// binary describes a file that is not text.
func (s *source) binary(ctx context.Context) (*reading, edit.Sight, error) {
	if _, err := io.Copy(io.Discard, s.rest(ctx)); err != nil {
		return nil, edit.Sight{}, s.failed(err)
	}
	what := binaryKind(s.head)
	r := &reading{out: readOut{Encoding: text.Binary, Hash: s.hash(), Kind: "binary", Size: s.info.Size()}}
	r.content = []tool.Content{textBlock(fmt.Sprintf("%s is a binary file (%s, %s bytes); its content is not shown.", shown(s.path.Display), what, thousands(s.info.Size())))}
	return r, edit.Sight{Whole: true}, nil
}

type batchReadIn struct {
	FilePaths   []string `json:"file_paths" alias:"paths" jsonschema:"the files; minItems=1; maxItems=200; format=path"`
	Offset      int      `json:"offset,omitempty" jsonschema:"lines to skip in each file; default=0; min=0"`
	Limit       int      `json:"limit,omitempty" jsonschema:"how many lines of each file to return; default=2000; min=1"`
	StopOnError bool     `json:"stop_on_error,omitempty" jsonschema:"end with the first file that cannot be read"`
}

type batchReadOut struct {
	Results []batchRead      `json:"results"`
	Errors  []batchReadError `json:"errors"`
}

type batchRead struct {
	FilePath string `json:"file_path"`
	readOut
}

// MarshalJSON writes the fields of both on one level.
func (b batchRead) MarshalJSON() ([]byte, error) {
	type flat readOut
	return json.Marshal(struct {
		FilePath string `json:"file_path"`
		flat
	}{b.FilePath, flat(b.readOut)})
}

type batchReadError struct {
	FilePath string    `json:"file_path"`
	Code     tool.Code `json:"code"`
	Message  string    `json:"message"`
}

//go:embed batch_read.md
var batchReadManual string

func batchReadTool(d Deps) tool.Tool {
	return resourced{deps: d, Tool: tool.New(tool.Spec{
		Name: "batch_read", Title: "Read several files", Category: "files", Manual: batchReadManual,
		Description: "Reads several files in one call, as read does. They share the output's limit; where a file is cut, the next offset is named. Use it for files that belong together.",
		Effects:     tool.Read, Idempotent: true, ConcurrencySafe: true, Default: tool.Allow, Pages: true,
	}, d.callBatchRead), names: func(req *tool.Request) []string {
		in, err := tool.Arguments[batchReadIn](req)
		if err != nil {
			return nil
		}
		return in.FilePaths
	}}
}

func (d Deps) callBatchRead(ctx context.Context, req *tool.Request, in batchReadIn) (*tool.Result, batchReadOut, error) {
	out := batchReadOut{Results: []batchRead{}, Errors: []batchReadError{}}
	result := &tool.Result{}
	room := maxOutput(req)
	for i, name := range in.FilePaths {
		if ctx.Err() != nil {
			return nil, out, context.Cause(ctx)
		}
		header := "==> " + shown(name) + " <==\n"
		// What a short file leaves goes to those after it.
		share := max(room/(len(in.FilePaths)-i)-len(header)-1, 200)
		r, err := d.readFile(ctx, req, readIn{FilePath: name, Offset: in.Offset, Limit: in.Limit}, share)
		if err != nil {
			e := tool.AsError(err)
			out.Errors = append(out.Errors, batchReadError{name, e.Code, e.Text()})
			result.Content = append(result.Content, textBlock(header+"Error: "+e.Text()))
			room -= len(header) + len(e.Text()) + 8
			if in.StopOnError {
				break
			}
			continue
		}
		out.Results = append(out.Results, batchRead{name, r.out})
		room -= len(header)
		for j, c := range r.content {
			room -= len(c.Text)
			if j == 0 && c.Kind == tool.KindText {
				c.Text = header + c.Text
			}
			result.Content = append(result.Content, c)
		}
	}
	if len(out.Errors) > 0 && (len(out.Results) == 0 || in.StopOnError) {
		result.IsError = true
		result.Err = tool.Errorf(out.Errors[0].Code, "%s of %d could not be read: %s", plural(int64(len(out.Errors)), "file"), len(in.FilePaths), out.Errors[0].Message)
	}
	return result, out, nil
}
