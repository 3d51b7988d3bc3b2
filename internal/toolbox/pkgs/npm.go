package pkgs

import (
	"context"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/toolyard/toolyard/tool"
)

// packument is what a registry says of a package.
type packument struct {
	Name     string                      `json:"name"`
	Tags     map[string]string           `json:"dist-tags"`
	Versions map[string]packumentVersion `json:"versions"`
}

type packumentVersion struct {
	Dist struct {
		Tarball   string `json:"tarball"`
		Integrity string `json:"integrity"`
	} `json:"dist"`
	Deprecated any `json:"deprecated"`
}

var npmName = regexp.MustCompile(`^(@[a-zA-Z0-9~-][a-zA-Z0-9._~-]*/)?[a-zA-Z0-9~-][a-zA-Z0-9._~-]*$`)

const maxPackument = 64 << 20 // bytes; the largest on npm has 40 MB

// fetchNPM gets a package's tarball, whose hash is that which the registry says.
func (p *Packages) fetchNPM(ctx context.Context, f *Fetched, dir string, progress func(Progress)) (string, error) {
	name, want := splitNPM(strings.TrimPrefix(f.Source, "npm:"))
	if !npmName.MatchString(name) || len(name) > 214 {
		return "", tool.Errorf(tool.ParameterError, "%q is no name of an npm package", name).
			WithHint("Write ./%s if it is a folder.", name)
	}
	f.Source = "npm:" + name
	if want != "" {
		f.Source += "@" + want
	}
	doc, err := p.packument(ctx, name)
	if err != nil {
		return "", err
	}
	version, err := doc.choose(name, want)
	if err != nil {
		return "", err
	}
	f.Resolved, f.Version = version, version
	dist := doc.Versions[version].Dist
	if !strings.Contains(dist.Integrity, "sha512-") {
		return "", tool.Errorf(tool.DependencyError, "the registry has no sha512 hash of %s@%s", name, version).
			WithHint("Download the package, look at it, and install the file.")
	}
	authorization := ""
	if sameHost(dist.Tarball, p.c.Registry) {
		authorization = p.c.Authorization
	}
	file, err := p.download(ctx, f, dist.Tarball, authorization, progress)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if err := verifySHA512(file, dist.Integrity, name+"@"+version); err != nil {
		return "", err
	}
	return name, p.unpack(ctx, f, file, dir, progress)
}

// splitNPM splits name@range; a scope's @ does not count.
func splitNPM(source string) (name, version string) {
	if i := strings.LastIndex(source, "@"); i > 0 {
		return source[:i], source[i+1:]
	}
	return source, ""
}

func (p *Packages) packument(ctx context.Context, name string) (*packument, error) {
	from := strings.TrimSuffix(p.c.Registry, "/") + "/" + strings.ReplaceAll(name, "/", "%2f")
	response, err := p.get(ctx, from, p.c.Authorization, "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8")
	if err != nil {
		if e := tool.AsError(err); e.Code == tool.NotFound {
			hint := "Look at the name; a folder is written ./" + name + "."
			if _, statErr := os.Stat(name); statErr == nil {
				hint = "There is a folder " + name + " here: write ./" + name + " for it."
			}
			return nil, tool.Errorf(tool.NotFound, "the registry has no package %s", name).WithHint("%s", hint)
		}
		return nil, err
	}
	defer response.Body.Close()
	var doc packument
	if err := json.NewDecoder(io.LimitReader(response.Body, maxPackument)).Decode(&doc); err != nil {
		return nil, tool.Errorf(tool.ConnectionError, "what the registry says of %s cannot be read: %v", name, err)
	}
	return &doc, nil
}

// choose finds the version that is asked for: a tag, a version or a range.
func (d *packument) choose(name, want string) (string, error) {
	if want == "" {
		want = "latest"
	}
	if v, ok := d.Tags[want]; ok {
		if _, ok := d.Versions[v]; ok {
			return v, nil
		}
	}
	if _, ok := d.Versions[want]; ok {
		return want, nil
	}
	ranges, err := semver.NewConstraint(want)
	if err != nil {
		return "", tool.Errorf(tool.NotFound, "%s has no version or tag %q", name, want).WithHint("%s", d.known())
	}
	// As npm: the latest wins where the range has it, then the highest, then the
	// highest of those that should not be used any more.
	if latest, err := semver.StrictNewVersion(d.Tags["latest"]); err == nil && ranges.Check(latest) {
		if _, ok := d.Versions[latest.Original()]; ok {
			return latest.Original(), nil
		}
	}
	for _, old := range []bool{false, true} {
		var best *semver.Version
		for text, v := range d.Versions {
			version, err := semver.StrictNewVersion(text)
			if err == nil && v.old() == old && ranges.Check(version) && (best == nil || version.GreaterThan(best)) {
				best = version
			}
		}
		if best != nil {
			return best.Original(), nil
		}
	}
	return "", tool.Errorf(tool.NotFound, "%s has no version %s", name, want).WithHint("%s", d.known())
}

// old reports whether a version is deprecated: the registry says why, or true.
func (v packumentVersion) old() bool {
	return v.Deprecated != nil && v.Deprecated != false && v.Deprecated != ""
}

func (d *packument) known() string {
	if latest := d.Tags["latest"]; latest != "" {
		return "The latest is " + latest + "."
	}
	return "It has no latest version."
}

func sameHost(a, b string) bool {
	x, err := url.Parse(a)
	y, err2 := url.Parse(b)
	return err == nil && err2 == nil && x.Scheme == y.Scheme && x.Host == y.Host
}

// verifySHA512 compares a file with an integrity string of the form of W3C SRI:
// one of the sha512 hashes in it must be the file's.
// https://www.w3.org/TR/SRI/#the-integrity-attribute
func verifySHA512(r io.ReaderAt, integrity, what string) error {
	h := sha512.New()
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, 1<<62)); err != nil {
		return err
	}
	got := h.Sum(nil)
	for field := range strings.FieldsSeq(integrity) {
		text, ok := strings.CutPrefix(field, "sha512-")
		text, _, _ = strings.Cut(text, "?")
		want, err := base64.StdEncoding.DecodeString(text)
		if ok && err == nil && len(want) == sha512.Size && subtle.ConstantTimeCompare(want, got) == 1 {
			return nil
		}
	}
	return tool.Errorf(tool.DependencyError, "%s is not what the registry says: its hash is sha512-%s, not %s",
		what, base64.StdEncoding.EncodeToString(got), integrity).
		WithHint("Nothing was installed. Somebody may have changed the package on its way, or the registry is broken: try another one.")
}
