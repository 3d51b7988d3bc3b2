package worker

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// version of the protocol, which runtime and host must share.
const version = 1

// Sizes of frames, in bytes without the length in front.
const (
	defaultFrame = 16 << 20
	// maxHeader bounds the first line of a frame, which the protocol reads
	// itself; bodies are only passed on.
	maxHeader = 256 << 10
	// firstPiece is how much is allocated for a frame before its bytes come.
	firstPiece = 64 << 10
)

// The types of frames that the runtime sends.
const (
	typeHello    = "hello"    // body: greeting
	typeCall     = "call"     // ID, Name, Max; body: the arguments
	typeCancel   = "cancel"   // ID
	typePing     = "ping"     // ID
	typeResponse = "response" // ID of the request, Error or a body
)

// The types of frames that a worker sends.
const (
	typeReady     = "ready"     // Name: the host's version
	typeResult    = "result"    // ID; body: the value, none if there is no value
	typeError     = "error"     // ID, Error; ID 0 is a fault of the worker itself
	typeCancelled = "cancelled" // ID: a call that was cancelled has stopped
	typeProgress  = "progress"  // ID, Done, Total, Text
	typeLog       = "log"       // ID, Name: the level, Text; body: more, as JSON
	typePong      = "pong"      // ID
	typeRequest   = "request"   // ID of its own, Call, Name: the method; body: the parameters
	typeGone      = "gone"      // ID, Code, Text: the process of the call ended and was replaced
)

// header is the first line of a frame. Which fields count depends on the type.
type header struct {
	Type  string  `json:"t"`
	Key   string  `json:"k,omitempty"` // the nonce
	ID    uint64  `json:"id,omitempty"`
	Call  uint64  `json:"call,omitempty"`
	Name  string  `json:"name,omitempty"`
	Text  string  `json:"text,omitempty"`
	Code  int     `json:"code,omitempty"`
	Max   int     `json:"max,omitempty"` // bytes that the result may have
	Done  float64 `json:"done,omitempty"`
	Total float64 `json:"total,omitempty"`
	Error *Thrown `json:"error,omitempty"`
}

// greeting is what a host has to know before it loads the module.
type greeting struct {
	Version int             `json:"version"`
	Module  string          `json:"module"`
	Adapter string          `json:"adapter,omitempty"`
	Setup   json.RawMessage `json:"setup,omitempty"`
	Max     int             `json:"max"`
	Fresh   bool            `json:"fresh,omitempty"`
	// Expect says that a call follows at once.
	Expect bool `json:"expect,omitempty"`
}

// frame is one message. Body is nil if there is none.
type frame struct {
	header
	Body json.RawMessage
}

// errProtocol is what is wrong with bytes that are no frame.
var errProtocol = errors.New("protocol")

// decode reads one frame's bytes. The body is part of data. A non-empty key must
// be that of the frame.
func decode(data []byte, key string) (frame, error) {
	head, body, split := bytes.Cut(data, []byte{'\n'})
	if len(head) > maxHeader {
		return frame{}, fmt.Errorf("%w: a header of %d bytes", errProtocol, len(head))
	}
	var f frame
	if err := json.Unmarshal(head, &f.header); err != nil {
		return frame{}, fmt.Errorf("%w: a header that cannot be read", errProtocol)
	}
	if subtle.ConstantTimeCompare([]byte(f.Key), []byte(key)) != 1 {
		return frame{}, fmt.Errorf("%w: a frame without the nonce", errProtocol)
	}
	if split {
		if !json.Valid(body) {
			return frame{}, fmt.Errorf("%w: a body that is not JSON", errProtocol)
		}
		f.Body = body
	}
	return f, nil
}

// encode appends a frame to buf.
func encode(buf []byte, h *header, body []byte) ([]byte, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return buf, err
	}
	size := len(head)
	if body != nil {
		size += 1 + len(body)
	}
	buf = binary.BigEndian.AppendUint32(buf, uint32(size))
	buf = append(buf, head...)
	if body != nil {
		buf = append(append(buf, '\n'), body...)
	}
	return buf, nil
}

// reader takes frames from a stream. It is used by one goroutine.
type reader struct {
	from io.Reader // buffered
	max  int
	key  string
}

// next returns the next frame. At the end of the stream the error is io.EOF; a
// stream that ends within a frame, or holds none, is errProtocol.
func (r *reader) next() (frame, error) {
	var length [4]byte
	if _, err := io.ReadFull(r.from, length[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: the end within a frame", errProtocol)
		}
		return frame{}, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if uint64(size) > uint64(r.max) {
		return frame{}, fmt.Errorf("%w: a frame of %d bytes, over %d", errProtocol, size, r.max)
	}
	// Memory follows what has come, not what was announced.
	data := make([]byte, min(int(size), firstPiece))
	for have := 0; ; {
		n, err := io.ReadFull(r.from, data[have:])
		have += n
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("%w: the end within a frame", errProtocol)
			}
			return frame{}, err
		}
		if have == int(size) {
			return decode(data, r.key)
		}
		more := make([]byte, min(int(size), 4*len(data)))
		copy(more, data)
		data = more
	}
}

// writer puts frames on the socket, whole, from any goroutine.
type writer struct {
	to  *os.File
	max int

	mu  sync.Mutex
	buf []byte
}

// Limits of writing.
const (
	writeTimeout = 10 * time.Second // a worker that does not read
	keptBuffer   = 64 << 10         // bytes
)

// write sends one frame. After an error other than errTooLarge the stream is of no
// use any more.
func (w *writer) write(h *header, body []byte) error {
	if len(body) > w.max-maxHeader {
		return errTooLarge
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	buf, err := encode(w.buf[:0], h, body)
	if err != nil {
		return err
	}
	if len(buf)-4 > w.max {
		return errTooLarge
	}
	if cap(buf) <= keptBuffer {
		w.buf = buf
	}
	if err := w.to.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err = w.to.Write(buf)
	return err
}

var errTooLarge = errors.New("larger than a frame may be")
