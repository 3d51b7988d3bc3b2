package deps

import (
	"fmt"
	"regexp"
	"strings"
)

// specKind is what an entry of "dependencies" asks for.
type specKind int

const (
	specRange specKind = iota
	specTag            // "latest": what the registry calls so
	specFile           // file:, link:, a path
	specGit            // git+https:, github:…
	specURL            // a tarball
)

// spec is one entry of "dependencies", understood.
type spec struct {
	kind specKind
	// pkg is the package's own name, which an alias (npm:) differs from.
	pkg    string
	rng    *Range // of specRange, and of a git entry with #semver:
	target string // the path of specFile, the address of specGit and specURL
}

var (
	packageName = regexp.MustCompile(`^(@[a-zA-Z0-9~-][a-zA-Z0-9._~-]*/)?[a-zA-Z0-9~_-][a-zA-Z0-9._~-]*$`)
	hostName    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	tagName     = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9._-]*$`)
	hosted      = regexp.MustCompile(`^(?:(github|gitlab|bitbucket|gist):)?[A-Za-z0-9_][\w.-]*(?:/[\w.-]+)?(?:#.*)?$`)
	hostedHosts = map[string]string{"": "github.com", "github": "github.com", "gitlab": "gitlab.com", "bitbucket": "bitbucket.org", "gist": "gist.github.com"}
)

// maxName is how long a package's name may be, in bytes: npm's limit.
const maxName = 214

func validName(name string) bool { return len(name) <= maxName && packageName.MatchString(name) }

// parseSpec reads the value that package.json gives for a name.
func parseSpec(name, value string) (spec, error) {
	value = strings.TrimSpace(value)
	s := spec{pkg: name}
	if !validName(name) {
		return s, fmt.Errorf("%q is no name of a package", name)
	}
	scheme, rest, hasScheme := strings.Cut(value, ":")
	switch {
	case hasScheme && (scheme == "workspace" || scheme == "catalog" || scheme == "portal" || scheme == "patch"):
		return s, fmt.Errorf("%s: %q works only inside of a workspace, which a tool's folder is not", name, value)
	case hasScheme && scheme == "npm":
		real, version := cutAlias(rest)
		inner, err := parseSpec(real, version)
		if err == nil && inner.kind > specTag {
			err = fmt.Errorf("%s: %q names no version of a package", name, value)
		}
		return inner, err
	case hasScheme && (scheme == "file" || scheme == "link"):
		s.kind, s.target = specFile, rest
		return s, nil
	case strings.HasPrefix(value, "./"), strings.HasPrefix(value, "../"), strings.HasPrefix(value, "/"), strings.HasPrefix(value, "~/"), value == ".", value == "..":
		s.kind, s.target = specFile, value
		return s, nil
	case hasScheme && (scheme == "git" || strings.HasPrefix(scheme, "git+") || scheme == "ssh"), strings.HasPrefix(value, "git@"):
		return gitSpec(s, value)
	case hasScheme && (scheme == "http" || scheme == "https"):
		if before, _, _ := strings.Cut(value, "#"); strings.HasSuffix(before, ".git") {
			return gitSpec(s, value)
		}
		s.kind, s.target = specURL, value
		return s, nil
	}
	r, err := ParseRange(value)
	switch {
	case err == nil:
		s.rng = r
	case tagName.MatchString(value):
		s.kind = specTag
	case hosted.MatchString(value):
		return gitSpec(s, value)
	default:
		return s, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func gitSpec(s spec, value string) (spec, error) {
	s.kind, s.target = specGit, value
	if _, after, ok := strings.Cut(value, "#semver:"); ok {
		r, err := ParseRange(after)
		if err != nil {
			return s, fmt.Errorf("%s: %w", s.pkg, err)
		}
		s.rng = r
	}
	return s, nil
}

// cutAlias splits "@scope/name@range".
func cutAlias(text string) (name, version string) {
	if i := strings.LastIndex(text, "@"); i > 0 {
		return text[:i], text[i+1:]
	}
	return text, ""
}

// host is whom a git entry is fetched from; "" if that cannot be said.
func (s spec) host() string {
	value := s.target
	if m := hosted.FindStringSubmatch(value); m != nil && !strings.Contains(value, "://") {
		return hostedHosts[m[1]]
	}
	if _, after, ok := strings.Cut(value, "://"); ok {
		value = after
	}
	value, _, _ = strings.Cut(value, "/")
	value = value[strings.LastIndexByte(value, '@')+1:]
	value, _, _ = strings.Cut(value, ":")
	if !hostName.MatchString(value) {
		return ""
	}
	return value
}
