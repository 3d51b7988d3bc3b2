package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/toolyard/toolyard/tool"
)

// spoolMemory is how much of a command's output is held in memory.
const spoolMemory = 1 << 20

// spool keeps what a command prints, in the order in which it came, so that a
// job's output can be read from any offset while it still grows.
//
// While a call waits for its command the call keeps the whole output itself;
// the spool then holds only up to spoolMemory, in case the command becomes a
// job, and forgets it when there is more. A job's output goes to a file. It is
// safe for concurrent use.
type spool struct {
	path  string // of the file that takes over from memory; a prefix until then
	limit int64  // bytes kept; more is refused

	mu      sync.Mutex
	memory  []byte
	file    *os.File
	base    int64 // bytes printed before what is kept
	size    int64 // all bytes printed
	counts  map[string]int64
	closed  bool
	changed chan struct{} // closed and replaced when something is added
	forward tool.OutputWriter
	job     bool // the output is a job's, which says what a call's result would
}

func newSpool(path string, limit int64) *spool {
	return &spool{path: path, limit: limit, counts: map[string]int64{}, changed: make(chan struct{})}
}

// attach sends everything that comes from now on to w as well, until detach.
func (s *spool) attach(w tool.OutputWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forward = w
}

func (s *spool) detach() { s.attach(nil) }

// write adds what a stream printed. It returns tool.ErrOutputLimit once the
// limit is reached, having kept what still fitted.
func (s *spool) write(stream string, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forward != nil {
		if _, err := s.forward.Stream(stream).Write(b); err != nil {
			return err
		}
	}
	s.counts[stream] += int64(len(b))
	full := false
	if room := s.limit - s.size; int64(len(b)) > room {
		b, full = b[:max(room, 0)], true
	}
	if err := s.keep(b); err != nil {
		return err
	}
	s.wake()
	if full {
		return tool.ErrOutputLimit
	}
	return nil
}

// keep appends b to memory or file; s is locked.
func (s *spool) keep(b []byte) error {
	switch {
	case s.file == nil && len(s.memory)+len(b) <= spoolMemory:
		s.memory = append(s.memory, b...)
	case s.forward != nil:
		s.memory, s.base = s.memory[:0], s.size+int64(len(b))
	default:
		if err := s.toFile(); err != nil {
			return err
		}
		if _, err := s.file.Write(b); err != nil {
			return fmt.Errorf("output of the command: %w", err)
		}
	}
	s.size += int64(len(b))
	return nil
}

// toFile moves what is in memory to the file; s is locked.
func (s *spool) toFile() error {
	if s.file != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("output of the command: %w", err)
	}
	// The name carries the offset of the first byte, for readers after the end.
	s.path = fmt.Sprintf("%s@%d.out", s.path, s.base)
	file, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("output of the command: %w", err)
	}
	if _, err := file.Write(s.memory); err != nil {
		return errors.Join(fmt.Errorf("output of the command: %w", err), file.Close())
	}
	s.file, s.memory = file, nil
	return nil
}

func (s *spool) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// finish says that nothing more comes and wakes whoever waits.
func (s *spool) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake()
}

// persist puts the output into its file, where it stays.
func (s *spool) persist() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.job = true
	return s.toFile()
}

// note adds what the runtime has to say to a job's output.
func (s *spool) note(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.job {
		return nil
	}
	return s.keep([]byte(text))
}

// discard removes what is kept.
func (s *spool) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.Close()
		os.Remove(s.path)
	}
	s.file, s.memory, s.base = nil, nil, s.size
}

// release closes the file and leaves it where it is.
func (s *spool) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.Close()
	}
}

// readAt reads from offset, or from the first byte kept if that is later, and
// says where it began; io.EOF at what is the end now.
func (s *spool) readAt(b []byte, offset int64) (n int, from int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from = max(offset, s.base)
	if from >= s.size {
		return 0, from, io.EOF
	}
	if s.file == nil {
		return copy(b, s.memory[from-s.base:]), from, nil
	}
	n, err = s.file.ReadAt(b, from-s.base)
	if n > 0 {
		err = nil
	}
	return n, from, err
}

// total is how many bytes were printed, in all and by each stream.
func (s *spool) total() (size int64, counts map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size, maps.Clone(s.counts)
}

// wait returns when there is something behind offset, nothing more will come,
// or ctx is done.
func (s *spool) wait(ctx context.Context, offset int64) {
	for {
		s.mu.Lock()
		ready, changed := s.size > offset || s.closed, s.changed
		s.mu.Unlock()
		if ready {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
