package pkgs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Record is what is known of an installed tool: .state/<name>.json.
type Record struct {
	Name string `json:"name"`
	// Base is the number of the version that was installed last, Good that of the
	// one that last was accepted: the same, or an edit of the user's.
	Base int `json:"base"`
	Good int `json:"good"`
	// Versions are those that are kept, the oldest first.
	Versions []Release `json:"versions"`
	// Edit is the hash by which the user's edits are told: see [Packages.Edited].
	Edit string `json:"edit"`
	// Removed says that the tool was removed and only this and its data are left.
	Removed bool `json:"removed,omitempty"`
}

// Release is one version of a tool: where it came from and what it is.
type Release struct {
	Number    int       `json:"number"`
	Version   string    `json:"version,omitempty"`
	Kind      Kind      `json:"kind"`
	Source    string    `json:"source,omitempty"`
	Resolved  string    `json:"resolved,omitempty"`
	Integrity string    `json:"integrity,omitempty"`
	Hash      string    `json:"hash"`
	File      string    `json:"file,omitempty"`
	At        time.Time `json:"at"`
	// Previous is the version that this one replaced; 0 if none.
	Previous int `json:"previous,omitempty"`
}

// Release finds a version; false if it is not kept.
func (r *Record) Release(number int) (Release, bool) {
	if r != nil {
		for _, v := range r.Versions {
			if v.Number == number {
				return v, true
			}
		}
	}
	return Release{}, false
}

func (r *Record) clone() *Record {
	if r == nil {
		return nil
	}
	c := *r
	c.Versions = slices.Clone(r.Versions)
	return &c
}

// read reads a tool's record; nil if there is none.
func (p *Packages) read(name string) (*Record, error) {
	var r Record
	ok, err := readJSON(p.record(name), &r)
	if err != nil {
		return nil, failure(err, "reading the record of %s", name)
	}
	if !ok {
		return nil, nil
	}
	r.Name = name
	return &r, nil
}

// Record is what is known of a tool; false if it has never been installed,
// snapped or synchronised.
func (p *Packages) Record(name string) (*Record, bool, error) {
	if err := checkName(name); err != nil {
		return nil, false, err
	}
	r, err := p.read(name)
	return r, r != nil, err
}

// present reports whether a tool's folder is there and has a tool in it.
func (p *Packages) present(name string) bool {
	_, ok := ToolFile(p.Dir(name), name)
	return ok
}

// spelt finds a folder of the toolbox whose name differs from name at most by
// case.
func (p *Packages) spelt(name string) (string, bool, error) {
	if exists(p.Dir(name)) {
		if entries, err := os.ReadDir(p.c.Home); err == nil { // a file system may ignore case
			for _, e := range entries {
				if e.Name() == name {
					return name, true, nil
				}
			}
		}
	}
	entries, err := os.ReadDir(p.c.Home)
	if err != nil {
		return "", false, err
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) {
			return e.Name(), true, nil
		}
	}
	return "", false, nil
}

// numbers lists the versions that lie on disk.
func (p *Packages) numbers(name string) ([]int, error) {
	entries, err := os.ReadDir(p.versions(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var found []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && e.IsDir() {
			found = append(found, n)
		}
	}
	slices.Sort(found)
	return found, err
}

func (p *Packages) version(name string, number int) string {
	return filepath.Join(p.versions(name), strconv.Itoa(number))
}

// notThere is the error of a tool that is not in the toolbox, with the nearest
// name that is.
func (p *Packages) notThere(name string) error {
	e := tool.Errorf(tool.NotFound, "there is no tool %s in the toolbox", name)
	if other, ok, err := p.spelt(name); err == nil && ok && other != name {
		return e.WithHint("There is %s.", other)
	}
	return e.WithHint("See which there are: toolyard toolbox list.")
}
