package files

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/tool"
)

func TestRead(t *testing.T) {
	b := newBench(t, map[string]string{
		"a.txt": "one\ntwo\nthree", "crlf.txt": "x\r\ny\r\n", "empty.txt": "", "raw.txt": "x\n  y\n", "bom.txt": "\xef\xbb\xbfhi\n",
		"u16.txt": "\xff\xfeh\x00i\x00\n\x00\xe9\x00\n\x00", "bad.txt": "ok\nbr\xffken\n", "d/x.txt": "x", "bin": "\x7fELF\x00\x00\x01\x02",
	})
	want(t, b.text("read", `{"file_path":"a.txt"}`), "     1\tone\n     2\ttwo\n     3\tthree\n", "lines 1-3 of 3")
	want(t, b.text("read", `{"file_path":"a.txt","offset":1,"limit":1}`), "     2\ttwo\n(lines 2-2 of 3; go on with offset=2)")
	want(t, b.text("read", `{"file_path":"crlf.txt"}`), "     1\tx\n     2\ty\n(lines 1-2 of 2)")
	want(t, b.text("read", `{"file_path":"empty.txt"}`), "empty.txt is empty")
	if got := b.text("read", `{"file_path":"raw.txt","raw":true}`); got != "x\n  y\n" {
		t.Errorf("raw: %q", got)
	}
	want(t, b.text("read", `{"file_path":"bom.txt"}`), "     1\thi\n", "utf-8 with BOM")
	want(t, b.text("read", `{"file_path":"u16.txt"}`), "     1\thi\n     2\té\n", "utf-16le")
	want(t, b.text("read", `{"file_path":"bin"}`), "binary file (ELF")
	want(t, b.fails(tool.ParameterError, "read", `{"file_path":"a.txt","offset":3}`), "past the end", "3 lines")
	want(t, b.fails(tool.ParameterError, "read", `{"file_path":"d"}`), "is a directory", "list")
	want(t, b.fails(tool.NotFound, "read", `{"file_path":"d/y.txt"}`), "no such file", "Did you mean", "d/x.txt")
	want(t, b.fails(tool.PermissionDenied, "read", `{"file_path":"../a.txt"}`), "outside the workspace")
	want(t, b.fails(tool.ParameterError, "read", `{"file_path":"a.txt","pages":"1"}`), "only for PDF")
	r, err := b.call("read", `{"file_path":"a.txt"}`)
	if err != nil {
		t.Fatal(err)
	}
	out := structured[readOut](t, r)
	if out.TotalLines != 3 || out.LinesReturned != 3 || out.Encoding != "utf-8" || out.Hash != edit.Sum([]byte("one\ntwo\nthree")) {
		t.Errorf("structured: %+v", out)
	}
}

func TestReadInvalidUTF8(t *testing.T) {
	b := newBench(t, map[string]string{"bad.txt": strings.Repeat("plain text, plain text\n", 4000) + "br\xffken\n"})
	want(t, b.text("read", `{"file_path":"bad.txt","offset":3999}`), "br\uFFFDken", "not valid UTF-8")
}

// Legacy encodings and UTF-16 come as UTF-8, also where a window begins far
// into a file that is read in parts.
func TestReadEncodings(t *testing.T) {
	line := "这是一个用来测试编码的文本文件，里面有很多常见的汉字。\n"
	gbk, err := simplifiedchinese.GB18030.NewEncoder().String(strings.Repeat(line, 8000))
	if err != nil {
		t.Fatal(err)
	}
	utf16, err := unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String(strings.Repeat(line, 8000))
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, map[string]string{"gbk.txt": gbk, "u16.txt": utf16, "latin.txt": "caf\xe9 cr\xe8me br\xfbl\xe9e\nd\xe9j\xe0 vu\n"})
	want(t, b.text("read", `{"file_path":"gbk.txt","offset":7990,"limit":2}`), "  7991\t"+line+"  7992\t"+line, "of 8,000, gb18030")
	want(t, b.text("read", `{"file_path":"u16.txt","offset":7999}`), "  8000\t"+line, "of 8,000, utf-16be with BOM")
	want(t, b.text("read", `{"file_path":"latin.txt"}`), "café crème brûlée")
}

func TestReadLongLines(t *testing.T) {
	b := newBench(t, map[string]string{"long.txt": strings.Repeat("é", 2500) + "\nshort\n"})
	got := b.text("read", `{"file_path":"long.txt"}`)
	want(t, got, strings.Repeat("é", 2000)+"… [line cut, 500 more characters]\n     2\tshort\n", "raw: true")
	not(t, got, strings.Repeat("é", 2001), "not valid")
	if got := b.text("read", `{"file_path":"long.txt","raw":true}`); got != strings.Repeat("é", 2500)+"\nshort\n" {
		t.Errorf("raw is cut: %d bytes", len(got))
	}
}

