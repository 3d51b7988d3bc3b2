package check

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// Limits of the trials.
const (
	trialTime    = 5 * time.Second  // one run of the tool
	trialsTime   = 60 * time.Second // all runs of one validation
	maxTrials    = 40               // calls that reach the tool in layer 6
	maxFindings  = 50               // of one rule; the rest is counted in a last one
	maxSource    = 1 << 20          // bytes read of one source file
	maxSources   = 200              // source files that are looked through
	maxInstalled = 5000             // packages of node_modules that are listed
)

// Subject is the tool that is looked at.
type Subject struct {
	// Dir is the absolute path of the tool's folder.
	Dir string
	// Name is the tool's; empty is the folder's.
	Name string
	// Definition is what the tool said of itself; nil if it did not load, and then
	// LoadError says why.
	Definition *definition.Definition
	LoadError  error
	// Trial runs the tool. Nil leaves out what needs it.
	Trial Trial
	// Uninstalled says that the folder is no tool of the toolbox yet: what the
	// installation adds (entries of package.json, node_modules) is only noted.
	Uninstalled bool

	// Previous is the version before this one, for the checklist of a release;
	// empty if there is none or it is not known.
	Previous string
	// Packed lists what a package of this tool would contain. Nil is not known.
	Packed []PackedFile
}

// PackedFile is one file of a package: its slash-separated path and bytes.
type PackedFile struct {
	Path string
	Size int64
}

// Options say how a subject is looked at. The zero value is all layers.
type Options struct {
	// Release adds the checklist of a release.
	Release bool
	// Strict makes a missing method an error.
	Strict bool
	// Layers are the numbers of the layers to run, 1 to 12. Nil is all.
	Layers []int

	// Satisfies reports whether a version lies in a range of npm. Nil is a
	// comparison that knows the common forms.
	Satisfies func(rng, version string) bool
	// SatisfiesPython is the same for the specifiers of Python packages. Nil knows
	// those that compare plain numbers.
	SatisfiesPython func(spec, version string) bool
	// Command finds a program that a tool declares, with its version (empty if it
	// cannot be told). Nil leaves commands unchecked.
	Command func(name string) (version string, found bool)
	// ParseEnv reads an .env file. Nil leaves its content unchecked.
	ParseEnv func(content []byte) (values map[string]string, faults []EnvFault)
}

// EnvFault is one thing wrong in an .env file.
type EnvFault struct {
	Line    int // from 1; 0 is the whole file
	Message string
}

// Run looks at a subject. It returns a report whatever it finds; ctx ends trials
// that still run, and what they would have shown is reported as not checked.
func Run(ctx context.Context, s Subject, o Options) *Report {
	if s.Name == "" {
		s.Name = filepath.Base(s.Dir)
		if s.Definition != nil && s.Definition.Name != "" {
			s.Name = s.Definition.Name
		}
	}
	ctx, cancel := context.WithTimeout(ctx, trialsTime)
	defer cancel()
	r := &run{ctx: ctx, Subject: s, Options: o, report: &Report{Tool: s.Name, Dir: s.Dir}}
	r.look()
	table := rules()
	for _, l := range layers() {
		if o.Layers != nil && !slices.Contains(o.Layers, l.number) {
			continue
		}
		r.layer = newLayer(l, table)
		l.run(r)
		r.report.Layers = append(r.report.Layers, r.layer)
	}
	if o.Release {
		r.release()
	}
	r.report.count()
	return r.report
}

// run is one validation under way.
type run struct {
	Subject
	Options
	ctx    context.Context
	report *Report
	layer  *Layer

	module  string   // the module's file in Dir; empty if there is none
	others  []string // further files that could be it
	lang    definition.Language
	project *packageJSON // nil if there is none, or it is broken
	broken  error        // why package.json could not be read

	base     *baseCall // made when first asked for
	refusals []failure // what the tool said of wrong parameters

}

// look finds the files that several layers need.
func (r *run) look() {
	r.module, r.others = moduleFile(r.Dir, r.Name)
	if r.Definition != nil && r.Definition.File != "" {
		r.module = r.Definition.File
		r.others = slices.DeleteFunc(r.others, func(name string) bool { return name == r.module })
	}
	r.lang = definition.JavaScript
	if filepath.Ext(r.module) == ".py" {
		r.lang = definition.Python
	}
	if r.Definition != nil && r.Definition.Language != "" {
		r.lang = r.Definition.Language
	}
	r.project, r.broken = readPackageJSON(r.Dir)
}

// raw is what a method returned, as JSON; ok says whether there is an answer.
func (r *run) raw(method string) (value json.RawMessage, ok bool) {
	if r.Definition == nil {
		return nil, false
	}
	value, ok = r.Definition.Raw[method]
	return value, ok
}

// answered reports whether a method gave an answer that can be looked at; if not,
// the whole layer is marked as not checked and says why.
func (r *run) answered(method string, ids ...string) (json.RawMessage, bool) {
	if r.Definition == nil {
		r.skip(unloaded, ids...)
		return nil, false
	}
	value, ok := r.raw(method)
	if !ok {
		if slices.Contains(r.Definition.Methods, method) {
			r.skip(unanswered, ids...)
		} else {
			r.skip(absent, ids...)
		}
	}
	return value, ok
}

// found reports a finding of a rule, with the severity that the rule has.
func (r *run) found(id, where string, args ...any) {
	r.foundAs(r.layer.rule(id).severity, id, where, args...)
}

// foundAs reports a finding with another severity than the rule's own.
func (r *run) foundAs(severity Severity, id, where string, args ...any) {
	r.layer.add(severity, id, where, args...)
}

// skip marks rules of the layer as not checked; none named is all of them.
func (r *run) skip(why reason, ids ...string) { r.layer.skip(why, ids...) }
