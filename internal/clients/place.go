package clients

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
)

// document is a file that is edited as text.
type document interface {
	// decode gives the whole document; an empty map if it is blank.
	decode() (map[string]any, error)
	set(keys []string, value any) error
	remove(keys []string) (bool, error)
	bytes() []byte
}

func (d *jsonDoc) bytes() []byte { return d.data }

func (d *jsonDoc) decode() (map[string]any, error) {
	root, err := parseJSON(d.data, d.relaxed)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return map[string]any{}, nil
	}
	if root.kind != '{' {
		return nil, syntaxAt(d.data, root.start, "the document is not an object")
	}
	return root.decode(d.data).(map[string]any), nil
}

func (p Place) open(data []byte) document {
	if p.Format == TOML {
		return &tomlDoc{data: data}
	}
	return &jsonDoc{data: data, relaxed: p.Format == JSONC}
}

// Entries reads the servers in a file, by name. A blank file has none. A file
// that does not parse is a *[SyntaxError].
func (p Place) Entries(data []byte) ([]Entry, error) {
	root, err := p.open(data).decode()
	if err != nil {
		return nil, err
	}
	list, _ := at(root, p.Keys).(map[string]any)
	return entries(list), nil
}

// at walks down a decoded document; nil if there is nothing.
func at(value any, keys []string) any {
	for _, key := range keys {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[key]
	}
	return value
}

// Put gives the file with the entry in it. What the entry's own keys do not name
// stays as it is, inside the entry of before too; an entry that is there already
// changes nothing. It fails with a *[SyntaxError] for a file that does not parse,
// and gives no file in which anything else would be different.
func (p Place) Put(data []byte, e Entry) ([]byte, error) {
	set, drop := p.Client.dialect.write(e)
	keys := append(slices.Clone(p.Keys), e.Name)
	edited, err := p.edit(data, keys, func(d document) error {
		root, err := d.decode()
		if err != nil {
			return err
		}
		old, there := at(root, keys).(map[string]any)
		for _, f := range p.Client.dialect.more {
			if _, has := old[f.key]; !has {
				set = append(set, f)
			}
		}
		if !there {
			return d.set(keys, set)
		}
		for _, key := range drop {
			if _, err := d.remove(append(slices.Clone(keys), key)); err != nil {
				return err
			}
		}
		for _, f := range set {
			if err := d.set(append(slices.Clone(keys), f.key), f.value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	root, err := p.open(edited).decode()
	if err != nil {
		return nil, err
	}
	if list, _ := at(root, p.Keys).(map[string]any); !written(list[e.Name], set) {
		return nil, fmt.Errorf("the entry cannot be written into this file as it is laid out")
	}
	return edited, nil
}

// written reports whether a decoded entry has everything that was to be set.
func written(entry any, set fields) bool {
	object, ok := entry.(map[string]any)
	return ok && !slices.ContainsFunc(set, func(f field) bool { return !same(object[f.key], f.value) })
}

// Remove gives the file without the entry of a name.
func (p Place) Remove(data []byte, name string) ([]byte, error) {
	keys := append(slices.Clone(p.Keys), name)
	return p.edit(data, keys, func(d document) error {
		_, err := d.remove(keys)
		return err
	})
}

// edit runs an edit and then makes sure that nothing but what is at keys has
// changed.
func (p Place) edit(data []byte, keys []string, change func(document) error) ([]byte, error) {
	before, err := p.open(data).decode()
	if err != nil {
		return nil, err
	}
	d := p.open(bytes.Clone(data))
	if err := change(d); err != nil {
		return nil, err
	}
	after, err := p.open(d.bytes()).decode()
	if err != nil {
		return nil, fmt.Errorf("the entry cannot be written into this file as it is laid out (%v)", err)
	}
	if !reflect.DeepEqual(without(before, keys), without(after, keys)) {
		return nil, fmt.Errorf("the entry cannot be written into this file as it is laid out without changing something else")
	}
	return d.bytes(), nil
}

// without is a decoded document without what is at keys, and without the objects
// on the way that are empty then.
func without(root map[string]any, keys []string) map[string]any {
	rest := make(map[string]any, len(root))
	for key, value := range root {
		rest[key] = value
	}
	if len(keys) == 1 || rest[keys[0]] == nil {
		delete(rest, keys[0])
		return rest
	}
	if child, ok := rest[keys[0]].(map[string]any); ok {
		if below := without(child, keys[1:]); len(below) > 0 {
			rest[keys[0]] = below
		} else {
			delete(rest, keys[0])
		}
	}
	return rest
}

// Snippet is a whole file with nothing but the entry.
func (p Place) Snippet(e Entry) ([]byte, error) { return p.Put(nil, e) }

// Object reads a whole file as JSON with comments; a blank one is empty.
func Object(data []byte) (map[string]any, error) {
	return (&jsonDoc{data: data, relaxed: true}).decode()
}
