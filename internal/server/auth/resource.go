package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/netguard"
)

// wellKnown is where clients look for what is said of a resource, RFC 9728 §3.
const wellKnown = "/.well-known/oauth-protected-resource"

// ResourceConfig is an OAuth 2.1 resource server: whose tokens are taken.
type ResourceConfig struct {
	// Issuer is the authorization server, letter by letter as its tokens name it:
	// https, or http on a loopback address.
	Issuer string
	// Audience is what tokens must be for: the URL of this server's /mcp as clients
	// know it.
	Audience string
	// Scopes must all be in a token. They are told to clients too.
	Scopes []string
	// ReadScope, if it is not empty, is enough for tools that change nothing: a token
	// that has it and not all of Scopes may call only these.
	ReadScope string
	// Network is how metadata and keys are fetched. The issuer's own host and port
	// are added to what it allows; keys elsewhere must be at public addresses, and
	// over https.
	Network netguard.Config
	// Now is the clock. Nil means [time.Now].
	Now func() time.Time
}

// Resource checks tokens. It is safe for concurrent use.
type Resource struct {
	config   ResourceConfig
	keys     *keySet
	metadata string // URL of the document
	path     string // its path
	host     string // of the audience, without port
	document []byte
}

// NewResource checks a configuration. It fetches nothing.
func NewResource(c ResourceConfig) (*Resource, error) {
	issuer, err := url.Parse(c.Issuer)
	if err != nil || issuer.Host == "" || issuer.User != nil || issuer.RawQuery != "" || issuer.Fragment != "" || !secure(issuer) {
		return nil, fmt.Errorf("%q is no issuer: https and a host are wanted, or http on a loopback address", c.Issuer)
	}
	audience, err := url.Parse(c.Audience)
	if err != nil || audience.Host == "" || audience.User != nil || audience.RawQuery != "" || audience.Fragment != "" || audience.Scheme != "https" && audience.Scheme != "http" {
		return nil, fmt.Errorf("%q is no audience: the URL of /mcp as clients know it is wanted", c.Audience)
	}
	for _, s := range append(slices.Clone(c.Scopes), c.ReadScope) {
		if strings.ContainsAny(s, " \"\\\n\r\t") {
			return nil, fmt.Errorf("%q is no scope", s)
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	port := issuer.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[issuer.Scheme]
	}
	own, err := netguard.ParseAllow(strings.TrimSuffix(issuer.Host, ":"+port) + ":" + port)
	if err != nil {
		return nil, err
	}
	c.Network.Allow = append(slices.Clone(c.Network.Allow), own)
	c.Network.HTTPS = true
	if c.Network.MaxBody == 0 {
		c.Network.MaxBody = 1 << 20
	}
	r := &Resource{config: c, path: wellKnown + strings.TrimRight(audience.EscapedPath(), "/"), host: audience.Hostname()}
	r.metadata = audience.Scheme + "://" + audience.Host + r.path
	r.keys = &keySet{issuer: c.Issuer, client: netguard.New(c.Network).Client(), now: c.Now, turn: make(chan struct{}, 1)}
	scopes := slices.Clone(c.Scopes)
	if c.ReadScope != "" && !slices.Contains(scopes, c.ReadScope) {
		scopes = append(scopes, c.ReadScope)
	}
	r.document, err = json.Marshal(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name"`
	}{c.Audience, []string{c.Issuer}, scopes, []string{"header"}, "Toolyard"})
	return r, err
}

func secure(u *url.URL) bool {
	switch u.Scheme {
	case "https":
		return true
	case "http":
		h := u.Hostname()
		return h == "localhost" || h == "::1" || strings.HasPrefix(h, "127.")
	}
	return false
}

// MetadataPaths are the paths where the document is. They need no token.
func (r *Resource) MetadataPaths() []string {
	if r.path == wellKnown {
		return []string{wellKnown}
	}
	return []string{wellKnown, r.path}
}

// Host is the host that clients know this server by.
func (r *Resource) Host() string { return r.host }

// ServeMetadata answers with the document of RFC 9728.
func (r *Resource) ServeMetadata(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=3600")
	w.Header().Set("Access-Control-Allow-Origin", "*")
	_, _ = w.Write(r.document)
}

// Challenge is the header WWW-Authenticate that sends a client to the issuer.
func (r *Resource) Challenge(err error, given bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `Bearer realm="toolyard", resource_metadata=%q`, r.metadata)
	if len(r.config.Scopes) > 0 {
		fmt.Fprintf(&b, `, scope=%q`, strings.Join(r.config.Scopes, " "))
	}
	b.WriteString(problem(err, given))
	return b.String()
}

// Challenge is the header for a server without an authorization server.
func Challenge(err error, given bool) string { return `Bearer realm="toolyard"` + problem(err, given) }

// problem is the error of RFC 6750 §3.1; none if no token was given.
func problem(err error, given bool) string {
	switch {
	case !given:
		return ""
	case isScope(err):
		return `, error="insufficient_scope"`
	}
	return `, error="invalid_token"`
}

// Caller is who has a token: [ErrUnknown] if it is not good, [ErrScope] if it
// does not reach this far; any other error says that it cannot be known now.
func (r *Resource) Caller(ctx context.Context, token string) (Caller, error) {
	s, err := parseToken(token)
	if err != nil {
		return Caller{}, err
	}
	if s.claims.Issuer != r.config.Issuer {
		return Caller{}, bad("another issuer") // so nothing is fetched for it
	}
	keys, err := r.keys.find(ctx, s.header)
	if err != nil {
		return Caller{}, err
	}
	verify := algorithms[s.header.Alg]
	if !slices.ContainsFunc(keys, func(k publicKey) bool { return verify(k.key, []byte(s.signing), s.signature) }) {
		return Caller{}, bad("no key of the issuer made the signature")
	}
	if err := s.claims.holds(r.config.Issuer, r.config.Audience, r.config.Now()); err != nil {
		return Caller{}, err
	}
	sum := sha256.Sum256([]byte(r.config.Issuer + "\x00" + s.claims.who()))
	c := Caller{ID: "oauth:" + hex.EncodeToString(sum[:12]), Name: s.claims.who()}
	scopes := append(s.claims.Scope.words(), s.claims.Scp.words()...)
	for _, wanted := range r.config.Scopes {
		if slices.Contains(scopes, wanted) {
			continue
		}
		if r.config.ReadScope == "" || !slices.Contains(scopes, r.config.ReadScope) {
			return Caller{}, fmt.Errorf("%w: it lacks the scope %s", ErrScope, wanted)
		}
		c.ReadOnly, c.Allowed = true, reading(nil)
		break
	}
	return c, nil
}
