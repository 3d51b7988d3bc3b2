package toolindex

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// snapshot is an unchangeable picture of the index.
type snapshot struct {
	docs     []*document
	terms    map[string]int32 // place in postings
	postings [][]posting
	sorted   []term // for beginnings of words and slips of the pen
	names    map[string][]int32
}

// posting is one document that has a term.
type posting struct {
	doc int32
	// saturated is the weight of the term there, between 0 and 1: a second
	// occurrence says less than the first.
	saturated float32
	// name is what part of the tool's name the term is, between 0 and 1.
	name float32
}

// term is a word of the index, with what tells quickly that another is unlike it.
type term struct {
	text    string
	letters uint32 // which of a to z it has; the last bits are for digits and the rest
}

// saturation is BM25's k1, against weights as those of [weights].
const saturation = 2.5

func newSnapshot(docs map[string]*document) *snapshot {
	s := &snapshot{terms: map[string]int32{}, names: map[string][]int32{}}
	for _, d := range docs {
		s.docs = append(s.docs, d)
	}
	slices.SortFunc(s.docs, func(a, b *document) int { return strings.Compare(a.id, b.id) })
	var usual [fields]float64
	for _, d := range s.docs {
		for f, n := range d.lengths {
			usual[f] += float64(n) / float64(len(s.docs))
		}
	}
	for i, d := range s.docs {
		var divide [fields]float64
		for f, w := range weights {
			divide[f] = 1
			if usual[f] > 0 {
				divide[f] = 1 - w.length + w.length*float64(d.lengths[f])/usual[f]
			}
		}
		for _, e := range d.entries {
			weight := 0.0
			for f, n := range e.counts {
				weight += weights[f].weight * float64(n) / divide[f]
			}
			at, there := s.terms[e.term]
			if !there {
				at = int32(len(s.postings))
				s.terms[e.term] = at
				s.postings = append(s.postings, nil)
				s.sorted = append(s.sorted, term{e.term, letters(e.term)})
			}
			s.postings[at] = append(s.postings[at], posting{doc: int32(i), saturated: float32(weight / (weight + saturation)), name: float32(e.counts[inName])})
		}
		for _, name := range d.names {
			s.names[name] = append(s.names[name], int32(i))
		}
	}
	slices.SortFunc(s.sorted, func(a, b term) int { return strings.Compare(a.text, b.text) })
	s.nameParts()
	return s
}

// nameParts says of every word of a name what part of it the word is: by how much
// it tells tools apart, not by its length.
func (s *snapshot) nameParts() {
	whole := make([]float64, len(s.docs))
	each := func(f func(p *posting, rare float64)) {
		for _, list := range s.postings {
			rare := s.idf(float64(len(list)))
			for i := range list {
				if list[i].name > 0 {
					f(&list[i], rare)
				}
			}
		}
	}
	each(func(p *posting, rare float64) { whole[p.doc] += rare })
	each(func(p *posting, rare float64) { p.name = float32(rare / whole[p.doc]) })
}

func letters(text string) uint32 {
	var set uint32
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' {
			set |= 1 << (c - 'a')
		} else {
			set |= 1 << (26 + c%6)
		}
	}
	return set
}

// unlike is at most twice how many letters must change to make one of the other.
func unlike(a, b uint32) int { return bits.OnesCount32(a ^ b) }

// unit is one thing that a query asks for, in all the words that may say it.
type unit struct {
	variants []variant
	weight   float64
}

// variant is one way to say it: terms that must all be there.
type variant struct {
	terms  []int32
	weight float64
	rare   float64 // see [snapshot.rareness]
}

// parsed is a query against one snapshot.
type parsed struct {
	units []unit
	exact map[int32]float64 // documents that are named
}

// Parts of a score.
const (
	exactBonus  = 1000 // the query is the tool's name
	namedBonus  = 12   // the query has the tool's name in it
	uncovered   = 0.35 // what is left of the score of a tool with hardly any of what was asked
	leastWeight = 0.05
	wholeName   = 1.2 // and so much more of the score of one whose whole name was said
)

