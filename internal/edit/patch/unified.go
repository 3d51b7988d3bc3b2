package patch

import (
	"path"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// unified reads a unified diff line by line.
type unified struct {
	lines []string
	next  int // index of the line to look at
	opts  Options
	files []File
}

func parseUnified(lines []string, o Options) ([]File, error) {
	u := &unified{lines: lines, opts: o}
	for u.next < len(u.lines) {
		line := u.lines[u.next]
		var err error
		switch {
		case strings.HasPrefix(line, "diff --git "):
			err = u.gitFile()
		case u.atNames():
			err = u.plainFile()
		case isHunkHeader(line):
			err = u.bareHunks()
		default:
			// Anything else between files is talk, as git apply sees it.
			u.next++
		}
		if err != nil {
			return nil, err
		}
		if len(u.files) > maxFiles {
			return nil, tool.Errorf(tool.ResourceExhausted, "the patch names more than %d files", maxFiles)
		}
	}
	if len(u.files) == 0 {
		return nil, tool.Errorf(tool.ParameterError, "no patch found: there is no file header (---, +++), no hunk (@@) and no %q", beginPatch).
			WithHint("Send a unified diff, or an envelope between *** Begin Patch and *** End Patch.")
	}
	return u.files, nil
}

// atNames reports whether a "---" line with its "+++" line comes next.
func (u *unified) atNames() bool {
	return u.next+1 < len(u.lines) &&
		strings.HasPrefix(u.lines[u.next], "--- ") && strings.HasPrefix(u.lines[u.next+1], "+++ ")
}

// bareHunks reads hunks that no file header introduces: they are for the file
// that the caller named.
func (u *unified) bareHunks() error {
	if u.opts.Name == "" {
		return faultf(u.next+1, "a hunk comes before any file name")
	}
	hunks, err := u.hunks()
	if err != nil {
		return err
	}
	u.files = append(u.files, File{Kind: Modify, Old: u.opts.Name, New: u.opts.Name, Hunks: hunks})
	return nil
}

// plainFile reads "--- old", "+++ new" and hunks, with no git header.
func (u *unified) plainFile() error {
	at := u.next + 1
	oldName, newName, err := u.names()
	if err != nil {
		return err
	}
	f := File{Kind: Modify}
	switch {
	case oldName == devNull && newName == devNull:
		return faultf(at, "both names are %s", devNull)
	case oldName == devNull:
		f.Kind = Create
	case newName == devNull:
		f.Kind = Delete
	}
	if f.Hunks, err = u.hunks(); err != nil {
		return err
	}
	if len(f.Hunks) == 0 {
		return faultf(at, "no hunk follows the names")
	}
	return u.add(f, oldName, newName, at)
}

// gitFile reads a "diff --git" header, its extended headers, names and hunks.
func (u *unified) gitFile() error {
	at := u.next + 1
	oldName, newName := splitGitNames(strings.TrimPrefix(u.lines[u.next], "diff --git "))
	u.next++
	f := File{Kind: Modify}
	var h gitHeader
	if err := u.extended(&f, &h); err != nil {
		return err
	}
	if u.atNames() && u.namesBelong(h) {
		from, to, err := u.names()
		if err != nil {
			return err
		}
		if from == devNull {
			f.Kind = Create
		} else {
			oldName = from
		}
		if to == devNull {
			f.Kind = Delete
		} else {
			newName = to
		}
		if f.Hunks, err = u.hunks(); err != nil {
			return err
		}
		if len(f.Hunks) == 0 {
			return faultf(at, "no hunk follows the names")
		}
	} else if u.next < len(u.lines) && u.lines[u.next] == "GIT binary patch" {
		var err error
		if f.binary, err = u.binaryPatch(h); err != nil {
			return err
		}
	} else if u.next < len(u.lines) && strings.HasPrefix(u.lines[u.next], "Binary files ") {
		return faultf(u.next+1, "the patch only says that binary files differ, it does not hold their content")
	}
	if h.from != "" {
		// These names carry no prefix.
		f.Old, f.New = h.from, h.to
		return u.check(f, at)
	}
	if oldName == "" || newName == "" {
		return faultf(at, "the file names cannot be told apart in %q", u.lines[at-1])
	}
	return u.add(f, oldName, newName, at)
}

// namesBelong reports whether the "---" and "+++" lines that come next name the
// files of the rename or copy before them. If not, another file begins.
func (u *unified) namesBelong(h gitHeader) bool {
	from, to := fileName(u.lines[u.next][4:]), fileName(u.lines[u.next+1][4:])
	return h.from == "" || (from == h.from || strings.HasSuffix(from, "/"+h.from)) && (to == h.to || strings.HasSuffix(to, "/"+h.to))
}

// gitHeader is what extended header lines say beside the mode.
type gitHeader struct {
	from, to         string // of a rename or copy
	oldHash, newHash string // of the index line
}

// extended reads the lines between "diff --git" and the names.
func (u *unified) extended(f *File, h *gitHeader) error {
	for ; u.next < len(u.lines); u.next++ {
		line := u.lines[u.next]
		var err error
		switch key, value := headerKey(line); key {
		case "old mode":
			f.OldMode, err = u.mode(value)
		case "new mode":
			f.NewMode, err = u.mode(value)
		case "new file mode":
			f.Kind = Create
			f.NewMode, err = u.mode(value)
		case "deleted file mode":
			f.Kind = Delete
			f.OldMode, err = u.mode(value)
		case "rename from":
			f.Kind, h.from = Rename, unquote(value)
		case "copy from":
			f.Kind, h.from = Copy, unquote(value)
		case "rename to", "copy to":
			h.to = unquote(value)
		case "index":
			hashes, mode, _ := strings.Cut(value, " ")
			h.oldHash, h.newHash, _ = strings.Cut(hashes, "..")
			if mode != "" && f.OldMode == 0 {
				_, err = u.mode(mode)
			}
		case "similarity index", "dissimilarity index":
		default:
			if (h.from == "") != (h.to == "") {
				return faultf(u.next+1, "a rename or copy needs both a from and a to line")
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
	if (h.from == "") != (h.to == "") {
		return faultf(u.next, "a rename or copy needs both a from and a to line")
	}
	return nil
}

func headerKey(line string) (key, value string) {
	for _, key := range []string{"old mode", "new mode", "new file mode", "deleted file mode", "rename from", "rename to",
		"copy from", "copy to", "similarity index", "dissimilarity index", "index"} {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			return key, strings.TrimSuffix(value, "\r")
		}
	}
	return "", ""
}

// mode reads an octal file mode. Only regular files are patched: a symlink or
// submodule is refused, since its "content" is not a file's.
func (u *unified) mode(value string) (uint32, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(value), 8, 32)
	if err != nil {
		return 0, faultf(u.next+1, "%q is not a file mode", value)
	}
	const typeMask, regular = 0o170000, 0o100000
	if n&typeMask != regular {
		return 0, faultf(u.next+1, "mode %s is not that of a regular file; symlinks and submodules are not patched", value)
	}
	return uint32(n) & 0o777, nil
}

// names reads the "---" and "+++" lines.
func (u *unified) names() (from, to string, err error) {
	from, to = fileName(u.lines[u.next][4:]), fileName(u.lines[u.next+1][4:])
	if from == "" || to == "" {
		return "", "", faultf(u.next+1, "a file name is empty")
	}
	u.next += 2
	return from, to, nil
}

const devNull = "/dev/null"

// fileName cuts the timestamp that diff writes behind a tab.
func fileName(s string) string {
	s = strings.TrimSuffix(s, "\r")
	if strings.HasPrefix(s, `"`) {
		return unquote(s)
	}
	s, _, _ = strings.Cut(s, "\t")
	return strings.TrimRight(s, " ")
}

// unquote undoes git's C-style quoting of names with unusual bytes.
func unquote(s string) string {
	if !strings.HasPrefix(s, `"`) {
		return s
	}
	if name, err := strconv.Unquote(s); err == nil {
		return name
	}
	return s
}

// splitGitNames takes "a/x b/x" apart. The names may hold spaces, so the split
// is where both halves name the same file.
func splitGitNames(s string) (from, to string) {
	s = strings.TrimSuffix(s, "\r")
	if strings.HasPrefix(s, `"`) {
		if prefix, err := strconv.QuotedPrefix(s); err == nil {
			return unquote(prefix), unquote(strings.TrimPrefix(s[len(prefix):], " "))
		}
	}
	if from, to, ok := strings.Cut(s, ` "`); ok {
		return from, unquote(`"` + to)
	}
	if strings.Count(s, " ") == 1 {
		from, to, _ = strings.Cut(s, " ")
		return from, to
	}
	for i, c := range s {
		if c == ' ' && i > 0 && (cutFirst(s[:i]) == cutFirst(s[i+1:]) || s[:i] == s[i+1:]) {
			return s[:i], s[i+1:]
		}
	}
	return "", ""
}

func cutFirst(name string) string {
	_, rest, ok := strings.Cut(name, "/")
	if !ok {
		return name
	}
	return rest
}

// add strips the names and appends the file.
func (u *unified) add(f File, from, to string, at int) error {
	n := 0
	switch {
	case u.opts.Strip != nil:
		n = *u.opts.Strip
	case prefixed(from, to):
		n = 1
	}
	strip := func(name string) (string, bool) {
		for range n {
			_, rest, ok := strings.Cut(name, "/")
			if !ok {
				return "", false
			}
			name = strings.TrimLeft(rest, "/")
		}
		return name, name != ""
	}
	var okOld, okNew bool
	switch f.Kind {
	case Create:
		f.New, okNew = strip(to)
		f.Old, okOld = f.New, okNew
	case Delete:
		f.Old, okOld = strip(from)
		f.New, okNew = f.Old, okOld
	default:
		f.Old, okOld = strip(from)
		f.New, okNew = strip(to)
	}
	if !okOld || !okNew {
		return faultf(at, "the names %q and %q have fewer than %d leading components to strip", from, to, n)
	}
	if f.Kind == Modify && f.Old != f.New {
		// diff -u of two copies (x.orig, x): the new name is the one meant, as
		// patch takes the shorter of two names.
		if len(f.Old) < len(f.New) {
			f.New = f.Old
		}
		f.Old = f.New
	}
	return u.check(f, at)
}

// check refuses what contradicts itself.
func (u *unified) check(f File, at int) error {
	for _, h := range f.Hunks {
		for _, line := range h.Lines {
			if f.Kind == Create && line.Op != '+' {
				return faultf(h.at, "%s is created, but a hunk has old lines", f.New)
			}
			if f.Kind == Delete && line.Op == '+' {
				return faultf(h.at, "%s is deleted, but a hunk adds lines", f.Old)
			}
		}
	}
	for _, other := range u.files {
		if other.New == f.Old && other.Kind != Delete && f.Kind != Copy && other.Old != f.Old {
			return faultf(at, "%s is written by an earlier part of the patch", f.Old)
		}
		if other.New == f.New && (other.Kind != Delete || f.Kind != Create) {
			return faultf(at, "%s comes twice in the patch", f.New)
		}
	}
	u.files = append(u.files, f)
	return nil
}

// prefixed reports whether the names carry git's a/ and b/, or one of the pairs
// that diff.mnemonicPrefix writes.
func prefixed(from, to string) bool {
	is := func(name, set string) bool {
		return name == devNull || len(name) > 2 && name[1] == '/' && strings.Contains(set, name[:1])
	}
	return is(from, "aicwo") && is(to, "biwco") && path.Clean(from) != path.Clean(to)
}

func isHunkHeader(line string) bool { return strings.HasPrefix(line, "@@ -") }

// hunks reads all hunks that follow.
func (u *unified) hunks() ([]Hunk, error) {
	var hunks []Hunk
	for u.next < len(u.lines) && isHunkHeader(u.lines[u.next]) {
		h, err := u.hunk()
		if err != nil {
			return nil, err
		}
		if hunks = append(hunks, h); len(hunks) > maxHunks {
			return nil, tool.Errorf(tool.ResourceExhausted, "the patch has more than %d hunks for one file", maxHunks)
		}
	}
	return hunks, nil
}

// hunk reads one hunk, as many lines as its header says.
func (u *unified) hunk() (Hunk, error) {
	header, at := strings.TrimSuffix(u.lines[u.next], "\r"), u.next+1
	h := Hunk{Header: header, at: at}
	body, _, closed := strings.Cut(strings.TrimPrefix(header, "@@ -"), " @@")
	oldSpan, newSpan, both := strings.Cut(body, " +")
	var oldCount, newCount int
	var okOld, okNew bool
	h.OldLine, oldCount, okOld = span(oldSpan)
	h.NewLine, newCount, okNew = span(newSpan)
	if !closed || !both || !okOld || !okNew {
		return h, faultf(at, "%q is not a hunk header; it looks like @@ -12,5 +12,6 @@", header)
	}
	u.next++
	wantOld, wantNew := oldCount, newCount
	for oldCount > 0 || newCount > 0 {
		if u.next >= len(u.lines) {
			return h, faultf(at, "the hunk ends after %d old and %d new lines, but its header %s promises %d and %d; the patch was cut off or the counts are wrong",
				wantOld-oldCount, wantNew-newCount, header, wantOld, wantNew)
		}
		line, ok := hunkLine(u.lines[u.next])
		if !ok {
			return h, faultf(u.next+1, "%q is no line of a hunk (it should begin with a space, - or +), but the header %s promises %d more old and %d more new lines",
				clip(u.lines[u.next]), header, oldCount, newCount)
		}
		if line.Op != '+' {
			oldCount--
		}
		if line.Op != '-' {
			newCount--
		}
		if oldCount < 0 || newCount < 0 {
			return h, faultf(u.next+1, "the hunk has more lines than its header %s promises", header)
		}
		u.next++
		h.Lines = append(h.Lines, line)
		u.noEOL(&h)
	}
	u.noEOL(&h)
	return h, u.overrun(h)
}

// noEOL takes the "\ No newline at end of file" that may follow a line.
func (u *unified) noEOL(h *Hunk) {
	if u.next < len(u.lines) && strings.HasPrefix(u.lines[u.next], `\ `) && len(h.Lines) > 0 {
		h.Lines[len(h.Lines)-1].NoEOL = true
		u.next++
	}
}

// overrun finds lines that still look like the hunk's: wrong counts, which would
// silently lose changes.
func (u *unified) overrun(h Hunk) error {
	if len(h.Lines) == 0 {
		return faultf(h.at, "the hunk %s has no lines", h.Header)
	}
	if u.next < len(u.lines) && !u.atNames() {
		if line := u.lines[u.next]; strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") && line != "-- " && line != "--" {
			return faultf(u.next+1, "the hunk goes on after the lines that its header %s promises: %q", h.Header, clip(line))
		}
	}
	return nil
}

// hunkLine reads one line of a hunk. A wholly empty line is an empty context
// line whose blank was lost on the way.
func hunkLine(s string) (Line, bool) {
	if s == "" || s == "\r" {
		return Line{Op: ' ', Text: s}, true
	}
	switch s[0] {
	case ' ', '-', '+':
		return Line{Op: s[0], Text: s[1:]}, true
	}
	return Line{}, false
}

// span reads "12,5" or "12".
func span(s string) (line, count int, ok bool) {
	first, second, both := strings.Cut(s, ",")
	line, err := strconv.Atoi(first)
	if err != nil || line < 0 {
		return 0, 0, false
	}
	count = 1
	if both {
		if count, err = strconv.Atoi(second); err != nil || count < 0 {
			return 0, 0, false
		}
	}
	const most = 1 << 40 // no file has more lines; keeps sums from overflowing
	return line, count, line < most && count < most
}

// clip shortens a line for a message.
func clip(s string) string {
	const longest = 120
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}
