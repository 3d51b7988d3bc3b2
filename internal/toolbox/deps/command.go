package deps

import (
	"context"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/tool"
)

// CommandFound is a program of the machine that a tool depends on.
type CommandFound struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Version is what the program said of itself; empty if it was not asked, which
	// it is only where a range is given.
	Version string `json:"version,omitempty"`
}

// commandLimit is how long a program may take to tell its version.
const commandLimit = 5 * time.Second

// probed is the version of a program, as long as its file is the same.
type probed struct {
	size    int64
	changed time.Time
	version string
}

// Commands looks for the programs that a definition depends on in the operator's
// PATH, and compares their versions where a range is given, by running them with
// --version in the sandbox. The error is a *tool.Error with DEPENDENCY_ERROR that
// names the first that is missing or too old.
func (i *Installer) Commands(ctx context.Context, d *definition.Definition) ([]CommandFound, error) {
	var found []CommandFound
	for _, dep := range d.Dependencies {
		if dep.Kind != definition.Command {
			continue
		}
		name := strings.TrimPrefix(dep.Name, "cmd:")
		c := CommandFound{Name: name, Path: i.look(name)}
		if c.Path == "" {
			return nil, tool.Errorf(tool.DependencyError, "the command %s is not on this machine", name).
				WithHint("Install %s, or add its directory to the PATH that toolyard is started with.", name)
		}
		wanted, err := ParseRange(dep.Range)
		if err != nil && strings.TrimSpace(dep.Range) != "latest" {
			return nil, tool.Errorf(tool.DependencyError, "the command %s: %v", name, err).WithHint(`Write the range as npm does, such as ">=20".`)
		}
		if err == nil && !wanted.everything() {
			if c.Version, err = i.version(ctx, name, c.Path); err != nil {
				return nil, err
			}
			if !wanted.Has(c.Version) {
				return nil, tool.Errorf(tool.DependencyError, "the command %s is version %s, %s is asked for", name, c.Version, wanted).
					WithHint("Install a version of %s that fits.", name)
			}
		}
		found = append(found, c)
	}
	return found, nil
}

// everything reports whether any version is in the range.
func (r *Range) everything() bool {
	for _, set := range r.any {
		if len(set) == 0 {
			return true
		}
	}
	return false
}

var versionText = regexp.MustCompile(`(?:^|[^0-9A-Za-z.])(?:v|n|go)?(\d+(?:\.\d+){0,3})`)

// versionIn finds a version in what a program said: the first number with a dot,
// else the first number, with three parts.
func versionIn(text string) string {
	best := ""
	for _, m := range versionText.FindAllStringSubmatch(text, 20) {
		if best == "" || !strings.Contains(best, ".") && strings.Contains(m[1], ".") {
			best = m[1]
		}
	}
	if best == "" {
		return ""
	}
	parts := strings.Split(best, ".")
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	for n, part := range parts {
		if parts[n] = strings.TrimLeft(part, "0"); parts[n] == "" {
			parts[n] = "0"
		}
	}
	return strings.Join(parts[:3], ".")
}

// version asks a program for its version.
func (i *Installer) version(ctx context.Context, name, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", tool.Errorf(tool.DependencyError, "the command %s cannot be read: %v", name, reason(err)).WithHint("Check its permissions.")
	}
	i.mu.Lock()
	known, there := i.commands[path]
	i.mu.Unlock()
	if there && known.size == info.Size() && known.changed.Equal(info.ModTime()) {
		return known.version, nil
	}
	asked, stop := context.WithTimeout(ctx, commandLimit)
	defer stop()
	chain, path0 := i.toolchain(path)
	// Most say it to --version, some older ones to one of the others.
	for _, flag := range []string{"--version", "-version", "version"} {
		profile := i.profile(asked, chain, "")
		profile.Wall = commandLimit
		out, err := i.run(asked, command{args: []string{path, flag}, env: []string{"PATH=" + joinPath(path0), "LANG=C.UTF-8", "HOME=/tmp"}, dir: "/", profile: profile})
		if err != nil {
			return "", err
		}
		if ctx.Err() != nil {
			return "", cancelled(ctx)
		}
		if asked.Err() != nil {
			break
		}
		v := versionIn(out.output)
		if v == "" || !out.ok() && !strings.Contains(strings.ToLower(out.output), "version "+v[:strings.Index(v, ".")]) {
			continue
		}
		i.mu.Lock()
		i.commands[path] = probed{info.Size(), info.ModTime(), v}
		i.mu.Unlock()
		return v, nil
	}
	return "", tool.Errorf(tool.DependencyError, "the command %s does not tell its version", name).
		WithHint("Run it with --version by hand; it has %v to answer.", commandLimit)
}
