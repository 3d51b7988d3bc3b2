package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/profile"
	"github.com/toolyard/toolyard/tool"
)

// profiles checks the profiles that were defined, each by itself, and that there
// is one of the name that was chosen.
func (r *reader) profiles() {
	c := &r.loaded.Config
	right := map[string]profile.Definition{}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		d := profile.Definition{Tools: c.Profiles[name].Tools, Mode: c.Profiles[name].Mode}
		if _, err := profile.New(map[string]profile.Definition{name: d}); err != nil {
			path := "profiles." + name + ".tools"
			r.wrong(path, "profiles."+name, "a profile", tool.AsError(err).Message)
			continue
		}
		right[name] = d
	}
	set, err := profile.New(right)
	if err != nil {
		return // told above
	}
	if _, err := set.Find(c.Profile); err != nil {
		expected := "one of the profiles " + strings.Join(set.Names(), ", ")
		if near := nearest(c.Profile, set.Names()); near != "" {
			expected = fmt.Sprintf("the name of a profile (did you mean %s?): %s", near, strings.Join(set.Names(), ", "))
		}
		r.wrong("profile", "profile", expected, fmt.Sprintf("%q", c.Profile))
	}
}

// wrong reports a setting whose value does not fit the others.
func (r *reader) wrong(path, shown, expected, got string) {
	where := r.loaded.Origins[path].String()
	if !strings.HasPrefix(where, "--") {
		where += ": " + shown
	}
	r.faults = append(r.faults, tool.Fault{Path: where, Expected: expected, Got: got})
}
