package pkgs

import (
	"context"

	"github.com/toolyard/toolyard/tool"
)

// UpdateOptions of Update. The zero value works.
type UpdateOptions struct {
	Hooks
	// Force replaces a tool that the user changed, or that was put into the
	// toolbox by hand; what was there stays as a version to roll back to.
	Force bool
}

// Edited reports whether the user changed a tool since it was installed: any of
// its sources but the lockfile and the dependencies in package.json, which
// installing dependencies writes. A folder that was put into the toolbox by hand
// is not edited.
func (p *Packages) Edited(name string) (bool, error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	r, err := p.read(name)
	if err != nil || r == nil || r.Removed || r.Edit == "" {
		return false, err
	}
	m, err := manifestOf(p.Dir(name))
	if err != nil {
		return false, failure(err, "reading %s", name)
	}
	return editHash(p.Dir(name), m) != r.Edit, nil
}

// Source is what a tool was installed from, so that Fetch can get it anew;
// PARAMETER_ERROR if it came from no package.
func (p *Packages) Source(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	r, err := p.read(name)
	if err != nil {
		return "", err
	}
	if !p.present(name) {
		return "", p.notThere(name)
	}
	for n := p.base(r); n != 0; {
		v, ok := r.Release(n)
		if !ok {
			break
		}
		switch v.Kind {
		case KindSystem:
			return "", tool.Errorf(tool.ParameterError, "%s is shipped with the program and updated with it", name)
		case KindDirectory, KindArchive, KindNPM, KindGit, KindBundle:
			return v.Source, nil
		}
		n = v.Previous
	}
	return "", tool.Errorf(tool.ParameterError, "nobody knows where %s came from: it was put into the toolbox by hand", name).
		WithHint("Name the source of the new version.")
}

// Update replaces a tool by another version of it: f, or if that is nil what its
// source has now. The version that was there is kept for [Packages.Rollback]. If
// anything fails it stays, or is put back, whole. Data, logs, .env and run.log
// are not touched. If nothing would change, nothing is done: Replaced is nil.
func (p *Packages) Update(ctx context.Context, name string, f *Fetched, o UpdateOptions) (*Installed, error) {
	if f == nil {
		source, err := p.Source(name)
		if err != nil {
			return nil, err
		}
		if f, err = p.Fetch(ctx, source, o.Progress); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	if f.Name != name {
		return nil, tool.Errorf(tool.ParameterError, "the package is the tool %s, not %s", f.Name, name).
			WithHint("Use install for another tool.")
	}
	unlock, err := p.begin(ctx, name, "update")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if !p.present(name) {
		return nil, p.notThere(name)
	}
	return p.replace(ctx, f, o)
}

// replace is Update with the operation locked.
func (p *Packages) replace(ctx context.Context, f *Fetched, o UpdateOptions) (*Installed, error) {
	if err := p.plainFolder(f.Name); err != nil {
		return nil, err
	}
	r, err := p.read(f.Name)
	if err != nil {
		return nil, err
	}
	edited, err := p.Edited(f.Name)
	if err != nil {
		return nil, err
	}
	now, known := r.Release(p.base(r))
	switch {
	case edited && !o.Force:
		return nil, tool.Errorf(tool.Conflict, "%s was changed since it was installed", f.Name).
			WithHint("Use --force to replace it; what is there now stays as a version to roll back to. `toolyard toolbox verify %s` lists the changes.", f.Name)
	case !known && !o.Force:
		return nil, tool.Errorf(tool.Conflict, "%s was put into the toolbox by hand", f.Name).
			WithHint("Use --force to replace it; what is there now stays as a version to roll back to.")
	case known && !edited && now.Integrity == f.Integrity && now.Kind == f.Kind && now.Source == f.Source:
		return &Installed{Name: f.Name, Dir: p.Dir(f.Name), Release: now}, nil
	}
	if !known {
		now = Release{Kind: KindLocal}
	}
	if err := o.run(ctx, f, &now, edited); err != nil {
		return nil, err
	}
	return p.put(ctx, f, &now)
}

// Rollback puts an earlier version back: that of the number, or the one before if
// it is 0. What is there now is kept as a version as well.
func (p *Packages) Rollback(ctx context.Context, name string, number int) (*Installed, error) {
	unlock, err := p.begin(ctx, name, "rollback")
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, err := p.read(name)
	if err != nil {
		return nil, err
	}
	if r == nil || r.Removed {
		return nil, p.notThere(name)
	}
	if err := p.plainFolder(name); err != nil {
		return nil, err
	}
	before, _ := r.Release(r.Base)
	if number == 0 {
		number, err = p.earlier(name, r, before)
		if err != nil {
			return nil, err
		}
	}
	to, ok := r.Release(number)
	if !ok || !exists(p.version(name, number)) {
		return nil, tool.Errorf(tool.NotFound, "there is no version %d of %s", number, name).
			WithHint("Versions are kept: %s.", p.keptNumbers(name))
	}
	m, err := p.meta(name, number)
	if err != nil {
		return nil, failure(err, "reading version %d of %s", number, name)
	}
	s, err := p.stage()
	if err != nil {
		return nil, err
	}
	defer s.close()
	if _, err := p.change(ctx, target{name: name, base: number, edit: editHash(p.version(name, number), m.Files)}, s); err != nil {
		return nil, err
	}
	return &Installed{Name: name, Dir: p.Dir(name), Release: to, Replaced: &before}, nil
}

// earlier is the version to roll back to: what was installed if the user changed
// it since, else what was there before that.
func (p *Packages) earlier(name string, r *Record, base Release) (int, error) {
	if edited, err := p.Edited(name); err != nil || edited {
		return r.Base, err
	}
	if base.Previous == 0 {
		return 0, tool.Errorf(tool.NotFound, "there is no earlier version of %s", name).
			WithHint("Versions are kept from the first update on.")
	}
	return base.Previous, nil
}

// plainFolder makes sure that a tool's folder may be switched.
func (p *Packages) plainFolder(name string) error {
	if to, err := readlink(p.Dir(name)); err == nil {
		return tool.Errorf(tool.Conflict, "%s in the toolbox is a link to %s, which is not the toolbox's to change", name, to).
			WithHint("Change it there, or remove the link.")
	}
	return nil
}
