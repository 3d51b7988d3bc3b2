// Package toolindex finds tools by what they are for: BM25 over the words of a
// tool's name, description and arguments, in English and in Chinese, with
// synonyms, abbreviations, beginnings of words and slips of the pen. It knows
// what a tool says of itself, and nothing of who may call it.
package toolindex

import (
	"sync"
	"sync/atomic"

	"github.com/toolyard/toolyard/tool"
)

// Index is a set of tools to search. The zero value is empty and ready. It is
// safe for concurrent use: a search works on an unchangeable picture and waits
// for nobody, except that the first one after a change makes that picture anew.
type Index struct {
	words sync.Once // reads the table of synonyms when it is first needed
	table *synonyms

	current atomic.Pointer[snapshot] // nil if there has been a change since

	mu    sync.Mutex
	specs map[string]*tool.Spec
	docs  map[string]*document // what was made of them, kept while the spec is the same
}

// Hit is a tool that was found.
type Hit struct {
	ID   string
	Spec *tool.Spec
	// Score is how well it fits: more is better, and only hits of one query can be
	// compared.
	Score float64
}

// Put adds a tool under an ID, in place of what had it. The spec must not change
// afterwards. It is quick: the work is done by the next search.
func (x *Index) Put(id string, spec *tool.Spec) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.specs == nil {
		x.specs, x.docs = map[string]*tool.Spec{}, map[string]*document{}
	}
	if x.specs[id] == spec {
		return
	}
	x.specs[id] = spec
	x.current.Store(nil)
}

// Remove takes a tool away. One that is not there is no fault.
func (x *Index) Remove(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.specs[id] == nil {
		return
	}
	delete(x.specs, id)
	delete(x.docs, id)
	x.current.Store(nil)
}

// Len is how many tools there are.
func (x *Index) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.specs)
}

// Search gives the tools that fit a query, the best first and equal ones by ID,
// at most limit of them (zero means 10, negative all). keep, if it is not nil,
// says which may be given. A query that says nothing finds nothing.
func (x *Index) Search(query string, limit int, keep func(id string, spec *tool.Spec) bool) []Hit {
	if limit == 0 {
		limit = defaultLimit
	}
	s := x.look()
	return s.search(x.parse(s, query), limit, keep)
}

const defaultLimit = 10

// look gives the picture as it is now.
func (x *Index) look() *snapshot {
	if s := x.current.Load(); s != nil {
		return s
	}
	x.words.Do(func() { x.table = readSynonyms(synonymsText) })
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.current.Load(); s != nil {
		return s
	}
	for id, spec := range x.specs {
		if d := x.docs[id]; d == nil || d.spec != spec {
			x.docs[id] = newDocument(id, spec)
		}
	}
	s := newSnapshot(x.docs)
	x.current.Store(s)
	return s
}
