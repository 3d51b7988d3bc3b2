package mcp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// errGone is the cause of calls that end because their client has gone.
var errGone = errors.New("the client has gone")

// errCancelled is the cause of calls that their client cancelled.
var errCancelled = errors.New("the client cancelled the call")

// session is one client's conversation: what its calls have in common.
type session struct {
	id string
	ss *sdk.ServerSession // nil in the stateless era
	// conn is the connection of a client of its own: stdio or WebSocket. Nil over
	// HTTP.
	conn *connection
	// httpID is the Mcp-Session-Id; "" on stdio and in the stateless era.
	httpID string
	// principal stands for the caller who began it over HTTP or WebSocket; "" is the
	// owner. caller is set for a WebSocket.
	principal string
	caller    *auth.Caller
	view      atomic.Pointer[view] // nil means the server's
	posts     atomic.Int64         // calls over HTTP that have no answer yet
	answered  atomic.Int64         // when the last one got its answer, in Unix ns

	mu        sync.Mutex
	client    string // name/version
	workspace string
	// capabilities are what the client declared in initialize.
	capabilities json.RawMessage
	able         abilities
	version      string
	recorded     bool
	started      time.Time
	turn         string
	turns        int
	last         time.Time // when the last call came
	idle         *time.Timer
	logLevel     string // from which on the client gets log messages; "" for none
	following    bool   // the server tells the client what happens
	gone         bool   // no more calls are begun
	held         uint64
	calls        map[string]context.CancelCauseFunc // by the key of the request id
}

func newSession(id, workspace string, now time.Time) *session {
	return &session{id: id, workspace: workspace, started: now, calls: map[string]context.CancelCauseFunc{}}
}

// unreadFor is how soon after an answer a call over HTTP is no model's reaction to
// it: it was sent before, on a connection of its own.
const unreadFor = 100 * time.Millisecond

// post begins a call over HTTP and notes in p what else is under way; the
// function it returns ends it.
func (s *session) post(p *callParams) (end func()) {
	p.concurrent = s.posts.Add(1) > 1
	p.unread = time.Since(time.Unix(0, s.answered.Load())) < unreadFor
	return func() {
		s.answered.Store(time.Now().UnixNano())
		s.posts.Add(-1)
	}
}

// sessionID makes the ID of a session that nobody named.
func sessionID() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return "ses_" + hex.EncodeToString(b[:])
}

// derivedID is the session of a stateless client that names none.
func derivedID(key, client, workspace string) string {
	var room [256]byte
	b := append(append(room[:0], key...), 0)
	b = append(append(b, client...), 0)
	sum := sha256.Sum256(append(b, workspace...))
	return string(hex.AppendEncode(append(room[:0], "ses_"...), sum[:8]))
}

// begin registers a request under its id and gives its context. It refuses an
// id that is in use and more than maxInFlight requests.
func (s *session) begin(ctx context.Context, id string) (context.Context, context.CancelCauseFunc, *wireError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil, nil, &wireError{codeInvalidRequest, errGone.Error()}
	}
	if s.calls[id] != nil {
		return nil, nil, &wireError{codeInvalidRequest, "request id " + id + " is already in use"}
	}
	if len(s.calls) >= maxInFlight {
		return nil, nil, &wireError{codeBusy, "too many calls in flight; wait for some of them to end"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.calls[id] = cancel
	return ctx, cancel, nil
}

// end forgets a request.
func (s *session) end(id string) {
	s.mu.Lock()
	cancel := s.calls[id]
	delete(s.calls, id)
	s.mu.Unlock()
	if cancel != nil {
		cancel(nil)
	}
}

// cancel cancels a request and reports whether there was one.
func (s *session) cancel(id string) bool {
	s.mu.Lock()
	cancel := s.calls[id]
	s.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
	return cancel != nil
}

// cancelAll cancels every request, because the client has gone.
func (s *session) cancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	for _, cancel := range s.calls {
		cancel(errGone)
	}
}

// inFlight is how many requests run.
func (s *session) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// enter notes that a call has come and tells which turn it belongs to: the one
// that the client names, else a new one after a pause.
func (s *session) enter(named string, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case named != "":
		s.turn = named
	case s.turn == "" || now.Sub(s.last) > turnPause:
		s.nextTurn()
	}
	s.last = now
	return s.turn
}

