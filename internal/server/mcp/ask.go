package mcp

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
)

// Bounds of what a server asks its client.
const (
	// maxAsked is how many requests of ours one client may have unanswered.
	maxAsked = 64
	// ownID begins the ids of our requests. The SDK's are numbers.
	ownID = "toolyard-"
)

// clientError is the JSON-RPC error with which a client answered a request of
// ours.
type clientError struct {
	code    int
	message string
	data    json.RawMessage // nil if there is none
}

func (e *clientError) Error() string { return e.message }

// asked are the requests to one client that it has not answered.
type asked struct {
	mu   sync.Mutex
	last uint64
	open map[string]chan<- frame // by id
}

// add makes an id for a request. It refuses more than maxAsked.
func (a *asked) add() (id string, answer <-chan frame, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) >= maxAsked {
		return "", nil, &clientError{code: codeBusy, message: "the client has " + strconv.Itoa(maxAsked) + " questions to answer already"}
	}
	if a.open == nil {
		a.open = map[string]chan<- frame{}
	}
	a.last++
	id = ownID + strconv.FormatUint(a.last, 10)
	c := make(chan frame, 1)
	a.open[id] = c
	return id, c, nil
}

// drop forgets a request. Its answer, should one still come, is for nobody.
func (a *asked) drop(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, id)
}

// answer hands a response to whoever asked, and reports whether it is one to a
// request of ours, asked for still or not.
func (a *asked) answer(f *frame) bool {
	id := unquote(f.id)
	if !strings.HasPrefix(id, ownID) {
		return false
	}
	a.mu.Lock()
	waits := a.open[id]
	delete(a.open, id)
	a.mu.Unlock()
	if waits != nil {
		waits <- *f // it has room for one, and the id is gone now
	}
	return true
}

// request asks the client something and waits for its answer. params is a JSON
// object; nil sends none. The error is a *clientError if that was the client's
// answer, the cause of ctx if ctx was done first (the client is then told that
// its answer is not wanted any more), and errGone if the client has gone.
// Whether the client can be asked that is for the caller to know. It is safe for
// concurrent use.
func (c *connection) request(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
	id, answer, err := c.asked.add()
	if err != nil {
		return nil, err
	}
	defer c.asked.drop(id)
	message := append([]byte(`{"jsonrpc":"2.0","id":"`), id...)
	message = append(append(message, `","method":"`...), method...)
	message = append(message, '"')
	if params != nil {
		message = append(append(message, `,"params":`...), params...)
	}
	if c.send(append(message, '}')) != nil {
		return nil, errGone
	}
	select {
	case f := <-answer:
		return outcome(&f)
	case <-ctx.Done():
		_ = c.send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"` + id + `","reason":"the answer is not needed any more"}}`))
		return nil, context.Cause(ctx)
	case <-c.ended:
	case <-c.closed:
	}
	select {
	case f := <-answer: // it came just before the end
		return outcome(&f)
	default:
		return nil, errGone
	}
}

// outcome is what a client answered.
func outcome(f *frame) (json.RawMessage, error) {
	if f.err == nil {
		return f.result, nil
	}
	var wire struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
	if json.Unmarshal(f.err, &wire) != nil {
		return nil, &clientError{code: codeInternal, message: "the client answered with an error that is not one"}
	}
	return nil, &clientError{wire.Code, wire.Message, wire.Data}
}
