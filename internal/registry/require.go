package registry

import (
	"github.com/Masterminds/semver/v3"

	"github.com/toolyard/toolyard/tool"
)

// requirements checks that what a tool needs is there, in a version that fits.
func (r *Registry) requirements(t tool.Tool, spec *tool.Spec) error {
	if spec.Version != "" {
		if _, err := semver.NewVersion(spec.Version); err != nil {
			return tool.Errorf(tool.ValidationError, "%s has version %q, which is no semantic version", spec.FullName(), spec.Version).
				WithHint("Write it as 1.2.3.")
		}
	}
	tenant, project := ownerOf(t)
	for _, need := range spec.Requires {
		other := r.look().find(need.Tool, tenant, project)
		if other == nil || other.current.Load() == nil {
			return tool.Errorf(tool.DependencyError, "%s requires the tool %s, which is not there", spec.FullName(), need.Tool).
				WithHint("Install %s first.", need.Tool)
		}
		if need.Version == "" {
			continue
		}
		wanted, err := semver.NewConstraint(need.Version)
		if err != nil {
			return tool.Errorf(tool.ValidationError, "%s requires %s in %q, which is no version range", spec.FullName(), need.Tool, need.Version).
				WithHint("Write it as >=1.2 <2.")
		}
		has := versionOf(other.current.Load().spec)
		version, err := semver.NewVersion(has)
		if err != nil || !wanted.Check(version) {
			return tool.Errorf(tool.DependencyError, "%s requires %s %s, and there is %s", spec.FullName(), need.Tool, need.Version, has).
				WithHint("Install a version of %s that fits.", need.Tool)
		}
	}
	return nil
}

// requiredFirst orders tools so that each comes after those that it requires;
// those in a circle come as they were.
func requiredFirst(tools []tool.Tool) []tool.Tool {
	byName := map[string]int{}
	for i, t := range tools {
		byName[t.Spec().FullName()] = i
	}
	ordered := make([]tool.Tool, 0, len(tools))
	visited := make([]bool, len(tools))
	var visit func(int)
	visit = func(i int) {
		if visited[i] {
			return
		}
		visited[i] = true
		for _, need := range tools[i].Spec().Requires {
			if j, ok := byName[need.Tool]; ok {
				visit(j)
			}
		}
		ordered = append(ordered, tools[i])
	}
	for i := range tools {
		visit(i)
	}
	return ordered
}
