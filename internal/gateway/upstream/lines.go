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

// A long message is read in parts with a pause after each, and what is thrown away
// more slowly still: a server that sends much has as little of the machine's time
// as its pipe can hold, and the others keep theirs.
const (
	partBytes  = 1 << 20
	longPause  = 2 * time.Millisecond
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
	var parts [][]byte // the last one is still to fill
	rest := bytes.Clone(part)
	size := int64(len(rest))
	for errors.Is(err, bufio.ErrBufferFull) && size <= l.max {
		if len(rest) >= partBytes {
			parts, rest = append(parts, rest), make([]byte, 0, partBytes+l.r.Size())
			time.Sleep(longPause)
		}
		part, err = l.r.ReadSlice('\n')
		rest = append(rest, part...)
		size += int64(len(part))
	}
	parts = append(parts, rest)
	if err == nil && size <= l.max+2 { // the end may be two bytes
		if line = trimEnd(joined(parts)); int64(len(line)) <= l.max {
			return line, nil, nil
		}
	}
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return joined(parts), nil, err
	}
	over := &long{size: size}
	for _, part := range parts {
		over.head = append(over.head, part[:min(len(part), headBytes-len(over.head))]...)
		over.keep(part)
	}
	parts = nil
	pause := over.size + partBytes
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = l.r.ReadSlice('\n')
		over.size += int64(len(part))
		over.keep(part)
		if over.size >= pause {
			time.Sleep(floodPause)
			pause = over.size + partBytes
		}
		if over.size > endless*l.max {
			return nil, nil, errEndless
		}
	}
	return nil, over, err
}

// joined is the parts in one piece, which is theirs or new.
func joined(parts [][]byte) []byte {
	if len(parts) == 1 {
		return parts[0]
	}
	return bytes.Join(parts, nil)
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
