package validate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/tool"
)

// Bounds of what an error shows.
const (
	maxShown  = 80 // characters of a value
	maxFaults = 50 // faults kept
	maxListed = 10 // faults in the message
)

// faults gathers what is wrong. A nil one takes nothing.
type faults struct {
	list  []tool.Fault
	total int
}

func (f *faults) add(r *run, expected, got string) {
	if f == nil {
		return
	}
	f.addAt(r.where(), expected, got)
}

func (f *faults) addAt(path, expected, got string) {
	fault := tool.Fault{Path: path, Expected: expected, Got: got}
	for _, old := range f.list { // two branches may say the same
		if old == fault {
			return
		}
	}
	f.total++
	if len(f.list) < maxFaults {
		f.list = append(f.list, fault)
	}
}

func (f *faults) join(other *faults) {
	for _, fault := range other.list {
		f.addAt(fault.Path, fault.Expected, fault.Got)
	}
	f.total += other.total - len(other.list)
}

// err is all of it as one error.
func (f *faults) err() *tool.Error {
	var texts []string
	for _, fault := range f.list[:min(len(f.list), maxListed)] {
		texts = append(texts, fault.String())
	}
	if more := f.total - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	e := tool.Errorf(tool.ValidationError, "the arguments do not fit: %s", strings.Join(texts, "; "))
	e.Faults = f.list
	e.Field = f.list[0].Path
	return e.WithHint("Correct what is listed and call again.")
}

// FaultsError is the VALIDATION_ERROR of faults found elsewhere, in the same
// words; nil if there are none.
func FaultsError(list []tool.Fault) *tool.Error {
	if len(list) == 0 {
		return nil
	}
	f := faults{list: list, total: len(list)}
	return f.err()
}

// shown is a value as an error shows it.
func (d *doc) shown(at int32) string { return shorten(d.nodes[at].text) }

// shorten cuts text to 80 characters.
func shorten(text string) string {
	if len(text) <= maxShown {
		return text
	}
	n := 0
	for i := range text {
		if n == maxShown-1 {
			if utf8.RuneCountInString(text[i:min(len(text), i+2*utf8.UTFMax)]) <= 1 {
				return text
			}
			return text[:i] + "…"
		}
		n++
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// span is "1 to 5 items", "at least 1 item", "at most 5 items".
func span(low, high int, noun string) string {
	switch {
	case high < 0:
		return "at least " + plural(low, noun)
	case low <= 0:
		return "at most " + plural(high, noun)
	case low == high:
		return plural(low, noun)
	}
	return fmt.Sprintf("%d to %s", low, plural(high, noun))
}

// describe says in words what fits.
func (s *schema) describe() string { return s.describeDeep(3) }

func (s *schema) describeDeep(depth int) string {
	switch {
	case s.never:
		return "nothing"
	case s.enum != nil:
		return s.enum.describe(nil, 0)
	case s.konst != nil:
		return s.konst.describe(nil, 0)
	case s.types != 0:
		return s.describeTypes(depth)
	case depth == 0:
	case s.ref != nil:
		return s.ref.describeDeep(depth - 1)
	case len(s.anyOf) > 0:
		return describeAllDeep(s.anyOf, depth-1)
	case len(s.oneOf) > 0:
		return describeAllDeep(s.oneOf, depth-1)
	case len(s.allOf) > 0:
		return s.allOf[0].describeDeep(depth - 1)
	case s.number:
		return "a number" + s.bounds()
	case s.pattern != nil:
		return "a string that matches " + shorten(s.pattern.text)
	}
	return "a value of another kind"
}

func (s *schema) describeTypes(depth int) string {
	var words []string
	add := func(k kind, word string) {
		if s.types&k != 0 {
			words = append(words, word)
		}
	}
	items := "a list"
	if s.items != nil && s.items.types != 0 && depth > 0 {
		items = "a list, each item " + s.items.describeDeep(0)
	}
	text := "a string"
	if s.pattern != nil {
		text += " that matches " + shorten(s.pattern.text)
	}
	add(kindString, text)
	add(kindInteger, "an integer"+s.bounds())
	add(kindNumber, "a number"+s.bounds())
	add(kindBool, "true or false")
	add(kindArray, items)
	add(kindObject, "an object")
	add(kindNull, "null")
	return strings.Join(words, " or ")
}

// bounds is " from 1 to 5", " of at least 1", " below 3", " that is a multiple of 4".
func (s *schema) bounds() string {
	src := s.src
	number := func(f *float64) string {
		if *f == math.Trunc(*f) && math.Abs(*f) < 1<<53 {
			return strconv.FormatFloat(*f, 'f', -1, 64)
		}
		return strconv.FormatFloat(*f, 'g', -1, 64)
	}
	var parts []string
	switch {
	case src.Minimum != nil && src.Maximum != nil:
		parts = append(parts, "from "+number(src.Minimum)+" to "+number(src.Maximum))
	case src.Minimum != nil:
		parts = append(parts, "of at least "+number(src.Minimum))
	case src.Maximum != nil:
		parts = append(parts, "of at most "+number(src.Maximum))
	}
	if src.ExclusiveMinimum != nil {
		parts = append(parts, "above "+number(src.ExclusiveMinimum))
	}
	if src.ExclusiveMaximum != nil {
		parts = append(parts, "below "+number(src.ExclusiveMaximum))
	}
	if src.MultipleOf != nil {
		parts = append(parts, "that is a multiple of "+number(src.MultipleOf))
	}
	if parts == nil {
		return ""
	}
	return " " + strings.Join(parts, " and ")
}

// describe lists the constants, with the one nearest to the value at hand.
func (c *constants) describe(d *doc, at int32) string {
	const most = 20
	var words []string
	for i := range c.docs[:min(len(c.docs), most)] {
		words = append(words, c.docs[i].shown(0))
	}
	if len(c.docs) > most {
		words = append(words, fmt.Sprintf("… (%d in all)", len(c.docs)))
	}
	text := strings.Join(words, ", ")
	if len(c.docs) != 1 {
		text = "one of " + text
	}
	if d == nil || c.text == nil || d.nodes[at].kind != kindString || len(c.docs) < 2 {
		return text
	}
	candidates := make([]string, len(c.docs))
	for i := range c.docs {
		candidates[i] = c.docs[i].nodes[0].str()
	}
	if name, near := Nearest(d.nodes[at].str(), candidates); near {
		text += fmt.Sprintf(" (did you mean %q?)", name)
	}
	return text
}

func describeAll(list []*schema) string { return describeAllDeep(list, 2) }

func describeAllDeep(list []*schema, depth int) string {
	var words []string
	seen := map[string]bool{}
	for _, s := range list {
		word := s.describeDeep(depth)
		if s.src.Title != "" {
			word = s.src.Title
		} else if len(s.required) > 0 {
			word += " with " + shorten(strings.Join(s.required, ", "))
		}
		if !seen[word] {
			seen[word] = true
			words = append(words, word)
		}
	}
	return strings.Join(words, " or ")
}
