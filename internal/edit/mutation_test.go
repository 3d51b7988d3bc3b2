package edit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/text"
)

// mutation is one seeded case: a file, an edit that means one certain change,
// and what the file must be afterwards, or a refusal.
type mutation struct {
	file, want string
	edit       Replacement
	encoding   text.Encoding
	kinds      []string
}

// sample is lines as a program has them, with some that repeat.
func sample(r *rand.Rand, tabs bool) []string {
	unit := "    "
	if tabs {
		unit = "\t"
	}
	var out []string
	for i := range 12 + r.IntN(30) {
		indent := strings.Repeat(unit, r.IntN(4))
		switch r.IntN(8) {
		case 0:
			out = append(out, "")
		case 1:
			out = append(out, indent+"}")
		case 2:
			out = append(out, indent+"return nil")
		default:
			out = append(out, fmt.Sprintf(`%sname%d := call("it's %d", value%d) // 5 - 3`, indent, i, i, r.IntN(1000)))
		}
	}
	return out
}

// newMutation makes the case of a seed.
func newMutation(seed uint64) mutation {
	r := rand.New(rand.NewPCG(seed, 7))
	m := mutation{}
	note := func(kind string) { m.kinds = append(m.kinds, kind) }
	tabs := r.IntN(2) == 0
	rows := sample(r, tabs)
	from := r.IntN(len(rows) - 4)
	to := from + 1 + r.IntN(4)
	for !strings.Contains(rows[from], "name") {
		from, to = (from+1)%(len(rows)-4), 0
		to = from + 1 + r.IntN(4)
		if from == 0 {
			rows[0] = `name0 := call("it's 0", value0) // 5 - 3`
		}
	}
	old := append([]string{}, rows[from:to]...)
	new := append([]string{}, old...)
	wantRows := append([]string{}, rows...)
	at := 0
	change := r.IntN(3)
	switch change {
	case 0: // a word in a line
		new[at] = strings.Replace(new[at], "call(", "other(", 1)
		wantRows[from+at] = new[at]
		note("change a word")
	case 1: // a new line
		line := indentOf(old[at]) + "added()"
		new = append(append(append([]string{}, new[:at+1]...), line), new[at+1:]...)
		wantRows = append(append(append([]string{}, rows[:from+at+1]...), line), rows[from+at+1:]...)
		note("add a line")
	case 2: // a line less
		if len(new) == 1 {
			new[at] = strings.Replace(new[at], "value", "values", 1)
			wantRows[from+at] = new[at]
			break
		}
		new = append(append([]string{}, new[:at]...), new[at+1:]...)
		wantRows = append(append([]string{}, rows[:from+at]...), rows[from+at+1:]...)
		note("remove a line")
	}
	ends := make([]string, len(rows)+1)
	style := r.IntN(3)
	for i := range ends {
		ends[i] = "\n"
		if style == 1 || style == 2 && change == 0 && r.IntN(2) == 0 {
			ends[i] = "\r\n"
		}
	}
	note([]string{"LF", "CRLF", "mixed endings"}[style])
	blanks := map[int]string{}
	if r.IntN(3) == 0 && change == 0 { // the file has trailing blanks
		for i := range rows {
			if r.IntN(3) == 0 {
				blanks[i] = strings.Repeat(" ", 1+r.IntN(3))
			}
		}
		note("file with trailing blanks")
	}
	smart := r.IntN(4) == 0
	render := func(rows []string) string {
		var b strings.Builder
		for i, row := range rows {
			if smart {
				row = strings.NewReplacer("it's", "it’s", `("`, `(“`, `",`, `”,`, " - ", " – ").Replace(row)
			}
			b.WriteString(row + blanks[i] + ends[min(i, len(ends)-1)])
		}
		return b.String()
	}
	if smart {
		note("typographic file")
	}
	m.file, m.want = render(rows), render(wantRows)
	if r.IntN(5) == 0 { // no final newline
		note("no final newline")
		m.file = strings.TrimSuffix(strings.TrimSuffix(m.file, "\n"), "\r")
		m.want = strings.TrimSuffix(strings.TrimSuffix(m.want, "\n"), "\r")
	}
	m.mutateEdit(r, old, new, tabs, note)
	m.encoding = text.Encoding{Name: text.UTF8}
	switch r.IntN(6) {
	case 0:
		m.encoding.BOM = true
	case 1:
		m.encoding = text.Encoding{Name: text.UTF16LE, BOM: true}
	}
	return m
}

