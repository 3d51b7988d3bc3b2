package toolyard

import (
	"context"
	"encoding/json"
	"slices"

	toolboxfamily "github.com/toolyard/toolyard/builtin/toolbox"
	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/page"
	"github.com/toolyard/toolyard/internal/toolbox/runlog"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// toolboxDoor is the toolbox as the tools toolm, toolbox_validate and
// toolbox_install know it.
type toolboxDoor struct {
	*toolbox.Box
	yard *Toolyard
}

var _ toolboxfamily.Box = toolboxDoor{}

// Lookup finds a tool, also one that did not load.
func (d toolboxDoor) Lookup(ctx context.Context, name string) (toolboxfamily.Entry, error) {
	def, failure, usable, err := d.Entry(ctx, name)
	if err != nil {
		return toolboxfamily.Entry{}, err
	}
	if _, there := d.yard.registry.Lookup(toolbox.Source+":"+def.Name, "", ""); usable && !there {
		d.yard.sources.Sync(ctx) // asked just now, and about to be called
	}
	limits, err := d.Limits(def)
	if err != nil {
		return toolboxfamily.Entry{}, err
	}
	return toolboxfamily.Entry{Definition: def, Granted: limits, Failure: failure, Usable: usable, EnvPath: d.EnvPath(def.Name)}, nil
}

// Log reads a tool's run.log.
func (d toolboxDoor) Log(ctx context.Context, name string, q toolboxfamily.LogQuery) (toolboxfamily.LogExcerpt, error) {
	path, p, err := d.Box.Log(ctx, name, runlog.Query{Action: runlog.Action(q.Action), Lines: q.Lines, Level: q.Level, Since: q.Since, Pattern: q.Pattern})
	if err != nil {
		return toolboxfamily.LogExcerpt{}, err
	}
	x := toolboxfamily.LogExcerpt{Path: path, Lines: []string{}, Matched: p.Matched, More: p.More}
	for _, e := range p.Entries {
		x.Lines = append(x.Lines, e.Raw)
	}
	return x, nil
}

// Validate runs the layers.
func (d toolboxDoor) Validate(ctx context.Context, where string, release bool) (toolboxfamily.Report, error) {
	r, err := d.Box.Validate(ctx, where, check.Options{Release: release})
	if err != nil {
		return toolboxfamily.Report{}, err
	}
	raw, err := r.JSON()
	return toolboxfamily.Report{Text: r.Text("en"), JSON: json.RawMessage(raw), OK: r.Failed == 0}, err
}

// Install takes a tool into the toolbox.
func (d toolboxDoor) Install(ctx context.Context, source string, o toolboxfamily.InstallOptions) (toolboxfamily.Installed, error) {
	var warnings []string
	options := toolbox.InstallOptions{
		Confirm: func(ctx context.Context, p toolbox.Proposal) error {
			if p.Report != nil {
				for _, layer := range p.Report.Layers {
					for _, f := range layer.Findings {
						if f.Severity == check.Warning {
							warnings = append(warnings, f.Message)
						}
					}
				}
			}
			if o.Confirm == nil {
				return nil
			}
			text := ""
			for _, line := range p.Lines() {
				text += line + "\n"
			}
			yes, err := o.Confirm(ctx, "Install "+p.Name+"?", text)
			if err == nil && !yes {
				err = tool.Errorf(tool.PermissionDenied, "%s was not installed: a person said no", p.Name)
			}
			return err
		},
	}
	if o.Progress != nil {
		options.Progress = func(stage string, done, total int64) { o.Progress(done, total, stage) }
	}
	in, err := d.Box.Install(ctx, source, options)
	if err != nil {
		return toolboxfamily.Installed{}, err
	}
	out := toolboxfamily.Installed{Name: in.Name, Version: in.Version, Source: in.Source, Integrity: in.Integrity, Path: in.Dir, Warnings: warnings}
	if in.Replaced != nil {
		out.Replaced = in.Replaced.Version
	}
	return out, nil
}

// toolboxFamily is what the tools of the toolbox's family need, whatever is in it.
func (t *Toolyard) toolboxFamily() toolboxfamily.Deps {
	return toolboxfamily.Deps{
		Box: toolboxDoor{t.toolbox, t}, Language: func(*tool.Request) string { return t.config.Toolbox.Language },
		Resolve: func(req *tool.Request, path string) (string, error) {
			ws, err := t.workspaces.get(req.Workspace)
			if err != nil {
				return "", err
			}
			p, err := ws.Resolve(path, workspace.Read)
			if err != nil {
				return "", err
			}
			if !p.Exists() {
				return "", p.NotFound()
			}
			return p.Real, nil
		},
	}
}

// toolboxDeps is what the family of toolm needs now.
func (t *Toolyard) toolboxDeps(ctx context.Context) toolboxfamily.Deps {
	d := t.toolboxFamily()
	list, err := t.toolbox.Outline(ctx)
	if err != nil {
		return d
	}
	var tools []page.Summary
	for _, s := range list {
		if s.State != toolbox.StateUnknown {
			tools = append(tools, page.Summary{Name: s.Name, Description: s.Description, Tags: s.Tags, Scenarios: s.Scenarios, Failed: s.State == toolbox.StateFailed})
		}
	}
	if len(tools) > 0 {
		d.Description = page.ToolmDescription(slices.Clip(tools), 0, page.Language(t.config.Toolbox.Language))
	}
	return d
}

// describeToolm lets toolm's description say what is in the toolbox now.
func (t *Toolyard) describeToolm() {
	if err := t.registry.Replace(t.background, toolboxfamily.Toolm(t.toolboxDeps(t.background))); err != nil && t.background.Err() == nil {
		t.log.Warn("toolm's description", "error", err)
	}
}
