package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/gateway/oauth"
	"github.com/toolyard/toolyard/internal/netguard"
	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/internal/server/mcp"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/tool"
)

// noting is an executor that notes its calls.
type noting struct {
	mu    sync.Mutex
	calls []executor.Call
}

func (n *noting) Call(_ context.Context, c executor.Call) *tool.Result {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, c)
	return tool.Text("done")
}

func (n *noting) last(t *testing.T) executor.Call {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.calls) == 0 {
		t.Fatal("nothing was called")
	}
	return n.calls[len(n.calls)-1]
}

func testKeys() *auth.Keys {
	return auth.NewKeys(memory.New(), func(_ string, tools []string) (func(*tool.Spec) bool, error) {
		if len(tools) == 0 {
			return nil, nil
		}
		return func(s *tool.Spec) bool { return s.Name == tools[0] }, nil
	}, nil)
}

func addKey(t *testing.T, k *auth.Keys, key auth.Key) string {
	t.Helper()
	_, secret, err := k.Add(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// send makes a request with a token.
func send(t *testing.T, client *http.Client, method, to, token, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data), answer.Header
}

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	callInEra  = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{}}}`
	callAlone  = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"wait","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},"toolyard/session":"shared"}}}`
)

func TestCallersAreApart(t *testing.T) {
	keys, calls := testKeys(), &noting{}
	m := mcp.New(mcp.Config{Executor: calls, Catalog: one{}})
	r := start(t, Config{Keys: keys, MCP: m, Metrics: metrics})
	a, b := addKey(t, keys, auth.Key{Tenant: "acme", Project: "x"}), addKey(t, keys, auth.Key{Tools: []string{"other"}})
	admin := addKey(t, keys, auth.Key{Admin: true})
	to := r.URL + "/mcp"

	status, body, header := send(t, http.DefaultClient, http.MethodPost, to, a, initialize)
	session := header.Get("Mcp-Session-Id")
	if status != http.StatusOK || session == "" {
		t.Fatalf("initialize: %d %s", status, body)
	}
	for name, c := range map[string]struct {
		method, token, body string
		want                int
	}{
		"another key":       {http.MethodPost, b, callInEra, http.StatusNotFound},
		"the home's token":  {http.MethodPost, r.token, callInEra, http.StatusNotFound},
		"another's end":     {http.MethodDelete, b, "", http.StatusNotFound},
		"another's stream":  {http.MethodGet, b, "", http.StatusNotFound},
		"the one who began": {http.MethodPost, a, callInEra, http.StatusOK},
	} {
		if status, body, _ := send(t, http.DefaultClient, c.method, to, c.token, c.body, "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25"); status != c.want {
			t.Errorf("%s: %d %s, want %d", name, status, body, c.want)
		}
	}
	if c := calls.last(t); c.Tenant != "acme" || c.Project != "x" || len(calls.calls) != 1 {
		t.Errorf("%d calls, the last is %+v", len(calls.calls), c)
	}

	// A name of a session means each caller's own.
	sessions := map[string]string{}
	for name, token := range map[string]string{"a": a, "b": b, "owner": r.token, "a again": a} {
		status, body, _ := send(t, http.DefaultClient, http.MethodPost, to, token, callAlone, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "wait")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, status, body)
		}
		c := calls.last(t)
		sessions[name] = c.Session
		if allowed := c.Allowed == nil || c.Allowed(&tool.Spec{Name: "wait"}); allowed == (name == "b") {
			t.Errorf("%s may call it: %v", name, allowed)
		}
	}
	if sessions["owner"] != "shared" || sessions["a"] == "shared" || sessions["a"] == sessions["b"] || sessions["a"] != sessions["a again"] {
		t.Errorf("sessions %v", sessions)
	}

	for name, c := range map[string]struct {
		method, path, token string
		want                int
	}{
		"a key and metrics": {http.MethodGet, "/metrics", a, http.StatusForbidden}, "an admin and metrics": {http.MethodGet, "/metrics", admin, http.StatusOK},
		"a key and rules": {http.MethodGet, "/api/v1/policy", a, http.StatusForbidden}, "a key and others' sessions": {http.MethodGet, "/api/v1/sessions", a, http.StatusForbidden},
		"a key and a tool's limits": {http.MethodPatch, "/api/v1/tools/read", a, http.StatusForbidden}, "no key": {http.MethodGet, "/metrics", "ty_00000000_x", http.StatusUnauthorized},
	} {
		status, body, header := send(t, http.DefaultClient, c.method, r.URL+c.path, c.token, "")
		if status != c.want {
			t.Errorf("%s: %d %s, want %d", name, status, body, c.want)
		}
		if challenge := header.Get("WWW-Authenticate"); status == http.StatusForbidden && !strings.Contains(challenge, `error="insufficient_scope"`) {
			t.Errorf("%s: %q", name, challenge)
		}
	}
}

