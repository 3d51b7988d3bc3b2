package check

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// satisfiesNPM reports whether a version lies in a range of npm. What names no
// versions (a tag, a URL, a file) is satisfied by what is there.
func satisfiesNPM(rng, version string) bool {
	rng = strings.TrimSpace(rng)
	if alias, ok := strings.CutPrefix(rng, "npm:"); ok {
		rng = ""
		if at := strings.LastIndexByte(alias, '@'); at > 0 {
			rng = alias[at+1:]
		}
	}
	if rng == "" || !strings.ContainsAny(rng, "0123456789") || strings.ContainsAny(rng, ":/") {
		return true
	}
	c, err := semver.NewConstraint(rng)
	if err != nil {
		return true
	}
	v, err := semver.NewVersion(version)
	return err == nil && c.Check(v)
}

var (
	specifier   = lazily(`^(===|==|~=|!=|<=|>=|<|>|\^)\s*v?([0-9]+(?:\.[0-9]+)*)(\.\*)?$`)
	releasePart = lazily(`^v?([0-9]+(?:\.[0-9]+)*)`)
	requirement = lazily(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*\(?([^;#()]*)\)?`)
)

// satisfiesPython reports whether a version satisfies specifiers that compare the
// numbers of releases (PEP 440). Of others, with epochs or pre-releases, it says
// yes.
func satisfiesPython(spec, version string) bool {
	found := releasePart().FindStringSubmatch(version)
	if found == nil {
		return true
	}
	release := numbers(found[1])
	for part := range strings.SplitSeq(spec, ",") {
		m := specifier().FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			continue
		}
		want := numbers(m[2])
		order := slices.Compare(padded(release, len(want)), padded(want, len(release)))
		same := order == 0
		if m[3] != "" {
			same = slices.Equal(padded(release, len(want))[:len(want)], want)
		}
		ok := true
		switch m[1] {
		case "==", "===":
			ok = same
		case "!=":
			ok = !same
		case ">=":
			ok = order >= 0
		case "<=":
			ok = order <= 0
		case ">":
			ok = order > 0
		case "<":
			ok = order < 0
		case "~=":
			ok = order >= 0 && len(want) > 1 && slices.Equal(padded(release, len(want))[:len(want)-1], want[:len(want)-1])
		case "^":
			ok = order >= 0 && padded(release, 1)[0] == want[0]
		}
		if !ok {
			return false
		}
	}
	return true
}

func numbers(text string) []int {
	var list []int
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			n = 1 << 30 // longer than any version's number
		}
		list = append(list, n)
	}
	return list
}

func padded(list []int, n int) []int {
	list = slices.Clone(list)
	for len(list) < n {
		list = append(list, 0)
	}
	return list
}

// normal is the name of a Python package as indexes compare it (PEP 503).
func normal(name string) string {
	return strings.ToLower(regexp.MustCompile(`[-_.]+`).ReplaceAllString(name, "-"))
}

// requirements are the packages that requirements.txt or pyproject.toml names, with
// their specifiers.
func requirements(dir string) (manifest string, declared map[string]string) {
	declared = map[string]string{}
	add := func(line string) {
		if m := requirement().FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			declared[normal(m[1])] = strings.TrimSpace(m[2])
		}
	}
	if content, err := readFile(filepath.Join(dir, "requirements.txt"), maxSource); err == nil {
		for line := range strings.SplitSeq(string(content), "\n") {
			line = strings.TrimSpace(line)
			if line != "" && line[0] != '#' && line[0] != '-' {
				add(line)
			}
		}
		return "requirements.txt", declared
	}
	content, err := readFile(filepath.Join(dir, "pyproject.toml"), maxSource)
	if err != nil {
		return "requirements.txt", declared
	}
	for _, line := range projectList(content, "dependencies") {
		add(line)
	}
	return "pyproject.toml", declared
}

var tomlText = lazily(`"([^"\\]*)"|'([^']*)'`)

// projectList reads a list of texts of the section project of a pyproject.toml.
func projectList(content []byte, key string) []string {
	value, ok := projectValue(content, key)
	if !ok {
		return nil
	}
	var list []string
	for _, m := range tomlText().FindAllStringSubmatch(value, -1) {
		list = append(list, m[1]+m[2])
	}
	return list
}

// projectValue is what stands behind a key of the section project, up to the end of
// its line or of its list.
func projectValue(content []byte, key string) (string, bool) {
	section, value, open := "", "", false
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if !open {
			if strings.HasPrefix(line, "[") {
				section = strings.Trim(line, "[] ")
				continue
			}
			name, rest, ok := strings.Cut(line, "=")
			if section != "project" || !ok || strings.TrimSpace(name) != key {
				continue
			}
			line, open = strings.TrimSpace(rest), true
		}
		value += line + "\n"
		if !strings.HasPrefix(value, "[") || strings.Contains(tomlText().ReplaceAllString(value, ""), "]") {
			return value, true
		}
	}
	return value, open
}

// sitePackages lists what is installed in the tool's .venv, sorted.
func sitePackages(dir string) []installedPackage {
	var all []installedPackage
	for _, pattern := range []string{".venv/lib/python3*/site-packages/*.dist-info/METADATA", ".venv/Lib/site-packages/*.dist-info/METADATA"} {
		found, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		for _, path := range found {
			content, err := os.ReadFile(path)
			if err != nil || len(all) >= maxInstalled {
				continue
			}
			if p := metadataOf(content); p.name != "" && !slices.Contains([]string{"pip", "setuptools", "wheel"}, p.name) {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, func(a, b installedPackage) int { return strings.Compare(a.name, b.name) })
	return all
}

// metadataOf reads the headers of a METADATA file.
func metadataOf(content []byte) installedPackage {
	var p installedPackage
	for line := range strings.SplitSeq(string(content), "\n") {
		line = strings.TrimRight(line, "\r")
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "Name":
			p.name = normal(value)
		case "Version":
			p.version = value
		case "License-Expression":
			p.license = value
		case "License":
			if p.license == "" && len(value) < 60 && value != "UNKNOWN" {
				p.license = value
			}
		case "Classifier":
			if _, licence, ok := strings.Cut(value, "License :: OSI Approved :: "); ok && p.license == "" {
				p.license = licence
			}
		}
	}
	return p
}
