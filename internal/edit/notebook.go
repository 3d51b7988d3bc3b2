package edit

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/text"
	"github.com/toolyard/toolyard/tool"
)

// CellEdit says what to do with one cell of a notebook.
type CellEdit struct {
	// ID or Number (from 0) name the cell; with insert, the new one comes after
	// the cell ID, or at the place Number, or first.
	ID     string
	Number *int
	Source *string
	Type   string // code, markdown, raw; "" keeps it (insert: code)
	Mode   string // replace (also ""), insert, delete
}

// Cell is the cell that was changed.
type Cell struct {
	Number int
	ID     string
	Cells  int // in the notebook afterwards
}

// Notebook edits one cell in the JSON of a notebook, and leaves every byte that
// does not belong to the change alone. It changes no file.
func Notebook(raw []byte, c CellEdit) ([]byte, Cell, error) {
	n, err := readNotebook(raw)
	if err != nil {
		return nil, Cell{}, err
	}
	if err := c.check(); err != nil {
		return nil, Cell{}, err
	}
	at, err := n.find(c)
	if err != nil {
		return nil, Cell{}, err
	}
	var cell Cell
	var splices []rawSplice
	switch c.Mode {
	case "insert":
		cell, splices = n.insert(at, c)
	case "delete":
		cell, splices = n.remove(at)
	default:
		cell, splices = n.replace(at, c)
	}
	after := n.apply(splices)
	if _, err := readNotebook(after); err != nil {
		return nil, Cell{}, tool.Errorf(tool.Internal, "the edited notebook would be invalid: %v", err)
	}
	return after, cell, nil
}

func (c CellEdit) check() error {
	bad := func(format string, args ...any) *tool.Error {
		return layerError(tool.ParameterError, 1, 1, format, args...)
	}
	switch {
	case c.Mode != "" && c.Mode != "replace" && c.Mode != "insert" && c.Mode != "delete":
		return bad("no edit_mode %q", c.Mode).WithHint("Use replace, insert or delete.")
	case c.Type != "" && c.Type != "code" && c.Type != "markdown" && c.Type != "raw":
		return bad("no cell_type %q", c.Type).WithHint("Use code, markdown or raw.")
	case c.Mode != "delete" && c.Source == nil:
		return bad("new_source is missing").WithHint("Give the new source of the cell.")
	case c.Mode != "insert" && c.ID == "" && c.Number == nil:
		return bad("neither cell_id nor cell_number says which cell is meant").WithHint("Read the notebook to see its cells.")
	case c.ID != "" && c.Number != nil:
		return bad("cell_id and cell_number are both given").WithHint("Give one of them.")
	}
	return nil
}

// notebook is the text of a notebook and its cells.
type notebook struct {
	raw    []byte
	root   *span
	cells  *span
	indent string // of one level; "" if all is on one line
	ascii  bool   // characters beyond ASCII are escaped
	colon  string // between key and value
	comma  string // between values on one line
	ids    bool   // cells have ids
	ending string
}

func readNotebook(raw []byte) (*notebook, error) {
	bad := func(format string, args ...any) error {
		return KindError("the notebook cannot be edited: "+format, args...).WithHint("Check that the file is a Jupyter notebook of format 4 or later.")
	}
	if enc := text.Detect(raw); !enc.IsUTF8() {
		return nil, bad("it is not UTF-8 but %s", enc)
	}
	body := bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	root, err := parseSpans(body)
	if err != nil {
		return nil, bad("%v", err)
	}
	n := &notebook{raw: body, root: root, ending: "\n"}
	if n.cells = root.get("cells"); root.kind != '{' || n.cells == nil || n.cells.kind != '[' {
		return nil, bad("it has no list of cells")
	}
	for _, cell := range n.cells.items {
		if cell.kind != '{' {
			return nil, bad("a cell is no object")
		}
	}
	n.raw = raw
	if skip := len(raw) - len(body); skip > 0 {
		root.move(skip)
	}
	n.learn()
	return n, nil
}

// move shifts a value that was found in a part of the text.
func (s *span) move(by int) {
	s.start, s.end = s.start+by, s.end+by
	for i := range s.members {
		s.members[i].start += by
		s.members[i].value.move(by)
	}
	for _, item := range s.items {
		item.move(by)
	}
}

