package pydeps

import (
	"io"
	"strings"
)

// Compare orders two versions; an error for what is none.
func Compare(a, b string) (int, error) {
	v, err := parseVersion(a)
	if err != nil {
		return 0, err
	}
	w, err := parseVersion(b)
	if err != nil {
		return 0, err
	}
	return v.compare(w), nil
}

// Within compares without the rule about pre-releases.
func Within(version, within string) (bool, error) {
	v, err := parseVersion(version)
	if err != nil {
		return false, err
	}
	clauses, err := parseRange(within)
	if err != nil {
		return false, err
	}
	for _, c := range clauses {
		if !c.holds(v, version) {
			return false, nil
		}
	}
	return true, nil
}

// Normal is the normal form of a version, "" for what is none.
func Normal(text string) string {
	v, err := parseVersion(text)
	if err != nil {
		return ""
	}
	return v.String()
}

// RangeText is a range as pip reads it.
func RangeText(text string) (string, error) {
	clauses, err := parseRange(text)
	return rangeText(clauses), err
}

// ParseRequirement reads one.
func ParseRequirement(text string) (string, error) {
	q, err := parseRequirement(text)
	return q.String(), err
}

// ParseFile reads a requirements.txt that is alone in its folder.
func ParseFile(dir, text string) ([]string, error) {
	into := &requirements{}
	f := &reader{root: dir, into: into, seen: map[string]bool{}}
	err := f.lines(strings.NewReader(text), "requirements.txt", false)
	var all []string
	for _, q := range into.list {
		all = append(all, q.String())
	}
	return all, err
}

// ParseMetadata reads the head of a METADATA file.
func ParseMetadata(r io.Reader) (Package, bool) { return parseMetadata(r) }

// ParseProject reads a pyproject.toml.
func ParseProject(path string) error { return new(requirements).project(path) }