// mutateEdit writes old and new as a model might: with other blanks, quotes,
// endings, with a stale line, or cut.
func (m *mutation) mutateEdit(r *rand.Rand, old, new []string, tabs bool, note func(string)) {
	end := "\n"
	if r.IntN(4) == 0 {
		end = "\r\n"
		note("edit in CRLF")
	}
	both := func(f func(string) string) {
		for i := range old {
			old[i] = f(old[i])
		}
		for i := range new {
			new[i] = f(new[i])
		}
	}
	switch r.IntN(7) {
	case 0:
		note("tabs for spaces or spaces for tabs")
		both(func(s string) string {
			if tabs {
				return strings.ReplaceAll(s, "\t", "    ")
			}
			return strings.ReplaceAll(s, "    ", "\t")
		})
	case 1:
		if slices.Contains(m.kinds, "file with trailing blanks") {
			break // they could be the very same, and then the edit is about them
		}
		note("edit with trailing blanks")
		was := map[string]bool{}
		for i, s := range old {
			was[s] = true
			old[i] = s + "  "
		}
		for i, s := range new {
			if was[s] { // what is new is taken as it is written
				new[i] = s + "  "
			}
		}
	case 2:
		note("edit with typographic quotes")
		both(func(s string) string { return strings.NewReplacer("it's", "it’s", `"`, "”").Replace(s) })
	case 3:
		note("stale line")
		i := r.IntN(len(old))
		stale := strings.Replace(old[i], "name", "nam", 1) + "x"
		for j := range new {
			if new[j] == old[i] {
				new[j] = stale
			}
		}
		old[i] = stale
	case 4:
		if strings.TrimSpace(strings.Join(old[1:], "")) == "" && len(new) > len(old) {
			break // part of a line, found exactly: what is new is taken as it is written
		}
		note("less indentation")
		lead := indentOf(old[0])
		for _, s := range append(append([]string{}, old...), new...) {
			if strings.TrimSpace(s) != "" {
				for !strings.HasPrefix(s, lead) {
					lead = lead[:len(lead)-1]
				}
			}
		}
		both(func(s string) string { return strings.TrimPrefix(s, lead) })
	}
	m.edit.Old, m.edit.New = strings.Join(old, end), strings.Join(new, end)
	switch r.IntN(3) {
	case 0:
		m.edit.Old += end
		if len(new) > 0 {
			m.edit.New += end
		}
	case 1:
		if len(old) == len(new) && len(old[0]) > 8 {
			note("cut context")
			cut := r.IntN(4)
			m.edit.Old, m.edit.New = m.edit.Old[cut:], m.edit.New[cut:]
		}
	}
}

// TestMutations drives edits that a model might get slightly wrong. Each must
// make exactly the change that was meant, or be refused.
func TestMutations(t *testing.T) {
	const cases = 10_000
	done, refused, damaged := 0, 0, 0
	with := map[string]int{}
	for seed := range uint64(cases) {
		m := newMutation(seed)
		raw, err := m.encoding.Encode(m.file)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(append([]byte{}, m.encoding.Mark()...), raw...)
		decoded := text.Detect(raw).Decode(raw)
		if m.edit.Old == m.edit.New {
			refused++
			continue
		}
		f := search(decoded.UTF8, m.edit)
		if len(f.regions) != 1 {
			refused++
			continue
		}
		after, err := spliceRaw(decoded, raw, f.splices)
		if err != nil {
			refused++
			continue
		}
		got := m.encoding.Decode(after)
		if got.UTF8 == m.want || got.UTF8 == m.file {
			done++
			with[f.with]++
			continue
		}
		damaged++
		if damaged <= 5 {
			d := DiffText("want", "got", m.want, got.UTF8, 2, 4096)
			t.Errorf("seed %d %v, matched with %s:\nold  %q\nnew  %q\n%q", seed, m.kinds, f.with, m.edit.Old, m.edit.New, d.Text)
		}
	}
	t.Logf("of %d: made %d %v, refused %d, damaged %d", cases, done, with, refused, damaged)
	if damaged > 0 || done < cases/2 {
		t.Errorf("%d of %d edits were made, %d did damage", done, cases, damaged)
	}
}
