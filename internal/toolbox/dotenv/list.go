package dotenv

import (
	"encoding/json"
	"slices"
	"strings"
)

// List reads a variable that holds several values, such as ALLOWED_DIRECTORIES:
// a JSON array of strings, or text with commas or colons between. The colon of a
// Windows drive (C:\ or C:/) separates nothing. Blanks around an item go, empty
// items and repetitions too; ~ is left to the caller.
func List(value string) []string {
	value = strings.TrimSpace(value)
	var items []string
	if !strings.HasPrefix(value, "[") || json.Unmarshal([]byte(value), &items) != nil {
		items = nil
		for part := range strings.SplitSeq(value, ",") {
			items = append(items, splitColons(part)...)
		}
	}
	var list []string
	for _, item := range items {
		if item = strings.TrimSpace(item); item != "" && !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	return list
}

func splitColons(s string) []string {
	var list []string
	from := 0
	for i := range len(s) {
		if s[i] == ':' && !isDrive(s[from:i], s[i+1:]) {
			list = append(list, s[from:i])
			from = i + 1
		}
	}
	return append(list, s[from:])
}

func isDrive(before, after string) bool {
	before = strings.TrimSpace(before)
	if len(before) != 1 || after == "" || after[0] != '\\' && after[0] != '/' {
		return false
	}
	c := before[0] | 0x20
	return c >= 'a' && c <= 'z'
}
