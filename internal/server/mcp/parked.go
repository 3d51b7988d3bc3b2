package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Bounds of what waits for clients.
const (
	// maxParked is how many calls of stateless clients wait for an answer.
	maxParked = 1000
	// parkedGrace is how long the outcome of a question that nobody has answered
	// is kept for its client.
	parkedGrace = 30 * time.Second
)

// Questions are the durable questions: [*question.Desk].
type Questions interface {
	// Answer answers a pending question. The error is a *tool.Error: NOT_FOUND,
	// CONFLICT if it has been settled, PARAMETER_ERROR if there is no such option.
	Answer(ctx context.Context, id string, a tool.Answer) error
}

// operations are the requests that wait for their client or have become tasks.
type operations struct {
	epoch string // of this process

	keyMu sync.Mutex
	key   []byte

	mu       sync.Mutex
	parked   map[string]*operation // by their id: those that have asked a stateless client
	tasks    map[string]*operation // by the task's id
	watching map[string][]*taskWatch
	swept    time.Time
}

func (o *operations) init() {
	o.epoch = randomID(8)
	o.parked, o.tasks, o.watching = map[string]*operation{}, map[string]*operation{}, map[string][]*taskWatch{}
}

// reserve makes room for op among those that wait for a stateless client.
func (s *Server) reserve(op *operation) error {
	s.operations.mu.Lock()
	defer s.operations.mu.Unlock()
	if s.operations.parked[op.id] == nil && len(s.operations.parked) >= maxParked {
		return fmt.Errorf("%w: %d calls wait for an answer already", tool.ErrNoChannel, maxParked)
	}
	s.operations.parked[op.id] = op
	return nil
}

// forget drops op once its outcome has been taken, or nobody may take it any
// more; op is locked.
func (s *Server) forget(op *operation) {
	if op.timer != nil {
		op.timer.Stop()
	}
	op.nonce = ""
	s.operations.mu.Lock()
	defer s.operations.mu.Unlock()
	delete(s.operations.parked, op.id)
}

// park answers an exchange with what op asks; op is locked. It is waited for until
// the last deadline.
func (s *Server) park(op *operation) (func([]byte) []byte, *wireError) {
	key, err := s.stateKey(context.Background()) // it has been read before
	if err != nil {
		return nil, &wireError{codeInternal, "the key for requestState cannot be read"}
	}
	st := requestState{
		Operation: op.id, Epoch: s.operations.epoch, Runtime: s.config.Runtime, Owner: op.owner, Binds: op.params.binds(), Nonce: randomID(12),
	}
	var last time.Time
	for _, a := range op.asks {
		if a.deadline.After(last) {
			last = a.deadline
		}
		if len(op.asks) == 1 {
			st.Key, st.Question, st.Fresh, st.Binding = a.key, a.question, a.fresh, a.binding
		}
	}
	op.expires = last.Add(parkedGrace)
	st.Expires = op.expires.Unix()
	sealed, err := st.seal(key)
	if err != nil {
		return nil, &wireError{codeInternal, "requestState cannot be made: " + err.Error()}
	}
	op.nonce = st.Nonce
	wait := time.Until(op.expires)
	if op.timer == nil {
		op.timer = time.AfterFunc(wait, func() { s.expire(op) })
	} else {
		op.timer.Reset(wait)
	}
	b := appendRequests([]byte(`{"resultType":"input_required","inputRequests":`), op.asks)
	b = appendString(append(b, `,"requestState":`...), sealed)
	b = append(append(b, `,"_meta":{"io.modelcontextprotocol/serverInfo":`...), s.info...)
	body := append(b, '}', '}')
	return func(b []byte) []byte { return append(b, body...) }, nil
}

// appendRequests appends asks as an InputRequests object, in order of the keys.
func appendRequests(b []byte, asks map[string]*ask) []byte {
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(asks)) {
		if i > 0 {
			b = append(b, ',')
		}
		a := asks[key]
		b = append(appendString(b, key), `:{"method":`...)
		b = appendString(b, a.request.Method)
		params := a.params()
		if params == nil {
			params = json.RawMessage("{}")
		}
		b = append(append(append(b, `,"params":`...), params...), '}')
	}
	return append(b, '}')
}

// expire ends an operation whose client has not come back.
func (s *Server) expire(op *operation) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.here > 0 || op.task != nil || time.Now().Before(op.expires) {
		return
	}
	s.forget(op)
	if len(op.asks) > 0 {
		op.stop(errUnanswered)
	} // else somebody else has answered, and it runs to its end
}

// resume finds the operation that a retry belongs to and gives it the answers. If
// that is gone with the process that ran it, either answer says so, or all is nil
// and the call is to be run: nothing of it had.
func (s *Server) resume(ctx context.Context, sess *session, p *operationParams) (op *operation, answer func([]byte) []byte, wire *wireError) {
	refuse := func(err error) (*operation, func([]byte) []byte, *wireError) {
		return nil, nil, &wireError{codeInvalidParams, p.method + ": " + err.Error()}
	}
	key, err := s.stateKey(ctx)
	if err != nil {
		return nil, nil, &wireError{codeInternal, "the key for requestState cannot be read"}
	}
	st, err := openState(key, p.state)
	if err != nil {
		return refuse(err)
	}
	if err := st.check(owner(sess, p.principal), p.binds(), time.Now()); err != nil {
		return refuse(err)
	}
	s.operations.mu.Lock()
	op = s.operations.parked[st.Operation]
	s.operations.mu.Unlock()
	switch {
	case op == nil && st.Epoch == s.operations.epoch:
		return refuse(errStateUsed)
	case op == nil && s.config.Alive != nil && st.Runtime != s.config.Runtime && s.config.Alive(st.Runtime):
		return refuse(errStateAway)
	case op == nil:
		answer, err := s.revive(ctx, st, p)
		if err != nil {
			return refuse(err)
		}
		return nil, answer, nil
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.nonce == "" || op.nonce != st.Nonce {
		return refuse(errStateUsed)
	}
	op.nonce = ""
	op.here++ // until follow has counted this exchange, so that it is not expired
	op.deliver(parseResponses(p.responses))
	return op, nil, nil
}

// revive deals with an answer to a call of a process that is gone. If nothing of
// it had run, the answer is kept for the call, which is run anew and asks again;
// else the call is lost, and nothing is repeated.
func (s *Server) revive(ctx context.Context, st *requestState, p *operationParams) (answer func([]byte) []byte, err error) {
	if !st.Fresh {
		lost := tool.ErrorResult(tool.Errorf(tool.ExecutionError, "the call was lost: the server was restarted while it waited for an answer").
			WithHint("Nothing was repeated. Look at what the call has done already, then make it again without requestState.").
			WithDetail("reason", "lost"))
		return s.encoder(p.version, lost), nil
	}
	response := parseResponses(p.responses)[st.Key]
	if response == nil || st.Question == "" || s.config.Questions == nil {
		return nil, nil // it is asked again
	}
	given, err := parseAnswer(response)
	if err != nil {
		return nil, nil
	}
	if err := s.config.Questions.Answer(ctx, st.Question, given); err != nil {
		switch e := tool.AsError(err); e.Code {
		case tool.ParameterError:
			return nil, nil
		case tool.Conflict, tool.NotFound:
			return nil, errStateUsed
		default:
			return nil, fmt.Errorf("the answer is not kept: %s", e.Text())
		}
	}
	return nil, nil
}
