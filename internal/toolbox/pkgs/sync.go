package pkgs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// SyncOptions of Sync. The zero value works.
type SyncOptions struct {
	// Hooks are called for tools that are new or changed.
	Hooks
	// Declared gives what a tool itself says that it needs, to be merged into its
	// package.json. Nil leaves that to whoever installs dependencies.
	Declared func(ctx context.Context, dir string) (map[string]string, error)
	// Restore names tools that were removed and are to come back.
	Restore []string
}

// Status says what became of one tool.
type Status string

const (
	StatusAdded     Status = "added"
	StatusReplaced  Status = "replaced"
	StatusUnchanged Status = "unchanged"
	StatusEdited    Status = "edited"  // the user changed it, so it was kept
	StatusForeign   Status = "foreign" // the user has a tool of that name
	StatusRemoved   Status = "removed" // the user removed it, so it stays away
	StatusFailed    Status = "failed"
	StatusMigrated  Status = "migrated"
	StatusSkipped   Status = "skipped"
	StatusClash     Status = "clash"
)

// SyncReport says what became of each tool, by name.
type SyncReport struct {
	Tools []Synced      `json:"tools"`
	Took  time.Duration `json:"-"`
}

// Synced is one tool of a SyncReport.
type Synced struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Version is what package.json has.
	Version string `json:"version,omitempty"`
	// Reason says why a tool was kept or failed.
	Reason string `json:"reason,omitempty"`
	Err    error  `json:"-"`
}

// systemState is what the last Sync did: .state/system.sync. Its name is no
// tool's.
type systemState struct {
	Tools map[string]string `json:"tools"` // the hash of what was put there
}

// Sync brings the tools that are folders at the top of fsys into the toolbox:
// those that ship with the program. New ones are added and changed ones replaced
// as [Packages.Update] does it; one that the user changed, replaced by one of his
// own or removed stays as it is and is reported. If nothing changed it reads fsys
// and looks whether the folders are there, no more. One tool that fails does not
// stop the others; the error is only about the toolbox as a whole.
func (p *Packages) Sync(ctx context.Context, fsys fs.FS, o SyncOptions) (*SyncReport, error) {
	began := time.Now()
	hashes, names, err := systemTools(fsys)
	if err != nil {
		return nil, failure(err, "reading the tools that are shipped")
	}
	unlock, err := p.lock(ctx, ".system", ".op", "synchronising", max(p.c.Wait, 0))
	if err != nil {
		return nil, err
	}
	defer unlock()
	var state systemState
	if _, err := readJSON(p.state("system.sync"), &state); err != nil || state.Tools == nil {
		state.Tools = map[string]string{} // it is only there to be fast
	}
	report, changed := &SyncReport{}, false
	for _, name := range names {
		if state.Tools[name] == hashes[name] && p.present(name) {
			report.Tools = append(report.Tools, Synced{Name: name, Status: StatusUnchanged})
			continue
		}
		if s, ok := p.removed(name, o); ok {
			report.Tools = append(report.Tools, s)
			continue
		}
		s := p.syncOne(ctx, fsys, name, hashes[name], o)
		report.Tools = append(report.Tools, s)
		before := state.Tools[name]
		delete(state.Tools, name)
		switch s.Status {
		case StatusAdded, StatusReplaced, StatusUnchanged:
			state.Tools[name] = hashes[name]
		}
		changed = changed || state.Tools[name] != before
	}
	if changed {
		if err := writeJSON(p.state("system.sync"), state); err != nil {
			return report, failure(err, "remembering which tools are there")
		}
	}
	report.Took = time.Since(began)
	return report, nil
}

// removed reports on a tool that the user removed, which need not be looked at.
func (p *Packages) removed(name string, o SyncOptions) (Synced, bool) {
	r, err := p.read(name)
	if err != nil || r == nil || !r.Removed || p.present(name) || slices.Contains(o.Restore, name) {
		return Synced{}, false
	}
	return Synced{Name: name, Status: StatusRemoved, Reason: "it was removed"}, true
}

// systemTools lists the folders of fsys and the hash of each.
func systemTools(fsys fs.FS) (hashes map[string]string, names []string, err error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, nil, err
	}
	hashes = map[string]string{}
	for _, e := range entries {
		if !e.IsDir() || !ValidName(e.Name()) {
			continue
		}
		h := sha256.New()
		err := fs.WalkDir(fsys, e.Name(), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(fsys, name)
			fmt.Fprintf(h, "%s\x00%d\n", name, len(text))
			h.Write(text)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		names = append(names, e.Name())
		hashes[e.Name()] = hex.EncodeToString(h.Sum(nil))
	}
	return hashes, names, nil
}