// A window over the output's limit ends at a whole line, and the offsets that
// are named lead through the whole file without a gap.
func TestReadPages(t *testing.T) {
	var content strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&content, "line number %d of the file\n", i+1)
	}
	b := newBench(t, map[string]string{"big.txt": content.String()})
	b.limit = 4096
	var all strings.Builder
	offset := 0
	for range 1000 {
		r, err := b.call("read", fmt.Sprintf(`{"file_path":"big.txt","raw":true,"offset":%d}`, offset))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(r.Content[0].Text); n > b.limit {
			t.Fatalf("%d bytes, limit %d", n, b.limit)
		}
		all.WriteString(r.Content[0].Text)
		out := structured[readOut](t, r)
		if out.NextOffset == 0 {
			break
		}
		offset = out.NextOffset
	}
	if all.String() != content.String() {
		t.Errorf("%d bytes in pages, want %d", all.Len(), content.Len())
	}
	if got := b.text("read", `{"file_path":"big.txt"}`); len(got) > b.limit || !strings.Contains(got, "the output limit is reached; go on with offset=") {
		t.Errorf("%d bytes, limit %d: %q", len(got), b.limit, got[max(0, len(got)-200):])
	}
}

func TestReadNeverWaits(t *testing.T) {
	b := newBench(t, nil)
	if err := syscall.Mkfifo(filepath.Join(b.dir, "fifo"), 0o644); err != nil {
		t.Skip("no FIFOs here")
	}
	want(t, b.fails(tool.ParameterError, "read", `{"file_path":"fifo"}`), "FIFO")
	want(t, b.fails(tool.ParameterError, "grep", `{"pattern":"x","path":"fifo"}`), "FIFO")
	not(t, b.text("grep", `{"pattern":"x"}`), "fifo:")
}

// The memory of a read is bound by its window, not by the file.
func TestReadHugeFile(t *testing.T) {
	if testing.Short() {
		t.Skip("2 GB of zeros are read")
	}
	b := newBench(t, nil)
	path := filepath.Join(b.dir, "huge.txt")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(strings.Repeat("0123456789\n", 100_000)); err != nil {
		t.Fatal(err)
	}
	// The rest is a hole: one line of 2 GB.
	if _, err := f.WriteAt([]byte("\nlast line\n"), 2<<30); err != nil {
		t.Skip("the file system holds no sparse file of 2 GB")
	}
	f.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begin := time.Now()
	got := b.text("read", `{"file_path":"huge.txt","offset":100001,"limit":5}`)
	runtime.ReadMemStats(&after)
	want(t, got, "100002\tlast line\n", "lines 100,002-100,002 of 100,002")
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d bytes allocated, want less than 8 MiB", used)
	}
	t.Logf("2 GB in %v", time.Since(begin))
	want(t, b.text("grep", `{"pattern":"456","max_results":1,"output":"count","path":"."}`), "huge.txt:")
}

func TestReadImage(t *testing.T) {
	encode := func(w, h int) string {
		var buf bytes.Buffer
		if err := png.Encode(&buf, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
			t.Fatal(err)
		}
		return buf.String()
	}
	b := newBench(t, map[string]string{"small.png": encode(10, 20), "large.png": encode(4000, 1000), "bad.png": encode(5, 5)[:20]})
	for name, size := range map[string]image.Point{"small.png": {10, 20}, "large.png": {2000, 500}} {
		r, err := b.call("read", `{"file_path":"`+name+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		c := r.Content[1]
		if c.Kind != tool.KindImage || c.MIME != "image/png" {
			t.Fatalf("%s: %v %s", name, c.Kind, c.MIME)
		}
		config, err := png.DecodeConfig(bytes.NewReader(c.Data))
		if err != nil || config.Width != size.X || config.Height != size.Y {
			t.Errorf("%s: %d×%d (%v), want %v", name, config.Width, config.Height, err, size)
		}
	}
	b.fails(tool.ExecutionError, "read", `{"file_path":"bad.png"}`)
}

func TestReadNotebook(t *testing.T) {
	b := newBench(t, map[string]string{
		"n.ipynb":     `{"cells":[{"cell_type":"markdown","id":"m1","source":["# Title\n","text"]},{"cell_type":"code","id":"c1","execution_count":3,"source":"print(1)","outputs":[{"output_type":"stream","name":"stdout","text":["1\n"]},{"output_type":"error","ename":"E","evalue":"bad"}]}],"metadata":{"kernelspec":{"language":"python"}},"nbformat":4}`,
		"plain.ipynb": "not json\n",
	})
	want(t, b.text("read", `{"file_path":"n.ipynb"}`), "[cell 0 id=m1 markdown]", "# Title", "[cell 1 id=c1 code python run 3]", "print(1)", "[output stdout]", "E: bad")
	want(t, b.text("read", `{"file_path":"n.ipynb","raw":true}`), `{"cells":[`)
	want(t, b.text("read", `{"file_path":"plain.ipynb"}`), "     1\tnot json\n")
}

// minimalPDF is a document with one line of text a page.
func minimalPDF(pages ...string) string {
	var b strings.Builder
	var offsets []int
	object := func(body string) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(offsets), body)
	}
	b.WriteString("%PDF-1.4\n")
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 4+2*i))
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages)))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, text := range pages {
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>", 5+2*i))
		stream := fmt.Sprintf("BT /F1 12 Tf 20 200 Td (%s) Tj ET", text)
		object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(stream), stream))
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, o := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, xref)
	return b.String()
}

