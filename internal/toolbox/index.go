package toolbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// index remembers what tools said of themselves, so that a start need not ask
// a thousand of them. It can be removed at any time.
type index struct {
	path string

	mu    sync.Mutex
	known map[string]known // by name
	dirty bool
}

// known is what is remembered of one folder.
type known struct {
	// Stamp is that of the folder whose files were asked.
	Stamp      string                 `json:"stamp"`
	Definition *definition.Definition `json:"definition"`
}

// indexFormat changes with what a Definition or a stamp means.
const indexFormat = 1

type indexFile struct {
	Format int              `json:"format"`
	Tools  map[string]known `json:"tools"`
}

// loadIndex reads the index once. One that cannot be read is made anew.
func (b *Box) loadIndex() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.index != nil {
		return
	}
	b.index = &index{path: filepath.Join(b.state, "index.json"), known: map[string]known{}}
	data, err := os.ReadFile(b.index.path)
	if err != nil {
		return
	}
	var file indexFile
	if err := json.Unmarshal(data, &file); err != nil || file.Format != indexFormat {
		return
	}
	for name, k := range file.Tools {
		if k.Definition != nil && k.Definition.Name == name {
			b.index.known[name] = k
		}
	}
}

func (x *index) find(name, stamp string) (known, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	k, ok := x.known[name]
	return k, ok && k.Stamp == stamp
}

func (x *index) put(name string, k known) {
	x.mu.Lock()
	defer x.mu.Unlock()
	// What each method returned is for the validator, which asks again.
	slim := *k.Definition
	slim.Raw = nil
	k.Definition = &slim
	x.known[name] = k
	x.dirty = true
}

// save writes the index if it changed. It forgets the tools that keep does not
// name.
func (x *index) save(keep func(name string) bool) error {
	x.mu.Lock()
	if !x.dirty {
		x.mu.Unlock()
		return nil
	}
	x.dirty = false
	for name := range x.known {
		if !keep(name) {
			delete(x.known, name)
		}
	}
	data, err := json.Marshal(indexFile{indexFormat, x.known})
	x.mu.Unlock()
	if err != nil {
		return err
	}
	return writeFile(x.path, data)
}