// learn finds out how the file is formatted.
func (n *notebook) learn() {
	n.colon, n.comma = ": ", ", "
	if len(n.root.members) > 0 {
		first := n.root.members[0]
		lead := string(n.raw[n.root.start+1 : first.start])
		if i := strings.LastIndexByte(lead, '\n'); i >= 0 {
			n.indent = lead[i+1:]
			if strings.HasSuffix(lead[:i+1], "\r\n") {
				n.ending = "\r\n"
			}
		}
		if n.raw[first.value.start-1] == ':' {
			n.colon = ":"
			if n.indent == "" {
				n.comma = ","
			}
		}
	}
	plain := true
	for _, b := range n.raw {
		plain = plain && b < utf8.RuneSelf
	}
	n.ascii = plain && bytes.Contains(n.raw, []byte(`\u`))
	number := func(name string) int {
		v := n.root.get(name)
		if v == nil {
			return 0
		}
		i, _ := strconv.Atoi(string(n.raw[v.start:v.end]))
		return i
	}
	n.ids = number("nbformat") > 4 || number("nbformat") == 4 && number("nbformat_minor") >= 5
}

// find gives the index of the cell; with insert, where the new one goes.
func (n *notebook) find(c CellEdit) (int, error) {
	count := len(n.cells.items)
	if c.Number != nil {
		last := count - 1
		if c.Mode == "insert" {
			last = count
		}
		if *c.Number < 0 || *c.Number > last {
			return 0, layerError(tool.NotFound, 9, 8, "there is no cell %d; the notebook has %d cells, numbered from 0", *c.Number, count).
				WithHint("Read the notebook to see its cells.")
		}
		return *c.Number, nil
	}
	if c.ID == "" {
		return 0, nil // insert at the beginning
	}
	at := -1
	for i, cell := range n.cells.items {
		if cell.get("id").text(n.raw) != c.ID {
			continue
		}
		if at >= 0 {
			return 0, layerError(tool.Conflict, 9, 9, "two cells have the id %q, numbers %d and %d", c.ID, at, i).
				WithHint("Use cell_number.")
		}
		at = i
	}
	if digits, ok := strings.CutPrefix(c.ID, "cell-"); at < 0 && ok {
		// The name that readers give to cells without ids.
		if i, err := strconv.Atoi(digits); err == nil && i >= 0 && i < count {
			at = i
		}
	}
	if at < 0 {
		return 0, layerError(tool.NotFound, 9, 8, "there is no cell with the id %q among %d cells", c.ID, count).
			WithHint("Read the notebook to see its cells.")
	}
	if c.Mode == "insert" {
		at++
	}
	return at, nil
}

// rawSplice replaces bytes.
type rawSplice struct {
	start, end int
	text       string
}

// apply makes splices, which are rising and disjoint.
func (n *notebook) apply(splices []rawSplice) []byte {
	var out bytes.Buffer
	at := 0
	for _, s := range splices {
		out.Write(n.raw[at:s.start])
		out.WriteString(s.text)
		at = s.end
	}
	out.Write(n.raw[at:])
	return out.Bytes()
}

