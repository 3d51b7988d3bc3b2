package auth_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/tool"
)

func (i *issuer) resource(t testing.TB, change func(c *auth.ResourceConfig)) *auth.Resource {
	t.Helper()
	c := auth.ResourceConfig{Issuer: i.URL, Audience: audience, Scopes: []string{"use"}, Now: func() time.Time { return i.now }}
	if change != nil {
		change(&c)
	}
	r, err := auth.NewResource(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTokens(t *testing.T) {
	i := newIssuer(t)
	type m = map[string]any
	set := func(name string, value any) func(m, m) { return func(_, c m) { c[name] = value } }
	head := func(name string, value any) func(m, m) { return func(h, _ m) { h[name] = value } }
	at := func(d time.Duration) int64 { return i.now.Add(d).Unix() }
	for _, c := range []struct {
		name, kid string
		change    func(header, claims m)
		want      error
	}{
		{"RS256", "r1", nil, nil},
		{"ES256", "e1", nil, nil},
		{"EdDSA", "d1", nil, nil},
		{"no kid", "e1", func(h, _ m) { delete(h, "kid") }, nil},
		{"no typ", "r1", func(h, _ m) { delete(h, "typ") }, nil},
		{"typ JWT", "r1", head("typ", "JWT"), nil},
		{"typ with its tree", "r1", head("typ", "application/at+jwt"), nil},
		{"several audiences", "r1", set("aud", []string{"x", audience}), nil},
		{"scp as a list", "r1", func(_, c m) { delete(c, "scope"); c["scp"] = []string{"use"} }, nil},
		{"ended, within the leeway", "r1", set("exp", at(-30*time.Second)), nil},
		{"fractions of seconds", "r1", set("exp", float64(at(time.Minute))+.5), nil},
		{"a client without a subject", "r1", func(_, c m) { delete(c, "sub"); c["client_id"] = "x" }, nil},
		{"ended", "r1", set("exp", at(-2*time.Minute)), auth.ErrUnknown},
		{"never ends", "r1", func(_, c m) { delete(c, "exp") }, auth.ErrUnknown},
		{"ends in text", "r1", set("exp", "tomorrow"), auth.ErrUnknown},
		{"ends in an eternity", "r1", set("exp", 1e300), auth.ErrUnknown},
		{"not yet", "r1", set("nbf", at(5*time.Minute)), auth.ErrUnknown},
		{"issued in the future", "r1", set("iat", at(5*time.Minute)), auth.ErrUnknown},
		{"another issuer", "r1", set("iss", "https://evil.test"), auth.ErrUnknown},
		{"an issuer with a slash", "r1", set("iss", i.URL+"/"), auth.ErrUnknown},
		{"no issuer", "r1", func(_, c m) { delete(c, "iss") }, auth.ErrUnknown},
		{"another audience", "r1", set("aud", "https://other.example.com/mcp"), auth.ErrUnknown},
		{"an audience that begins alike", "r1", set("aud", audience+"x"), auth.ErrUnknown},
		{"no audience", "r1", func(_, c m) { delete(c, "aud") }, auth.ErrUnknown},
		{"nobody", "r1", func(_, c m) { delete(c, "sub") }, auth.ErrUnknown},
		{"no scope", "r1", func(_, c m) { delete(c, "scope") }, auth.ErrScope},
		{"another scope", "r1", set("scope", "user"), auth.ErrScope},
		{"none", "r1", head("alg", "none"), auth.ErrUnknown},
		{"None", "r1", head("alg", "None"), auth.ErrUnknown},
		{"no algorithm", "r1", func(h, _ m) { delete(h, "alg") }, auth.ErrUnknown},
		{"HS256", "r1", head("alg", "HS256"), auth.ErrUnknown},
		{"RS512", "r1", head("alg", "RS512"), auth.ErrUnknown},
		{"the algorithm of another key", "r1", head("alg", "ES256"), auth.ErrUnknown},
		{"another key's id", "r1", head("kid", "e1"), auth.ErrUnknown},
		{"an unknown id", "r1", head("kid", "nobody"), auth.ErrUnknown},
		{"crit", "r1", head("crit", []string{"exp"}), auth.ErrUnknown},
		{"b64", "r1", head("b64", false), auth.ErrUnknown},
		{"an ID token", "r1", head("typ", "logout+jwt"), auth.ErrUnknown},
		{"a key in the header", "r1", func(h, _ m) { h["kid"] = "nobody"; h["jwk"] = i.keys[0] }, auth.ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			caller, err := i.resource(t, nil).Caller(t.Context(), i.token(c.kid, c.change))
			if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err == nil && (!strings.HasPrefix(caller.ID, "oauth:") || caller.Admin) {
				t.Errorf("the caller is %+v", caller)
			}
		})
	}
	r, token := i.resource(t, nil), i.token("r1", nil)
	for name, bad := range map[string]string{
		"": "", "two parts": "a.b", "four parts": token + ".x", "not base64": "!.!.!", "no JSON": "YQ.YQ.YQ", "padded": strings.Replace(token, ".", "=.", 1),
		"no signature": token[:strings.LastIndex(token, ".")+1], "altered header": flip(token, 0), "altered claims": flip(token, 1), "altered signature": flip(token, 2),
		"too long": token + strings.Repeat("A", 20<<10),
	} {
		if _, err := r.Caller(t.Context(), bad); !errors.Is(err, auth.ErrUnknown) || strings.Contains(err.Error(), token[:40]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAPublicKeyIsNoSecret signs with HMAC and the published key as its secret.
func TestAPublicKeyIsNoSecret(t *testing.T) {
	i := newIssuer(t)
	token := i.token("r1", func(h, _ map[string]any) { h["alg"] = "HS256" })
	signing := token[:strings.LastIndex(token, ".")]
	for _, secret := range []string{i.keys[0]["n"].(string), string(must(json.Marshal(i.keys[0])))} {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(signing))
		forged := signing + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		if _, err := i.resource(t, nil).Caller(t.Context(), forged); !errors.Is(err, auth.ErrUnknown) {
			t.Errorf("got %v", err)
		}
	}
}

func must[T any](v T, _ error) T { return v }

func TestRotation(t *testing.T) {
	i := newIssuer(t)
	r := i.resource(t, nil)
	check := func(kid string, want error) {
		t.Helper()
		if _, err := r.Caller(t.Context(), i.token(kid, nil)); !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("%s: got %v, want %v", kid, err, want)
		}
	}
	check("r1", nil)
	check("e1", nil)
	if n := i.readings(); n != 1 {
		t.Errorf("%d readings of the keys", n)
	}
	// A new key is found when it is first used, not more often than every 10 s.
	i.add(t, "r2", "RS256")
	check("r2", auth.ErrUnknown)
	i.now = i.now.Add(11 * time.Second)
	check("r2", nil)
	for range 100 {
		_, _ = r.Caller(t.Context(), i.token("r1", func(h, _ map[string]any) { h["kid"] = "nobody" }))
	}
	if n := i.readings(); n != 2 {
		t.Errorf("%d readings of the keys", n)
	}
	// A key that is gone does not hold for long.
	i.remove("r1")
	i.now = i.now.Add(11 * time.Minute)
	check("r1", auth.ErrUnknown)
	check("r2", nil)
	// While the issuer is down its keys hold, for a day.
	i.mu.Lock()
	i.down = true
	i.mu.Unlock()
	i.now = i.now.Add(time.Hour)
	check("r2", nil)
	i.now = i.now.Add(25 * time.Hour)
	if _, err := r.Caller(t.Context(), i.token("r2", nil)); err == nil || errors.Is(err, auth.ErrUnknown) || errors.Is(err, auth.ErrScope) {
		t.Errorf("got %v, want that it cannot be known", err)
	}
}

func TestKeysAreReadOnceForAll(t *testing.T) {
	i := newIssuer(t)
	r, token := i.resource(t, nil), i.token("e1", nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := r.Caller(t.Context(), token); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := i.readings(); n != 1 {
		t.Errorf("%d readings", n)
	}
}

func TestIssuersThatAreNotBelieved(t *testing.T) {
	for _, c := range []struct {
		name string
		odd  func(i *issuer)
		want string
	}{
		{"another issuer", func(i *issuer) { i.name = "https://evil.test" }, "another issuer"},
		{"keys at a private address", func(i *issuer) { i.keysURL = "https://10.0.0.1/keys" }, "a private address"},
		{"keys at a cloud's metadata", func(i *issuer) { i.keysURL = "https://169.254.169.254/" }, "metadata address"},
		{"keys in a file", func(i *issuer) { i.keysURL = "file:///etc/passwd" }, "no URL of http"},
		{"keys by plain HTTP", func(i *issuer) { i.keysURL = "http://keys.example.com/" }, "not encrypted"},
		{"too many keys", func(i *issuer) {
			for range 101 {
				i.keys = append(i.keys, jwk{"kty": "RSA"})
			}
		}, "at most 100"},
		{"too long", func(i *issuer) { i.keys = append(i.keys, jwk{"x": strings.Repeat("x", 2<<20)}) }, "longer than allowed"},
		{"down", func(i *issuer) { i.down = true }, "502"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newIssuer(t)
			c.odd(i)
			_, err := i.resource(t, nil).Caller(t.Context(), i.token("r1", nil))
			if err == nil || errors.Is(err, auth.ErrUnknown) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	// Weak and foreign keys are left out, and the others hold.
	i := newIssuer(t)
	i.keys = append([]jwk{{"kty": "RSA", "kid": "r1", "n": "AQAB", "e": "AQAB"}, {"kty": "oct", "kid": "r1", "k": "AAAA"}, {"kty": "EC", "crv": "P-256", "kid": "r1", "x": "AA", "y": "AA"}, {"kty": "OKP", "crv": "Ed25519", "x": "AA"}}, i.keys...)
	if _, err := i.resource(t, nil).Caller(t.Context(), i.token("r1", nil)); err != nil {
		t.Error(err)
	}
}

func TestReadScope(t *testing.T) {
	i := newIssuer(t)
	r := i.resource(t, func(c *auth.ResourceConfig) { c.ReadScope = "look" })
	caller, err := r.Caller(t.Context(), i.token("r1", func(_, c map[string]any) { c["scope"] = "look" }))
	if err != nil || !caller.ReadOnly || caller.Allowed == nil {
		t.Fatalf("got %+v, %v", caller, err)
	}
	for effects, want := range map[tool.Effects]bool{tool.Read: true, tool.State: true, tool.Network: true, tool.Write: false, tool.Execute | tool.Read: false} {
		if got := caller.Allowed(&tool.Spec{Name: "x", Effects: effects}); got != want {
			t.Errorf("%s: %v", effects, got)
		}
	}
	if caller.Allowed(&tool.Spec{Name: "x", Effects: tool.Read, Destructive: true}) {
		t.Error("what destroys may be called")
	}
	again, err := r.Caller(t.Context(), i.token("e1", nil))
	if err != nil || again.ID != caller.ID || again.ReadOnly {
		t.Errorf("the same person is %+v, %v", again, err)
	}
}

func TestMetadata(t *testing.T) {
	i := newIssuer(t)
	r := i.resource(t, func(c *auth.ResourceConfig) { c.ReadScope = "look" })
	w := httptest.NewRecorder()
	r.ServeMetadata(w, httptest.NewRequest(http.MethodGet, "/", nil))
	var got struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Resource != audience || len(got.Servers) != 1 || got.Servers[0] != i.URL || strings.Join(got.Scopes, " ") != "use look" {
		t.Errorf("got %s, %v", w.Body, err)
	}
	for _, c := range []struct {
		err   error
		given bool
		want  string
	}{
		{auth.ErrUnknown, false, `Bearer realm="toolyard", resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp", scope="use"`},
		{auth.ErrUnknown, true, `, error="invalid_token"`},
		{auth.ErrScope, true, `, error="insufficient_scope"`},
	} {
		if got := r.Challenge(c.err, c.given); !strings.HasPrefix(got, `Bearer realm="toolyard", resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp", scope="use"`) || !strings.HasSuffix(got, c.want) {
			t.Errorf("got %s", got)
		}
	}
	for _, bad := range []auth.ResourceConfig{
		{Issuer: "http://as.example.com", Audience: audience}, {Issuer: "https://a@as.example.com", Audience: audience}, {Issuer: "", Audience: audience},
		{Issuer: "https://as.example.com", Audience: ""}, {Issuer: "https://as.example.com", Audience: "tools"}, {Issuer: "https://as.example.com", Audience: audience, Scopes: []string{"a b"}},
	} {
		if _, err := auth.NewResource(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func newKeys(now func() time.Time) *auth.Keys {
	return auth.NewKeys(memory.New(), func(profile string, tools []string) (func(*tool.Spec) bool, error) {
		if profile == "nowhere" {
			return nil, tool.Errorf(tool.NotFound, "there is no profile nowhere")
		}
		if len(tools) == 0 {
			return nil, nil
		}
		return func(s *tool.Spec) bool { return s.Name == tools[0] }, nil
	}, now)
}

func TestKeys(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	k := newKeys(func() time.Time { return now })
	key, secret, err := k.Add(t.Context(), auth.Key{Name: "ci", Tenant: "t", Project: "p", Profile: "small", Tools: []string{"read"}, ReadOnly: true, Rate: 5, Expires: now.Add(time.Hour)})
	if err != nil || key.Hash != "" {
		t.Fatalf("got %+v, %v", key, err)
	}
	caller, err := k.Caller(t.Context(), secret)
	if err != nil || caller.ID != "key:"+key.ID || caller.Tenant != "t" || caller.Project != "p" || caller.Profile != "small" || caller.Rate != 5 || caller.Admin || !caller.ReadOnly {
		t.Fatalf("got %+v, %v", caller, err)
	}
	for spec, want := range map[*tool.Spec]bool{{Name: "read", Effects: tool.Read}: true, {Name: "read", Effects: tool.Write}: false, {Name: "glob", Effects: tool.Read}: false} {
		if got := caller.Allowed(spec); got != want {
			t.Errorf("%s %s: %v", spec.Name, spec.Effects, got)
		}
	}
	for name, token := range map[string]string{
		"nothing": "", "no key": "abc", "another secret": secret[:len(secret)-1] + "x", "only the id": "ty_" + key.ID + "_", "another id": "ty_00000000" + secret[11:],
		"an id that is a name": "ty_../../x_y", "a blank behind": secret + " ", "the hash": key.ID,
	} {
		if _, err := k.Caller(t.Context(), token); !errors.Is(err, auth.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	all, err := k.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Hash != "" || all[0].Name != "ci" {
		t.Errorf("listed %+v, %v", all, err)
	}
	now = now.Add(time.Hour)
	if _, err := k.Caller(t.Context(), secret); !errors.Is(err, auth.ErrUnknown) {
		t.Errorf("ended: %v", err)
	}
	now = now.Add(-time.Hour)
	if err := k.Remove(t.Context(), key.ID); err != nil {
		t.Error(err)
	}
	if _, err := k.Caller(t.Context(), secret); !errors.Is(err, auth.ErrUnknown) {
		t.Errorf("removed: %v", err)
	}
	var e *tool.Error
	if err := k.Remove(t.Context(), key.ID); !errors.As(err, &e) || e.Code != tool.NotFound {
		t.Errorf("removed twice: %v", err)
	}
	for name, bad := range map[string]auth.Key{
		"a long name": {Name: strings.Repeat("x", 101)}, "a negative rate": {Rate: -1}, "ended": {Expires: now}, "no such profile": {Profile: "nowhere"},
		"an admin who only reads": {Admin: true, ReadOnly: true}, "an admin with tools": {Admin: true, Tools: []string{"read"}}, "too many patterns": {Tools: make([]string, 201)},
	} {
		if _, _, err := k.Add(t.Context(), bad); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestSettle(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer secret")
	if got := auth.Settle(r, auth.Owner()); got.Header.Get("Authorization") != "Bearer secret" || !auth.From(got.Context()).Admin {
		t.Errorf("the owner's request has %v", got.Header)
	}
	a, b := auth.Settle(r, auth.Caller{ID: "key:a"}), auth.Settle(r, auth.Caller{ID: "key:b"})
	header := a.Header.Get("Authorization")
	if strings.Contains(header, "secret") || !auth.Settled(header) || r.Header.Get("Authorization") != "Bearer secret" {
		t.Errorf("settled is %q", header)
	}
	if auth.Session(header, "x") == auth.Session(b.Header.Get("Authorization"), "x") || auth.Session(header, "x") == "x" || auth.Session(header, "") != "" || auth.Session("Bearer secret", "x") != "x" {
		t.Error("names of sessions are not their callers' own")
	}
	two := httptest.NewRequest(http.MethodGet, "/", nil)
	two.Header["Authorization"] = []string{"Bearer a", "Bearer b"}
	if got := auth.Bearer(two); got != "" {
		t.Errorf("two headers give %q", got)
	}
}

func TestRates(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := auth.Rates{Now: func() time.Time { return now }}
	for n := range 15 {
		if _, ok := r.Take("a", 60); !ok {
			t.Fatalf("request %d is refused", n)
		}
	}
	retry, ok := r.Take("a", 60)
	if ok || retry <= 0 || retry > time.Second {
		t.Errorf("got %v, %v", retry, ok)
	}
	if _, spent := r.Spent("a", 60); !spent {
		t.Error("nothing is spent")
	}
	if _, ok := r.Take("b", 60); !ok {
		t.Error("another pays for it")
	}
	now = now.Add(time.Second)
	if _, ok := r.Take("a", 60); !ok {
		t.Error("refused after the time that was said")
	}
	for range 100 {
		if _, ok := r.Take("c", 0); !ok {
			t.Fatal("there is a bound where there is none")
		}
	}
	for n := range 10000 {
		r.Take(strings.Repeat("x", n%5000), 60)
	}
}

func FuzzToken(f *testing.F) {
	i := newIssuer(f)
	r := i.resource(f, nil)
	f.Add(i.token("r1", nil))
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	known := map[string]bool{i.token("d1", nil): true}
	f.Fuzz(func(t *testing.T, token string) {
		if known[token] {
			return
		}
		if c, err := r.Caller(t.Context(), token); err == nil && !strings.HasPrefix(c.ID, "oauth:") {
			t.Errorf("%q gives %+v", token, c)
		}
	})
}