func (p *Packages) syncOne(ctx context.Context, fsys fs.FS, name, hash string, o SyncOptions) Synced {
	s := Synced{Name: name}
	f, err := p.stageSystem(ctx, fsys, name, hash, o)
	if err == nil {
		defer f.Close()
		s.Version = f.Version
		s.Status, s.Reason, err = p.syncStaged(ctx, f, o)
	}
	if err != nil {
		s.Status, s.Reason, s.Err = StatusFailed, err.Error(), err
	}
	return s
}

// stageSystem writes a tool as it will be.
func (p *Packages) stageSystem(ctx context.Context, fsys fs.FS, name, hash string, o SyncOptions) (*Fetched, error) {
	s, err := p.stage()
	if err != nil {
		return nil, err
	}
	f := &Fetched{Name: name, Kind: KindSystem, Source: "toolyard:" + name, Integrity: "sha256-" + hash, stage: s}
	f.Dir = filepath.Join(s.dir, name)
	if err := p.writeSystem(ctx, fsys, f, o); err != nil {
		f.Close()
		return nil, failure(err, "writing the tool %s", name)
	}
	return f, nil
}

func (p *Packages) writeSystem(ctx context.Context, fsys fs.FS, f *Fetched, o SyncOptions) error {
	sub, err := fs.Sub(fsys, f.Name)
	if err != nil {
		return err
	}
	err = fs.WalkDir(sub, ".", func(name string, d fs.DirEntry, err error) error {
		to := filepath.Join(f.Dir, filepath.FromSlash(name))
		switch {
		case err != nil:
			return err
		case name != "." && !isSource(name):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		}
		text, err := fs.ReadFile(sub, path.Clean(name))
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
	if err != nil {
		return err
	}
	file, ok := ToolFile(f.Dir, f.Name)
	if !ok {
		return tool.Errorf(tool.Internal, "the folder %s has no tool", f.Name)
	}
	f.File = file
	var declared map[string]string
	if o.Declared != nil {
		if declared, err = o.Declared(ctx, f.Dir); err != nil {
			return err
		}
	}
	where := filepath.Join(f.Dir, "package.json")
	text, err := os.ReadFile(where)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text, err = systemPackage(text, f.Name, file, declared); err != nil {
		return err
	}
	if err := os.WriteFile(where, text, 0o644); err != nil {
		return err
	}
	pkg, _ := readAbout(f.Dir, "package.json")
	f.Version = pkg.Version
	f.Hash, err = Hash(f.Dir)
	return err
}

// syncStaged puts a tool into the toolbox if the user has nothing against it.
func (p *Packages) syncStaged(ctx context.Context, f *Fetched, o SyncOptions) (Status, string, error) {
	unlock, err := p.begin(ctx, f.Name, "synchronise")
	if err != nil {
		return "", "", err
	}
	defer unlock()
	r, err := p.read(f.Name)
	if err != nil {
		return "", "", err
	}
	if other, ok, err := p.spelt(f.Name); err != nil || ok && other != f.Name {
		return StatusForeign, "there is a tool " + other, err
	}
	if !p.present(f.Name) {
		if r != nil && r.Removed && !slices.Contains(o.Restore, f.Name) {
			return StatusRemoved, "it was removed", nil
		}
		if err := o.run(ctx, f, nil, false); err != nil {
			return "", "", err
		}
		_, err := p.put(ctx, f, nil)
		return StatusAdded, "", err
	}
	base, ok := r.Release(p.base(r))
	if !ok || base.Kind != KindSystem {
		if origin, ok := systemOrigin(r, base); ok {
			return StatusEdited, "it was changed since version " + origin.Version, nil
		}
		return StatusForeign, "there is a tool " + f.Name + " of the user's", nil
	}
	if base.Integrity == f.Integrity {
		edited, err := p.Edited(f.Name)
		if edited {
			return StatusEdited, "it was changed", err
		}
		return StatusUnchanged, "", err
	}
	switch edited, err := p.Edited(f.Name); {
	case err != nil:
		return "", "", err
	case edited:
		return StatusEdited, "it was changed since version " + base.Version, nil
	}
	if _, err := p.replace(ctx, f, UpdateOptions{Hooks: o.Hooks}); err != nil {
		return "", "", err
	}
	return StatusReplaced, "", nil
}

// systemOrigin finds the shipped version that an edit came from.
func systemOrigin(r *Record, base Release) (Release, bool) {
	for base.Kind == KindEdited && base.Previous != 0 {
		var ok bool
		if base, ok = r.Release(base.Previous); !ok {
			return base, false
		}
	}
	return base, base.Kind == KindSystem
}
