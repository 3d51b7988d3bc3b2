package gateway

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
)

// member is one member of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// membersOf gives the members of an object in their order. Of two with one name
// the last counts, as everywhere. The values point into raw.
func membersOf(raw json.RawMessage) ([]member, error) {
	var all []member
	var at map[string]int // made where there are more than few
	err := upstream.Members(raw, func(key string, value json.RawMessage) {
		i, twice := at[key]
		if at == nil {
			i = slices.IndexFunc(all, func(m member) bool { return m.key == key })
			twice = i >= 0
		}
		if twice {
			all[i].value = value
			return
		}
		if at != nil {
			at[key] = len(all)
		}
		if all = append(all, member{key, value}); len(all) == few {
			at = make(map[string]int, 2*few)
			for i, m := range all {
				at[m.key] = i
			}
		}
	})
	return all, err
}

// few members are found sooner by looking at each than in a map.
const few = 16

// appendMembers writes members as `"key":value` joined by commas.
func appendMembers(dst []byte, all []member) []byte {
	for i, m := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(appendQuoted(dst, m.key), ':'), m.value...)
	}
	return dst
}

// with gives an object with a member set; raw itself if it is no object.
func with(raw json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	all, err := membersOf(raw)
	if err != nil {
		return raw
	}
	set := false
	for i := range all {
		if all[i].key == key {
			all[i].value, set = value, true
		}
	}
	if !set {
		all = append(all, member{key, value})
	}
	return append(appendMembers([]byte{'{'}, all), '}')
}

// textOf is a member of an object that is a text; "" if it is none.
func textOf(raw json.RawMessage, key string) string {
	return upstream.Unquote(get(raw, key)) // what is no text counts as none
}

// get is a member of an object; nil if it has none.
func get(raw json.RawMessage, key string) json.RawMessage {
	var found json.RawMessage
	err := upstream.Members(raw, func(name string, value json.RawMessage) {
		if name == key {
			found = value
		}
	})
	if err != nil {
		return nil
	}
	return found
}
