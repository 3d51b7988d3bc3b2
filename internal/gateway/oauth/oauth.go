// Package oauth gets access tokens for other MCP servers: it reads what a server
// and its authorization server say about themselves, registers, sends a person to
// log in, and keeps what comes back fresh. It speaks the authorization part of
// MCP 2025-11-25 and 2026-07-28
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization).
// It does not know MCP messages, nor who shows a URL to a person.
//
// Whatever a server names – metadata, endpoints, redirects – is reached through
// [netguard], since a server chooses what it names; only the address that the
// operator configured is reached wherever it is.
package oauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/netguard"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of what is done for one server.
const (
	maxDocument    = 1 << 20          // bytes of one answer
	requestTimeout = 30 * time.Second // one request for metadata or a token
	defaultWait    = 5 * time.Minute  // for a person
	refreshAhead   = 30 * time.Second // before a token ends
	maxFlows       = 5                // log-ins within flowWindow that one server may ask for
	flowWindow     = 5 * time.Minute
	maxScopes      = 100
)

// Config is one server and how tokens for it are got.
type Config struct {
	// Server is the name under which tokens are kept.
	Server string
	// URL is the configured address of the server, and the resource that tokens
	// are for (RFC 8707).
	URL string

	// ClientID is a client registered by hand at the authorization server; it is
	// used before any other kind. ClientSecret is empty for a public client.
	ClientID, ClientSecret string
	// Issuer is the authorization server that ClientID is registered at. Empty
	// means the first one that the client was used with; another one is refused,
	// or a server could name its own to collect the secret.
	Issuer string
	// ClientMetadata is the URL of this client's metadata document, its client id
	// where the authorization server takes such (CIMD). Empty means none.
	ClientMetadata string
	// ClientName is shown to the person who logs in. Empty means Toolyard.
	ClientName string
	// Scopes are asked for in place of those that the server names. What the server
	// demands later for a single request is added.
	Scopes []string

	// Redirect is where the browser comes back to: http, a loopback address, any
	// path; port 0 picks one. Empty means http://127.0.0.1:0/callback.
	Redirect string
	// Open shows a URL to the person, or opens it. It may block until the person
	// has acted; its context ends when the browser has come back. An error ends the
	// attempt. Nil means that nobody can be asked: only tokens that are there or can
	// be refreshed are used.
	Open func(ctx context.Context, url string) error
	// Wait is how long the person has. Zero means 5 minutes.
	Wait time.Duration

	// Tokens keeps what was got. Nil keeps it in memory.
	Tokens Tokens
	// Network is how metadata is fetched. The server's own host and port are added
	// to what it allows, and plain HTTP elsewhere is refused.
	Network netguard.Config
	// Log gets what is done, without any token. Nil discards.
	Log *slog.Logger
	// Now is the clock. Nil means [time.Now].
	Now func() time.Time
}

// Authorizer gives one server's requests their tokens. It is safe for concurrent
// use.
type Authorizer struct {
	config   Config
	server   *url.URL
	redirect *url.URL
	guard    *netguard.Guard
	http     *http.Client // never follows a redirect that carries a secret

	turn chan struct{} // held by who changes what is below
	// Read and written by the holder of turn.
	record  *Record // nil before it was loaded
	uses    int     // requests that the token has been put into
	loginAt time.Time
	flows   []time.Time // when people were asked
	flow    *flow       // the log-in that is under way
	closed  bool
	failure error // how the last attempt went wrong, for those who waited for it

	failures atomic.Int64 // attempts that went wrong
}

