package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// flow is one log-in, from the page until its token is kept.
type flow struct {
	place    *place
	client   Client
	back     *receiver
	scopes   []string
	page     string
	state    string
	verifier string

	cancel context.CancelFunc
	done   chan struct{}
	err    error // set when done is closed
}

// begin prepares a log-in and starts it. wanted are the scopes of the challenge.
func (a *Authorizer) begin(ctx context.Context, p *place, wanted []string) (*flow, error) {
	if a.config.Open == nil || a.closed {
		return nil, tool.Errorf(tool.PermissionDenied, "%s: the server wants somebody to log in, and nobody can be asked", a.config.Server).
			WithHint("Run `toolyard gateway login %s` in a terminal and log in.", a.config.Server).
			WithDetail("reason", "login_required")
	}
	if err := a.count(); err != nil {
		return nil, err
	}
	back, err := a.listen(ctx, p)
	if err != nil {
		return nil, err
	}
	f := &flow{place: p, back: back, scopes: a.scopes(p, wanted), state: rand.Text() + rand.Text(), verifier: newVerifier(), done: make(chan struct{})}
	if f.client, err = a.client(ctx, p, back.redirect); err == nil {
		f.page, err = f.authorizationURL()
	}
	if err != nil {
		back.close()
		return nil, err
	}
	// The person may take longer than the request that asked.
	run, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), a.config.Wait, errWaited)
	f.cancel, a.flow = cancel, f
	go a.run(run, f) // ends by itself, or by Close
	return f, nil
}

// run ends a log-in: it asks, and keeps what came of it.
func (a *Authorizer) run(ctx context.Context, f *flow) {
	defer f.cancel()
	code, err := f.ask(ctx, a.config.Open)
	f.back.close()
	a.turn <- struct{}{}
	if err == nil {
		err = a.exchange(ctx, f, code)
	}
	if cause := context.Cause(ctx); errors.Is(cause, errWaited) && err != nil {
		err = tool.Errorf(tool.PermissionTimeout, "%s: nobody logged in within %s", a.config.Server, a.config.Wait).
			WithHint("Call again, and log in at the page that is shown then.")
	}
	f.err = a.explain(err)
	a.flow = nil
	a.give()
	close(f.done)
}

// wait waits for a log-in, which goes on without whoever waits.
func (a *Authorizer) wait(ctx context.Context, f *flow) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return context.Cause(ctx)
		}
		return tool.Errorf(tool.PermissionDenied, "%s: the server wants somebody to log in, and the page for it is open still", a.config.Server).
			WithHint("Log in there, then call again.").WithDetail("reason", "login_pending")
	}
}

// count bounds how often a server can send somebody to a browser.
func (a *Authorizer) count() error {
	now := a.config.Now()
	a.flows = slices.DeleteFunc(a.flows, func(t time.Time) bool { return now.Sub(t) > flowWindow })
	if len(a.flows) >= maxFlows {
		return a.denied("the server asked for a log-in %d times within %s", len(a.flows), flowWindow)
	}
	a.flows = append(a.flows, now)
	return nil
}

// exchange gets the token for a code, OAuth 2.1 §4.1.3.
func (a *Authorizer) exchange(ctx context.Context, f *flow, code string) error {
	p := f.place
	answer, err := a.token(ctx, p.TokenEndpoint, f.client, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.back.redirect},
		"code_verifier": {f.verifier}, "resource": {p.resource},
	})
	if err != nil {
		return err
	}
	now := a.config.Now()
	t := &Token{
		Access: answer.Access, Refresh: answer.Refresh, Expiry: answer.expiry(now),
		Asked: f.scopes, Granted: f.scopes, Issuer: p.issuer, Endpoint: p.TokenEndpoint, Resource: p.resource, Client: f.client,
	}
	if answer.Scope != "" {
		t.Granted = fields(answer.Scope)
	}
	if err := a.load(ctx); err != nil { // somebody may have logged out meanwhile
		return err
	}
	a.uses, a.loginAt = 0, now
	a.keep(ctx, func(r *Record) {
		r.Token = t
		if a.config.ClientID != "" {
			r.Issuer = p.issuer
		}
	})
	a.config.Log.Info("logged in to an MCP server", "server", a.config.Server, "issuer", p.issuer, "scopes", t.Granted)
	return nil
}

// scopes are those to ask for: what the operator says, else what the challenge
// says, else what the metadata says, else none; with what the same authorization
// server has granted before, so that a step up loses nothing; and offline_access
// where it is known, since a token that ends asks a person again.
func (a *Authorizer) scopes(p *place, wanted []string) []string {
	var base []string
	switch {
	case len(a.config.Scopes) > 0:
		base = union(a.config.Scopes, wanted)
	case len(wanted) > 0:
		base = wanted
	default:
		base = union(nil, p.scopes)
	}
	if t := a.record.Token; t != nil && t.Issuer == p.issuer {
		base = union(t.Granted, base)
	}
	if slices.Contains(p.ScopesSupported, "offline_access") {
		base = union(base, []string{"offline_access"})
	}
	return base
}

