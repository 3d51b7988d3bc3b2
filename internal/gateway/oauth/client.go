package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Ways in which a client proves to the token endpoint who it is, RFC 7591 §2.
const (
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authNone  = "none"
)

// client is the registration to use at a place: configured, by metadata document,
// kept from before, or new. redirect is where the browser will come back to.
func (a *Authorizer) client(ctx context.Context, p *place, redirect string) (Client, error) {
	if a.config.ClientID != "" {
		return a.configured(p)
	}
	if a.config.ClientMetadata != "" && p.ClientMetadata {
		return Client{ID: a.config.ClientMetadata, Auth: authNone, Redirect: redirect}, nil
	}
	if c, ok := a.kept(p.issuer); ok && c.Redirect == redirect {
		return c, nil
	}
	if p.RegistrationEndpoint == "" {
		return Client{}, &sentence{fmt.Sprintf("the authorization server %s registers no clients; register one there and put its id into the server's settings", printable(p.issuer)), errRefused}
	}
	c, err := a.register(ctx, p, redirect)
	if err != nil {
		return Client{}, err
	}
	a.keep(ctx, func(r *Record) {
		if r.Clients == nil {
			r.Clients = map[string]Client{}
		}
		r.Clients[p.issuer] = c
	})
	return c, nil
}

// configured is the operator's client, which belongs to one issuer.
func (a *Authorizer) configured(p *place) (Client, error) {
	bound := a.config.Issuer
	if bound == "" {
		bound = a.record.Issuer
	}
	if bound != "" && !sameIssuer(bound, p.issuer) {
		return Client{}, mismatch("the server now names the authorization server %s, and the configured client belongs to %s", printable(p.issuer), bound)
	}
	c := Client{ID: a.config.ClientID, Secret: a.config.ClientSecret}
	c.Auth = chooseAuth("", c.Secret, p.AuthMethods)
	return c, nil
}

// kept is the client that was registered at an issuer before.
func (a *Authorizer) kept(issuer string) (Client, bool) {
	c, ok := a.record.Clients[issuer]
	if !ok || !c.Expiry.IsZero() && a.config.Now().Add(time.Minute).After(c.Expiry) {
		return Client{}, false
	}
	return c, true
}

// chooseAuth is how a client proves who it is: as it was registered, else by what
// the endpoint takes; RFC 8414 has basic where nothing is said.
func chooseAuth(registered, secret string, supported []string) string {
	switch {
	case secret == "":
		return authNone
	case registered == authBasic || registered == authPost || registered == authNone:
		return registered
	case len(supported) == 0 || slices.Contains(supported, authBasic):
		return authBasic
	case slices.Contains(supported, authPost):
		return authPost
	case slices.Contains(supported, authNone):
		return authNone
	}
	return authBasic
}

// register registers this client, RFC 7591 §3.
func (a *Authorizer) register(ctx context.Context, p *place, redirect string) (Client, error) {
	auth := authNone // a program on somebody's machine keeps no secret
	if len(p.AuthMethods) > 0 && !slices.Contains(p.AuthMethods, authNone) {
		auth = chooseAuth("", "any", p.AuthMethods)
	}
	wanted := map[string]any{
		"client_name":                a.config.ClientName,
		"redirect_uris":              []string{redirect},
		"grant_types":                []string{"authorization_code", "refresh_token"},
		"response_types":             []string{"code"},
		"token_endpoint_auth_method": auth,
		"application_type":           "native",
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		return Client{}, err
	}
	answer, err := a.post(ctx, p.RegistrationEndpoint, "application/json", body, nil)
	if err != nil {
		return Client{}, fmt.Errorf("registering at %s: %w", printable(p.issuer), err)
	}
	var got struct {
		ID      string `json:"client_id"`
		Secret  string `json:"client_secret"`
		Auth    string `json:"token_endpoint_auth_method"`
		Expires int64  `json:"client_secret_expires_at"`
	}
	if err := json.Unmarshal(answer, &got); err != nil || got.ID == "" {
		return Client{}, fmt.Errorf("registering at %s: the answer has no client id", printable(p.issuer))
	}
	c := Client{ID: got.ID, Secret: got.Secret, Auth: chooseAuth(got.Auth, got.Secret, p.AuthMethods), Redirect: redirect}
	if got.Secret != "" && got.Expires > 0 {
		c.Expiry = time.Unix(got.Expires, 0)
	}
	a.config.Log.Info("registered with an authorization server", "server", a.config.Server, "issuer", p.issuer)
	return c, nil
}

// token asks the token endpoint. An answer that says no is errRefused.
func (a *Authorizer) token(ctx context.Context, endpoint string, c Client, form url.Values) (*tokenAnswer, error) {
	header := http.Header{}
	switch c.Auth {
	case authBasic:
		// Both are encoded as in a form first, RFC 6749 §2.3.1.
		r := &http.Request{Header: header}
		r.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret))
	case authPost:
		form.Set("client_id", c.ID)
		form.Set("client_secret", c.Secret)
	default:
		form.Set("client_id", c.ID)
	}
	body, err := a.post(ctx, endpoint, "application/x-www-form-urlencoded", []byte(form.Encode()), header)
	if err != nil {
		return nil, err
	}
	t := &tokenAnswer{}
	if err := json.Unmarshal(body, t); err != nil {
		return nil, fmt.Errorf("%s: the answer is no token", printable(endpoint))
	}
	switch {
	case !headerSafe(t.Access):
		return nil, fmt.Errorf("%s: the answer has no token that could be sent", printable(endpoint))
	case t.Type != "" && !strings.EqualFold(t.Type, "Bearer"):
		return nil, fmt.Errorf("%s: the token is of type %q, not Bearer", printable(endpoint), printable(t.Type))
	}
	return t, nil
}

// tokenAnswer is RFC 6749 §5.1.
type tokenAnswer struct {
	Access  string      `json:"access_token"`
	Type    string      `json:"token_type"`
	Expires json.Number `json:"expires_in"` // some write it as a string
	Refresh string      `json:"refresh_token"`
	Scope   string      `json:"scope"`
}

func (t *tokenAnswer) expiry(now time.Time) time.Time {
	s, err := t.Expires.Float64()
	if err != nil || s <= 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(min(s, 1e9)) * time.Second)
}

// headerSafe reports whether a token can stand in a header.
func headerSafe(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return token != "" && len(token) <= 64<<10
}

// post sends a body with secrets: a redirect is not followed, and what is said
// about a failure is what the server said in the fields meant for it.
func (a *Authorizer) post(ctx context.Context, place, kind string, body []byte, header http.Header) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, place, bytes.NewReader(body))
	if err != nil {
		return nil, mismatch("%q is no URL", printable(place))
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Accept", "application/json")
	once := *a.http
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := once.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", printable(place), err)
	}
	if answer.StatusCode/100 == 2 {
		return got, nil
	}
	if answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests {
		return nil, fmt.Errorf("%s: %s", printable(place), answer.Status)
	}
	return nil, refusal(place, answer.StatusCode, got)
}

// refusal says what an authorization server answered, RFC 6749 §5.2.
func refusal(place string, status int, body []byte) error {
	var said struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	text := fmt.Sprintf("%s refuses with %d", printable(place), status)
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		text += " " + printable(said.Error)
		if said.Description != "" {
			text += ": " + printable(said.Description)
		}
	}
	return &sentence{text, errRefused}
}
