package oauth_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/internal/gateway/oauth"
	"github.com/toolyard/toolyard/internal/netguard"
)

// world is an MCP server, authorization servers, a person with a browser and the
// names that lead to them.
type world struct {
	t      *testing.T
	config oauth.Config
	direct func(ctx context.Context, network, addr string) (net.Conn, error) // every name leads to the world

	mcp http.HandlerFunc // what the MCP server answers to POST /mcp
	prm map[string]any   // its metadata
	as  map[string]*issuer

	mu      sync.Mutex
	seen    []string // method, host and path of every request
	pages   []url.Values
	dialed  []string
	secrets []string // whatever must not be told
	log     bytes.Buffer
}

// issuer is an authorization server and what is odd about it.
type issuer struct {
	url      string
	metadata map[string]any
	redirect func(q url.Values)                           // changes what the browser brings back
	token    func(w http.ResponseWriter, form url.Values) // in place of a token
	register func(w http.ResponseWriter)                  // in place of a client

	mu        sync.Mutex
	n         int
	challenge map[string]string // code → PKCE
	scopes    map[string]string // code → scope
	clients   map[string]string // id → secret
	refresh   map[string]string // refresh token → scope
	accepted  map[string]string // access token → scope
	grants    []url.Values      // what came to the token endpoint
	basic     []string          // clients that came with basic
	lifetime  any               // expires_in
}

// The names and where they are; each address leads to the same listener.
var places = map[string]string{
	"mcp.test": "93.184.216.1", "as.test": "93.184.216.2", "as2.test": "93.184.216.3", "private.test": "10.0.0.1", "meta.test": "169.254.169.254",
}

// LookupNetIP implements netguard.Resolver.
func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	a, ok := places[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(a)}, nil
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, as: map[string]*issuer{}}
	listener := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(listener.Close)
	for _, host := range []string{"as.test", "as2.test"} {
		w.as[host] = newIssuer("http://" + host)
	}
	w.prm = map[string]any{"resource": "http://mcp.test/mcp", "authorization_servers": []string{"http://as.test"}}
	w.mcp = func(rw http.ResponseWriter, r *http.Request) {
		w.need(rw, r, "", `resource_metadata="http://mcp.test/.well-known/oauth-protected-resource/mcp"`)
	}
	var allow []netguard.Allow
	for _, host := range []string{"as.test", "as2.test"} {
		a, err := netguard.ParseAllow(host)
		if err != nil {
			t.Fatal(err)
		}
		allow = append(allow, a)
	}
	w.direct = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, listener.Listener.Addr().String())
	}
	w.config = oauth.Config{
		Server: "one", URL: "http://mcp.test/mcp", Open: w.browse, Tokens: &oauth.Memory{},
		Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Network: netguard.Config{Allow: allow, Resolver: w, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			w.mu.Lock()
			w.dialed = append(w.dialed, addr)
			w.mu.Unlock()
			return w.direct(ctx, network, addr)
		}},
	}
	return w
}

func newIssuer(base string) *issuer {
	return &issuer{url: base, challenge: map[string]string{}, scopes: map[string]string{}, clients: map[string]string{}, refresh: map[string]string{}, accepted: map[string]string{}, lifetime: 3600,
		metadata: map[string]any{
			"issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token", "registration_endpoint": base + "/register",
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
		}}
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.seen = append(w.seen, r.Method+" "+r.Host+r.URL.Path)
	w.mu.Unlock()
	if r.Host == "mcp.test" {
		switch r.URL.Path {
		case "/mcp":
			w.mcp(rw, r)
		case "/.well-known/oauth-protected-resource/mcp":
			w.mu.Lock()
			prm := maps.Clone(w.prm)
			w.mu.Unlock()
			writeJSON(rw, prm)
		default:
			http.NotFound(rw, r)
		}
		return
	}
	as, ok := w.as[r.Host]
	if !ok {
		http.NotFound(rw, r)
		return
	}
	w.issue(as, rw, r)
}

func writeJSON(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(v)
}

