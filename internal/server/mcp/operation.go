package mcp

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// inputTime is how long a client has to answer what a tool asks of it, where the
// question has no deadline of its own.
const inputTime = 10 * time.Minute

// maxAgain is how often a client of the session era is asked anew because its
// answer does not fit. A stateless one may try until the deadline.
const maxAgain = 3

// errUnanswered ends what waits for a client that has not come back in time.
var errUnanswered = errors.New("the client has not answered in time")

// operationParams are a request that may ask its client something.
type operationParams struct {
	method    string // tools/call, prompts/get, resources/read
	subject   string // the tool, the prompt, the URI
	arguments json.RawMessage
	workspace string
	// principal is who makes the request, beside the session: a key or a token; ""
	// if there is none.
	principal string
	// version is that of the stateless era; "" in a session.
	version string
	// capabilities and meta are the client's, as it sent them.
	capabilities, meta json.RawMessage
	// state and responses are of a retry: requestState and inputResponses.
	state     string
	responses json.RawMessage

	// logLevel is from which level on log messages are wanted; "" for none.
	logLevel string

	token json.RawMessage // progressToken; nil if there is none
	ch    channel
	// tool is the full name of the tool, for a request that may become a task; ""
	// for one that may not.
	tool string
	// required says that it is only run as a task.
	required bool
	// outlast is called before the request is run beyond the exchange that it came
	// in. It may be nil.
	outlast func()
}

// operation is a request that may put questions to its client, or outlast the
// exchange it came in. It runs once, whatever its client does: an exchange starts
// it, later ones bring answers and wait on. It is the [tool.Client] of its call.
type operation struct {
	server       *Server
	id           string
	call         string // the ID of the call; "" if the executor makes it
	sess         *session
	owner        string
	able         abilities
	capabilities json.RawMessage
	meta         json.RawMessage
	params       *operationParams // of the first exchange
	progress     *progress        // nil if the client wants none
	// direct asks the client over its connection; nil in the stateless era, where
	// questions are answers.
	direct func(ctx context.Context, method string, params []byte) (json.RawMessage, error)
	stop   context.CancelCauseFunc // ends it
	done   chan struct{}           // closed when it is over

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change of what is awaited
	asks    map[string]*ask
	asking  time.Time                  // since when asks is not empty
	given   map[string]json.RawMessage // answers that came before they were asked for
	nonce   string                     // of the state that the client may come back with; "" while it waits
	expires time.Time                  // of that state
	timer   *time.Timer                // expires
	here    int                        // exchanges that wait
	notify  func(string, []byte)       // of the exchange that waits; nil if there is none
	hasJob  bool                       // its call has ended and left a job that it follows
	jobText string                     // what a person reads of that
	jobOver bool                       // result is that of the job
	result  *tool.Result               // of a tool, once over
	encode  func([]byte) []byte
	wire    *wireError
	over    bool
	task    *task // nil if it is none
}

var (
	_ tool.Client    = (*operation)(nil)
	_ executor.Asker = (*asker)(nil)
)

// operate runs a request that may ask its client, once, and gives the answer to
// this exchange: the result, a question or a task. run gets the operation, which
// is the client behind it.
func (s *Server) operate(ctx context.Context, sess *session, p *operationParams, run func(context.Context, *operation) (func([]byte) []byte, *wireError)) (func([]byte) []byte, *wireError) {
	op := &operation{
		server: s, sess: sess, params: p, able: parseAbilities(p.capabilities), capabilities: p.capabilities, meta: p.meta, direct: p.ch.request,
	}
	if p.version >= versionStateless {
		op.direct = nil
	} else if op.direct == nil {
		op.able = abilities{tasks: op.able.tasks}
	}
	op.able.tasks = op.able.tasks && p.tool != "" && s.config.Tasks != nil
	if p.required && !op.able.tasks {
		return requiredCapability(p.method + ": " + p.subject + " runs only as a task")
	}
	if p.state != "" {
		parked, again, wire := s.resume(ctx, sess, p)
		switch {
		case wire != nil:
			return nil, wire
		case parked != nil:
			return s.await(ctx, parked, p)
		case again != nil:
			return again, nil
		}
	}
	op.progress = newProgress(p.token, p.ch.notify)
	if op.direct == nil && !op.able.any() || op.direct != nil && !op.able.tasks {
		// It ends within this exchange.
		defer op.progress.stop()
		op.notify = p.ch.notify
		return run(ctx, op)
	}
	if _, err := s.stateKey(ctx); err != nil {
		s.config.Log.Error("nobody can be asked: there is no key for requestState", "err", err)
		return nil, &wireError{codeInternal, "the key for requestState cannot be read"}
	}
	return s.begin(ctx, op, p, run)
}

