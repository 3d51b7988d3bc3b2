package policy

import (
	"strings"

	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// protectedName is the protected part of a path: one name, or two that follow
// each other. Which those are is [workspace.Protected]'s to say. A write there is
// asked for, in every mode, unless an allow rule's pattern spells the names out.
type protectedName []string

// envFiles begin so; a pattern spells them out as far as here.
const envFiles = ".env"

func (n protectedName) String() string { return strings.Join(n, "/") }

// protectedPart is what protects one of the locations; nil if nothing does.
func protectedPart(where []location) protectedName {
	for _, l := range where {
		// Where the workspace itself lies does not count.
		path := l.rel
		if path == "" {
			path = l.abs
		}
		if !strings.HasPrefix(path, ".") && !strings.Contains(path, "/.") {
			continue
		}
		names := strings.Split(strings.ToLower(path), "/")
		for i, name := range names {
			if !strings.HasPrefix(name, ".") {
				continue
			}
			if workspace.Protected(name) {
				return protectedName{name}
			}
			if i+1 < len(names) && workspace.Protected(name+"/"+names[i+1]) {
				return protectedName{name, names[i+1]}
			}
		}
		if workspace.Protected(path) { // a submodule's hooks, deep in .git
			return protectedName{".git", "hooks"}
		}
	}
	return nil
}

// names reports whether the pattern spells the protected names out.
func (p *pathPattern) names(part protectedName) bool {
	for i := range p.segments {
		if p.namesAt(i, part) {
			return true
		}
	}
	return false
}

func (p *pathPattern) namesAt(i int, part protectedName) bool {
	if i+len(part) > len(p.segments) {
		return false
	}
	for j, name := range part {
		segment := strings.ToLower(p.segments[i+j])
		if strings.HasPrefix(name, envFiles) {
			if !strings.HasPrefix(segment, envFiles) {
				return false
			}
		} else if segment != name {
			return false
		}
	}
	return true
}

// ProtectedAllowed gives a test for the absolute paths of protected files and
// directories: whether a rule lets programs and writers write there without a
// question. The sandbox leaves those writable and makes the others read-only.
func (p *Policy) ProtectedAllowed(workspace string) func(path string) bool {
	spec := &tool.Spec{Name: "write", Category: "files", Effects: tool.Write, Default: tool.Allow}
	return func(path string) bool {
		v := p.Check(Query{
			Spec:      spec,
			Workspace: workspace,
			Subjects:  []tool.Subject{{Kind: tool.SubjectPath, Value: path, Write: true}},
			unasked:   true,
		})
		return v.Action == tool.Allow
	}
}
