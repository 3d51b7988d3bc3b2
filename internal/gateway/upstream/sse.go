package upstream

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

// maxField bounds the fields of an event but its data: name, id and delay.
const maxField = 4096

// event is one event of a stream of server-sent events.
type event struct {
	name  string
	id    string
	hasID bool
	data  []byte        // in memory of its own
	over  *long         // what remains of data above the bound; data is nil then
	retry time.Duration // negative if there was none
}

// events reads server-sent events.
// https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
type events struct {
	r     *bufio.Reader
	max   int64
	begun bool
	cr    bool // the last line ended with a carriage return: a line feed may belong to it
}

func newEvents(r io.Reader, limit int64) *events {
	return &events{r: bufio.NewReaderSize(r, 32<<10), max: limit}
}

// next gives the next event that says anything. One that is cut off by the end
// is not given.
func (s *events) next() (event, error) {
	e := event{retry: -1}
	lines := 0 // of data
	for {
		field, value, err := s.line(&e, lines)
		switch {
		case err != nil:
			return event{}, err
		case field == "" && (lines > 0 || e.hasID || e.retry >= 0):
			return e, nil
		case field == "":
			e = event{retry: -1}
		case field == "data":
			lines++
		case field == "event":
			e.name = value
		case field == "id" && !containsNUL(value):
			e.id, e.hasID = value, true
		case field == "retry":
			if n, err := strconv.ParseUint(value, 10, 31); err == nil {
				e.retry = time.Duration(n) * time.Millisecond
			}
		}
	}
}

func containsNUL(s string) bool { return bytes.IndexByte([]byte(s), 0) >= 0 }

// line reads a line: its field, "" for an empty line, and its value, but that of
// data, which is added to e. Comments and unknown fields are ":".
func (s *events) line(e *event, lines int) (field, value string, err error) {
	var name, text []byte
	const (
		inName = iota
		afterColon
		inValue
		inData
		skipped
	)
	state := inName
	for {
		part, end, err := s.part()
		if err == nil && e.over != nil && e.over.size > endless*s.max {
			err = errEndless
		}
		if err != nil {
			return "", "", err
		}
		for len(part) > 0 {
			switch state {
			case inName:
				i := bytes.IndexByte(part, ':')
				if i < 0 {
					i = len(part)
				}
				if name = append(name, part[:min(i, maxField)]...); len(name) > 16 {
					state, part = skipped, nil
					break
				}
				if part = part[i:]; len(part) > 0 {
					part = part[1:]
					state = afterColon
				}
				continue
			case afterColon:
				if part[0] == ' ' {
					part = part[1:]
				}
				switch string(name) {
				case "data":
					state = inData
					if lines > 0 {
						e.add([]byte{'\n'}, s.max)
					}
				case "event", "id", "retry":
					state = inValue
				default:
					state = skipped
				}
				continue
			case inValue:
				if text = append(text, part...); len(text) > maxField {
					state = skipped
				}
			case inData:
				e.add(part, s.max)
			}
			part = nil
		}
		if !end {
			continue
		}
		switch {
		case state == skipped:
			return ":", "", nil
		case state == inName && len(name) == 0:
			return "", "", nil
		case state == inName || state == afterColon: // a field without a value
			if string(name) == "data" && lines > 0 {
				e.add([]byte{'\n'}, s.max)
			}
		}
		switch string(name) {
		case "data", "event", "id", "retry":
			return string(name), string(text), nil
		}
		return ":", "", nil
	}
}

// part gives what is there of the line, without its end, until the next read.
// end says that the line ends after it.
func (s *events) part() (part []byte, end bool, err error) {
	for {
		if _, err := s.r.Peek(1); err != nil {
			return nil, false, err
		}
		buf, _ := s.r.Peek(s.r.Buffered())
		if !s.begun {
			s.begun = true
			if buf[0] == 0xEF {
				if mark, _ := s.r.Peek(3); string(mark) == "\uFEFF" {
					_, _ = s.r.Discard(3)
					continue
				}
			}
		}
		if s.cr {
			s.cr = false
			if buf[0] == '\n' {
				_, _ = s.r.Discard(1)
				continue
			}
		}
		n := bytes.IndexByte(buf, '\n')
		if n < 0 {
			n = len(buf)
		}
		if i := bytes.IndexByte(buf[:n], '\r'); i >= 0 {
			n = i
		}
		if n == len(buf) {
			_, _ = s.r.Discard(n) // what Discard passes stays until the next read
			return buf, false, nil
		}
		s.cr = buf[n] == '\r'
		_, _ = s.r.Discard(n + 1)
		return buf[:n], true, nil
	}
}

// add adds to the data, or to what is kept of too much of it.
func (e *event) add(part []byte, limit int64) {
	if e.over == nil {
		e.data = append(e.data, part...)
		if int64(len(e.data)) <= limit {
			return
		}
		e.over = &long{head: bytes.Clone(e.data[:min(len(e.data), headBytes)]), size: int64(len(e.data))}
		e.over.keep(e.data)
		e.data = nil
		return
	}
	e.over.size += int64(len(part))
	e.over.keep(part)
}
