package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"
)

// What is kept of a message above the bound.
const (
	headBytes = 4096
	tailBytes = 256
)

// endless is how many times the bound a message may have before it is not waited
// for any more.
const endless = 32

// What is thrown away is read slowly, so that a server that floods has as little
// of the machine's time as its pipe can hold.
const (
	floodPart  = 1 << 20
	floodPause = 16 * time.Millisecond
)

var errEndless = errors.New("it sent a message without end")

// lines reads messages that are lines.
type lines struct {
	r   *bufio.Reader
	max int64
}

func newLines(r io.Reader, limit int64) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), max: limit}
}

// next gives the next line, without its end, in memory of its own; of a longer
// one what remains of it. Half a line before the end is given with the error.
func (l *lines) next() (line []byte, tooLong *long, err error) {
	part, err := l.r.ReadSlice('\n')
	if err == nil && int64(len(part)) <= l.max+1 {
		return bytes.Clone(trimEnd(part)), nil, nil
	}
	line = append(line, part...)
	for errors.Is(err, bufio.ErrBufferFull) && int64(len(line)) <= l.max {
		part, err = l.r.ReadSlice('\n')
		line = append(line, part...)
	}
	if err == nil && int64(len(trimEnd(line))) <= l.max {
		return trimEnd(line), nil, nil
	}
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return line, nil, err
	}
	over := &long{head: bytes.Clone(line[:min(len(line), headBytes)]), size: int64(len(line))}
	over.keep(line)
	line = nil
	pause := over.size + floodPart
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = l.r.ReadSlice('\n')
		over.size += int64(len(part))
		over.keep(part)
		if over.size >= pause {
			time.Sleep(floodPause)
			pause = over.size + floodPart
		}
		if over.size > endless*l.max {
			return nil, nil, errEndless
		}
	}
	return nil, over, err
}

// keep remembers the end of what was thrown away.
func (l *long) keep(part []byte) {
	if len(part) < tailBytes {
		part = append(l.tail[max(0, len(l.tail)+len(part)-tailBytes):], part...)
	}
	l.tail = bytes.Clone(part[max(0, len(part)-tailBytes):])
}

func trimEnd(line []byte) []byte {
	return bytes.TrimRight(line, "\r\n")
}
