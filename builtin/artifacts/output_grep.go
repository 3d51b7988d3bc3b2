package artifacts

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

//go:embed output_grep.md
var outputGrepManual string

type outputGrepIn struct {
	Handle  string `json:"handle" jsonschema:"handle of the output, art_…; minLength=1"`
	Pattern string `json:"pattern" jsonschema:"regular expression, RE2 syntax; minLength=1"`
	Context int    `json:"context_lines,omitempty" jsonschema:"lines to show around a match; default=0; min=0; max=100"`
}

type outputGrepOut struct {
	Matches       int64 `json:"matches" jsonschema:"lines that match, as far as was searched"`
	LinesSearched int64 `json:"lines_searched"`
	Truncated     bool  `json:"truncated" jsonschema:"the result was full before the end"`
}

func outputGrep(d Deps) tool.Tool {
	return tool.New(tool.Spec{
		Name: "output_grep", Title: "Search a long output",
		Description: "Searches an output that was too long for its result, by the handle that the result names. Prints matching lines with their numbers.",
		Manual:      outputGrepManual, Category: "artifacts", Effects: tool.State, Default: tool.Allow,
		Idempotent: true, ConcurrencySafe: true, Pages: true,
	}, func(ctx context.Context, req *tool.Request, in outputGrepIn) (*tool.Result, outputGrepOut, error) {
		re, err := regexp.Compile(in.Pattern)
		if err != nil {
			return nil, outputGrepOut{}, tool.Errorf(tool.ParameterError, "the pattern %q is no regular expression: %v", in.Pattern, err).
				WithHint("Use RE2 syntax; \\ before a character takes it literally.")
		}
		f, err := d.Artifacts.OpenIn(ctx, req.Session, in.Handle)
		if err != nil {
			return nil, outputGrepOut{}, err
		}
		defer f.Close()
		g := grep{re: re, context: in.Context, room: max(room(req)-footerRoom, footerRoom)}
		if err := g.run(ctx, newLines(f)); err != nil {
			return nil, g.out, err
		}
		return tool.Text(g.text()), g.out, nil
	})
}

// grep is one search.
type grep struct {
	re      *regexp.Regexp
	context int
	room    int // bytes that may be printed
	b       strings.Builder
	out     outputGrepOut
	before  []numbered // the last lines that were not printed
	after   int        // lines of context still to print
	printed int64      // number of the last line printed
}

type numbered struct {
	n    int64
	text string
}

func (g *grep) run(ctx context.Context, l *lines) error {
	for {
		err := l.next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		n := l.n + 1
		g.out.LinesSearched = n
		at := g.re.FindIndex(l.text)
		switch {
		case at != nil:
			g.out.Matches++
			for _, line := range g.before {
				g.print(line, '-')
			}
			g.before = g.before[:0]
			g.print(numbered{n, shown(l.text, at[0])}, ':')
			g.after = g.context
		case g.after > 0:
			g.after--
			g.print(numbered{n, shown(l.text, 0)}, '-')
		case g.context > 0:
			if len(g.before) == g.context {
				copy(g.before, g.before[1:])
				g.before = g.before[:g.context-1]
			}
			g.before = append(g.before, numbered{n, shown(l.text, 0)})
		}
		if g.out.Truncated {
			return nil
		}
	}
}

// print prints one line unless the result is full.
func (g *grep) print(line numbered, mark byte) {
	gap := g.context > 0 && g.printed > 0 && line.n > g.printed+1
	if g.out.Truncated || g.b.Len() > 0 && g.b.Len()+len(line.text)+24 > g.room {
		g.out.Truncated = true
		return
	}
	if gap {
		g.b.WriteString("--\n")
	}
	fmt.Fprintf(&g.b, "%d%c%s\n", line.n, mark, line.text)
	g.printed = line.n
}

func (g *grep) text() string {
	switch {
	case g.out.Matches == 0:
		return fmt.Sprintf("No line matches (%d lines searched).", g.out.LinesSearched)
	case g.out.Truncated:
		fmt.Fprintf(&g.b, "[The result is full at line %d; use a narrower pattern, or output_read with offset %d.]\n", g.out.LinesSearched, g.printed)
	}
	return g.b.String()
}