// undone begins a new turn after an undo.
func (s *session) undone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextTurn()
}

// nextTurn begins a turn that has no name; s is locked.
func (s *session) nextTurn() {
	s.turns++
	s.turn = "turn-" + strconv.FormatInt(s.started.UnixMilli(), 36) + "-" + strconv.Itoa(s.turns)
}

// record writes the session's row at its first call, when the store is there.
func (s *Server) record(ctx context.Context, sess *session) {
	sess.mu.Lock()
	if sess.recorded {
		sess.mu.Unlock()
		return
	}
	sess.recorded = true
	row := s.row(sess)
	sess.mu.Unlock()
	if s.config.Sessions != nil {
		if err := s.config.Sessions.PutSession(ctx, row); err != nil {
			s.config.Log.Warn("session is not recorded", "session", sess.id, "err", err)
		}
	}
	s.publish(tool.EventSessionStarted, row)
}

// ended writes that a session has ended, if its beginning was written.
func (s *Server) ended(sess *session) {
	sess.mu.Lock()
	recorded := sess.recorded
	row := s.row(sess)
	sess.mu.Unlock()
	if !recorded {
		return
	}
	row.Ended = s.config.Now().UTC()
	if s.config.Sessions != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.background), drainLimit)
		defer cancel()
		if err := s.config.Sessions.PutSession(ctx, row); err != nil {
			s.config.Log.Warn("end of session is not recorded", "session", sess.id, "err", err)
		}
	}
	s.publish(tool.EventSessionEnded, row)
}

// row is sess as the store keeps it; sess is locked.
func (s *Server) row(sess *session) store.Session {
	return store.Session{
		ID: sess.id, Client: sess.client, Workspace: sess.workspace, Mode: string(s.config.Mode),
		Started: sess.started.UTC(), Seen: s.config.Now().UTC(), Turn: sess.turn,
	}
}

func (s *Server) publish(kind string, row store.Session) {
	if s.config.Bus == nil {
		return
	}
	s.config.Bus.Publish(tool.Event{Type: kind, Session: row.ID, Data: map[string]any{
		"client": row.Client, "workspace": row.Workspace,
	}})
}

// defaultWorkspace is the first one named; "" if none was.
func (s *Server) defaultWorkspace() string {
	if len(s.config.Workspaces) == 0 {
		return ""
	}
	return s.config.Workspaces[0]
}

// name sets the client's name where it is not known yet.
func (s *session) name(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == "" {
		s.client = client
	}
}

// asks reports whether the client can be asked anything during a call.
func (s *session) asks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.able.asks()
}

// encodeCapabilities gives what a client declared as JSON.
func encodeCapabilities(caps *sdk.ClientCapabilities) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(appendJSON(nil, caps), &members) != nil {
		return nil
	}
	// The SDK writes roots of a client that has none too.
	delete(members, "roots")
	//lint:ignore SA1019 clients of the session era have roots
	if caps.RootsV2 != nil {
		//lint:ignore SA1019 clients of the session era have roots
		members["roots"] = appendJSON(nil, caps.RootsV2)
	}
	return appendJSON(nil, members)
}

// declared is the ClientCapabilities of a session.
func (s *session) declared() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capabilities
}

// level is from which level on the client wants log messages; "" for none.
func (s *session) level() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logLevel
}

// attach makes sess known under its SDK session.
func (s *Server) attach(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bySDK[sess.ss] = sess
	if sess.httpID != "" {
		s.http[sess.httpID] = sess
	}
}

// detach forgets sess, and what it had subscribed to.
func (s *Server) detach(sess *session) {
	s.mu.Lock()
	delete(s.bySDK, sess.ss)
	foreign := s.unsubscribeAll(sess.ss)
	delete(s.http, sess.httpID)
	s.mu.Unlock()
	for _, uri := range foreign {
		_ = s.config.Upstream.Unsubscribe(s.background, uri)
	}
}

