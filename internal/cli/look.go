package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// look paints text for one stream, or leaves it as it is.
type look struct{ on bool }

func (l look) paint(code, text string) string {
	if !l.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (l look) bold(text string) string   { return l.paint("1", text) }
func (l look) dim(text string) string    { return l.paint("2", text) }
func (l look) red(text string) string    { return l.paint("31", text) }
func (l look) green(text string) string  { return l.paint("32", text) }
func (l look) yellow(text string) string { return l.paint("33", text) }
func (l look) cyan(text string) string   { return l.paint("36", text) }

// status paints a word that says how something went.
func (l look) status(word string) string {
	switch word {
	case "ok", "exited", "allow":
		return l.green(word)
	case "warn", "ask", "running", "cancelled":
		return l.yellow(word)
	case "fail", "error", "refused", "killed", "lost", "deny":
		return l.red(word)
	}
	return word
}

// diff paints the unified diffs in text and leaves all else.
func (l look) diff(text string) string {
	if !l.on || !strings.Contains(text, "\n@@ ") {
		return text
	}
	var b strings.Builder
	inHunk := false
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(line, "\n")
		newline := line[len(body):]
		switch {
		case strings.HasPrefix(body, "--- ") || strings.HasPrefix(body, "+++ "):
			inHunk = false
			body = l.bold(body)
		case strings.HasPrefix(body, "@@ "):
			inHunk = true
			body = l.cyan(body)
		case inHunk && strings.HasPrefix(body, "+"):
			body = l.green(body)
		case inHunk && strings.HasPrefix(body, "-"):
			body = l.red(body)
		case inHunk && !strings.HasPrefix(body, " ") && !strings.HasPrefix(body, `\`):
			inHunk = false
		}
		b.WriteString(body)
		b.WriteString(newline)
	}
	return b.String()
}

// column is one column of a table.
type column struct {
	head  string
	paint func(string) string // nil: as it is
	right bool                // numbers
}

// table prints rows in columns. On a terminal it has a head; piped it has none,
// so that each line is a record.
func (p *program) table(w io.Writer, columns []column, rows [][]string) {
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-" // so that a column is a column to awk
			}
		}
	}
	widths := make([]int, len(columns))
	for i, c := range columns {
		if p.outTTY {
			widths[i] = len(c.head)
		}
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	line := func(cells []string, paint func(int, string) string) {
		var b strings.Builder
		for i, cell := range cells {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			painted := paint(i, cell)
			switch {
			case columns[i].right:
				b.WriteString(gap + painted)
			case i == len(cells)-1:
				b.WriteString(painted)
			default:
				b.WriteString(painted + gap)
			}
			if i < len(cells)-1 {
				b.WriteString("  ")
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	if p.outTTY && len(rows) > 0 {
		heads := make([]string, len(columns))
		for i, c := range columns {
			heads[i] = c.head
		}
		line(heads, func(_ int, s string) string { return p.out.dim(s) })
	}
	for _, row := range rows {
		line(row, func(i int, s string) string {
			if columns[i].paint == nil {
				return s
			}
			return columns[i].paint(s)
		})
	}
}

// oneLine is text on one line of at most limit characters.
func oneLine(text string, limit int) string {
	text = strings.Join(strings.Fields(printable(text)), " ")
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	runes := []rune(text)
	return string(runes[:limit-1]) + "…"
}

// printable is text without the characters that drive a terminal: what a tool or
// a model wrote must not move the cursor, rename the window or hide what it
// says. Colours pass, bytes that are no UTF-8 do not: some terminals obey them.
func printable(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, drives) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		if n := colourSequence(text); n > 0 {
			b.WriteString(text[:n])
			text = text[n:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		if drives(r) || r == utf8.RuneError && size == 1 {
			b.WriteRune('�')
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

// drives reports whether r is a control or format character that a terminal acts
// on. Carriage returns are left: progress bars in output use them.
func drives(r rune) bool {
	switch r {
	case '\n', '\t', '\r':
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// colourSequence is the length of the SGR sequence that text begins with, or 0.
func colourSequence(text string) int {
	rest, ok := strings.CutPrefix(text, "\x1b[")
	if !ok {
		return 0
	}
	n := len(rest) - len(strings.TrimLeft(rest, "0123456789;:"))
	if n < len(rest) && rest[n] == 'm' {
		return 2 + n + 1
	}
	return 0
}
