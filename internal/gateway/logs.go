package gateway

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Bounds of a server's log.
const (
	ringLines   = 1000
	maxLogLine  = 8 << 10 // bytes
	maxLogFile  = 4 << 20 // bytes; then it begins anew, and the one before is kept
	maxLogSpeed = 2000    // lines a second that are kept
)

// ring keeps the last lines of what a server wrote on stderr and what became of
// it, and writes them to a file. It is safe for concurrent use.
type ring struct {
	path   string
	redact func(string) string

	mu     sync.Mutex
	lines  []string
	at     int
	file   *os.File
	size   int64
	second int64
	count  int
	lost   int
	closed bool
}

func newRing(path string, redact func(string) string) *ring { return &ring{path: path, redact: redact} }

// copy takes lines until r ends.
func (r *ring) copy(from io.Reader) { lines(from, maxLogLine, r.add) }

// add keeps a line. A server that floods loses lines, not everybody's time.
func (r *ring) add(line string) {
	if r.redact != nil {
		line = r.redact(line)
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := now.Unix(); s != r.second {
		r.second, r.count = s, 0
		if r.lost > 0 {
			r.keep(now, "… lines were lost: the server writes too fast")
			r.lost = 0
		}
	}
	if r.count++; r.count > maxLogSpeed {
		r.lost++
		return
	}
	r.keep(now, line)
}

func (r *ring) keep(now time.Time, line string) {
	line = now.UTC().Format("2006-01-02T15:04:05.000Z ") + line
	if len(r.lines) < ringLines {
		r.lines = append(r.lines, line)
	} else {
		r.lines[r.at] = line
		r.at = (r.at + 1) % ringLines
	}
	r.write(line)
}

// write adds to the file. A log that cannot be written harms nobody.
func (r *ring) write(line string) {
	if r.path == "" || r.closed {
		return
	}
	if r.file == nil {
		if os.MkdirAll(filepath.Dir(r.path), 0o700) != nil {
			return
		}
		f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		r.file = f
		if info, err := f.Stat(); err == nil {
			r.size = info.Size()
		}
	}
	n, err := r.file.WriteString(line + "\n")
	r.size += int64(n)
	if err != nil || r.size > maxLogFile {
		r.file.Close()
		r.file, r.size = nil, 0
		_ = os.Rename(r.path, r.path+".1")
	}
}

// tail gives the last n lines.
func (r *ring) tail(n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append(append([]string{}, r.lines[r.at:]...), r.lines[:r.at]...)
	if n > 0 && len(all) > n {
		all = all[len(all)-n:]
	}
	return all
}

func (r *ring) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}
