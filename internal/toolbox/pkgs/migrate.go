package pkgs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// MigrateOptions of Migrate. The zero value works.
type MigrateOptions struct {
	// Hooks are called for each tool; a tool whose hook fails is not migrated.
	Hooks
	// Overwrite replaces tools of the same name, which stay as versions to roll
	// back to. Data and .env that are there stay; what they lack is added.
	Overwrite bool
}

// MigrationReport says what became of each entry that was found, the newer layout
// first.
type MigrationReport struct {
	From  string     `json:"from"`
	Tools []Migrated `json:"tools"`
}

// Migrated is one entry of a MigrationReport.
type Migrated struct {
	Name string `json:"name"`
	From string `json:"from"`
	// Status is migrated, skipped, clash or failed.
	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"`
	// Copied are the parts that were there, Made those that were missing: "data",
	// ".env", "package.json", "logs".
	Copied []string `json:"copied,omitempty"`
	Made   []string `json:"made,omitempty"`
	// Left is what was not copied: links that lead out, what is installed anew.
	Left []string `json:"left,omitempty"`
	Err  error    `json:"-"`
}

// layouts are the folders of a Prompt Manager home that hold tools, the newer
// first. ~/.prompt-manager/toolbox/<name>/<name>.tool.js, and before that
// ~/.prompt-manager/tools/<name>/<name>.tool.js.
var layouts = []string{"toolbox", "tools"}

// Migrate copies tools from another program's folders into the toolbox: with
// their .env, data and package.json. Dir is such a home, or the folder in it that
// holds the tools. Nothing in it is changed. Symlinks are not followed. What is
// there already is a clash, and left as it is.
func (p *Packages) Migrate(ctx context.Context, dir string, o MigrateOptions) (*MigrationReport, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, failure(err, "looking for tools")
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, tool.Errorf(tool.NotFound, "there is no %s", dir).
			WithHint("Name the folder that has toolbox/ or tools/ in it.")
	}
	r := &MigrationReport{From: dir}
	var roots []string
	for _, l := range layouts {
		if info, err := os.Stat(filepath.Join(dir, l)); err == nil && info.IsDir() {
			if _, isTool := ToolFile(filepath.Join(dir, l), l); !isTool {
				roots = append(roots, filepath.Join(dir, l))
			}
		}
	}
	if roots == nil {
		roots = []string{dir}
	}
	done := map[string]string{}
	for _, root := range roots {
		if same, err := filepath.EvalSymlinks(root); err == nil && same == p.c.Home {
			return nil, tool.Errorf(tool.ParameterError, "%s is the toolbox itself", root)
		}
		entries, err := os.ReadDir(root)
		if err != nil {
			return nil, failure(err, "looking for tools in %s", root)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if err := context.Cause(ctx); err != nil {
				return r, cancelled(err)
			}
			r.Tools = append(r.Tools, p.migrateOne(ctx, root, e, done, o))
		}
	}
	return r, nil
}

func (p *Packages) migrateOne(ctx context.Context, root string, e fs.DirEntry, done map[string]string, o MigrateOptions) Migrated {
	m := Migrated{Name: e.Name(), From: filepath.Join(root, e.Name()), Status: StatusSkipped}
	file, ok := "", false
	if e.IsDir() {
		file, ok = ToolFile(m.From, m.Name)
	}
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		m.Reason = "it is a symlink"
	case !e.IsDir():
		m.Reason = "it is no folder"
	case !ValidName(m.Name):
		m.Reason = "its name is none that a tool may have"
	case !ok:
		m.Reason = "it has no " + m.Name + ".tool.js"
	case !regular(filepath.Join(m.From, file)):
		m.Reason = file + " is a symlink"
	case done[strings.ToLower(m.Name)] != "":
		m.Status, m.Reason = StatusClash, "the same tool was found in "+done[strings.ToLower(m.Name)]
	default:
		m.Status = StatusMigrated
		if err := p.migrate(ctx, &m, file, o); err != nil {
			m.Status, m.Reason, m.Err = StatusFailed, err.Error(), err
			if tool.AsError(err).Code == tool.Conflict {
				m.Status, m.Reason = StatusClash, m.Reason+overwriting(o)
			}
		}
		done[strings.ToLower(m.Name)] = m.From
	}
	return m
}

// overwriting says how a tool of that name can be replaced.
func overwriting(o MigrateOptions) string {
	if o.Overwrite {
		return ""
	}
	return "; --overwrite puts this one in its place, and rollback takes it back"
}

