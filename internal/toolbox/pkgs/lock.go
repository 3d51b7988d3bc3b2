package pkgs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Locks are files below .state/locks, by the tool's name in small letters: tools
// whose names differ by case are one tool to a lock. A process that dies gives
// its locks up.
//
// ".op" is held during an operation, however long its hooks take. ".tree" is held
// for moments, by who reads a folder as a whole and by who switches it. ".op" is
// taken before ".tree".

// lock takes a lock, and waits for it up to wait; negative does not. The error is
// CONFLICT if another still has it.
func (p *Packages) lock(ctx context.Context, name, kind, doing string, wait time.Duration) (unlock func(), err error) {
	file := p.state("locks", strings.ToLower(name)+kind)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, failure(err, "locking %s", name)
	}
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		got, err := tryLock(f)
		if err != nil {
			f.Close()
			return nil, failure(err, "locking %s", name)
		}
		if got {
			if doing != "" {
				f.Truncate(0)
				f.WriteAt([]byte(fmt.Sprintf("%s by process %d", doing, os.Getpid())), 0)
			}
			return func() { f.Close() }, nil
		}
		if time.Since(began) >= wait {
			defer f.Close()
			return nil, busy(f, name)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			f.Close()
			return nil, cancelled(context.Cause(ctx))
		case <-t.C:
		}
	}
}

func busy(f *os.File, name string) error {
	text, _ := io.ReadAll(io.NewSectionReader(f, 0, 200))
	what := "another operation"
	if len(text) > 0 {
		what = string(text)
	}
	e := tool.Errorf(tool.Conflict, "%s is busy: %s is under way", name, what).
		WithHint("Wait until it has ended and try again.")
	e.Retryable = true
	return e
}

// stage is a directory of one operation below .staging, with a lock beside it
// that says that its owner lives.
type stage struct {
	id, dir string
	lock    *os.File
}

func (p *Packages) stage() (*stage, error) {
	for range 100 {
		id := randomID()
		dir := filepath.Join(p.staging(), id)
		f, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, failure(err, "making a place for the new version")
		}
		got, err := tryLock(f)
		if err != nil {
			f.Close()
			os.Remove(dir + ".lock")
			return nil, failure(err, "making a place for the new version")
		}
		// Recover may have come between and swept the lock away.
		if !got || !same(f, dir+".lock") {
			f.Close()
			continue
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			f.Close()
			os.Remove(dir + ".lock")
			return nil, failure(err, "making a place for the new version")
		}
		return &stage{id: id, dir: dir, lock: f}, nil
	}
	return nil, tool.Errorf(tool.Internal, "no free name in %s", p.staging())
}

// close removes the stage.
func (s *stage) close() error {
	if s == nil || s.lock == nil {
		return nil
	}
	err := removeAll(s.dir)
	if e := os.Remove(s.dir + ".lock"); err == nil && !errors.Is(e, fs.ErrNotExist) {
		err = e
	}
	s.lock.Close()
	s.lock = nil
	return err
}

// leave gives the stage up without removing it: a journal needs it.
func (s *stage) leave() {
	if s.lock != nil {
		s.lock.Close()
		s.lock = nil
	}
}

// same reports whether a name still is that of an open file.
func same(f *os.File, name string) bool {
	a, err := f.Stat()
	b, err2 := os.Lstat(name)
	return err == nil && err2 == nil && os.SameFile(a, b)
}
