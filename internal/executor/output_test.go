package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// kept reads the artifact of a handle.
func kept(t *testing.T, b *bench, session, handle string) string {
	t.Helper()
	r, err := b.dir.OpenIn(t.Context(), session, handle)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestFolding(t *testing.T) {
	lines := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "line %04d of it\n", i)
		}
		return b.String()
	}
	tests := []struct {
		name   string
		text   string
		folded bool
		shows  []string
		hides  string
	}{
		{"short", "hello", false, []string{"hello"}, ""},
		{"at the limit", strings.Repeat("x", 1000), false, nil, ""},
		{"lines", lines(1000), true, []string{"line 0000 of it\n", "line 0999 of it\n", " bytes, ", " lines not shown", "output_read"}, "line 0500"},
		{"one line", strings.Repeat("ab", 2000), true, []string{" lines not shown"}, ""},
		{"runes", strings.Repeat("äöü€𝄞", 1000), true, []string{"äöü", "lines not shown"}, ""},
		{"a long line at the end", "begin\n" + strings.Repeat("y", 5000), true, []string{"begin\n", "not shown"}, ""},
	}
	for _, streamed := range []bool{false, true} {
		for _, test := range tests {
			t.Run(fmt.Sprintf("%s, streamed %v", test.name, streamed), func(t *testing.T) {
				x := function(tool.Spec{Effects: tool.Read, MaxOutput: 1000}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
					if req.MaxOutput != 1000 {
						t.Errorf("MaxOutput = %d", req.MaxOutput)
					}
					if !streamed {
						return tool.Text(test.text), nil
					}
					out, err := req.Host.Output(ctx)
					if err != nil {
						return nil, err
					}
					for rest := test.text; rest != ""; {
						n := min(len(rest), 7)
						fmt.Fprint(out.Stream("stdout"), rest[:n])
						rest = rest[n:]
					}
					sum, err := out.Close()
					if sum.Bytes["stdout"] != int64(len(test.text)) || sum.Lines != int64(strings.Count(test.text, "\n")) || sum.Truncated != test.folded {
						t.Errorf("summary = %+v", sum)
					}
					return tool.Text(sum.Text), err
				})
				b := newBench(t, nil, x)
				r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s"})
				passed(t, r)
				text := r.TextContent()
				if r.Meta.Truncated != test.folded || (r.Meta.OutputHandle != "") != test.folded {
					t.Fatalf("meta = %+v, want folded %v", r.Meta, test.folded)
				}
				if !utf8.ValidString(text) || len(text) > 1300 {
					t.Errorf("%d bytes, valid %v", len(text), utf8.ValidString(text))
				}
				contains(t, text, test.shows...)
				if !test.folded {
					if text != test.text {
						t.Errorf("text = %q", text)
					}
					return
				}
				contains(t, text, r.Meta.OutputHandle)
				if test.hides != "" && strings.Contains(text, test.hides) {
					t.Errorf("%q is shown", test.hides)
				}
				if got := kept(t, b, "s", r.Meta.OutputHandle); got != test.text {
					t.Errorf("kept %d bytes, want %d: %.50q", len(got), len(test.text), got)
				}
				// What is shown and what is said to be missing is the whole.
				var bytes, gone int
				at := strings.Index(text, "[… ")
				fmt.Sscanf(text[at:], "[… %d bytes, %d lines", &bytes, &gone)
				if shown := strings.Count(text, "\n") - 1; test.name == "lines" && shown+gone != 1000 {
					t.Errorf("%d lines shown and %d said to be missing, of 1000", shown, gone)
				}
				if test.name == "lines" && bytes%16 != 0 {
					t.Errorf("%d bytes missing: the cuts are not at whole lines", bytes)
				}
			})
		}
	}
}

func TestPagingToolsAreNotFolded(t *testing.T) {
	text := strings.Repeat("page\n", 250)
	x := function(tool.Spec{Effects: tool.Read, MaxOutput: 1000, Pages: true}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
		return tool.Text(text), nil
	})
	if r := newBench(t, nil, x).Call(t.Context(), executor.Call{Tool: "t"}); r.TextContent() != text {
		t.Errorf("text = %q", r.TextContent())
	}
}

func TestLongLinesAreCutWithAMark(t *testing.T) {
	x := function(tool.Spec{Effects: tool.Read, MaxOutput: 60000}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
		return tool.Text("first\n" + strings.Repeat("ü", 5000) + "\n" + strings.Repeat("short\n", 12000)), nil
	})
	b := newBench(t, nil, x)
	r := b.Call(t.Context(), executor.Call{Tool: "t"})
	text := r.TextContent()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line); n > 2100 {
			t.Errorf("a line of %d characters", n)
		}
	}
	contains(t, text, "first\n", "of this line cut]")
}

func TestBinaryOutputIsReplacedSaidAndKept(t *testing.T) {
	x := function(tool.Spec{Effects: tool.Read}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
		out, err := req.Host.Output(ctx)
		if err != nil {
			return nil, err
		}
		out.Stream("stdout").Write([]byte("a\xffb\xc3"))
		out.Stream("stdout").Write([]byte("\xbc\n"))
		sum, err := out.Close()
		return tool.Text(sum.Text), err
	})
	b := newBench(t, nil, x)
	r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s"})
	contains(t, r.TextContent(), "a\uFFFDbü\n", "not UTF-8")
	if got := kept(t, b, "s", r.Meta.OutputHandle); got != "a\xffb\xc3\xbc\n" {
		t.Errorf("kept %q", got)
	}
}

