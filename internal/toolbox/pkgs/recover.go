package pkgs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Recovered says what Recover found.
type Recovered struct {
	// Finished are tools whose switch to another version was finished.
	Finished []string `json:"finished,omitempty"`
	// Swept is how many unfinished downloads and versions were removed.
	Swept int `json:"swept,omitempty"`
}

// Recover finishes what a process left behind that was killed: switches that were
// decided on are done, everything else that was begun is removed. What another
// process still does is left alone. It is called at the start, and may be called
// at any time. One tool that cannot be recovered does not stop the others: the
// error joins theirs.
func (p *Packages) Recover(ctx context.Context) (*Recovered, error) {
	r := &Recovered{}
	var errs []error
	entries, err := os.ReadDir(p.state("journal"))
	if err != nil {
		return r, failure(err, "reading the journals")
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			name, ok = strings.CutSuffix(e.Name(), ".json.tmp")
		}
		if !ok || !ValidName(name) {
			continue
		}
		done, err := p.recoverOne(ctx, name)
		if done {
			r.Finished = append(r.Finished, name)
		}
		errs = append(errs, err)
	}
	errs = append(errs, p.unused(ctx), p.sweep(r))
	return r, errors.Join(errs...)
}

// recoverOne finishes one switch unless somebody is at it.
func (p *Packages) recoverOne(ctx context.Context, name string) (bool, error) {
	unlock, err := p.lock(ctx, name, ".tree", "", -1)
	if err != nil {
		return false, nil
	}
	defer unlock()
	os.Remove(p.journal(name) + ".tmp") // one that was not decided on
	if !exists(p.journal(name)) {
		return false, nil
	}
	if err := p.finish(name); err != nil {
		return false, err
	}
	return true, nil
}

// unused removes versions of tools that were removed while calls still ran on
// them. A tool without its folder that nobody removed has been deleted by hand,
// and may come back.
func (p *Packages) unused(ctx context.Context) error {
	entries, err := os.ReadDir(p.state("versions"))
	if err != nil {
		return failure(err, "looking for versions")
	}
	var errs []error
	for _, e := range entries {
		name := e.Name()
		if !ValidName(name) || exists(p.Dir(name)) {
			continue
		}
		unlock, err := p.lock(ctx, name, ".tree", "", -1)
		if err != nil {
			continue // somebody is at it
		}
		r, err := p.read(name)
		if err == nil && (r == nil || r.Removed) && !exists(p.Dir(name)) && !exists(p.journal(name)) {
			err = p.dropAll(name)
		}
		errs = append(errs, err)
		unlock()
	}
	return errors.Join(errs...)
}

// sweep removes stages whose owner is gone, and that no journal needs.
func (p *Packages) sweep(r *Recovered) error {
	needed := map[string]bool{}
	if files, err := filepath.Glob(p.state("journal", "*.json")); err == nil {
		for _, file := range files {
			var j journal
			if _, err := readJSON(file, &j); err != nil {
				return failure(err, "reading a journal")
			}
			needed[j.Stage] = true
		}
	}
	entries, err := os.ReadDir(p.staging())
	if err != nil {
		return failure(err, "reading the staging area")
	}
	var errs []error
	seen := map[string]bool{}
	for _, e := range entries {
		id := strings.TrimSuffix(e.Name(), ".lock")
		if seen[id] || needed[id] {
			continue
		}
		seen[id] = true
		swept, err := p.sweepStage(id)
		if swept {
			r.Swept++
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (p *Packages) sweepStage(id string) (bool, error) {
	dir := filepath.Join(p.staging(), id)
	f, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, failure(err, "sweeping the staging area")
	}
	defer f.Close()
	if got, err := tryLock(f); err != nil || !got {
		return false, failure(err, "sweeping the staging area")
	}
	there := exists(dir)
	if err := removeAll(dir); err != nil {
		return false, failure(err, "sweeping the staging area")
	}
	os.Remove(dir + ".lock")
	return there, nil
}
