package toolindex

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode"
	"unique"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/tool"
)

// field is where in a tool a word stands.
type field int

const (
	inName field = iota
	inSource
	inLabel     // title, category, tags, aliases
	inSummary   // how the description begins
	inText      // the rest of it, and when to use the tool
	inArgument  // names of arguments
	inParameter // what is said about arguments, and examples
	fields
)

// weights say how much a word counts there, and how much its count is divided
// where the field is longer than usual (0 not at all, 1 in proportion).
var weights = [fields]struct{ weight, length float64 }{
	inName:      {2.8, 0.35},
	inSource:    {3, 0},
	inLabel:     {2.5, 0.4},
	inSummary:   {3, 0.4},
	inText:      {1, 0.6},
	inArgument:  {1.5, 0.6},
	inParameter: {0.4, 0.6},
}

// Bounds of what is read of one tool: some describe themselves at great length,
// and a foreign one may do so to be found for everything.
const (
	maxSummary    = 200  // characters
	maxText       = 4000 // bytes of one text
	maxProperties = 200
	maxNesting    = 4
	maxCount      = math.MaxUint8
)

// document is what the index keeps of a tool.
type document struct {
	id      string
	spec    *tool.Spec
	names   []string // written together: see [squash]
	entries []entry
	lengths [fields]int // in words
}

// entry is one term of a document with how often it stands in each field.
type entry struct {
	term   string
	counts [fields]uint8
}

func newDocument(id string, spec *tool.Spec) *document {
	b := &builder{d: &document{id: id, spec: spec}, at: map[string]int{}}
	b.add(inName, spec.Name)
	b.add(inSource, spec.Source)
	b.add(inLabel, spec.Title)
	b.add(inLabel, spec.Category)
	b.add(inLabel, spec.Tags...)
	b.add(inLabel, spec.Aliases...)
	summary, rest := beginning(spec.Description)
	b.add(inSummary, summary)
	b.add(inText, rest)
	b.add(inText, spec.Scenarios...)
	b.schema(spec.Input, maxNesting)
	for _, e := range spec.Examples {
		b.add(inParameter, e.Title, string(e.Arguments))
	}
	for _, name := range slices.Concat([]string{spec.Name, spec.FullName()}, spec.Aliases) {
		if s := squash(name); !slices.Contains(b.d.names, s) {
			b.d.names = append(b.d.names, s)
		}
	}
	return b.d
}

// builder counts the words of a document.
type builder struct {
	d          *document
	at         map[string]int // of a term in entries
	properties int
}

func (b *builder) add(f field, texts ...string) {
	for _, text := range texts {
		if len(text) > maxText {
			text = strings.ToValidUTF8(text[:maxText], "")
		}
		words(text, func(w string, k kind) {
			switch {
			case k == hanRun:
				hanTerms(w, func(t string) { b.count(f, t) })
			case f == inName || f == inArgument || !isStop(w):
				b.count(f, stem(w))
			}
		})
	}
}

func (b *builder) count(f field, term string) {
	i, there := b.at[term]
	if !there {
		i = len(b.d.entries)
		// Equal terms of many tools are kept once.
		b.d.entries = append(b.d.entries, entry{term: unique.Make(term).Value()})
		b.at[term] = i
	}
	if c := &b.d.entries[i].counts[f]; *c < maxCount {
		*c++
	}
	b.d.lengths[f]++
}

// schema adds the arguments, those within others too.
func (b *builder) schema(s *jsonschema.Schema, depth int) {
	if s == nil || depth == 0 {
		return
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if b.properties++; b.properties > maxProperties {
			return
		}
		p := s.Properties[name]
		b.add(inArgument, name)
		if p == nil {
			continue
		}
		b.add(inParameter, p.Title, p.Description)
		b.values(p)
		b.schema(p, depth-1)
	}
	b.schema(s.Items, depth-1)
	for _, one := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
		b.schema(one, depth-1)
	}
}

// values adds the words that an argument may be: a tool with the formats docx and
// pdf is found by them.
func (b *builder) values(s *jsonschema.Schema) {
	const most = 40
	for _, v := range s.Enum[:min(len(s.Enum), most)] {
		if text, ok := v.(string); ok {
			b.add(inParameter, text)
		}
	}
	if s.Const != nil {
		if text, ok := (*s.Const).(string); ok {
			b.add(inParameter, text)
		}
	}
	var text string
	if len(s.Default) > 0 && json.Unmarshal(s.Default, &text) == nil {
		b.add(inParameter, text)
	}
}

// beginning cuts a description after its first sentences, those that say what the
// tool does; what follows is often about when not to use it.
func beginning(text string) (summary, rest string) {
	text = strings.TrimSpace(text)
	n, end := 0, len(text)
	for i, c := range text {
		if n++; n > maxSummary {
			end = i
			break
		}
		if c == '\n' && n > maxSummary/8 && strings.HasPrefix(text[i:], "\n\n") {
			return text[:i], text[i:]
		}
	}
	if end == len(text) {
		return text, ""
	}
	for _, stop := range []string{". ", ".\n", "。", "\n"} {
		if i := strings.LastIndex(text[:end], stop); i > end/4 {
			return text[:i+len(stop)], text[i+len(stop):]
		}
	}
	return text[:end], text[end:]
}

// squash writes a name together, so that its spellings are one.
func squash(name string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, name)
}