// begin runs op in a goroutine of its own and waits for the first answer.
func (s *Server) begin(ctx context.Context, op *operation, p *operationParams, run func(context.Context, *operation) (func([]byte) []byte, *wireError)) (func([]byte) []byte, *wireError) {
	op.id, op.owner = "op_"+randomID(12), owner(op.sess, p.principal)
	if p.outlast != nil {
		p.outlast()
	}
	op.here = 1
	op.changed, op.done, op.asks = make(chan struct{}), make(chan struct{}), map[string]*ask{}
	op.given = parseResponses(p.responses)
	if op.able.tasks {
		op.call = "call_" + randomID(8)
	}
	// What it works with outlives the exchange, and the connection where the client
	// has none of its own.
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	op.stop = stop
	begun := s.spawn(func() { // ends with the call
		defer stop(nil)
		defer op.sess.hold(stop)()
		defer context.AfterFunc(s.background, func() { stop(errGone) })()
		encode, wire := run(running, op)
		op.progress.stop()
		s.finish(running, op, encode, wire)
	})
	if !begun {
		stop(nil)
		return nil, &wireError{codeBusy, "the server is stopping"}
	}
	return s.await(ctx, op, p)
}

// spawn runs f in a goroutine that Close waits for; false if it has been called.
func (s *Server) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Go(f)
	}
	return !s.closed
}

// await waits for what op answers to this exchange, which op has counted as one
// that is here.
func (s *Server) await(ctx context.Context, op *operation, p *operationParams) (func([]byte) []byte, *wireError) {
	op.progress.follow(p.token, p.ch.notify)
	op.mu.Lock()
	op.notify = p.ch.notify
	op.mu.Unlock()
	defer op.depart()
	late := newLater(op.able.tasks, s.config.TaskAfter)
	defer late.stop()
	if p.required {
		late.now()
	}
	for {
		op.mu.Lock()
		changed, asking := op.changed, op.asking
		switch {
		case op.over:
			defer op.mu.Unlock()
			s.forget(op)
			return op.encode, op.wire
		case op.hasJob:
			late.now()
		case op.direct == nil && op.task == nil && len(op.asks) > 0:
			defer op.mu.Unlock()
			return s.park(op)
		}
		op.mu.Unlock()
		select {
		case <-changed:
		case <-late.c():
			if op.direct != nil && !asking.IsZero() && late.wait(asking, personTime) {
				continue
			}
			if encode := s.becomeTask(ctx, op); encode != nil {
				return encode, nil
			}
			late.stop()
		case <-ctx.Done():
			op.stop(context.Cause(ctx))
			<-op.done
		}
	}
}

// finish takes what op has come to.
func (s *Server) finish(ctx context.Context, op *operation, encode func([]byte) []byte, wire *wireError) {
	s.followJob(ctx, op)
	op.mu.Lock()
	op.encode, op.wire, op.over = encode, wire, true
	if op.jobOver {
		op.encode, op.wire = s.encoder(op.params.version, op.result), nil
	}
	op.change()
	close(op.done)
	task := op.task
	op.mu.Unlock()
	if task != nil {
		s.taskOver(op)
	}
}

// change tells those who wait that something is different; op is locked.
func (op *operation) change() {
	close(op.changed)
	op.changed = make(chan struct{})
}

// depart ends an exchange.
func (op *operation) depart() {
	op.progress.follow(nil, nil)
	op.mu.Lock()
	op.notify = nil
	op.here--
	op.mu.Unlock()
}

// Capabilities is what the client declared.
func (op *operation) Capabilities() json.RawMessage {
	if op.capabilities == nil {
		return json.RawMessage("{}")
	}
	return op.capabilities
}

// Meta is the _meta of the request.
func (op *operation) Meta() json.RawMessage { return op.meta }

// Input asks the client, all at once, and waits for the answers.
func (op *operation) Input(ctx context.Context, requests map[string]tool.InputRequest) (map[string]json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, inputTime, errUnanswered)
	defer cancel()
	asks := make([]*ask, 0, len(requests))
	for key, r := range requests {
		if !op.able.of(r) {
			return nil, fmt.Errorf("%w: the client does not take %s", tool.ErrNoChannel, r.Method)
		}
		asks = append(asks, &ask{key: key, as: key, request: r, given: true})
	}
	defer op.remind(ctx)()
	if err := op.put(ctx, asks); err != nil {
		return nil, err
	}
	results := make(map[string]json.RawMessage, len(asks))
	for _, a := range asks {
		if a.err != nil {
			return nil, fmt.Errorf("%s was not answered: %w", a.request.Method, a.err)
		}
		results[a.as] = a.response
	}
	return results, nil
}

