package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ledongthuc/pdf"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/text"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of a PDF.
const (
	maxPDF      = 64 << 20 // bytes of a file that is taken apart
	maxPages    = 10_000   // pages that one call may name
	maxPageText = 1 << 20  // bytes of text of one page
)

// pdf gives the text of a PDF, page by page.
func (s *source) pdf(ctx context.Context, in readIn, limit int) (*reading, edit.Sight, error) {
	name := shown(s.path.Display)
	if s.info.Size() > maxPDF {
		return s.binary(ctx)
	}
	if _, err := io.Copy(io.Discard, s.rest(ctx)); err != nil {
		return nil, edit.Sight{}, s.failed(err)
	}
	var file io.ReaderAt = s.file
	if s.whole {
		file = bytes.NewReader(s.head)
	}
	doc, count, err := openPDF(file, s.info.Size())
	if err != nil {
		return nil, edit.Sight{}, tool.Errorf(tool.ExecutionError, "%s cannot be read as a PDF: %v", name, err).
			WithHint("It may be damaged or encrypted. Convert it with a program, for example pdftotext.")
	}
	wanted, err := parsePages(in.Pages, count)
	if err != nil {
		return nil, edit.Sight{}, err
	}
	r := &reading{out: readOut{Encoding: text.UTF8, Hash: s.sum.Sum(), Kind: "pdf", Size: s.info.Size()}}
	var b strings.Builder
	var failed []int
	left := wanted
	for len(left) > 0 {
		if ctx.Err() != nil {
			return nil, edit.Sight{}, context.Cause(ctx)
		}
		page, err := pageText(doc, left[0])
		if err != nil {
			failed = append(failed, left[0])
		}
		block := fmt.Sprintf("--- page %d of %d ---\n%s\n", left[0], count, strings.TrimSpace(page))
		room := max(limit-noteRoom, limit/2) - b.Len()
		if len(block) > room {
			if b.Len() > 0 {
				break
			}
			block = strings.ToValidUTF8(block[:max(room, 0)], "") + "\n(the rest of this page does not fit into the output)\n"
		}
		b.WriteString(block)
		left = left[1:]
	}
	if b.Len() == 0 {
		b.WriteString(name + " has no pages.\n")
	}
	r.out.TotalLines = strings.Count(b.String(), "\n")
	r.out.LinesReturned = r.out.TotalLines
	if len(failed) > 0 {
		fmt.Fprintf(&b, "(No text could be taken from %s %s.)\n", pagesWord(len(failed)), joinPages(failed))
	}
	if len(left) > 0 {
		fmt.Fprintf(&b, "(The output limit is reached; go on with pages=%q.)", joinPages(left))
	}
	r.content = []tool.Content{textBlock(strings.TrimSuffix(b.String(), "\n"))}
	return r, edit.Sight{Whole: len(left) == 0 && len(wanted) == count}, nil
}

func pagesWord(n int) string {
	if n == 1 {
		return "page"
	}
	return "pages"
}

// openPDF reads the structure of a PDF. The library panics on some damaged
// files.
func openPDF(r io.ReaderAt, size int64) (doc *pdf.Reader, pages int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("malformed: %v", p)
		}
	}()
	doc, err = pdf.NewReader(r, size)
	if err != nil {
		return nil, 0, err
	}
	return doc, doc.NumPage(), nil
}

// pageText is the text of one page.
func pageText(doc *pdf.Reader, number int) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("malformed: %v", p)
		}
	}()
	page := doc.Page(number)
	if page.V.IsNull() {
		return "", fmt.Errorf("no such page")
	}
	text, err = page.GetPlainText(nil)
	return strings.ToValidUTF8(text[:min(len(text), maxPageText)], "\uFFFD"), err
}

// parsePages reads "1-3,5" into page numbers, in the order given and each once.
// "" means all pages; "4-" is from page 4 to the end.
func parsePages(spec string, count int) ([]int, error) {
	bad := func(why string, args ...any) error {
		return tool.Errorf(tool.ParameterError, "bad pages %q: %s", spec, fmt.Sprintf(why, args...)).
			WithHint(`Write them as in "1-3,5"; the document has %d.`, count)
	}
	var list []int
	if strings.TrimSpace(spec) == "" {
		for i := range min(count, maxPages) {
			list = append(list, i+1)
		}
		return list, nil
	}
	seen := map[int]bool{}
	for part := range strings.SplitSeq(spec, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.Atoi(strings.TrimSpace(first))
		if err != nil {
			return nil, bad("%q is no page number", strings.TrimSpace(part))
		}
		to := from
		if last = strings.TrimSpace(last); isRange && last == "" {
			to = count
		} else if isRange {
			if to, err = strconv.Atoi(last); err != nil {
				return nil, bad("%q is no page number", last)
			}
		}
		switch {
		case from < 1:
			return nil, bad("pages begin at 1")
		case from > count:
			return nil, bad("there is no page %d", from)
		case to < from:
			return nil, bad("%d-%d runs backwards", from, to)
		}
		for page := from; page <= min(to, count); page++ {
			if !seen[page] {
				seen[page] = true
				list = append(list, page)
			}
			if len(list) > maxPages {
				return nil, bad("more than %d pages", maxPages)
			}
		}
	}
	return list, nil
}

// joinPages is the opposite of parsePages.
func joinPages(pages []int) string {
	pages = slices.Clone(pages)
	var parts []string
	for len(pages) > 0 {
		n := 1
		for n < len(pages) && pages[n] == pages[n-1]+1 {
			n++
		}
		if n == 1 {
			parts = append(parts, strconv.Itoa(pages[0]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", pages[0], pages[n-1]))
		}
		pages = pages[n:]
	}
	return strings.Join(parts, ",")
}