// authorizationURL is where the person goes: the authorization code flow with
// PKCE, OAuth 2.1 §4.1.1.
func (f *flow) authorizationURL() (string, error) {
	u, err := url.Parse(f.place.AuthorizationEndpoint)
	if err != nil {
		return "", mismatch("authorization_endpoint %q is no URL", printable(f.place.AuthorizationEndpoint))
	}
	sum := sha256.Sum256([]byte(f.verifier))
	q := u.Query()
	q.Set("response_type", "code")
	q.Set("client_id", f.client.ID)
	q.Set("redirect_uri", f.back.redirect)
	q.Set("state", f.state)
	q.Set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
	q.Set("code_challenge_method", "S256")
	q.Set("resource", f.place.resource)
	if len(f.scopes) > 0 {
		q.Set("scope", strings.Join(f.scopes, " "))
	}
	if slices.Contains(f.scopes, "offline_access") {
		// OpenID Connect §11: without consent it is ignored.
		q.Set("prompt", "consent")
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func newVerifier() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// ask shows the page to the person and waits for the code.
func (f *flow) ask(ctx context.Context, open func(ctx context.Context, url string) error) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	f.back.expect(f.state) // before anybody can come back
	opened := make(chan error, 1)
	var shown sync.WaitGroup
	shown.Go(func() { opened <- open(ctx, f.page) }) // ends by cancel
	defer shown.Wait()
	defer cancel()
	for {
		select {
		case q := <-f.back.came:
			return f.place.code(q)
		case err := <-opened:
			opened = nil
			if err == nil || ctx.Err() != nil {
				continue
			}
			select {
			case q := <-f.back.came: // it was shown well enough
				return f.place.code(q)
			default:
				return "", fmt.Errorf("showing the page to log in: %w", err)
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

var errWaited = errors.New("nobody came back")

// code checks what the browser brought back. Who sent it comes first (RFC 9207
// §2.4): an error of somebody else's is nobody's business either.
func (p *place) code(q url.Values) (string, error) {
	iss, said := q.Get("iss"), q.Has("iss")
	switch {
	case len(q["iss"]) > 1 || len(q["code"]) > 1:
		return "", mismatch("the answer to the log-in says something twice")
	case p.Iss && !said:
		return "", mismatch("the answer to the log-in does not say which authorization server it is of, and %s always says so", printable(p.issuer))
	case said && iss != p.issuer:
		return "", mismatch("the answer to the log-in is one of %q, not of %q", printable(iss), printable(p.issuer))
	}
	if e := q.Get("error"); e != "" {
		text := "the log-in ended with " + printable(e)
		if d := q.Get("error_description"); d != "" {
			text += ": " + printable(d)
		}
		return "", &sentence{text, errRefused}
	}
	if q.Get("code") == "" {
		return "", mismatch("the answer to the log-in has no code")
	}
	return q.Get("code"), nil
}

// refresh gets the next token with the refresh token. If the authorization
// server refuses it, the refresh token is forgotten, and the error is errRefused.
func (a *Authorizer) refresh(ctx context.Context) error {
	old := a.record.Token
	if locker, ok := a.config.Tokens.(Locker); ok {
		unlock, err := locker.Lock(ctx, a.config.Server)
		if err != nil {
			return err
		}
		defer unlock()
		// Another process may have been quicker.
		if r, err := a.config.Tokens.Load(ctx, a.config.Server); err == nil && r != nil && r.Token != nil && r.Token.Access != old.Access {
			a.record, a.uses = r, 0
			return nil
		}
	}
	if u, err := url.Parse(old.Endpoint); err != nil || a.guard.CheckURL(u) != nil {
		return fmt.Errorf("the token endpoint %q is not reached any more", printable(old.Endpoint))
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh}}
	if old.Resource != "" {
		form.Set("resource", old.Resource)
	}
	answer, err := a.token(ctx, old.Endpoint, old.Client, form)
	if errors.Is(err, errRefused) {
		a.keep(ctx, func(r *Record) {
			t := *old
			t.Refresh = ""
			r.Token = &t
		})
	}
	if err != nil {
		return err
	}
	t := *old
	t.Access, t.Expiry = answer.Access, answer.expiry(a.config.Now())
	if answer.Refresh != "" {
		t.Refresh = answer.Refresh
	}
	if answer.Scope != "" {
		t.Granted = fields(answer.Scope)
	}
	a.uses, a.loginAt = 0, time.Time{}
	a.keep(ctx, func(r *Record) { r.Token = &t })
	a.config.Log.Debug("refreshed the token of an MCP server", "server", a.config.Server)
	return nil
}