func TestReadPDF(t *testing.T) {
	b := newBench(t, map[string]string{"d.pdf": minimalPDF("alpha text", "beta text", "gamma text"), "bad.pdf": "%PDF-1.4\ngarbage"})
	want(t, b.text("read", `{"file_path":"d.pdf"}`), "--- page 1 of 3 ---\nalpha text", "beta text", "gamma text")
	got := b.text("read", `{"file_path":"d.pdf","pages":"1,3-"}`)
	want(t, got, "alpha", "gamma")
	not(t, got, "beta")
	want(t, b.fails(tool.ParameterError, "read", `{"file_path":"d.pdf","pages":"4"}`), "no page 4", "has 3")
	want(t, b.fails(tool.ExecutionError, "read", `{"file_path":"bad.pdf"}`), "cannot be read as a PDF")
}

func TestParsePages(t *testing.T) {
	tests := []struct{ spec, want string }{
		{"", "1-9"}, {"1", "1"}, {"1-3,5", "1-3,5"}, {" 2 , 4 - 6 ", "2,4-6"}, {"8-", "8-9"}, {"7-20", "7-9"}, {"3,3,3", "3"},
		{"0", "!"}, {"a", "!"}, {"3-1", "!"}, {"10", "!"}, {"1,,2", "!"}, {"-3", "!"},
	}
	for _, tt := range tests {
		list, err := parsePages(tt.spec, 9)
		got := joinPages(list)
		if err != nil {
			got = "!"
		}
		if got != tt.want {
			t.Errorf("parsePages(%q) = %s, want %s", tt.spec, got, tt.want)
		}
	}
}

func FuzzPages(f *testing.F) {
	f.Add("1-3,5", 9)
	f.Add("9-,1", 12)
	f.Fuzz(func(t *testing.T, spec string, count int) {
		count = min(max(count, 0), 500)
		list, err := parsePages(spec, count)
		if err != nil {
			return
		}
		for _, p := range list {
			if p < 1 || p > count {
				t.Fatalf("page %d of %d from %q", p, count, spec)
			}
		}
		if len(list) == 0 {
			return
		}
		again, err := parsePages(joinPages(list), count)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(list) {
			t.Fatalf("%q: %v, written and read again %v (%v)", spec, list, again, err)
		}
	})
}

func FuzzNotebook(f *testing.F) {
	f.Add([]byte(`{"cells":[{"cell_type":"code","source":["a"],"outputs":[{"output_type":"x","data":{"text/plain":"y"}}]}]}`))
	f.Add([]byte(`{"cells":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cells, ok := notebookCells(data)
		if ok != strings.HasPrefix(cells, "notebook of ") {
			t.Fatalf("%q: %v %q", data, ok, cells)
		}
	})
}

func TestBatchRead(t *testing.T) {
	long := strings.Repeat("some words in a line\n", 3000)
	b := newBench(t, map[string]string{"a.txt": "alpha\n", "b.txt": long, "c.txt": long})
	b.limit = 8192
	r, err := b.call("batch_read", `{"file_paths":["a.txt","missing","b.txt","c.txt"]}`)
	if err != nil {
		t.Fatal(err)
	}
	got := r.TextContent()
	want(t, got, "==> a.txt <==\n     1\talpha", "==> missing <==\nError: no such file", "==> b.txt <==", "==> c.txt <==", "go on with offset=")
	if len(got) > b.limit {
		t.Errorf("%d bytes, limit %d", len(got), b.limit)
	}
	out := structured[struct {
		Results []struct {
			FilePath      string `json:"file_path"`
			LinesReturned int    `json:"lines_returned"`
			NextOffset    int    `json:"next_offset"`
		}
		Errors []batchReadError
	}](t, r)
	if len(out.Results) != 3 || len(out.Errors) != 1 || out.Errors[0].Code != tool.NotFound || r.IsError {
		t.Fatalf("structured: %s", r.Structured)
	}
	if x, y := out.Results[1].LinesReturned, out.Results[2].LinesReturned; x < 60 || y < x || out.Results[1].NextOffset != x {
		t.Errorf("shares: %d and %d lines", x, y)
	}
	r, err = b.call("batch_read", `{"file_paths":["missing","a.txt"],"stop_on_error":true}`)
	if err != nil || !r.IsError || strings.Contains(r.TextContent(), "alpha") {
		t.Errorf("stop_on_error: %v %v", r, err)
	}
}
