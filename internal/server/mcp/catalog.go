package mcp

import (
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/tool"
)

// FromRegistry makes a catalog of the tools that the whole system sees. A tool
// that is still being started is on the list; its calls wait or fail.
func FromRegistry(r *registry.Registry) Catalog { return registered{r} }

type registered struct{ r *registry.Registry }

func (c registered) Specs() []*tool.Spec {
	entries := c.r.Snapshot("", "")
	specs := make([]*tool.Spec, 0, len(entries))
	for _, e := range entries {
		switch e.State {
		case registry.Ready, registry.Registered, registry.Initializing:
			specs = append(specs, e.Spec)
		}
	}
	return specs
}

func (c registered) Find(name string) (*tool.Spec, error) {
	if e, ok := c.r.Lookup(name, "", ""); ok {
		return e.Spec, nil
	}
	h, err := c.r.Acquire(name)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	return h.Spec, nil
}

func (c registered) OnChange(f func()) { c.r.OnChange(f) }
