package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Errors inside of those that callers get.
var (
	// errMismatch: metadata says it is another's.
	errMismatch = errors.New("metadata does not fit")
	// errRefused: the authorization server said no.
	errRefused = errors.New("the authorization server refuses")
	// errAbsent: there is no such document.
	errAbsent = errors.New("there is no such document")
)

// mismatch makes an errMismatch that reads as its own sentence.
func mismatch(format string, args ...any) error {
	return &sentence{fmt.Sprintf(format, args...), errMismatch}
}

type sentence struct {
	text string
	is   error
}

func (s *sentence) Error() string { return s.text }
func (s *sentence) Unwrap() error { return s.is }

// resourceMetadata is what a server says of itself, RFC 9728 §2.
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported"`
}

// serverMetadata is what an authorization server says of itself, RFC 8414 §2.
type serverMetadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	ScopesSupported       []string `json:"scopes_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	ClientMetadata        bool     `json:"client_id_metadata_document_supported"`
	Iss                   bool     `json:"authorization_response_iss_parameter_supported"`
}

// place is where a token for the server comes from.
type place struct {
	resource string // RFC 8707
	scopes   []string
	issuer   string
	serverMetadata
}

// discover finds out where tokens come from. named is the metadata's address from
// a challenge, "" if there was none.
func (a *Authorizer) discover(ctx context.Context, named string) (*place, error) {
	r, err := a.resource(ctx, named)
	if err != nil {
		return nil, err
	}
	issuer := a.chooseIssuer(r.AuthorizationServers)
	m, err := a.authorizationServer(ctx, issuer)
	if errors.Is(err, errAbsent) && named == "" && r.Resource == "" {
		// MCP 2025-03-26: a server without any metadata has its own endpoints.
		m, err = &serverMetadata{
			Issuer: issuer, AuthorizationEndpoint: issuer + "/authorize", TokenEndpoint: issuer + "/token", RegistrationEndpoint: issuer + "/register",
			ChallengeMethods: []string{"S256"},
		}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := a.checkMetadata(m); err != nil {
		return nil, err
	}
	p := &place{resource: r.Resource, scopes: r.ScopesSupported, issuer: m.Issuer, serverMetadata: *m}
	if p.resource == "" {
		p.resource = a.server.String()
	}
	return p, nil
}

// chooseIssuer is one of those that the server names: the one that a token or a
// client is known at, else the first.
func (a *Authorizer) chooseIssuer(named []string) string {
	known := []string{a.config.Issuer, a.record.Issuer}
	if t := a.record.Token; t != nil {
		known = append(known, t.Issuer)
	}
	for _, issuer := range known {
		if i := slices.IndexFunc(named, func(n string) bool { return issuer != "" && sameIssuer(n, issuer) }); i >= 0 {
			return named[i]
		}
	}
	return named[0]
}

// resource reads the metadata of the server: where the challenge said, at the
// well-known place of its path, at that of its host.
func (a *Authorizer) resource(ctx context.Context, named string) (*resourceMetadata, error) {
	var places []string
	if named != "" {
		places = append(places, named)
	}
	base := url.URL{Scheme: a.server.Scheme, Host: a.server.Host}
	const wellKnown = "/.well-known/oauth-protected-resource"
	if path := strings.TrimRight(a.server.EscapedPath(), "/"); path != "" {
		places = append(places, base.String()+wellKnown+path)
	}
	places = append(places, base.String()+wellKnown)
	for _, place := range places {
		var m resourceMetadata
		err := a.fetch(ctx, place, &m)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !a.covers(m.Resource) {
			return nil, mismatch("the metadata at %s is that of %q, not of %s", printable(place), printable(m.Resource), a.server)
		}
		if len(m.AuthorizationServers) == 0 {
			return nil, mismatch("the metadata at %s names no authorization server", printable(place))
		}
		return &m, nil
	}
	return &resourceMetadata{AuthorizationServers: []string{base.String()}}, nil
}

// covers reports whether a resource is the server: the same origin, and its path
// or one above it, since many servers name their origin only.
func (a *Authorizer) covers(resource string) bool {
	u, err := url.Parse(resource)
	if err != nil || u.User != nil || u.Fragment != "" || origin(u) != origin(a.server) {
		return false
	}
	above, path := strings.TrimRight(u.EscapedPath(), "/"), strings.TrimRight(a.server.EscapedPath(), "/")
	return (path == above || strings.HasPrefix(path, above+"/")) && (u.RawQuery == "" || u.RawQuery == a.server.RawQuery)
}

// authorizationServer reads the metadata of an issuer.
func (a *Authorizer) authorizationServer(ctx context.Context, issuer string) (*serverMetadata, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, mismatch("%q is no issuer", printable(issuer))
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, mismatch("the issuer %q has a query or a fragment", printable(issuer))
	}
	if err := a.guard.CheckURL(u); err != nil {
		return nil, err
	}
	base := u.Scheme + "://" + u.Host
	path := strings.TrimRight(u.EscapedPath(), "/")
	places := []string{base + "/.well-known/oauth-authorization-server" + path, base + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, base+path+"/.well-known/openid-configuration")
	}
	for _, place := range places {
		var m serverMetadata
		err := a.fetch(ctx, place, &m)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !sameIssuer(m.Issuer, issuer) {
			return nil, mismatch("the metadata at %s is that of the issuer %q, not of %q", place, printable(m.Issuer), printable(issuer))
		}
		return &m, nil
	}
	return nil, &sentence{"the authorization server " + printable(issuer) + " has no metadata", errAbsent}
}

// checkMetadata refuses what cannot be used safely.
func (a *Authorizer) checkMetadata(m *serverMetadata) error {
	if !slices.Contains(m.ChallengeMethods, "S256") {
		return mismatch("the authorization server %s does not say that it knows PKCE with S256", printable(m.Issuer))
	}
	for _, e := range []struct {
		name, value string
		needed      bool
	}{
		{"authorization_endpoint", m.AuthorizationEndpoint, true},
		{"token_endpoint", m.TokenEndpoint, true},
		{"registration_endpoint", m.RegistrationEndpoint, false},
	} {
		if e.value == "" && !e.needed {
			continue
		}
		u, err := url.Parse(e.value)
		if err != nil || u.Fragment != "" {
			return mismatch("%s %q is no URL", e.name, printable(e.value))
		}
		if err := a.guard.CheckURL(u); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// fetch reads a document. What is not there is errAbsent.
func (a *Authorizer) fetch(ctx context.Context, place string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return mismatch("%q is no URL", printable(place))
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("MCP-Protocol-Version", "2026-07-28")
	answer, err := a.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("reading %s: %w", printable(place), err)
	}
	switch {
	case answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("reading %s: %s", printable(place), answer.Status)
	case answer.StatusCode != http.StatusOK:
		return errAbsent
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading %s: it is no JSON of the kind that is wanted", printable(place))
	}
	return nil
}

// sameIssuer compares issuers letter by letter (RFC 8414 §3.3), but for the slash
// after a host alone, which means nothing in a URL.
func sameIssuer(a, b string) bool {
	return a != "" && (a == b || bareHost(a) == bareHost(b))
}

func bareHost(issuer string) string {
	if u, err := url.Parse(issuer); err == nil && u.Path == "/" {
		return strings.TrimSuffix(issuer, "/")
	}
	return issuer
}

func origin(u *url.URL) string { return u.Scheme + "://" + hostPort(u) }

// hostPort is the host in lower case, with its port.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// printable makes a text of others fit for an error: short, and one line.
func printable(s string) string {
	const most = 200
	clean := make([]rune, 0, min(len(s), most))
	for _, r := range s {
		if len(clean) == most {
			return string(clean) + "…"
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			r = '?'
		}
		clean = append(clean, r)
	}
	return string(clean)
}