// put asks the client and returns when all is answered, or ctx is done.
func (op *operation) put(ctx context.Context, asks []*ask) error {
	if op.changed == nil { // within one exchange
		return op.putDirect(ctx, asks)
	}
	if op.direct == nil && !op.isTask() {
		if err := op.server.reserve(op); err != nil {
			return err
		}
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(inputTime)
	}
	op.mu.Lock()
	for _, a := range asks {
		a.done, a.deadline = make(chan struct{}), deadline
		op.add(a)
	}
	if len(op.asks) > 0 {
		op.change()
	}
	task := op.task
	op.mu.Unlock()
	defer op.withdraw(asks)
	if task != nil {
		op.server.taskChanged(op)
		defer op.server.taskChanged(op)
	}
	if op.direct != nil {
		asking, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		for _, a := range asks {
			all.Go(func() { op.settle(a, func() (json.RawMessage, error) { return op.askDirect(asking, a) }) })
		}
		defer all.Wait()
		defer cancel()
	}
	for _, a := range asks {
		select {
		case <-a.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// isTask reports whether the client follows op as a task.
func (op *operation) isTask() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.task != nil
}

// add lists a as asked, under a key that is free, or takes an answer that came
// along with the request; op is locked.
func (op *operation) add(a *ask) {
	if response, ok := op.given[a.key]; ok && a.given && a.misfit(response) == "" {
		delete(op.given, a.key)
		a.response = response
		close(a.done)
		return
	}
	for op.asks[a.key] != nil {
		a.key = a.as + "-" + randomID(3)
	}
	if len(op.asks) == 0 {
		op.asking = time.Now()
	}
	op.asks[a.key] = a
}

// settle keeps the answer to a, if it is the first.
func (op *operation) settle(a *ask, get func() (json.RawMessage, error)) {
	response, err := get()
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.asks[a.key] == a {
		op.answered(a, response, err)
	}
}

// answered takes the answer to a; op is locked.
func (op *operation) answered(a *ask, response json.RawMessage, err error) {
	a.response, a.err = response, err
	close(a.done)
	op.drop(a)
}

// drop takes a off the list; op is locked.
func (op *operation) drop(a *ask) {
	delete(op.asks, a.key)
	if len(op.asks) == 0 {
		op.asking = time.Time{}
	}
	op.change()
}

// withdraw takes back what has not been answered.
func (op *operation) withdraw(asks []*ask) {
	op.mu.Lock()
	defer op.mu.Unlock()
	for _, a := range asks {
		if op.asks[a.key] == a {
			op.drop(a)
		}
	}
}

// deliver gives a client's responses to what was asked. What does not fit, or is
// missing, stays asked.
func (op *operation) deliver(responses map[string]json.RawMessage) {
	for key, a := range op.asks {
		response, ok := responses[key]
		if !ok {
			continue
		}
		if a.why = a.misfit(response); a.why == "" {
			op.answered(a, response, nil)
		}
	}
}

// putDirect asks over the connection, all at once.
func (op *operation) putDirect(ctx context.Context, asks []*ask) error {
	if op.direct == nil {
		return tool.ErrNoChannel
	}
	var all sync.WaitGroup
	for _, a := range asks {
		all.Go(func() { a.response, a.err = op.askDirect(ctx, a) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// askDirect puts a to the client until the answer fits.
func (op *operation) askDirect(ctx context.Context, a *ask) (json.RawMessage, error) {
	for again := 0; ; again++ {
		response, err := op.direct(ctx, a.request.Method, a.params())
		why := ""
		if misfit, ok := errors.AsType[misfitError](err); ok {
			why = string(misfit)
		} else if err != nil {
			return nil, err
		} else if why = a.misfit(response); why == "" {
			return response, nil
		}
		if again == maxAgain-1 || ctx.Err() != nil {
			return nil, fmt.Errorf("the client's answer does not fit: %s", why)
		}
		op.mu.Lock()
		a.why = why
		op.mu.Unlock()
	}
}

// remind tells the client that it is waited for until the function it returns
// has been called.
func (op *operation) remind(ctx context.Context) func() {
	if op.progress == nil {
		return func() {}
	}
	op.progress.note("waiting for a person to answer")
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(askedEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				op.progress.note("waiting for a person to answer")
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// rawData appends the data of an error; nil for none.
func rawData(data json.RawMessage) func([]byte) []byte {
	if data == nil {
		return nil
	}
	return func(b []byte) []byte { return append(b, data...) }
}

// randomID is n random bytes, as hexadecimal digits.
func randomID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