// New checks a configuration. It fetches nothing.
func New(c Config) (*Authorizer, error) {
	server, err := url.Parse(c.URL)
	if err != nil || server.Scheme != "http" && server.Scheme != "https" || server.Host == "" || server.User != nil {
		return nil, fmt.Errorf("%q is no address of a server", c.URL)
	}
	server.Fragment, server.RawFragment = "", ""
	if c.Redirect == "" {
		c.Redirect = "http://127.0.0.1:0/callback"
	}
	redirect, err := url.Parse(c.Redirect)
	if err != nil || !loopbackRedirect(redirect) {
		return nil, fmt.Errorf("%q is no redirect to this machine: http, a loopback address and a path are wanted", c.Redirect)
	}
	if c.ClientMetadata != "" {
		if u, err := url.Parse(c.ClientMetadata); err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") == "" || u.User != nil || u.Fragment != "" {
			return nil, fmt.Errorf("%q cannot be a client id: https, a host and a path are wanted", c.ClientMetadata)
		}
	}
	if c.ClientSecret != "" && c.ClientID == "" {
		return nil, errors.New("there is a client secret without a client id")
	}
	if c.ClientName == "" {
		c.ClientName = "Toolyard"
	}
	if c.Wait == 0 {
		c.Wait = defaultWait
	}
	if c.Tokens == nil {
		c.Tokens = &Memory{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Scopes = slices.Clone(c.Scopes)
	own, err := netguard.ParseAllow(hostPort(server))
	if err != nil {
		return nil, err
	}
	c.Network.Allow = append(slices.Clone(c.Network.Allow), own)
	c.Network.HTTPS = true
	if c.Network.Timeout == 0 {
		c.Network.Timeout = requestTimeout
	}
	if c.Network.MaxBody == 0 {
		c.Network.MaxBody = maxDocument
	}
	guard := netguard.New(c.Network)
	a := &Authorizer{config: c, server: server, redirect: redirect, guard: guard, http: guard.Client(), turn: make(chan struct{}, 1)}
	return a, nil
}

// take waits for the turn. Only its holder looks at the record.
func (a *Authorizer) take(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *Authorizer) give() { <-a.turn }

// Authorize puts the token into a request, if there is one, and refreshes it
// before if it is about to end. Without a token the request goes as it is: the
// server's answer says what it wants.
func (a *Authorizer) Authorize(ctx context.Context, r *http.Request) error {
	if err := a.take(ctx); err != nil {
		return err
	}
	defer a.give()
	if err := a.load(ctx); err != nil {
		return err
	}
	t := a.record.Token
	if t == nil {
		return nil
	}
	if a.ending(t, refreshAhead) && t.Refresh != "" {
		if err := a.refresh(ctx); err != nil {
			if a.ending(t, 0) && !errors.Is(err, errRefused) {
				return a.explain(err)
			}
			a.config.Log.Warn("the token of an MCP server was not refreshed", "server", a.config.Server, "err", err)
		}
		if t = a.record.Token; t == nil {
			return nil
		}
	}
	a.uses++
	r.Header.Set("Authorization", "Bearer "+t.Access)
	return nil
}

// ending reports whether a token ends within d.
func (a *Authorizer) ending(t *Token, d time.Duration) bool {
	return !t.Expiry.IsZero() && a.config.Now().Add(d).After(t.Expiry)
}

// Challenge acts on an answer 401 or 403: it gets a token, or one that may do
// more, and says whether the request should be sent again. It asks a person only
// if nothing else helps, and never again for what was just refused. A log-in goes
// on when ctx ends before the person has come back: its token is there for the
// next request. The answer's body is not read.
func (a *Authorizer) Challenge(ctx context.Context, r *http.Response) (retry bool, err error) {
	if r.StatusCode != http.StatusUnauthorized && r.StatusCode != http.StatusForbidden {
		return false, nil
	}
	said := bearer(parseChallenges(r.Header.Values("WWW-Authenticate")))
	if r.StatusCode == http.StatusForbidden && said["error"] != "insufficient_scope" {
		return false, nil // no other token would help
	}
	before := a.failures.Load()
	if err := a.take(ctx); err != nil {
		return false, err
	}
	if err := a.load(ctx); err != nil {
		a.give()
		return false, err
	}
	if t := a.record.Token; t != nil && r.Request != nil && r.Request.Header.Get("Authorization") != "Bearer "+t.Access {
		a.give()
		return true, nil // somebody else has got a new one meanwhile
	}
	f := a.flow
	if f == nil && a.failures.Load() > before {
		err = a.failure // this one waited for the attempt that went wrong
	} else if f == nil {
		if f, err = a.answer(ctx, r.StatusCode, said); err != nil && ctx.Err() == nil {
			a.failure = err
			a.failures.Add(1)
		}
	}
	a.give()
	if err != nil {
		return false, err
	}
	if f != nil {
		err = a.wait(ctx, f)
	}
	return err == nil, err
}

// answer gets what a challenge asks for, or begins the log-in that may get it.
func (a *Authorizer) answer(ctx context.Context, status int, said params) (*flow, error) {
	t := a.record.Token
	// A token that was given at a log-in and refused at its first use stays refused.
	if status == http.StatusUnauthorized && t != nil && !a.loginAt.IsZero() && a.uses <= 1 {
		return nil, a.denied("the server refuses the token that it was just given")
	}
	place, err := a.discover(ctx, said["resource_metadata"])
	if err != nil {
		return nil, a.explain(err)
	}
	wanted := fields(said["scope"])
	if status == http.StatusForbidden && len(wanted) == 0 {
		wanted = place.scopes
	}
	if status == http.StatusForbidden && t != nil && t.Issuer == place.issuer && subset(wanted, t.Asked) {
		return nil, a.denied("the server asks for the scope %q, which was asked for at the last log-in and is not enough",
			printable(strings.Join(wanted, " ")))
	}
	if status == http.StatusUnauthorized && t != nil && t.Refresh != "" && t.Issuer == place.issuer {
		err := a.refresh(ctx)
		if err == nil {
			return nil, nil
		}
		if !errors.Is(err, errRefused) {
			return nil, a.explain(err)
		}
	}
	f, err := a.begin(ctx, place, wanted)
	return f, a.explain(err)
}

// Login sends the person to log in, whatever tokens there are, and waits. If a
// log-in is under way it waits for that one.
func (a *Authorizer) Login(ctx context.Context) error {
	if err := a.take(ctx); err != nil {
		return err
	}
	f, err := a.flow, a.load(ctx)
	if f == nil && err == nil {
		a.flows = nil // a person wants it
		var place *place
		if place, err = a.discover(ctx, ""); err == nil {
			f, err = a.begin(ctx, place, nil)
		}
	}
	a.give()
	if err != nil {
		return a.explain(err)
	}
	return a.wait(ctx, f)
}

// Logout forgets the token and the registration.
func (a *Authorizer) Logout(ctx context.Context) error {
	if err := a.take(ctx); err != nil {
		return err
	}
	defer a.give()
	a.record, a.uses, a.loginAt = nil, 0, time.Time{}
	return a.config.Tokens.Delete(ctx, a.config.Server)
}

// Close ends a log-in that is under way; none begins after it.
func (a *Authorizer) Close() error {
	a.turn <- struct{}{}
	a.closed = true
	f := a.flow
	a.give()
	if f != nil {
		f.cancel()
		<-f.done
	}
	a.http.CloseIdleConnections()
	return nil
}

// denied says that a person must decide; explain says what went wrong on the way.
func (a *Authorizer) denied(format string, args ...any) error {
	return tool.Errorf(tool.PermissionDenied, "%s: %s", a.config.Server, fmt.Sprintf(format, args...)).
		WithHint("Log in to the server again, with an account that may do this.")
}

func (a *Authorizer) explain(err error) error {
	var known *tool.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, netguard.ErrRefused):
		return tool.Errorf(tool.PermissionDenied, "%s: the server names a place that is not reached: %s", a.config.Server, printable(err.Error())).
			WithHint("If that is your own authorization server, allow its host in the server's settings.")
	case errors.Is(err, errMismatch), errors.Is(err, errRefused):
		return tool.Errorf(tool.PermissionDenied, "%s: %s", a.config.Server, printable(err.Error())).
			WithHint("Ask who runs the server; a token was not sent.")
	}
	return tool.Errorf(tool.ConnectionError, "%s: getting a token: %s", a.config.Server, printable(err.Error())).
		WithHint("Check that the authorization server can be reached.")
}