func TestRatesOfCallers(t *testing.T) {
	keys := testKeys()
	r := start(t, Config{Keys: keys, MCP: mcp.New(mcp.Config{Executor: &noting{}, Catalog: one{}})})
	slow, other := addKey(t, keys, auth.Key{Rate: 4}), addKey(t, keys, auth.Key{})
	if status, body, _ := send(t, http.DefaultClient, http.MethodPost, r.URL+"/mcp", slow, initialize); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	status, _, header := send(t, http.DefaultClient, http.MethodPost, r.URL+"/mcp", slow, initialize)
	if retry := header.Get("Retry-After"); status != http.StatusTooManyRequests || retry == "" || retry == "0" {
		t.Errorf("%d, Retry-After %q", status, retry)
	}
	if status, body, _ := send(t, http.DefaultClient, http.MethodPost, r.URL+"/mcp", other, initialize); status != http.StatusOK {
		t.Errorf("another key pays for it: %d %s", status, body)
	}
	// Who guesses is not listened to any more.
	refused := false
	for range 20 {
		status, _, _ := send(t, http.DefaultClient, http.MethodGet, r.URL+"/metrics", "wrong", "")
		refused = refused || status == http.StatusTooManyRequests
	}
	if !refused {
		t.Error("20 wrong tokens are answered")
	}

	r = start(t, Config{Rate: 8})
	var last int
	for range 3 {
		last, _, _ = send(t, http.DefaultClient, http.MethodGet, r.URL+"/healthz", "", "")
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("the third request of an address gives %d", last)
	}
}

// provider is an OpenID Connect provider: metadata, registration, log-in with
// PKCE, tokens that it signs, and its keys.
func provider(t *testing.T) *httptest.Server {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	var mu sync.Mutex
	codes := map[string]url.Values{}
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	answer := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": s.URL, "jwks_uri": s.URL + "/keys", "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
			"registration_endpoint": s.URL + "/register", "code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": b64(public)}}})
	})
	mux.HandleFunc("/register", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		answer(w, map[string]any{"client_id": "c"})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		code := rand.Text()
		mu.Lock()
		codes[code] = r.URL.Query()
		mu.Unlock()
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		mu.Lock()
		asked := codes[r.PostForm.Get("code")]
		mu.Unlock()
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if asked == nil || asked.Get("code_challenge") != b64(sum[:]) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		part := func(v any) string { data, _ := json.Marshal(v); return b64(data) }
		signing := part(map[string]any{"alg": "EdDSA", "kid": "1", "typ": "at+jwt"}) + "." +
			part(map[string]any{"iss": s.URL, "sub": "ann", "aud": asked.Get("resource"), "scope": asked.Get("scope"), "exp": time.Now().Add(time.Hour).Unix()})
		answer(w, map[string]any{"access_token": signing + "." + b64(ed25519.Sign(private, []byte(signing))), "token_type": "Bearer", "expires_in": 3600})
	})
	return s
}

