package runlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/toolyard/toolyard/internal/flock"
)

const (
	// lockWait is how long a write waits for another process. A tool that can read
	// its log can also lock it, so this is short, and what is written without the
	// lock is lost only if another process makes the file smaller just then.
	lockWait = 250 * time.Millisecond
	lockRest = time.Minute // how long the lock is not waited for after that

	maxLine = 1 << 20 // bytes of a line by other hands; the rest of it is cut off
)

var errNotRegular = errors.New("it is no regular file")

// lockFile opens the file for appending and locks it. Whoever makes the file
// smaller renames a new one over it, so the name is looked at again when the
// lock is there. The caller holds file.
func (l *Log) lockFile(now time.Time) (f *os.File, locked bool, err error) {
	for {
		f, err := os.OpenFile(l.c.Path, os.O_RDWR|os.O_APPEND|os.O_CREATE|openFlags, 0o600)
		if err != nil {
			return nil, false, err
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = errNotRegular
		}
		if err != nil {
			f.Close()
			return nil, false, err
		}
		if now.Before(l.nolock) {
			locked, _ = flock.Try(f)
		} else if locked = waitLock(f); !locked {
			l.nolock = now.Add(lockRest)
		}
		if !locked {
			return f, false, nil
		}
		if named, err := os.Lstat(l.c.Path); err == nil && os.SameFile(info, named) {
			return f, true, nil
		}
		f.Close() // and with it the lock
	}
}

func waitLock(f *os.File) bool {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	return flock.Wait(ctx, f) == nil // a file that cannot be locked is written all the same
}

// clean makes the file smaller: entries older than the retention go, and if it
// is still too large all but the newest lines. Lines that are no entries have no
// age. The new file takes the old one's name at once.
func (l *Log) clean(f *os.File, size int64, now time.Time) error {
	oldest := time.Time{}
	if l.c.Retention > 0 {
		oldest = now.Add(-l.c.Retention)
	}
	if size <= l.c.MaxBytes && !l.startsBefore(f, oldest) {
		return nil
	}
	stays := func(line []byte) bool {
		at, _, _, ok := split(line)
		return !ok || !at.Before(oldest)
	}
	skip, gone, err := l.measure(f, stays)
	if err != nil || skip == 0 && !gone {
		return err
	}
	return l.replace(f, skip, stays)
}

// startsBefore looks at the first line only: entries stand in the order of time.
func (l *Log) startsBefore(f *os.File, oldest time.Time) bool {
	head := make([]byte, stampLen+2)
	if _, err := f.ReadAt(head, 0); err != nil {
		return true
	}
	at, err := time.Parse(stampLayout, string(head[1:stampLen+1]))
	return err != nil || at.Before(oldest)
}

// measure finds how many of the lines that stay have to go all the same, from
// the front, because there would be too many; and whether others go.
func (l *Log) measure(f *os.File, stays func([]byte) bool) (skip int, gone bool, err error) {
	newest := make([]int, 0, l.c.Keep) // a ring of the last lines' lengths
	count, total := 0, int64(0)
	err = lines(f, func(line []byte) error {
		if !stays(line) {
			gone = true
			return nil
		}
		if len(newest) < l.c.Keep {
			newest = append(newest, len(line)+1)
		} else {
			newest[count%l.c.Keep] = len(line) + 1
		}
		count++
		total += int64(len(line)) + 1
		return nil
	})
	if err != nil || total <= l.c.MaxBytes {
		return 0, gone, err
	}
	keep, room := 0, l.c.MaxBytes/2 // room to grow, or the next entry would do this again
	for ; keep < len(newest); keep++ {
		room -= int64(newest[(count-1-keep)%l.c.Keep])
		if room < 0 && keep > 0 {
			break
		}
	}
	return count - keep, gone, nil
}

// replace writes what stays to a new file and renames it over the old one.
func (l *Log) replace(f *os.File, skip int, stays func([]byte) bool) (err error) {
	dir, name := filepath.Split(l.c.Path)
	temp, err := os.CreateTemp(filepath.Clean(dir+"."), "."+name+"-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			temp.Close()
			os.Remove(temp.Name())
		}
	}()
	w := bufio.NewWriterSize(temp, 64<<10)
	err = lines(f, func(line []byte) error {
		if !stays(line) {
			return nil
		}
		if skip > 0 {
			skip--
			return nil
		}
		w.Write(line) // a bufio.Writer keeps its error
		return w.WriteByte('\n')
	})
	if err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), l.c.Path)
}

// lines hands over each line of a file, from its beginning, without line feed.
// The slice is valid until do returns.
func lines(f *os.File, do func(line []byte) error) error {
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<62), 64<<10)
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(long) < maxLine {
				long = append(long, part...)
			}
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading %s: %w", f.Name(), err)
		}
		line := bytes.TrimSuffix(part, []byte("\n"))
		if long != nil {
			line = append(long, line...)
			line = line[:min(len(line), maxLine)]
			long = nil
		}
		if err == nil || len(line) > 0 {
			if err := do(line); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}