// quote writes a JSON string as the file does.
func (n *notebook) quote(s string) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""`
	}
	quoted := strings.TrimSuffix(buf.String(), "\n")
	if !n.ascii {
		return quoted
	}
	var out strings.Builder
	for _, r := range quoted {
		switch {
		case r < utf8.RuneSelf:
			out.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// list writes a list or object whose opening stands at a depth.
func (n *notebook) list(open, end string, items []string, depth int) string {
	if len(items) == 0 {
		return open + end
	}
	if n.indent == "" {
		return open + strings.Join(items, n.comma) + end
	}
	inner := n.ending + strings.Repeat(n.indent, depth+1)
	return open + inner + strings.Join(items, ","+inner) + n.ending + strings.Repeat(n.indent, depth) + end
}

// sourceDepth is how deep a cell's source stands: root, cells, cell.
const sourceDepth = 3

// source writes the source of a cell, as lines or as one string as the old was.
func (n *notebook) source(s string, old *span) string {
	if old != nil && old.kind == '"' {
		return n.quote(s)
	}
	var items []string
	for _, line := range lines(s) {
		items = append(items, n.quote(line))
	}
	return n.list("[", "]", items, sourceDepth)
}

func (n *notebook) replace(at int, c CellEdit) (Cell, []rawSplice) {
	cell := n.cells.items[at]
	is := cell.get("cell_type").text(n.raw)
	to := c.Type
	if to == "" {
		to = is
	}
	result := Cell{Number: at, ID: cell.get("id").text(n.raw), Cells: len(n.cells.items)}
	source := cell.get("source")
	if to != is || source == nil {
		// Another type has other keys: the cell is written anew.
		return result, []rawSplice{{cell.start, cell.end, n.cell(*c.Source, to, result.ID, cell)}}
	}
	splices := []rawSplice{{source.start, source.end, n.source(*c.Source, source)}}
	if is == "code" {
		// The outputs are those of the old source.
		if v := cell.get("execution_count"); v != nil && string(n.raw[v.start:v.end]) != "null" {
			splices = append(splices, rawSplice{v.start, v.end, "null"})
		}
		if v := cell.get("outputs"); v != nil && v.kind == '[' && len(v.items) > 0 {
			splices = append(splices, rawSplice{v.start, v.end, "[]"})
		}
	}
	sortSplices(splices)
	return result, splices
}

func sortSplices(s []rawSplice) {
	for i := range s {
		for j := i; j > 0 && s[j].start < s[j-1].start; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
}

// cell writes a whole cell; was is the one it replaces, or nil.
func (n *notebook) cell(source, kind, id string, was *span) string {
	key := func(name, value string) string { return n.quote(name) + n.colon + value }
	metadata := "{}"
	if was != nil {
		if m := was.get("metadata"); m != nil {
			metadata = string(n.raw[m.start:m.end])
		}
	}
	members := []string{key("cell_type", n.quote(kind))}
	if kind == "code" {
		members = append(members, key("execution_count", "null"))
	}
	if id != "" {
		members = append(members, key("id", n.quote(id)))
	}
	members = append(members, key("metadata", metadata))
	if kind == "code" {
		members = append(members, key("outputs", "[]"))
	}
	members = append(members, key("source", n.source(source, nil)))
	return n.list("{", "}", members, 2)
}

func (n *notebook) insert(at int, c CellEdit) (Cell, []rawSplice) {
	kind := c.Type
	if kind == "" {
		kind = "code"
	}
	result := Cell{Number: at, Cells: len(n.cells.items) + 1}
	if n.ids {
		result.ID = n.newID()
	}
	body := n.cell(*c.Source, kind, result.ID, nil)
	items := n.cells.items
	switch {
	case len(items) == 0:
		return result, []rawSplice{{n.cells.start, n.cells.end, n.list("[", "]", []string{body}, 1)}}
	case at == len(items):
		last := items[at-1]
		return result, []rawSplice{{last.end, last.end, n.between() + body}}
	}
	return result, []rawSplice{{items[at].start, items[at].start, body + n.between()}}
}

// between is what stands between two cells.
func (n *notebook) between() string {
	if n.indent == "" {
		return n.comma
	}
	return "," + n.ending + strings.Repeat(n.indent, 2)
}

func (n *notebook) remove(at int) (Cell, []rawSplice) {
	items := n.cells.items
	result := Cell{Number: at, ID: items[at].get("id").text(n.raw), Cells: len(items) - 1}
	switch {
	case len(items) == 1:
		return result, []rawSplice{{n.cells.start, n.cells.end, "[]"}}
	case at == len(items)-1:
		return result, []rawSplice{{items[at-1].end, items[at].end, ""}}
	}
	return result, []rawSplice{{items[at].start, items[at+1].start, ""}}
}

// newID is an id that no cell has.
func (n *notebook) newID() string {
	taken := map[string]bool{}
	for _, cell := range n.cells.items {
		taken[cell.get("id").text(n.raw)] = true
	}
	for {
		var b [4]byte
		rand.Read(b[:])
		if id := hex.EncodeToString(b[:]); !taken[id] {
			return id
		}
	}
}
