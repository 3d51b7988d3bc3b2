package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// The words that sandbox.network takes in place of a list.
const (
	networkAll  = sandbox.NetworkAll
	networkNone = sandbox.NetworkNone
)

// entries checks each item of a list of hosts or ranges and reports what is
// none.
func (r *reader) entries(k *Key, full string, v value) bool {
	if k.kind != hosts && k.kind != ranges || v.kind != list {
		return true
	}
	ok := true
	for _, item := range v.list {
		word := len(v.list) == 1 && (item.text == networkAll || item.text == networkNone)
		if item.kind != scalar || k.kind == hosts && word {
			continue // assign has the last word
		}
		var err error
		if k.kind == hosts {
			_, err = netproxy.ParseEntry(item.text)
		} else {
			_, err = sandbox.ParseRange(item.text)
		}
		if err != nil {
			r.faultAt(item.line, item.col, full, expectedItem(k.kind), item.got()+": "+err.Error())
			ok = false
		}
	}
	return ok
}

func expectedItem(k kind) string {
	if k == hosts {
		return "host[:port][=ADDRESS[:port]], *.host, or an address"
	}
	return "an address or a range such as 10.1.0.0/16"
}

// strongerLevel is a Key.narrow.
func strongerLevel(granted, asked any) (any, string) {
	g, a := granted.(string), asked.(string)
	if !sandbox.Level(a).AtLeast(sandbox.Level(g)) {
		return g, "it stays " + g
	}
	return a, ""
}

// lessMemory is a Key.narrow.
func lessMemory(granted, asked any) (any, string) {
	g, a := granted.(int64), asked.(int64)
	if a > g {
		return g, "it stays " + formatSize(g)
	}
	return a, ""
}

// lessOutput is a Key.narrow.
func lessOutput(granted, asked any) (any, string) {
	g, a := granted.(int64), asked.(int64)
	limit := g
	if limit == 0 {
		limit = toolyard.DefaultOutputStored
	}
	if a > limit {
		return g, "it stays " + formatSize(limit)
	}
	return a, ""
}

// fewerDirectories is a Key.narrow: a directory is granted with those below it.
func fewerDirectories(granted, asked any) (any, string) {
	var left []string
	for _, dir := range asked.([]string) {
		below := func(parent string) bool {
			rel, err := filepath.Rel(parent, dir)
			return err == nil && filepath.IsLocal(rel)
		}
		if slices.ContainsFunc(granted.([]string), below) {
			left = append(left, dir)
		}
	}
	return cut(left, asked.([]string))
}

// fewerHosts is a Key.narrow.
func fewerHosts(granted, asked any) (any, string) {
	g, a := granted.([]string), asked.([]string)
	left := sandbox.NetworkOf(g).Narrow(sandbox.NetworkOf(a))
	list := left.Domains
	if left.Mode == sandbox.NetworkAll {
		list = []string{networkAll}
	}
	return cut(list, a)
}

// fewerRanges is a Key.narrow.
func fewerRanges(granted, asked any) (any, string) {
	var left []string
	for _, text := range asked.([]string) {
		a, err := sandbox.ParseRange(text)
		if err == nil && slices.ContainsFunc(granted.([]string), func(text string) bool {
			g, err := sandbox.ParseRange(text)
			return err == nil && g.Bits() <= a.Bits() && g.Contains(a.Addr())
		}) {
			left = append(left, text)
		}
	}
	return cut(left, asked.([]string))
}

// cut says what of asked is not left.
func cut(left, asked []string) (any, string) {
	gone := slices.DeleteFunc(slices.Clone(asked), func(text string) bool { return slices.Contains(left, text) })
	if left == nil {
		left = []string{}
	}
	if len(gone) == 0 {
		return left, ""
	}
	return left, "left out: " + strings.Join(gone, ", ")
}
