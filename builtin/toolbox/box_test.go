package toolbox_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/builtin/toolbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// memoryBox is a toolbox in memory: what it is told to configure it keeps, what
// it is told to log it finds.
type memoryBox struct {
	mu     sync.Mutex
	tools  map[string]*memoryTool
	report toolbox.Report
	asked  []string // sources and folders that it was asked for
}

type memoryTool struct {
	entry toolbox.Entry
	env   map[string]string
	log   []string
}

var _ toolbox.Box = (*memoryBox)(nil)

func newBox(tools ...*definition.Definition) *memoryBox {
	b := &memoryBox{tools: map[string]*memoryTool{}}
	for _, d := range tools {
		b.tools[d.Name] = &memoryTool{entry: toolbox.Entry{Definition: d, Usable: true, EnvPath: "/box/" + d.Name + "/.env"}, env: map[string]string{}}
	}
	return b
}

func (b *memoryBox) find(name string) (*memoryTool, error) {
	if t := b.tools[name]; t != nil {
		return t, nil
	}
	near := validate.Rank(name, slices.Collect(maps.Keys(b.tools)))
	err := tool.Errorf(tool.ToolNotFound, "there is no tool %q in the toolbox", name)
	if len(near) > 0 {
		err = err.WithHint("Did you mean %s?", near[0]).WithDetail("nearest", near)
	}
	return nil, err
}

func (b *memoryBox) Lookup(_ context.Context, name string) (toolbox.Entry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.find(name)
	if err != nil {
		return toolbox.Entry{}, err
	}
	return t.entry, nil
}

func (b *memoryBox) Environment(_ context.Context, name string) (map[string]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.find(name)
	if err != nil {
		return nil, err
	}
	return maps.Clone(t.env), nil
}

func (b *memoryBox) Configure(_ context.Context, name string, change func(map[string]string) (map[string]string, error)) (map[string]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.find(name)
	if err != nil {
		return nil, err
	}
	changed, err := change(maps.Clone(t.env))
	if err != nil {
		return nil, err
	}
	t.env = maps.Clone(changed)
	return changed, nil
}

func (b *memoryBox) Log(_ context.Context, name string, q toolbox.LogQuery) (toolbox.LogExcerpt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.find(name)
	if err != nil {
		return toolbox.LogExcerpt{}, err
	}
	pattern, err := regexp.Compile(q.Pattern)
	if err != nil {
		return toolbox.LogExcerpt{}, err
	}
	found := toolbox.LogExcerpt{Path: "/box/" + name + "/run.log"}
	for _, line := range t.log {
		if pattern.MatchString(line) && (q.Level == "" || strings.Contains(line, "["+q.Level+"]")) {
			found.Lines = append(found.Lines, line)
		}
	}
	found.Matched = len(found.Lines)
	if n := q.Lines; n > 0 && len(found.Lines) > n {
		if q.Action == "head" {
			found.Lines = found.Lines[:n]
		} else {
			found.Lines = found.Lines[len(found.Lines)-n:]
		}
		found.More = true
	}
	return found, nil
}

func (b *memoryBox) Validate(_ context.Context, nameOrPath string, release bool) (toolbox.Report, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, fmt.Sprint(nameOrPath, " ", release))
	return b.report, nil
}

func (b *memoryBox) Install(ctx context.Context, source string, o toolbox.InstallOptions) (toolbox.Installed, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, source)
	o.Progress(1, 2, "fetching")
	ok, err := o.Confirm(ctx, "Install "+source, "It asks for the network.")
	if err != nil {
		return toolbox.Installed{}, err
	}
	if !ok {
		return toolbox.Installed{}, tool.Errorf(tool.PermissionDenied, "%s was not confirmed", source)
	}
	d := &definition.Definition{Name: "new", Metadata: definition.Metadata{Version: "2.0.0"}}
	b.tools["new"] = &memoryTool{entry: toolbox.Entry{Definition: d, Usable: true}, env: map[string]string{}}
	return toolbox.Installed{Name: "new", Version: "2.0.0", Source: source, Path: "/box/new", Replaced: "1.0.0", Warnings: []string{"no README"}}, nil
}