func regular(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// migrate copies one tool.
func (p *Packages) migrate(ctx context.Context, m *Migrated, file string, o MigrateOptions) error {
	unlock, err := p.begin(ctx, m.Name, "migrate")
	if err != nil {
		return err
	}
	defer unlock()
	taken := p.vacant(m.Name)
	shipped, err := p.shipped(m.Name)
	if err != nil {
		return err
	}
	if other, ok, err := p.spelt(m.Name); err != nil || taken != nil && (!o.Overwrite && !shipped || ok && other != m.Name) {
		return errors.Join(err, taken)
	}
	if taken != nil && shipped {
		m.Reason = "in place of the one that comes with the program; rollback takes it back"
	}
	s, err := p.stage()
	if err != nil {
		return err
	}
	f := &Fetched{Name: m.Name, File: file, Kind: KindMigrated, Source: m.From, Dir: filepath.Join(s.dir, m.Name), stage: s}
	defer f.Close()
	own := filepath.Join(s.dir, "own")
	if err := p.copyMigrated(ctx, m, f, own); err != nil {
		return err
	}
	if taken != nil {
		if _, err := p.replace(ctx, f, UpdateOptions{Hooks: o.Hooks, Force: true}); err != nil {
			return err
		}
		return addMissing(ctx, own, p.Dir(m.Name))
	}
	if err := o.run(ctx, f, nil, false); err != nil {
		return err
	}
	// The tool's data come first, as if it had been removed and were installed
	// again: it never runs without them.
	if !exists(p.Dir(m.Name)) {
		if err := p.makeRoom(m.Name); err != nil {
			return err
		}
		if err := os.Rename(own, p.kept(m.Name)); err != nil {
			return err
		}
	} else if err := addMissing(ctx, own, p.Dir(m.Name)); err != nil {
		return err
	}
	_, err = p.put(ctx, f, nil)
	return err
}

// shipped reports whether a tool is one that comes with the program, as it came:
// the user's own of that name is what he is used to.
func (p *Packages) shipped(name string) (bool, error) {
	r, err := p.read(name)
	if err != nil || r == nil || r.Removed {
		return false, err
	}
	if v, ok := r.Release(r.Base); !ok || v.Kind != KindSystem {
		return false, nil
	}
	edited, err := p.Edited(name)
	return !edited, err
}

// copyMigrated copies a tool's sources to the stage, and what is the user's to
// own.
func (p *Packages) copyMigrated(ctx context.Context, m *Migrated, f *Fetched, own string) error {
	for _, dir := range []string{f.Dir, own} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	c := &copying{ctx: ctx, from: m.From, to: f.Dir, limit: p.c.Limits}
	c.symlink = func(name, target string) (bool, error) {
		if relativeInside(name, target) {
			return true, nil
		}
		m.Left = append(m.Left, name+" → "+target)
		return false, nil
	}
	if _, err := c.copy(isSource); err != nil {
		return err
	}
	if exists(filepath.Join(f.Dir, "package.json")) {
		m.Copied = append(m.Copied, "package.json")
	} else {
		if err := makePackage(f.Dir, m.Name, f.File); err != nil {
			return err
		}
		m.Made = append(m.Made, "package.json")
	}
	for _, name := range installed {
		if exists(filepath.Join(m.From, name)) {
			m.Left = append(m.Left, name)
		}
	}
	data := &copying{ctx: ctx, from: m.From, to: own, symlink: c.symlink}
	_, err := data.copy(func(name string) bool {
		top, _, _ := strings.Cut(name, "/")
		return top == "data" || name == ".env"
	})
	if err != nil {
		return err
	}
	if env := filepath.Join(own, ".env"); exists(env) {
		m.Copied = append(m.Copied, ".env")
		if err := os.Chmod(env, 0o600); err != nil {
			return err
		}
	}
	for _, name := range []string{"data", "logs"} {
		if exists(filepath.Join(own, name)) {
			m.Copied = append(m.Copied, name)
			continue
		}
		m.Made = append(m.Made, name)
		if err := os.Mkdir(filepath.Join(own, name), 0o755); err != nil {
			return err
		}
	}
	pkg, _ := readAbout(f.Dir, "package.json")
	f.Version = pkg.Version
	if f.Hash, err = Hash(f.Dir); err == nil {
		f.Integrity = "sha256-" + f.Hash
	}
	return err
}

// addMissing copies what a folder lacks of another one.
func addMissing(ctx context.Context, from, to string) error {
	c := &copying{ctx: ctx, from: from, to: to}
	_, err := c.copy(func(name string) bool {
		info, err := os.Lstat(filepath.Join(to, filepath.FromSlash(name)))
		return err != nil || info.IsDir()
	})
	return err
}
