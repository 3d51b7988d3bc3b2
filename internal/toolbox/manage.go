package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/internal/toolbox/templates"
	"github.com/toolyard/toolyard/tool"
)

// Summary is one tool as a list shows it.
type Summary struct {
	Name        string              `json:"name"`
	Title       string              `json:"title,omitempty"`
	Description string              `json:"description,omitempty"`
	Version     string              `json:"version,omitempty"`
	Category    string              `json:"category,omitempty"`
	Language    definition.Language `json:"language,omitempty"`
	Tags        []string            `json:"tags,omitempty"`
	Scenarios   []string            `json:"scenarios,omitempty"`
	// State is ready, failed, or unknown where the tool has not been asked yet.
	State string `json:"state"`
	// Error is why the folder's present files are not in use. A ready tool with one
	// runs on in its last good version.
	Error string `json:"error,omitempty"`
	Dir   string `json:"dir"`
	// Kind and Source say where it was installed from.
	Kind   pkgs.Kind `json:"kind,omitempty"`
	Source string    `json:"source,omitempty"`
	Asks   []string  `json:"asks,omitempty"` // beyond what it was granted
}

// The states of a Summary.
const (
	StateReady   = "ready"
	StateFailed  = "failed"
	StateUnknown = "unknown"
)

// Summaries lists the tools by name, as far as they are known: see [Box.Load].
func (b *Box) Summaries(ctx context.Context) ([]Summary, error) {
	if err := b.Ready(ctx); err != nil {
		return nil, err
	}
	listed, err := b.config.Packages.List()
	if err != nil {
		return nil, err
	}
	releases := map[string]*pkgs.Release{}
	for _, l := range listed {
		releases[l.Name] = l.Release
	}
	var list []Summary
	for _, e := range b.all() {
		s := b.summary(e)
		if _, asked, err := b.Grants(e.name); err == nil {
			s.Asks = asked.Lines()
		}
		if r := releases[e.name]; r != nil {
			s.Kind, s.Source = r.Kind, r.Source
		}
		list = append(list, s)
	}
	return list, nil
}

// Outline is Summaries without what would have to be read from the disk: where the
// tools were installed from and what they ask for.
func (b *Box) Outline(ctx context.Context) ([]Summary, error) {
	if err := b.Ready(ctx); err != nil {
		return nil, err
	}
	var list []Summary
	for _, e := range b.all() {
		list = append(list, b.summary(e))
	}
	return list, nil
}

// Summary is one tool, asked what it is if nobody has.
func (b *Box) Summary(ctx context.Context, name string) (Summary, error) {
	if _, _, _, err := b.Entry(ctx, name); err != nil {
		return Summary{}, err
	}
	e, err := b.entry(name)
	if err != nil {
		return Summary{}, err
	}
	s := b.summary(e)
	if _, asked, err := b.Grants(name); err == nil {
		s.Asks = asked.Lines()
	}
	if r, ok, err := b.config.Packages.Record(name); err == nil && ok {
		if v, ok := r.Release(r.Base); ok {
			s.Kind, s.Source = v.Kind, v.Source
		}
	}
	return s, nil
}

// summary is what is known of an entry without looking at the disk.
func (b *Box) summary(e *entry) Summary {
	e.mu.Lock()
	s := Summary{Name: e.name, State: StateUnknown, Dir: filepath.Join(b.dir, e.name)}
	if e.folder != nil {
		s.Language = e.folder.language
	}
	if e.broken != nil {
		s.State, s.Error = StateFailed, tool.AsError(e.broken).Text()
	}
	v := e.good.Load()
	e.mu.Unlock()
	if v == nil {
		return s
	}
	m := v.def.Metadata
	s.State, s.Language = StateReady, v.def.Language
	s.Title, s.Description, s.Version, s.Category, s.Tags, s.Scenarios = m.Name, m.Description, m.Version, m.Category, m.Tags, m.Scenarios
	return s
}

// InstallOptions steer installing and updating. The zero value installs what is
// valid and asks nobody.
type InstallOptions struct {
	// Confirm is asked before anything is changed; an error ends it. Nil agrees.
	Confirm func(ctx context.Context, p Proposal) error
	// Progress hears how far it is. It must not block.
	Progress func(stage string, done, total int64)
	// Force replaces a tool that the user changed.
	Force bool
	// Strict takes warnings of the validator for errors where it can.
	Strict bool
}

// Proposal is what is about to be installed.
type Proposal struct {
	pkgs.Proposal
	// Asks is what the tool asks for beyond what every tool has. Installing grants
	// none of it.
	Asks Grant
	// Report is what the validator found; nil if the tool cannot say what it is
	// before its packages are installed. Then it is validated after that.
	Report *check.Report
}

