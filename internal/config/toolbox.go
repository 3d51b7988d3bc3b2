package config

import (
	"cmp"
	"strings"
)

// toolbox fills in what the toolbox's settings leave to the environment.
func (r *reader) toolbox(o Options) {
	t := &r.loaded.Config.Toolbox
	t.Environ = o.Environ
	t.Index = cmp.Or(t.Index, o.env("PIP_INDEX_URL"), o.env("UV_DEFAULT_INDEX"), o.env("UV_INDEX_URL"))
	for _, name := range r.loaded.passOn {
		for _, pair := range o.Environ {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				if t.Variables == nil {
					t.Variables = map[string]string{}
				}
				t.Variables[name] = value
			}
		}
	}
}
