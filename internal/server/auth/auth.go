// Package auth knows who calls over HTTP and what that caller may do: API keys,
// tokens of an authorization server, and how many requests each may make. It does
// not know what lies behind a path, nor the token of the home directory, whose
// bearer may do everything.
package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Caller is who makes a request.
type Caller struct {
	// ID names the caller, the same for as long as the caller is the same: a token
	// that is refreshed does not change it. "" is the owner of this machine's home.
	// Sessions, tasks and parked calls of one ID are out of reach of all others.
	ID string
	// Name is to show.
	Name string
	// Tenant and Project are set on every call.
	Tenant, Project string
	// Profile is the profile of tools; "" for the server's own.
	Profile string
	// Allowed says which tools may be called, those of Profile among them. Nil means
	// all.
	Allowed func(*tool.Spec) bool
	// ReadOnly is said in Allowed already.
	ReadOnly bool
	// Admin opens the whole API, not only calls.
	Admin bool
	// Rate is how many requests a minute are let through. Zero means no bound.
	Rate int
	// Again is asked before each further request of a connection that goes on, such
	// as a WebSocket: an error says that the caller may call no more, retry that it
	// was too often and when to try again. Nil means that nothing is checked.
	Again func(ctx context.Context) (retry time.Duration, err error)
}

// Owner is who has the home's token, or everybody where nothing is asked for.
func Owner() Caller { return Caller{Admin: true} }

type callerKey struct{}

// With puts the caller into a request's context.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From is the caller of a request; the owner's if none was put there.
func From(ctx context.Context) Caller {
	if c, ok := ctx.Value(callerKey{}).(Caller); ok {
		return c
	}
	return Owner()
}

// Bearer is the token of a request; "" if it has none, or more than one
// Authorization header.
func Bearer(r *http.Request) string {
	all := r.Header.Values("Authorization")
	if len(all) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Refusals. What else goes wrong is an error of ours, and nobody is let in.
var (
	// ErrUnknown: no token, or one that nobody gave out, or that has ended: 401.
	ErrUnknown = errors.New("the request has no valid token")
	// ErrScope: a good token that does not reach this far: 403 insufficient_scope.
	ErrScope = errors.New("the token does not permit this")
)

// reading is the part of Allowed that a caller who only reads has.
func reading(allowed func(*tool.Spec) bool) func(*tool.Spec) bool {
	return func(s *tool.Spec) bool { return s.ReadOnly() && !s.Destructive && (allowed == nil || allowed(s)) }
}

// scheme marks the Authorization header that stands for a known caller behind
// the guard: the code there tells callers apart by the header, and has no use for
// their secrets.
const scheme = "Caller "

// isOwner reports whether c is what [Owner] gives.
func (c *Caller) isOwner() bool {
	return c.ID == "" && c.Name == "" && c.Tenant == "" && c.Project == "" && c.Profile == "" &&
		c.Allowed == nil && !c.ReadOnly && c.Admin && c.Rate == 0 && c.Again == nil
}

// Settle puts a caller into a request: into its context, and its ID in place of
// its secret. The owner's header stays as it is, and the owner is who [From] gives
// anyway.
func Settle(r *http.Request, c Caller) *http.Request {
	if c.isOwner() && r.Context().Value(callerKey{}) == nil {
		return r
	}
	r = r.WithContext(With(r.Context(), c))
	if c.ID != "" {
		r.Header = r.Header.Clone()
		r.Header.Set("Authorization", scheme+c.ID)
	}
	return r
}

// Settled reports whether an Authorization header stands for a caller other than
// the owner.
func Settled(header string) bool { return strings.HasPrefix(header, scheme) }

// Session is the session that a caller means by a name: names are the caller's
// own, so that nobody names somebody else's. header is the Authorization of a
// settled request; the owner's names mean what they say.
func Session(header, name string) string {
	if name == "" || !Settled(header) {
		return name
	}
	sum := sha256.Sum256([]byte(header + "\x00" + name))
	return "ses_" + hex.EncodeToString(sum[:8])
}

func isScope(err error) bool { return errors.Is(err, ErrScope) }
