package pkgs

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/toolyard/toolyard/tool"
)

// Hooks are what installing needs to know about tools. Each may be nil. They are
// called in this order with the folder of the new version, named as the tool,
// before anything else has been touched; an error ends the operation and is
// returned as it is.
type Hooks struct {
	// Validate checks the folder.
	Validate func(ctx context.Context, dir string) error
	// Confirm asks whoever is to decide.
	Confirm func(ctx context.Context, p Proposal) error
	// Dependencies installs them into the folder.
	Dependencies func(ctx context.Context, dir string) error
	// TestLoad loads the tool.
	TestLoad func(ctx context.Context, dir string) error
	Progress func(Progress)
}

// Proposal is what is about to be installed.
type Proposal struct {
	*Fetched
	// Replaces is the version that is there now; nil for a new tool.
	Replaces *Release
	// Edited says that the user changed what is there now.
	Edited bool
}

func (h Hooks) run(ctx context.Context, f *Fetched, replaces *Release, edited bool) error {
	for _, s := range []struct {
		stage string
		call  func(context.Context, string) error
	}{
		{"validate", h.Validate},
		{"confirm", h.confirm(f, replaces, edited)},
		{"dependencies", h.Dependencies},
		{"test", h.TestLoad},
	} {
		if err := context.Cause(ctx); err != nil {
			return cancelled(err)
		}
		if s.call == nil {
			continue
		}
		report(h.Progress, Progress{Stage: s.stage})
		if err := s.call(ctx, f.Dir); err != nil {
			return err
		}
	}
	report(h.Progress, Progress{Stage: "switch"})
	return nil
}

func (h Hooks) confirm(f *Fetched, replaces *Release, edited bool) func(context.Context, string) error {
	if h.Confirm == nil {
		return nil
	}
	return func(ctx context.Context, _ string) error { return h.Confirm(ctx, Proposal{f, replaces, edited}) }
}

// Installed says what an operation left in the toolbox.
type Installed struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	Release
	// Replaced is the version that was there before; nil if none was.
	Replaced *Release `json:"replaced,omitempty"`
	// Found says that data of an earlier installation were there.
	Found bool `json:"found,omitempty"`
	// Left is what the package had and was not installed.
	Left []string `json:"left,omitempty"`
}

// Install puts a package that was fetched into the toolbox as a new tool. Data
// that were left when a tool of that name was removed are its data again. A tool
// of that name, in whatever case, is a CONFLICT, as is another operation on it.
func (p *Packages) Install(ctx context.Context, f *Fetched, h Hooks) (*Installed, error) {
	unlock, err := p.begin(ctx, f.Name, "install")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := p.vacant(f.Name); err != nil {
		return nil, err
	}
	found := exists(filepath.Join(p.place(f.Name), "data"))
	if err := h.run(ctx, f, nil, false); err != nil {
		return nil, err
	}
	// It may have been put there by hand meanwhile.
	if err := p.vacant(f.Name); err != nil {
		return nil, err
	}
	in, err := p.put(ctx, f, nil)
	if err == nil {
		in.Found = found
	}
	return in, err
}

// Lock keeps a tool from being installed, updated, rolled back or removed until
// unlock is called: for who changes its folder in another way, by installing
// dependencies into it for example. Doing says what for, as in "installing
// dependencies". It waits as operations do, and is a CONFLICT after that.
func (p *Packages) Lock(ctx context.Context, name, doing string) (unlock func(), err error) {
	return p.begin(ctx, name, doing)
}

// begin locks a tool for an operation and finishes what another one left.
func (p *Packages) begin(ctx context.Context, name, doing string) (unlock func(), err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if unlock, err = p.lock(ctx, name, ".op", doing, p.c.Wait); err != nil {
		return nil, err
	}
	tree, err := p.lock(ctx, name, ".tree", "", max(p.c.Wait, 0))
	if err == nil {
		err = p.finish(name)
		tree()
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// vacant makes sure that there is no tool of a name.
func (p *Packages) vacant(name string) error {
	other, ok, err := p.spelt(name)
	if err != nil {
		return failure(err, "looking for %s", name)
	}
	if !ok {
		return nil
	}
	if other != name {
		return tool.Errorf(tool.Conflict, "%s differs only by case from the tool %s", name, other).
			WithHint("Rename the tool's file and its package, or remove %s.", other)
	}
	info, err := os.Lstat(p.Dir(name))
	if err == nil && !info.IsDir() {
		return tool.Errorf(tool.Conflict, "%s is in the toolbox and is no folder", name).
			WithHint("Move it away.")
	}
	if p.present(name) {
		e := tool.Errorf(tool.Conflict, "there is a tool %s already", name).
			WithHint("Use update to replace it, or remove it first.")
		if r, err := p.read(name); err == nil {
			if v, ok := r.Release(p.base(r)); ok && v.Source != "" {
				e.Message += ", from " + v.Source
			}
		}
		return e
	}
	return nil
}

func (p *Packages) base(r *Record) int {
	if r == nil {
		return 0
	}
	return r.Base
}

// put switches to a fetched package.
func (p *Packages) put(ctx context.Context, f *Fetched, replaced *Release) (*Installed, error) {
	if f.stage == nil || f.stage.lock == nil {
		return nil, tool.Errorf(tool.Internal, "the package %s was closed", f.Name)
	}
	if _, ok := ToolFile(f.Dir, f.Name); !ok {
		return nil, tool.Errorf(tool.ParameterError, "%s has no tool any more", f.Name)
	}
	t := target{name: f.Name, dir: f.Dir, release: Release{
		Version: f.Version, Kind: f.Kind, Source: f.Source, Resolved: f.Resolved, Integrity: f.Integrity, File: f.File, At: p.c.Now().UTC(),
	}}
	r, err := p.change(ctx, t, f.stage)
	if err != nil {
		return nil, err
	}
	v, ok := r.Release(r.Base)
	if !ok {
		return nil, errors.New("the version is not in its record")
	}
	return &Installed{Name: f.Name, Dir: p.Dir(f.Name), Release: v, Replaced: replaced, Left: f.Left}, nil
}