// Lines describes the proposal to a person.
func (p Proposal) Lines() []string {
	lines := []string{fmt.Sprintf("%s %s from %s", p.Name, p.Version, p.Source), "integrity " + p.Integrity}
	if p.Replaces != nil {
		lines = append(lines, "replaces version "+p.Replaces.Version)
	}
	if p.Edited {
		lines = append(lines, "what is there has been changed since it was installed")
	}
	if asks := p.Asks.Lines(); p.Report == nil {
		lines = append(lines, "what it asks for is not known until its packages are installed; nothing is granted")
	} else if len(asks) > 0 {
		lines = append(lines, "asks for: "+strings.Join(asks, ", "))
	} else {
		lines = append(lines, "asks for nothing beyond its own data")
	}
	if p.Report != nil {
		lines = append(lines, "validation: "+p.Report.Summary())
	}
	return lines
}

// hooks are what package pkgs has to know of tools.
func (b *Box) hooks(o InstallOptions) pkgs.Hooks {
	var asks Grant
	var report *check.Report
	h := pkgs.Hooks{
		Validate: func(ctx context.Context, dir string) error {
			var err error
			report, asks, err = b.inspect(ctx, dir, o.Strict)
			return err
		},
		Dependencies: func(ctx context.Context, dir string) error {
			f, err := look(dir, filepath.Base(dir))
			if err != nil {
				return err
			}
			return b.install(ctx, need{name: f.name, dir: dir, language: f.language, staged: true, progress: func(done, total float64, text string) {
				if o.Progress != nil {
					o.Progress("dependencies: "+text, int64(done), int64(total))
				}
			}})
		},
		TestLoad: func(ctx context.Context, dir string) error {
			if report == nil {
				if _, _, err := b.inspect(ctx, dir, o.Strict); err != nil {
					return err
				}
			}
			f, err := look(dir, filepath.Base(dir))
			if err != nil {
				return err
			}
			t, err := b.tryOut(f)
			if err != nil {
				return err
			}
			return errors.Join(t.describe(ctx), t.close(context.WithoutCancel(ctx)))
		},
	}
	if o.Confirm != nil {
		h.Confirm = func(ctx context.Context, p pkgs.Proposal) error {
			return o.Confirm(ctx, Proposal{Proposal: p, Asks: asks, Report: report})
		}
	}
	if o.Progress != nil {
		h.Progress = func(p pkgs.Progress) { o.Progress(p.Stage, p.Done, p.Total) }
	}
	return h
}

// inspect validates a folder that is about to be installed. What it depends on is
// not there yet, so a module that cannot be loaded for want of it is loaded later.
func (b *Box) inspect(ctx context.Context, dir string, strict bool) (*check.Report, Grant, error) {
	f, err := look(dir, filepath.Base(dir))
	if err != nil {
		return nil, Grant{}, err
	}
	t, err := b.tryOut(f)
	if err != nil {
		return nil, Grant{}, err
	}
	defer func() { _ = t.close(context.WithoutCancel(ctx)) }()
	def, err := b.askAt(ctx, t.def, t.at)
	if lacksPackage(err) {
		return nil, Grant{}, nil
	}
	s := check.Subject{Dir: dir, Name: f.name, Uninstalled: true, Definition: def}
	if err != nil {
		s.LoadError = b.failure(err, nil)
	}
	report := check.Run(ctx, s, check.Options{Strict: strict, Layers: []int{1, 2, 3, 4, 5}})
	if report.Failed > 0 {
		return report, Grant{}, tool.Errorf(tool.ValidationError, "%s is not valid: %s", f.name, report.Summary()).
			WithHint("toolyard toolbox validate FOLDER shows what is wrong.").WithDetail("report", report.Text("en"))
	}
	var asks Grant
	if def != nil {
		asks = b.asks(def, nil)
	}
	return report, asks, nil
}

// Install fetches a package, shows it, and puts it into the toolbox.
func (b *Box) Install(ctx context.Context, source string, o InstallOptions) (*pkgs.Installed, error) {
	if err := b.Ready(ctx); err != nil {
		return nil, err
	}
	fetched, err := b.fetch(ctx, source, o)
	if err != nil {
		return nil, err
	}
	defer fetched.Close()
	installed, err := b.config.Packages.Install(ctx, fetched, b.hooks(o))
	return installed, b.after(ctx, fetched.Name, err)
}

func (b *Box) fetch(ctx context.Context, source string, o InstallOptions) (*pkgs.Fetched, error) {
	return b.config.Packages.Fetch(ctx, source, func(p pkgs.Progress) {
		if o.Progress != nil {
			o.Progress(p.Stage, p.Done, p.Total)
		}
	})
}