// TestLogIn lets the gateway's client log in to our own server, through a
// provider that both find by themselves.
func TestLogIn(t *testing.T) {
	issuer := provider(t)
	// The audience names the port, so it is chosen before.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	to := "http://" + addr + "/mcp"
	resource, err := auth.NewResource(auth.ResourceConfig{Issuer: issuer.URL, Audience: to, Scopes: []string{"tools"}})
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Addr: addr, Auth: AuthOAuth, Resource: resource, MCP: mcp.New(mcp.Config{Executor: &noting{}, Catalog: one{}}), Metrics: metrics})
	if r.TokenFile != "" {
		t.Error("the home's token is taken too")
	}
	allow, err := netguard.ParseAllow("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	a, err := oauth.New(oauth.Config{Server: "self", URL: to, Network: netguard.Config{Allow: []netguard.Allow{allow}}, Open: func(ctx context.Context, page string) error {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(q)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	post := func() *http.Response {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(initialize))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		if err := a.Authorize(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer
	}
	first := post()
	if first.StatusCode != http.StatusUnauthorized {
		t.Fatalf("without a token: %s", first.Status)
	}
	if again, err := a.Challenge(t.Context(), first); err != nil || !again {
		t.Fatalf("logging in: %v, %v", again, err)
	}
	second := post()
	if second.StatusCode != http.StatusOK {
		t.Errorf("with the token: %s", second.Status)
	}
	token := strings.TrimPrefix(second.Request.Header.Get("Authorization"), "Bearer ")
	if status, _, _ := send(t, http.DefaultClient, http.MethodGet, r.URL+"/metrics", token, ""); status != http.StatusForbidden {
		t.Errorf("metrics give %d", status)
	}
	if status, _, header := send(t, http.DefaultClient, http.MethodPost, to, token+"x", initialize); status != http.StatusUnauthorized || !strings.Contains(header.Get("WWW-Authenticate"), "resource_metadata=") {
		t.Errorf("an altered token gives %d, %v", status, header)
	}
	for _, path := range []string{"", "/mcp"} {
		if status, body, _ := r.get(t, "/.well-known/oauth-protected-resource"+path); status != http.StatusOK || !strings.Contains(body, issuer.URL) {
			t.Errorf("metadata at %q: %d %s", path, status, body)
		}
	}
}

// writeCert writes a certificate for 127.0.0.1 and gives what trusts it.
func writeCert(t *testing.T, cert, key string, serial int64) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "t"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	trusting := func(pool *x509.CertPool) *http.Client {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	}
	old := trusting(writeCert(t, cert, key, 1))
	r := start(t, Config{Certificate: cert, PrivateKey: key})
	if !strings.HasPrefix(r.URL, "https://") {
		t.Fatalf("served at %s", r.URL)
	}
	if status, _, _ := send(t, old, http.MethodGet, r.URL+"/healthz", "", ""); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	// A pair that does not fit is not taken; the next one is.
	if err := os.WriteFile(key, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	soon := func(client *http.Client) bool {
		answer, err := client.Get(r.URL + "/healthz")
		if err == nil {
			answer.Body.Close()
		}
		return err == nil
	}
	if !soon(old) {
		t.Error("a broken key ended the service")
	}
	fresh := trusting(writeCert(t, cert, key, 2))
	for deadline := time.Now().Add(30 * time.Second); !soon(fresh); {
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not taken")
		}
		runtimeYield()
	}
	for name, c := range map[string]Config{
		"no key": {Certificate: cert}, "no such file": {Certificate: cert + "x", PrivateKey: key}, "a key that does not fit": {Certificate: key, PrivateKey: cert},
	} {
		c.Addr, c.Home = "127.0.0.1:0", t.TempDir()
		if err := Serve(t.Context(), c); err == nil {
			t.Errorf("%s: served", name)
		}
	}
}

// runtimeYield waits a moment between two looks at something outside.
func runtimeYield() { <-time.After(50 * time.Millisecond) }

func TestPlainHTTPForOthers(t *testing.T) {
	err := Serve(t.Context(), Config{Addr: "0.0.0.0:0", Home: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "--insecure-http") {
		t.Errorf("got %v", err)
	}
	if err := Serve(t.Context(), Config{Addr: "127.0.0.1:0", Auth: AuthOAuth}); err == nil {
		t.Error("oauth without an issuer is served")
	}
	start(t, Config{Addr: "0.0.0.0:0", InsecureHTTP: true})
}
