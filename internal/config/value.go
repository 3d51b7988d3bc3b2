package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	toolyard "github.com/toolyard/toolyard"
)

// value is what a file, a variable or a flag gives for a key.
type value struct {
	text  string  // of a scalar
	list  []value // of a list
	rule  map[string]value
	kind  valueKind
	line  int
	col   int
	empty bool // null
}

type valueKind uint8

const (
	scalar valueKind = iota
	list
	mapping
)

// got says what a value is, for a fault.
func (v value) got() string {
	switch v.kind {
	case list:
		return "a list"
	case mapping:
		return "a mapping"
	}
	const longest = 80
	if len(v.text) > longest {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(v.text[:longest], ""))
	}
	return fmt.Sprintf("%q", v.text)
}

// expected says what a key takes, for a fault.
func (k *Key) expected() string {
	switch k.kind {
	case word:
		return "one of " + strings.Join(k.Words, ", ")
	case words:
		return "a list of " + strings.Join(k.Words, ", ")
	case boolean:
		return "true or false"
	case integer:
		return fmt.Sprintf("a whole number, at least %g", k.min)
	case number:
		return "a number, 0 or more"
	case duration:
		return "a time such as 500ms, 30s, 5m or 30d, or milliseconds as a plain number"
	case size:
		if k.min > 0 {
			return "a size such as 50KiB, 2GiB or 512 B, at least " + formatSize(int64(k.min))
		}
		return "a size such as 50KiB, 2GiB or 512 B"
	case hosts:
		return "a list of hosts, or all"
	case ranges:
		return "a list of addresses and ranges of addresses"
	case servers:
		return "a mapping of MCP servers by name"
	case texts:
		return "a list of texts"
	case paths:
		return "a list of directories"
	case rules:
		return "a list of permission rules"
	}
	return "a text"
}

// Kind names what a key takes, for documentation.
func (k *Key) Kind() string {
	return [...]string{text: "text", word: "word", boolean: "true or false", integer: "number", number: "number", duration: "time", size: "size",
		texts: "list", words: "list of words", hosts: "list of hosts", ranges: "list of ranges", paths: "list of directories", rules: "list of rules", servers: "mapping of servers"}[k.kind]
}

// assign parses v into *to, which a key's pointer function gave. ok is false if
// v is not what the key takes. from says where relative directories start.
func (k *Key) assign(to any, v value, from origin) (ok bool) {
	if v.kind == mapping {
		return false
	}
	switch to := to.(type) {
	case *string:
		ok = v.kind == scalar && (k.kind != word || slices.Contains(k.Words, k.wordOf(v)))
		if ok {
			*to = k.wordOf(v)
		}
	case **bool:
		b, err := strconv.ParseBool(v.text)
		if ok = v.kind == scalar && err == nil && (v.text == "true" || v.text == "false"); ok {
			*to = &b
		}
	case *bool:
		if ok = v.kind == scalar && (v.text == "true" || v.text == "false"); ok {
			*to = v.text == "true"
		}
	case *int:
		if k.kind == size {
			n, sized := parseSize(v.text)
			if ok = v.kind == scalar && sized && float64(n) >= k.min && n <= math.MaxInt32; ok {
				*to = int(n)
			}
			return ok
		}
		n, err := strconv.Atoi(v.text)
		if ok = v.kind == scalar && err == nil && float64(n) >= k.min; ok {
			*to = n
		}
	case *float64:
		f, err := strconv.ParseFloat(v.text, 64)
		if ok = v.kind == scalar && err == nil && f >= 0 && !math.IsInf(f, 0) && !math.IsNaN(f); ok {
			*to = f
		}
	case *time.Duration:
		var d time.Duration
		if d, ok = parseDuration(v.text); ok && v.kind == scalar {
			*to = d
		}
		ok = ok && v.kind == scalar
	case *int64:
		n, sized := parseSize(v.text)
		if ok = v.kind == scalar && sized && float64(n) >= k.min; ok {
			*to = n
		}
	case *[]string:
		return k.assignList(to, v, from)
	}
	return ok
}