func TestOutputLimit(t *testing.T) {
	var limit error
	x := function(tool.Spec{Effects: tool.Read, MaxOutput: 1000}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
		out, err := req.Host.Output(ctx)
		if err != nil {
			return nil, err
		}
		for limit == nil {
			_, limit = fmt.Fprintln(out.Stream("stdout"), "0123456789")
		}
		sum, err := out.Close()
		if !errors.Is(err, tool.ErrOutputLimit) {
			t.Errorf("Close: %v", err)
		}
		return tool.Text(sum.Text), nil
	})
	b := newBench(t, func(c *executor.Config) { c.Stored = 100_000 }, x)
	r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s"})
	if !errors.Is(limit, tool.ErrOutputLimit) {
		t.Errorf("Write: %v", limit)
	}
	contains(t, r.TextContent(), "the first part is kept")
	if got := kept(t, b, "s", r.Meta.OutputHandle); len(got) > 100_000 || len(got) < 99_900 {
		t.Errorf("kept %d bytes", len(got))
	}
}

func TestOutputNeedsTheSameMemoryForAnyLength(t *testing.T) {
	if testing.Short() {
		t.Skip("short: 1 GB is written")
	}
	line := bytes.Repeat([]byte("sixteen bytes..\n"), 4096) // 64 KiB
	var most uint64
	x := function(tool.Spec{Effects: tool.Read, Timeout: -1}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
		out, err := req.Host.Output(ctx)
		if err != nil {
			return nil, err
		}
		w := out.Stream("stdout")
		var m runtime.MemStats
		for i := range 1 << 14 {
			if _, err := w.Write(line); err != nil {
				return nil, err
			}
			if i%1024 == 0 {
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
		sum, err := out.Close()
		return tool.Text(sum.Text), err
	})
	b := newBench(t, nil, x)
	b.dir.SetQuota(0)
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s"})
	passed(t, r)
	contains(t, r.TextContent(), "lines not shown", r.Meta.OutputHandle)
	if grown := int64(most) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	f, err := b.dir.Open(t.Context(), r.Meta.OutputHandle)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Artifact.Size != 1<<30 {
		t.Errorf("kept %d bytes", f.Artifact.Size)
	}
}

func TestOutputEventsAreFewAndPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := function(tool.Spec{Effects: tool.Read, Timeout: time.Minute}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
			out, err := req.Host.Output(ctx)
			if err != nil {
				return nil, err
			}
			for i := range 100 { // 10 s
				fmt.Fprintf(out.Stream("stdout"), "%d\n", i)
				time.Sleep(100 * time.Millisecond)
			}
			sum, err := out.Close()
			return tool.Text(sum.Text), err
		})
		b := newBench(t, nil, x)
		start := time.Now()
		var text string
		var first time.Duration = -1
		events := 0
		r := b.Call(t.Context(), executor.Call{Tool: "t", OnEvent: func(e tool.Event) {
			if e.Type != tool.EventCallOutput {
				return
			}
			if first < 0 {
				first = time.Since(start)
			}
			events++
			text += e.Data["text"].(string)
		}})
		if text != r.TextContent() || first != 0 {
			t.Errorf("the first event after %s, text %q", first, text)
		}
		if events < 30 || events > 42 {
			t.Errorf("%d events in 10 s", events)
		}
	})
}

func TestStructuredOutputOverTheLimit(t *testing.T) {
	big := []byte(`{"x":"` + strings.Repeat("y", 2000) + `"}`)
	loose := function(tool.Spec{Name: "loose", Effects: tool.Read, MaxOutput: 1000}, func(context.Context, *tool.Request, echoIn) (*tool.Result, error) {
		r := tool.Text("text")
		r.Structured = big
		return r, nil
	})
	type out struct {
		X string `json:"x"`
	}
	promised := tool.New(tool.Spec{Name: "promised", Effects: tool.Read, Default: tool.Allow, MaxOutput: 1000}, func(context.Context, *tool.Request, echoIn) (*tool.Result, out, error) {
		return tool.Text("text"), out{strings.Repeat("y", 2000)}, nil
	})
	b := newBench(t, nil, loose, promised)
	r := b.Call(t.Context(), executor.Call{Tool: "loose", Session: "s"})
	contains(t, string(r.Structured), `"truncated":true`, r.Meta.OutputHandle)
	if got := kept(t, b, "s", r.Meta.OutputHandle); got != string(big) {
		t.Errorf("kept %q", got)
	}
	if r = b.Call(t.Context(), executor.Call{Tool: "promised"}); string(r.Structured) != string(big) {
		t.Errorf("structured = %s", r.Structured)
	}
}

func TestAttachedArtifactsBecomeLinks(t *testing.T) {
	x := function(tool.Spec{Effects: tool.Read}, func(ctx context.Context, req *tool.Request, _ echoIn) (*tool.Result, error) {
		ref, err := req.Host.Attach(ctx, tool.Artifact{Name: "a.txt", Data: strings.NewReader("data")})
		if err != nil {
			return nil, err
		}
		if _, err := req.Host.Attach(ctx, tool.Artifact{Name: "b.png", Data: strings.NewReader("\x89PNG\r\n\x1a\n")}); err != nil {
			return nil, err
		}
		return &tool.Result{Content: []tool.Content{{Kind: tool.KindResourceLink, URI: ref.URI, Name: "mine"}}}, nil
	})
	b := newBench(t, nil, x)
	r := b.Call(t.Context(), executor.Call{Tool: "t", Session: "s"})
	if len(r.Content) != 2 || r.Content[0].Name != "mine" || r.Content[1].MIME != "image/png" || len(r.Meta.Artifacts) != 2 {
		t.Fatalf("result = %+v", r)
	}
	if got := kept(t, b, "s", strings.TrimPrefix(r.Meta.Artifacts[0], artifact.Scheme)); got != "data" {
		t.Errorf("kept %q", got)
	}
}
