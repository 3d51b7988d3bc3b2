package artifacts

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

//go:embed output_read.md
var outputReadManual string

type outputReadIn struct {
	Handle string `json:"handle" jsonschema:"handle of the output, art_…; minLength=1"`
	Offset int64  `json:"offset,omitempty" jsonschema:"lines to skip; default=0; min=0"`
	Limit  int64  `json:"limit,omitempty" jsonschema:"lines to return; default=2000; min=1"`
}

type outputReadOut struct {
	Offset        int64  `json:"offset"`
	LinesReturned int64  `json:"lines_returned"`
	NextOffset    *int64 `json:"next_offset,omitempty" jsonschema:"where to go on, absent at the end"`
	TotalLines    *int64 `json:"total_lines,omitempty" jsonschema:"lines in all, where the end was reached"`
	TotalBytes    int64  `json:"total_bytes"`
}

func outputRead(d Deps) tool.Tool {
	return tool.New(tool.Spec{
		Name: "output_read", Title: "Read a long output",
		Description: "Reads lines of an output that was too long for its result, by the handle that the result names. Use output_grep to search it.",
		Manual:      outputReadManual, Category: "artifacts", Effects: tool.State, Default: tool.Allow,
		Idempotent: true, ConcurrencySafe: true, Pages: true,
	}, func(ctx context.Context, req *tool.Request, in outputReadIn) (*tool.Result, outputReadOut, error) {
		return readOutput(ctx, d, req, in)
	})
}

// footerRoom is what is kept free for the line that ends a page.
const footerRoom = 200

func readOutput(ctx context.Context, d Deps, req *tool.Request, in outputReadIn) (*tool.Result, outputReadOut, error) {
	out := outputReadOut{Offset: in.Offset}
	f, err := d.Artifacts.OpenIn(ctx, req.Session, in.Handle)
	if err != nil {
		return nil, out, err
	}
	defer f.Close()
	out.TotalBytes = f.Artifact.Size
	if in.Limit <= 0 {
		in.Limit = 2000
	}
	l := newLines(f)
	passed, err := l.skip(ctx, in.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, out, err
	}
	if errors.Is(err, io.EOF) && in.Offset > 0 {
		return nil, out, tool.Errorf(tool.ParameterError, "offset %d is past the end: the output has %d lines", in.Offset, passed).
			WithHint("Use a smaller offset.")
	}
	text, err := page(ctx, l, &out, in.Limit, max(room(req)-footerRoom, footerRoom))
	if err != nil {
		return nil, out, err
	}
	return tool.Text(text), out, nil
}

// room is how many bytes the result may hold.
func room(req *tool.Request) int {
	if req.MaxOutput <= 0 {
		return tool.DefaultMaxOutput
	}
	return req.MaxOutput
}

// page prints at most limit lines in at most size bytes, but at least one.
func page(ctx context.Context, l *lines, out *outputReadOut, limit int64, size int) (string, error) {
	var b strings.Builder
	end := false
	for out.LinesReturned < limit {
		err := l.next(ctx)
		if errors.Is(err, io.EOF) {
			end = true
			break
		}
		if err != nil {
			return "", err
		}
		line := shown(l.text, 0)
		if b.Len() > 0 && b.Len()+len(line)+1 > size {
			break
		}
		if len(line) > size {
			line = strings.ToValidUTF8(line[:size], "") + " [… cut]"
		}
		b.WriteString(line)
		if l.part {
			b.WriteString(" [… the line goes on]")
			if _, err := l.skip(ctx, l.n+1); err != nil && !errors.Is(err, io.EOF) {
				return "", err
			}
		}
		b.WriteByte('\n')
		out.LinesReturned++
	}
	last := out.Offset + out.LinesReturned
	if !end {
		_, err := l.r.Peek(1)
		end = errors.Is(err, io.EOF) && l.n < last
	}
	if end {
		out.TotalLines = &last
		fmt.Fprintf(&b, "[lines %d to %d; the end]\n", min(out.Offset+1, last), last)
	} else {
		out.NextOffset = &last
		fmt.Fprintf(&b, "[lines %d to %d; go on with offset %d]\n", out.Offset+1, last, last)
	}
	return b.String(), nil
}
