package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/toolyard/toolyard/internal/edit"
)

// pin is the definition of a tool that is approved.
type pin struct {
	Hash       string          `json:"hash"`
	Definition json.RawMessage `json:"definition"`
	At         time.Time       `json:"at"`
}

// Why a definition is withheld.
const (
	quarantineChanged = "changed"
	quarantineNew     = "new"
)

// pinned are the members of a definition that a model or a call depends on.
var pinned = []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"}

// essence is what is pinned of a definition, in one form.
func essence(definition json.RawMessage) map[string]any {
	var all, kept map[string]any
	dec := json.NewDecoder(bytes.NewReader(definition))
	dec.UseNumber()
	if dec.Decode(&all) != nil {
		return nil
	}
	kept = map[string]any{}
	for _, key := range pinned {
		if v, ok := all[key]; ok {
			kept[key] = v
		}
	}
	return kept
}

// hashOf is the hash of what is pinned of a definition.
func hashOf(definition json.RawMessage) string {
	raw, err := json.Marshal(essence(definition)) // maps are written in order
	if err != nil {
		raw = definition
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// pretty is what is pinned of a definition, to be compared by a person. Hidden
// characters are made visible.
func pretty(definition json.RawMessage) string {
	if len(definition) == 0 {
		return ""
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(essence(definition)) // it was decoded from JSON
	// A description is read line by line.
	return visible(strings.ReplaceAll(out.String(), `\n`, "\\n\n    "))
}

// maxDiff is how long a diff is, in bytes.
const maxDiff = 64 << 10

func diffOf(name string, was, now json.RawMessage) string {
	return edit.DiffText(name+" (approved)", name+" (now)", pretty(was), pretty(now), 3, maxDiff).Text
}

// changedMembers names what differs between two definitions.
func changedMembers(was, now json.RawMessage) []string {
	a, b := essence(was), essence(now)
	var names []string
	for _, key := range pinned {
		x, _ := json.Marshal(a[key])
		y, _ := json.Marshal(b[key])
		if !bytes.Equal(x, y) {
			names = append(names, key)
		}
	}
	return names
}

// suspicious reports whether a character is invisible or changes the order in
// which text is shown: with it a description can say to a model what nobody sees.
func suspicious(r rune) bool {
	switch {
	case r == '\n' || r == '\r' || r == '\t':
		return false
	case r >= 0xE0000 && r <= 0xE0FFF: // tags, variation selectors
		return true
	case r >= 0xFE00 && r <= 0xFE0E: // variation selectors but that of emoji
		return true
	case r == 0x00AD, r == 0x034F, r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0, r == 0x2800:
		return true
	case r == 0x200D: // joins emoji
		return false
	}
	return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Co, r)
}

// visible writes suspicious characters as \u{…}.
func visible(s string) string {
	if !strings.ContainsFunc(s, suspicious) {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if suspicious(r) {
			fmt.Fprintf(&out, "\\u{%04X}", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// warningsOf says which hidden characters a definition holds.
func warningsOf(definition json.RawMessage) []string {
	// In JSON they may be escaped, so the texts are looked at.
	var found []rune
	for _, text := range textsIn(essence(definition), nil) {
		for _, r := range text {
			if suspicious(r) && !slices.Contains(found, r) {
				found = append(found, r)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	var names []string
	for _, r := range found[:min(len(found), 5)] {
		names = append(names, fmt.Sprintf("U+%04X", r))
	}
	if more := len(found) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return []string{"holds characters that cannot be seen: " + strings.Join(names, ", ")}
}

func textsIn(v any, texts []string) []string {
	switch v := v.(type) {
	case string:
		return append(texts, v)
	case []any:
		for _, item := range v {
			texts = textsIn(item, texts)
		}
	case map[string]any:
		for key, item := range v {
			texts = textsIn(item, append(texts, key))
		}
	}
	return texts
}
