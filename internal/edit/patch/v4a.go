package patch

import (
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// The markers of the V4A envelope.
const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File: "
	deleteFile = "*** Delete File: "
	updateFile = "*** Update File: "
	moveTo     = "*** Move to: "
	endOfFile  = "*** End of File"
)

// v4a reads an envelope line by line.
type v4a struct {
	lines []string
	next  int
	files []File
}

func parseV4A(lines []string) ([]File, error) {
	v := &v4a{lines: lines}
	for strings.TrimSpace(v.lines[v.next]) != beginPatch {
		v.next++
	}
	v.next++
	for {
		if v.next >= len(v.lines) {
			return nil, faultf(len(v.lines), "the patch ends with no %q; it may have been cut off", endPatch)
		}
		marker := strings.TrimSpace(v.lines[v.next])
		if marker == endPatch {
			break
		}
		if marker == "" {
			v.next++
			continue
		}
		f, err := v.file(marker)
		if err != nil {
			return nil, err
		}
		if err := v.add(f); err != nil {
			return nil, err
		}
	}
	for i := v.next + 1; i < len(v.lines); i++ {
		if strings.TrimSpace(v.lines[i]) != "" {
			return nil, faultf(i+1, "something follows %q: %q", endPatch, clip(v.lines[i]))
		}
	}
	if len(v.files) == 0 {
		return nil, tool.Errorf(tool.ParameterError, "the patch holds no change: No files were modified").
			WithHint("Put at least one *** Add File, *** Update File or *** Delete File into it.")
	}
	return v.files, nil
}

func (v *v4a) add(f File) error {
	for _, other := range v.files {
		if other.New == f.New || other.Old == f.Old || other.New == f.Old || other.Old == f.New {
			return faultf(v.next, "%s comes twice in the patch; put all its changes into one section", f.Old)
		}
	}
	if v.files = append(v.files, f); len(v.files) > maxFiles {
		return tool.Errorf(tool.ResourceExhausted, "the patch names more than %d files", maxFiles)
	}
	return nil
}

// file reads one section.
func (v *v4a) file(marker string) (File, error) {
	at := v.next + 1
	v.next++
	named := func(prefix string) (string, bool) {
		name, ok := strings.CutPrefix(marker+" ", prefix)
		return strings.TrimSpace(name), ok
	}
	for _, kind := range []struct {
		prefix string
		read   func(name string, at int) (File, error)
	}{{addFile, v.added}, {deleteFile, v.deleted}, {updateFile, v.updated}} {
		name, ok := named(kind.prefix)
		if !ok {
			continue
		}
		if name == "" {
			return File{}, faultf(at, "%q names no file", marker)
		}
		return kind.read(name, at)
	}
	return File{}, faultf(at, "%q is not a valid hunk header; a section begins with %q, %q or %q",
		clip(marker), strings.TrimSpace(addFile), strings.TrimSpace(deleteFile), strings.TrimSpace(updateFile))
}

func (v *v4a) added(name string, at int) (File, error) {
	h := Hunk{at: at}
	for v.next < len(v.lines) && strings.HasPrefix(v.lines[v.next], "+") {
		h.Lines = append(h.Lines, Line{Op: '+', Text: v.lines[v.next][1:]})
		v.next++
	}
	if v.next < len(v.lines) && !v.atMarker() && strings.TrimSpace(v.lines[v.next]) != "" {
		return File{}, faultf(v.next+1, "a line of the new file %s does not begin with +: %q", name, clip(v.lines[v.next]))
	}
	f := File{Kind: Create, Old: name, New: name, v4a: true}
	if len(h.Lines) > 0 {
		f.Hunks = []Hunk{h}
	}
	return f, nil
}

func (v *v4a) deleted(name string, _ int) (File, error) {
	return File{Kind: Delete, Old: name, New: name, v4a: true}, nil
}

func (v *v4a) updated(name string, at int) (File, error) {
	f := File{Kind: Modify, Old: name, New: name, v4a: true}
	if v.next < len(v.lines) {
		if to, ok := strings.CutPrefix(strings.TrimSpace(v.lines[v.next]), strings.TrimSpace(moveTo)); ok {
			if f.New = strings.TrimSpace(to); f.New == "" {
				return f, faultf(v.next+1, "%q names no file", v.lines[v.next])
			}
			if f.New != f.Old {
				f.Kind = Rename
			}
			v.next++
		}
	}
	for v.next < len(v.lines) && !v.atMarker() {
		if strings.TrimSpace(v.lines[v.next]) == "" && v.blankUntilMarker() {
			break
		}
		h, err := v.chunk(len(f.Hunks) == 0)
		if err != nil {
			return f, err
		}
		f.Hunks = append(f.Hunks, h)
	}
	if len(f.Hunks) == 0 && f.Kind != Rename {
		return f, faultf(at, "the update of %s is empty", name)
	}
	return f, nil
}

// atMarker reports whether a section or the envelope's end comes next. Markers
// may be indented, but then only known ones count, and an indented end only
// where nothing follows: a file's own text may look like one.
func (v *v4a) atMarker() bool {
	raw := v.lines[v.next]
	line := strings.TrimSpace(raw)
	if line == endOfFile {
		return false
	}
	if strings.HasPrefix(raw, "*** ") {
		return true
	}
	if !strings.HasPrefix(raw, " ") {
		return false
	}
	if line == endPatch {
		return strings.TrimSpace(strings.Join(v.lines[v.next+1:], "")) == ""
	}
	for _, marker := range []string{addFile, deleteFile, updateFile} {
		if strings.HasPrefix(line, marker) {
			return true
		}
	}
	return false
}

func (v *v4a) blankUntilMarker() bool {
	for i := v.next; i < len(v.lines); i++ {
		if strings.TrimSpace(v.lines[i]) != "" {
			at := v4a{lines: v.lines, next: i}
			return at.atMarker()
		}
	}
	return true
}

// chunk reads "@@" lines and the lines of one change. The first chunk of a file
// may come without "@@".
func (v *v4a) chunk(first bool) (Hunk, error) {
	h := Hunk{at: v.next + 1}
	for v.next < len(v.lines) && strings.HasPrefix(strings.TrimSpace(v.lines[v.next]), "@@") {
		line := strings.TrimSpace(v.lines[v.next])
		h.Header = line
		if anchor := strings.TrimSpace(strings.TrimPrefix(line, "@@")); anchor != "" {
			h.Anchors = append(h.Anchors, strings.TrimSpace(strings.TrimSuffix(anchor, "@@")))
		}
		v.next++
	}
	if h.Header == "" && !first {
		return h, faultf(v.next+1, "expected @@ before the next change, found %q", clip(v.lines[v.next]))
	}
	for v.next < len(v.lines) && !v.atMarker() {
		raw := v.lines[v.next]
		if strings.TrimSpace(raw) == endOfFile {
			h.EndOfFile = true
			v.next++
			break
		}
		if strings.HasPrefix(raw, "@@") {
			break
		}
		if raw == "" && v.blankUntilMarker() {
			break
		}
		line, ok := hunkLine(raw)
		if !ok {
			return h, faultf(v.next+1, "%q is no line of a change: it should begin with a space, - or +", clip(raw))
		}
		h.Lines = append(h.Lines, line)
		v.next++
	}
	if len(h.Lines) == 0 {
		return h, faultf(h.at, "the change %q is empty", clip(h.Header))
	}
	return h, nil
}