// search scores every document that has anything of the query.
func (s *snapshot) search(q parsed, limit int, keep func(string, *tool.Spec) bool) []Hit {
	n := len(s.docs)
	total, covered := make([]float64, n), make([]float64, n)
	best, how := make([]float64, n), make([]float64, n) // of the unit at hand
	name, named := make([]float64, n), make([]float64, n)
	var touched []int32
	all := 0.0
	for _, u := range q.units {
		touched = touched[:0]
		rare := s.rareness(u)
		if rare == 0 {
			continue
		}
		for _, v := range u.variants {
			counts := min(rare, v.rare)
			s.each(v.terms, func(doc int32, saturated, part float64) {
				if how[doc] == 0 {
					touched = append(touched, doc)
				}
				how[doc] = max(how[doc], v.weight*counts)
				best[doc] = max(best[doc], v.weight*saturated*counts)
				name[doc] = max(name[doc], v.weight*part)
			})
		}
		all += u.weight * rare
		for _, doc := range touched {
			total[doc] += u.weight * best[doc]
			covered[doc] += u.weight * how[doc]
			named[doc] += u.weight * name[doc]
			best[doc], how[doc], name[doc] = 0, 0, 0
		}
	}
	var hits []Hit
	for i, d := range s.docs {
		score := total[i]
		if score > 0 {
			score *= uncovered + (1-uncovered)*covered[i]/all
			score *= 1 + wholeName*min(1, named[i])
		}
		score += q.exact[int32(i)]
		if score > 0 && (keep == nil || keep(d.id, d.spec)) {
			hits = append(hits, Hit{d.id, d.spec, score})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return strings.Compare(a.ID, b.ID)
	})
	if limit >= 0 && len(hits) > limit {
		hits = hits[:limit:limit]
	}
	return hits
}

// rareness is how much a unit tells tools apart, and fills in how much each of its
// variants does: that of the word itself and that of all that mean the same, half
// and half. A rare word says much, but not if it is one of many for a common thing.
func (s *snapshot) rareness(u unit) float64 {
	said, meant := 0.0, 0.0
	for i, v := range u.variants {
		frequency := len(s.docs)
		for _, t := range v.terms {
			frequency = min(frequency, len(s.postings[t]))
		}
		u.variants[i].rare = s.idf(float64(frequency))
		if v.weight >= 1 {
			said += float64(frequency)
		}
		if v.weight >= meansSame {
			meant += v.weight * float64(frequency)
		}
	}
	n := float64(len(s.docs))
	switch {
	case len(u.variants) == 0:
		return 0
	case said == 0 && meant == 0: // only near words
		return s.idf(n / 4)
	case said == 0:
		return s.idf(min(n, meant))
	}
	return (s.idf(min(n, said)) + s.idf(min(n, meant))) / 2
}

// meansSame is from which weight on a variant means the same.
const meansSame = 0.5

// idf is BM25's inverse document frequency.
func (s *snapshot) idf(frequency float64) float64 {
	return math.Log(1 + (float64(len(s.docs))-frequency+0.5)/(frequency+0.5))
}

// each gives the documents that have all terms, with the weight of the weakest and
// the part of the name that they are together.
func (s *snapshot) each(terms []int32, f func(doc int32, saturated, name float64)) {
	if len(terms) == 0 {
		return
	}
	for _, p := range s.postings[terms[0]] {
		least, name, everywhere := p.saturated, p.name, true
		for _, other := range terms[1:] {
			at, there := slices.BinarySearchFunc(s.postings[other], p.doc, func(p posting, doc int32) int { return int(p.doc) - int(doc) })
			if !there {
				everywhere = false
				break
			}
			least = min(least, s.postings[other][at].saturated)
			name += s.postings[other][at].name
		}
		if everywhere {
			f(p.doc, float64(least), float64(name))
		}
	}
}