// Update replaces a tool by what its source has now, or by another source.
func (b *Box) Update(ctx context.Context, name, source string, o InstallOptions) (*pkgs.Installed, error) {
	if err := b.Ready(ctx); err != nil {
		return nil, err
	}
	if _, err := b.entry(name); err != nil {
		return nil, err
	}
	var fetched *pkgs.Fetched
	if source != "" {
		var err error
		if fetched, err = b.fetch(ctx, source, o); err != nil {
			return nil, err
		}
		defer fetched.Close()
	}
	installed, err := b.config.Packages.Update(ctx, name, fetched, pkgs.UpdateOptions{Hooks: b.hooks(o), Force: o.Force})
	return installed, b.after(ctx, name, err)
}

// after takes in at once what was changed in a folder.
func (b *Box) after(ctx context.Context, name string, err error) error {
	if err != nil {
		return err
	}
	b.glance(name)
	e, err := b.entry(name)
	if err != nil {
		return nil // removed
	}
	return b.loadOne(ctx, e)
}

// Rollback puts an earlier version back: that of the number, or the one before if
// it is 0.
func (b *Box) Rollback(ctx context.Context, name string, number int) (*pkgs.Installed, error) {
	if err := b.Ready(ctx); err != nil {
		return nil, err
	}
	if _, err := b.entry(name); err != nil {
		return nil, err
	}
	installed, err := b.config.Packages.Rollback(ctx, name, number)
	return installed, b.after(ctx, name, err)
}

// Remove takes a tool out of the toolbox, with its grants. Its data stay unless
// purge is set.
func (b *Box) Remove(ctx context.Context, name string, purge bool) error {
	if err := b.Ready(ctx); err != nil {
		return err
	}
	if _, err := b.entry(name); err != nil && !purge {
		return err
	}
	if err := b.config.Packages.Remove(ctx, name, purge); err != nil {
		return err
	}
	b.glance(name)
	for _, path := range []string{b.consentPath(name), filepath.Join(b.state, name+".grants.lock"), filepath.Join(b.state, name+".env.lock")} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Verify compares a tool's files with what was installed.
func (b *Box) Verify(ctx context.Context, name string) (*pkgs.Verified, error) {
	if err := b.Ready(ctx); err != nil {
		return nil, err
	}
	if _, err := b.entry(name); err != nil {
		return nil, err
	}
	return b.config.Packages.Verify(ctx, name)
}

// Versions are those of a tool that are kept, the oldest first.
func (b *Box) Versions(name string) ([]pkgs.Release, error) {
	if _, err := b.entry(name); err != nil {
		return nil, err
	}
	r, ok, err := b.config.Packages.Record(name)
	if err != nil || !ok {
		return nil, err
	}
	return r.Versions, nil
}

// Pack writes a tool, by name or folder, as an archive that Install reads.
func (b *Box) Pack(ctx context.Context, where, out string) (*pkgs.Packed, error) {
	dir, _, _, err := b.place(ctx, where)
	if err != nil {
		return nil, err
	}
	return b.config.Packages.Pack(ctx, dir, out)
}

// Create writes a new tool from a template into the toolbox.
func (b *Box) Create(ctx context.Context, name, lang, author string) (dir string, files []string, err error) {
	if err := b.Ready(ctx); err != nil {
		return "", nil, err
	}
	if files, err = templates.New(b.dir, name, lang, templates.Options{Author: author}); err != nil {
		return "", nil, err
	}
	return filepath.Join(b.dir, name), files, b.after(ctx, name, nil)
}

// Migrate copies tools from another program's home.
func (b *Box) Migrate(ctx context.Context, dir string, overwrite bool) (*pkgs.MigrationReport, error) {
	if err := b.Ready(ctx); err != nil {
		return nil, err
	}
	if dir == "" {
		dir = filepath.Join(b.config.UserHome, ".prompt-manager")
	}
	report, err := b.config.Packages.Migrate(ctx, dir, pkgs.MigrateOptions{Overwrite: overwrite})
	if err != nil {
		return nil, err
	}
	return report, b.Scan(ctx)
}

// Has reports whether there is a folder of that name, whatever is in it.
func (b *Box) Has(name string) bool {
	_, err := b.entry(name)
	return err == nil
}

// Runtimes lists what tools run with: the operator's own programs, and those that
// were fetched.
func (b *Box) Runtimes(ctx context.Context) []runtimes.Runtime {
	list := []runtimes.Runtime{}
	r := b.config.Runtimes
	for _, find := range []func(context.Context) (runtimes.Runtime, error){r.Node, r.Python, r.UV} {
		if rt, err := find(ctx); err == nil && rt.Source == runtimes.FromPath {
			rt.Current = true
			list = append(list, rt)
		}
	}
	return append(list, r.List()...)
}

// InstallRuntime fetches a program that tools run with. An empty version is the
// one that this program was tried with.
func (b *Box) InstallRuntime(ctx context.Context, name, version string, progress func(runtimes.Progress)) (runtimes.Runtime, error) {
	return b.config.Runtimes.Install(ctx, name, version, progress)
}