// wordOf is the text of a scalar. "off" comes as false where a YAML writer took
// it for one.
func (k *Key) wordOf(v value) string {
	if k.kind == word && v.text == "false" && slices.Contains(k.Words, "off") {
		return "off"
	}
	return v.text
}

func (k *Key) assignList(to *[]string, v value, from origin) bool {
	if k.kind == hosts && v.kind == scalar && (v.text == networkAll || v.text == networkNone) {
		v = listOf([]string{v.text})
	}
	if v.kind != list {
		return false
	}
	if k.kind == hosts && len(v.list) == 1 && v.list[0].text == networkNone {
		v.list = nil
	}
	all := make([]string, 0, len(v.list))
	for _, item := range v.list {
		if item.kind != scalar || item.text == "" || k.kind == words && !slices.Contains(k.Words, item.text) {
			return false
		}
		entry := item.text
		if k.kind == paths {
			var ok bool
			if entry, ok = absolute(entry, from.dir); !ok {
				return false
			}
		}
		all = append(all, entry)
	}
	*to = all
	return true
}

// absolute makes a directory absolute: "~" is the user's home, and relative
// names start where the file stands.
func absolute(name, from string) (string, bool) {
	if strings.ContainsRune(name, 0) {
		return "", false
	}
	if name == "~" || strings.HasPrefix(name, "~/") {
		home, err := os.UserHomeDir()
		return filepath.Join(home, name[1:]), err == nil
	}
	if !filepath.IsAbs(name) {
		if from == "" {
			return "", false
		}
		name = filepath.Join(from, name)
	}
	return filepath.Clean(name), true
}

// parseDuration reads a Go duration, also with days and weeks, or milliseconds
// as a plain number. Negative is refused.
func parseDuration(s string) (time.Duration, bool) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return inRange(n * float64(time.Millisecond))
	}
	for suffix, unit := range map[string]time.Duration{"d": day, "w": 7 * day} {
		if text, ok := strings.CutSuffix(s, suffix); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, false
			}
			return inRange(n * float64(unit))
		}
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

func inRange(ns float64) (time.Duration, bool) {
	if math.IsNaN(ns) || ns < 0 || ns > math.MaxInt64/2 {
		return 0, false
	}
	return time.Duration(ns), true
}

// sizeUnits, the largest first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// parseSize reads "50KiB", "1.5 GiB", "512B" or a plain number of bytes.
func parseSize(s string) (int64, bool) {
	unit := int64(1)
	for _, u := range sizeUnits {
		if text, ok := strings.CutSuffix(s, u.name); ok {
			s, unit = strings.TrimSpace(text), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n*float64(unit) > math.MaxInt64/2 {
		return 0, false
	}
	return int64(n * float64(unit)), true
}

func formatSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func formatDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// parseRules reads permission rules: texts, or mappings with rule, match and
// not_match. wrong gets the first item that is neither.
func parseRules(v value, from origin, scope string) (parsed []toolyard.Rule, wrong *value) {
	if v.kind != list {
		return nil, &v
	}
	for _, item := range v.list {
		r := toolyard.Rule{Scope: scope, Source: from.place(item.line)}
		switch item.kind {
		case scalar:
			r.Text = item.text
		case mapping:
			for name, part := range item.rule {
				ok := false
				switch fold(name) {
				case "rule":
					r.Text, ok = part.text, part.kind == scalar
				case "match":
					ok = part.kind == list && eachText(part.list, &r.Match)
				case "notmatch":
					ok = part.kind == list && eachText(part.list, &r.NotMatch)
				}
				if !ok {
					return nil, &part
				}
			}
		default:
			return nil, &item
		}
		if r.Text == "" {
			return nil, &item
		}
		parsed = append(parsed, r)
	}
	return parsed, nil
}

func eachText(items []value, to *[]string) bool {
	for _, item := range items {
		if item.kind != scalar {
			return false
		}
		*to = append(*to, item.text)
	}
	return true
}