// need answers 200 to a token with the scope that an issuer gave, 403 to one
// without it and 401 to everything else.
func (w *world) need(rw http.ResponseWriter, r *http.Request, scope, params string) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, as := range w.as {
		as.mu.Lock()
		has, ok := as.accepted[token]
		as.mu.Unlock()
		if ok && strings.Contains(" "+has+" ", " "+scope+" ") || ok && scope == "" {
			_, _ = io.WriteString(rw, "ok")
			return
		}
		if ok {
			rw.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q, %s`, scope, params))
			rw.WriteHeader(http.StatusForbidden)
			return
		}
	}
	rw.Header().Set("WWW-Authenticate", "Bearer "+params)
	rw.WriteHeader(http.StatusUnauthorized)
}

// issue is an authorization server.
func (w *world) issue(as *issuer, rw http.ResponseWriter, r *http.Request) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.n++
	secret := func(kind string) string {
		s := fmt.Sprintf("%s-%s-%d-secretvalue", r.Host, kind, as.n)
		w.mu.Lock()
		w.secrets = append(w.secrets, s)
		w.mu.Unlock()
		return s
	}
	_ = r.ParseForm()
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		writeJSON(rw, as.metadata)
	case "/register":
		if as.register != nil {
			as.register(rw)
			return
		}
		id := fmt.Sprintf("client-%s-%d", r.Host, as.n)
		as.clients[id] = ""
		rw.WriteHeader(http.StatusCreated)
		writeJSON(rw, map[string]any{"client_id": id})
	case "/authorize":
		code := secret("code")
		as.challenge[code], as.scopes[code] = r.Form.Get("code_challenge"), r.Form.Get("scope")
		back, _ := url.Parse(r.Form.Get("redirect_uri"))
		q := url.Values{"code": {code}, "state": {r.Form.Get("state")}}
		if as.redirect != nil {
			as.redirect(q)
		}
		back.RawQuery = q.Encode()
		http.Redirect(rw, r, back.String(), http.StatusFound)
	case "/token":
		as.grants = append(as.grants, r.PostForm)
		if id, _, ok := r.BasicAuth(); ok {
			as.basic = append(as.basic, id)
		}
		if as.token != nil {
			as.token(rw, r.PostForm)
			return
		}
		scope, ok := as.refresh[r.PostForm.Get("refresh_token")]
		if r.PostForm.Get("grant_type") == "authorization_code" {
			sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
			scope, ok = as.scopes[r.PostForm.Get("code")]
			ok = ok && as.challenge[r.PostForm.Get("code")] == base64.RawURLEncoding.EncodeToString(sum[:])
			delete(as.scopes, r.PostForm.Get("code"))
		}
		if !ok {
			rw.WriteHeader(http.StatusBadRequest)
			writeJSON(rw, map[string]any{"error": "invalid_grant", "error_description": "no\nmore"})
			return
		}
		delete(as.refresh, r.PostForm.Get("refresh_token"))
		access, refresh := secret("access"), secret("refresh")
		as.accepted[access], as.refresh[refresh] = scope, scope
		writeJSON(rw, map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "bearer", "expires_in": as.lifetime, "scope": scope})
	default:
		http.NotFound(rw, r)
	}
}

// browse is the person with a browser, who says yes to everything.
func (w *world) browse(ctx context.Context, page string) error {
	u, err := url.Parse(page)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.pages = append(w.pages, u.Query())
	w.mu.Unlock()
	// The first request goes through the names of the world, the way back does not.
	direct := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: w.direct}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	answer, err := direct.Do(r)
	if err != nil {
		return err
	}
	answer.Body.Close()
	return follow(ctx, answer.Header.Get("Location"))
}

// follow goes where the browser is sent back to.
func follow(ctx context.Context, to string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func (w *world) authorizer(change func(c *oauth.Config)) *oauth.Authorizer {
	w.t.Helper()
	c := w.config
	if change != nil {
		change(&c)
	}
	a, err := oauth.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { a.Close() })
	return a
}

// call makes one request as the gateway's client does, and gives the status of
// the last answer.
func (w *world) call(ctx context.Context, a *oauth.Authorizer) (int, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: w.direct}}
	for range 20 {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://mcp.test/mcp", nil)
		if err != nil {
			return 0, err
		}
		if err := a.Authorize(ctx, r); err != nil {
			return 0, err
		}
		answer, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		answer.Body.Close()
		again, err := a.Challenge(ctx, answer)
		if err != nil || !again {
			return answer.StatusCode, err
		}
	}
	return 0, fmt.Errorf("it never ends")
}

func (w *world) count(prefix string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, s := range w.seen {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// quiet checks that no secret was told in the log or in an error.
func (w *world) quiet(errs ...error) {
	w.t.Helper()
	told := w.log.String()
	for _, err := range errs {
		if err != nil {
			told += fmt.Sprintf("%v %+v", err, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.secrets {
		if strings.Contains(told, s) {
			w.t.Errorf("%s was told in:\n%s", s, told)
		}
	}
}
