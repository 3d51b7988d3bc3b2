package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/tool"
)

// maxFailures is how many requests with a wrong token an address may make in a
// minute, a quarter of them at once, before it is not listened to any more.
const maxFailures = 60

// forCallers is what of the API a caller may use that is not an admin: calls of
// its own and the tools that it has. A path that ends with "/" stands for all
// below it. To add one: a line.
var forCallers = []struct{ method, path string }{
	{"", "/mcp"},
	{"", "/mcp/"},
	{"", "/ws"},
	{"", "/ws/"},
	{http.MethodPost, "/api/v1/calls"},
	{http.MethodPost, "/api/v1/calls/batch"},
	{http.MethodGet, "/api/v1/tools"},
	{http.MethodGet, "/api/v1/tools/"},
	{http.MethodGet, "/api/v1/openapi.json"},
}

// mayReach reports whether a caller may use a path at all. What the caller may do
// there is decided there.
func mayReach(c auth.Caller, r *http.Request) bool {
	if c.Admin {
		return true
	}
	for _, row := range forCallers {
		if row.method != "" && row.method != r.Method && !(row.method == http.MethodGet && r.Method == http.MethodHead) {
			continue
		}
		if row.path == r.URL.Path || strings.HasSuffix(row.path, "/") && strings.HasPrefix(r.URL.Path, row.path) {
			return true
		}
	}
	return false
}

// admit finds out who calls and whether that is too often. If the request goes no
// further it has been answered.
func (g *guard) admit(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	address := remote(r)
	if g.config.Rate > 0 {
		if retry, ok := g.rates.Take("address "+address, g.config.Rate); !ok {
			return nil, tooMany(w, retry)
		}
	}
	if slices.Contains(open, r.URL.Path) || g.config.Resource != nil && slices.Contains(g.config.Resource.MetadataPaths(), r.URL.Path) {
		return r, true
	}
	if g.config.Auth != AuthNone {
		if retry, spent := g.rates.Spent("wrong "+address, maxFailures); spent {
			return nil, tooMany(w, retry)
		}
	}
	caller, err := g.identify(r)
	if err == nil && !mayReach(caller, r) {
		err = auth.ErrScope
	}
	if err == nil && caller.Rate > 0 {
		if retry, ok := g.rates.Take("caller "+caller.ID, caller.Rate); !ok {
			return nil, tooMany(w, retry)
		}
	}
	if err != nil {
		g.refuse(w, r, err)
		return nil, false
	}
	if caller.ID != "" {
		caller.Again = g.again(r, caller)
	}
	return auth.Settle(r, caller), true
}

// again checks the caller of a connection that goes on.
func (g *guard) again(r *http.Request, caller auth.Caller) func(ctx context.Context) (time.Duration, error) {
	r = r.Clone(context.WithoutCancel(r.Context()))
	return func(ctx context.Context) (time.Duration, error) {
		now, err := g.identify(r.WithContext(ctx))
		if err == nil && now.ID != caller.ID {
			err = auth.ErrUnknown
		}
		if err != nil {
			return 0, err
		}
		retry, _ := g.rates.Take("caller "+caller.ID, now.Rate)
		return retry, nil
	}
}

// identify is who calls: the bearer of the home's token, of an API key, or of a
// token of the authorization server.
func (g *guard) identify(r *http.Request) (auth.Caller, error) {
	token := auth.Bearer(r)
	switch {
	case token == "" && g.config.Auth == AuthNone:
		return auth.Owner(), nil
	case token == "":
		return auth.Caller{}, auth.ErrUnknown
	case auth.IsKey(token) && g.config.Keys != nil:
		return g.config.Keys.Caller(r.Context(), token)
	case g.config.Auth == AuthNone:
		return auth.Owner(), nil
	case g.config.Auth == AuthOAuth:
		return g.config.Resource.Caller(r.Context(), token)
	}
	a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(g.token))
	if g.token == "" || subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return auth.Caller{}, auth.ErrUnknown
	}
	return auth.Owner(), nil
}

// refuse says no to a caller, and how to get a yes.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, err error) {
	given := r.Header.Get("Authorization") != ""
	challenge := auth.Challenge(err, given)
	if g.config.Resource != nil {
		challenge = g.config.Resource.Challenge(err, given)
	}
	switch {
	case errors.Is(err, auth.ErrScope):
		w.Header().Set("WWW-Authenticate", challenge)
		fail(w, http.StatusForbidden, "INSUFFICIENT_SCOPE", "the token does not permit this: "+r.Method+" "+r.URL.Path,
			"Use a token or key that reaches further.")
	case errors.Is(err, auth.ErrUnknown):
		if given {
			g.rates.Take("wrong "+remote(r), maxFailures)
			g.config.Log.Info("a request had a wrong token", "address", remote(r), "err", err)
		}
		w.Header().Set("WWW-Authenticate", challenge)
		fail(w, http.StatusUnauthorized, "UNAUTHORIZED", "the request has no valid token", g.howTo())
	default:
		g.config.Log.Error("who calls cannot be found out", "err", err)
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusServiceUnavailable, string(tool.ConnectionError), "who calls cannot be found out now", "Try again later.")
	}
}

func (g *guard) howTo() string {
	if g.config.Auth == AuthOAuth {
		return "Send Authorization: Bearer with a token of the authorization server that WWW-Authenticate leads to, or with an API key."
	}
	return "Send Authorization: Bearer with the token in the file that serve names at its start, or with an API key."
}

// tooMany answers with when to come back.
func tooMany(w http.ResponseWriter, retry time.Duration) bool {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(max(retry.Seconds(), 1)))))
	fail(w, http.StatusTooManyRequests, string(tool.RateLimited), "too many requests", "Try again later.")
	return false
}

// remote is the address that a request came from, for counting: of IPv6 the /64,
// of which one customer has all.
func remote(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	a := addrOf(host)
	if a.IsValid() && a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return host
}