// connected takes over what a client said in initialize, and the version agreed
// on.
func (s *Server) connected(r *sdk.ServerRequest[*sdk.InitializeParams], version string) {
	sess := s.sessionBySDK(r.Session)
	if sess == nil {
		sess = newSession(r.Session.ID(), s.defaultWorkspace(), s.config.Now())
		sess.ss, sess.httpID = r.Session, r.Session.ID()
		if r.Extra != nil {
			sess.principal = owned(r.Extra.Header.Get("Authorization"))
		}
		s.attach(sess)
		s.watch(sess)
	}
	if v := s.viewFor(nil, r.Extra); v != s.view {
		sess.view.Store(v)
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if info := r.Params.ClientInfo; info != nil {
		sess.client = info.Name + "/" + info.Version
	}
	sess.version = version
	if caps := r.Params.Capabilities; caps != nil {
		sess.capabilities = encodeCapabilities(caps)
		sess.able = parseAbilities(sess.capabilities)
	}
}

// watch ends the session of an HTTP client when it is closed, or when it has
// been idle for long.
func (s *Server) watch(sess *session) {
	sess.idle = time.AfterFunc(sessionIdle, func() {
		if sess.inFlight() > 0 {
			sess.touch()
			return
		}
		_ = sess.ss.Close()
	})
	s.work.Go(func() {
		_ = sess.ss.Wait()
		sess.mu.Lock()
		sess.idle.Stop()
		sess.mu.Unlock()
		sess.cancelAll()
		s.detach(sess)
		s.ended(sess)
	})
}

// touch notes that an HTTP session is in use.
func (s *session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		s.idle.Reset(sessionIdle)
	}
}

// hold registers something that ends when the client goes, such as a stream or
// a call that came through the SDK. The function it returns forgets it.
func (s *session) hold(cancel context.CancelCauseFunc) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		cancel(errGone)
	}
	s.held++
	key := "\x00" + strconv.FormatUint(s.held, 10) // no request has such an id
	s.calls[key] = cancel
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, key)
	}
}

// sessionBySDK is the session behind one of the SDK; nil if it is not open.
func (s *Server) sessionBySDK(ss *sdk.ServerSession) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bySDK[ss]
}

// sessionOf is the session that a request through the SDK belongs to.
func (s *Server) sessionOf(r *sdk.CallToolRequest, p *callParams) *session {
	sess := s.sessionBySDK(r.Session)
	if sess != nil {
		return sess
	}
	key := ""
	if r.Extra != nil {
		key = principal(r.Extra.Header)
	}
	return s.statelessSession(p, key)
}

// statelessSession is the session of a request of the stateless era: the one it
// names, else one for each key, client and workspace.
func (s *Server) statelessSession(p *callParams, key string) *session {
	workspace := p.workspace
	if workspace == "" {
		workspace = s.defaultWorkspace()
	}
	id := auth.Session(key, p.session)
	if id == "" {
		id = derivedID(key, p.client, workspace)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess := s.stateless[id]; sess != nil {
		return sess
	}
	if len(s.stateless) >= maxStateless {
		s.forgetOldest()
	}
	sess := newSession(id, s.defaultWorkspace(), s.config.Now())
	sess.client, sess.principal = p.client, owned(key)
	s.stateless[id] = sess
	return sess
}

// forgetOldest drops the stateless session that has been silent longest; s is
// locked. Only its turn is lost.
func (s *Server) forgetOldest() {
	var oldest *session
	var at time.Time
	for _, sess := range s.stateless {
		sess.mu.Lock()
		if len(sess.calls) == 0 && sess.posts.Load() == 0 && (oldest == nil || sess.last.Before(at)) {
			oldest, at = sess, sess.last
		}
		sess.mu.Unlock()
	}
	if oldest != nil {
		delete(s.stateless, oldest.id)
	}
}

// initialized looks at the roots of a client that has some: they choose among
// the workspaces that were named.
func (s *Server) initialized(_ context.Context, r *sdk.InitializedRequest) {
	params := r.Session.InitializeParams()
	//lint:ignore SA1019 clients of the session era have roots
	if len(s.config.Workspaces) < 2 || params == nil || params.Capabilities == nil || params.Capabilities.RootsV2 == nil {
		return
	}
	sess := s.sessionBySDK(r.Session)
	if sess == nil {
		return
	}
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(s.background, drainLimit)
		defer cancel()
		//lint:ignore SA1019 clients of the session era have roots
		roots, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return
		}
		for _, root := range roots.Roots {
			if dir, err := filePath(root.URI); err == nil && slices.Contains(s.config.Workspaces, dir) {
				sess.mu.Lock()
				sess.workspace = dir
				sess.mu.Unlock()
				return
			}
		}
	})
}
