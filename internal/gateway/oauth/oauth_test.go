package oauth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/gateway/oauth"
	"github.com/toolyard/toolyard/internal/secret/vault"
	"github.com/toolyard/toolyard/tool"
)

func (w *world) works(a *oauth.Authorizer) {
	w.t.Helper()
	if status, err := w.call(w.t.Context(), a); err != nil || status != http.StatusOK {
		w.t.Fatalf("the call gives %d, %v", status, err)
	}
	w.quiet()
}

// fails calls and wants an error of the code with the text in it.
func (w *world) fails(a *oauth.Authorizer, code tool.Code, text string) {
	w.t.Helper()
	status, err := w.call(w.t.Context(), a)
	var e *tool.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, text) || strings.ContainsAny(e.Message, "\n\r") {
		w.t.Errorf("got %d, %v, want %s with %q", status, err, code, text)
	}
	w.quiet(err)
}

func TestLogIn(t *testing.T) {
	w := newWorld(t)
	w.works(w.authorizer(nil))
	page := w.pages[0]
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "client-as.test-2", "code_challenge_method": "S256", "resource": "http://mcp.test/mcp",
	} {
		if got := page.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if page.Has("scope") || len(page.Get("state")) < 26 || len(page.Get("code_challenge")) != 43 {
		t.Errorf("the page is %v", page)
	}
	if g := w.as["as.test"].grants[0]; g.Get("resource") != "http://mcp.test/mcp" || g.Get("redirect_uri") != page.Get("redirect_uri") {
		t.Errorf("the token was asked for with %v", g)
	}
	if !strings.HasPrefix(page.Get("redirect_uri"), "http://127.0.0.1:") {
		t.Errorf("the browser comes back to %s", page.Get("redirect_uri"))
	}
	// Another process finds the token.
	w.works(w.authorizer(func(c *oauth.Config) { c.Open = nil }))
	if n := w.count("GET as.test/authorize"); n != 1 {
		t.Errorf("%d log-ins", n)
	}
}

func TestMetadataThatIsRefused(t *testing.T) {
	set := func(name string, v any) func(w *world) {
		return func(w *world) { w.as["as.test"].metadata[name] = v }
	}
	prm := func(name string, v any) func(w *world) { return func(w *world) { w.prm[name] = v } }
	challenge := func(params string) func(w *world) {
		return func(w *world) {
			w.mcp = func(rw http.ResponseWriter, r *http.Request) { w.need(rw, r, "", params) }
		}
	}
	for _, c := range []struct {
		name string
		odd  func(w *world)
		code tool.Code
		want string
	}{
		{"another resource", prm("resource", "http://evil.test/mcp"), tool.PermissionDenied, "is that of"},
		{"no resource", prm("resource", ""), tool.PermissionDenied, "is that of"},
		{"a resource beside", prm("resource", "http://mcp.test/mcp2"), tool.PermissionDenied, "is that of"},
		{"a resource that begins alike", prm("resource", "http://mcp.test/m"), tool.PermissionDenied, "is that of"},
		{"a resource of another scheme", prm("resource", "https://mcp.test/mcp"), tool.PermissionDenied, "is that of"},
		{"no authorization server", prm("authorization_servers", []string{}), tool.PermissionDenied, "no authorization server"},
		{"metadata at a private address", challenge(`resource_metadata="http://10.0.0.1/x"`), tool.PermissionDenied, "not encrypted"},
		{"metadata at a private address, encrypted", challenge(`resource_metadata="https://10.0.0.1/x"`), tool.PermissionDenied, "a private address"},
		{"metadata at a cloud's", challenge(`resource_metadata="https://169.254.169.254/latest/meta-data"`), tool.PermissionDenied, "metadata address"},
		{"metadata at a name that leads there", challenge(`resource_metadata="https://meta.test/x"`), tool.PermissionDenied, "it is at 169.254.169.254"},
		{"metadata on loopback", challenge(`resource_metadata="https://127.0.0.1/x"`), tool.PermissionDenied, "loopback"},
		{"metadata in a file", challenge(`resource_metadata="file:///etc/passwd"`), tool.PermissionDenied, "no URL of http"},
		{"metadata that redirects to a private address", func(w *world) {
			w.as["as.test"].metadata["x"] = 1
			challenge(`resource_metadata="http://mcp.test/mcp?away"`)(w)
			inner := w.mcp
			w.mcp = func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery == "away" {
					http.Redirect(rw, r, "https://private.test/", http.StatusFound)
					return
				}
				inner(rw, r)
			}
		}, tool.PermissionDenied, "it is at 10.0.0.1"},
		{"an authorization server at a private address", prm("authorization_servers", []string{"https://192.168.1.1"}), tool.PermissionDenied, "a private address"},
		{"an authorization server by plain HTTP", prm("authorization_servers", []string{"http://other.test"}), tool.PermissionDenied, "not encrypted"},
		{"an authorization server with a query", prm("authorization_servers", []string{"http://as.test?x"}), tool.PermissionDenied, "query"},
		{"an authorization server without metadata", prm("authorization_servers", []string{"http://as.test/none"}), tool.ConnectionError, "has no metadata"},
		{"another issuer", set("issuer", "http://evil.test"), tool.PermissionDenied, "is that of the issuer"},
		{"an issuer that is written otherwise", set("issuer", "HTTP://as.test"), tool.PermissionDenied, "is that of the issuer"},
		{"no issuer", set("issuer", ""), tool.PermissionDenied, "is that of the issuer"},
		{"no PKCE", set("code_challenge_methods_supported", nil), tool.PermissionDenied, "PKCE"},
		{"plain PKCE", set("code_challenge_methods_supported", []string{"plain"}), tool.PermissionDenied, "PKCE"},
		{"a token endpoint at a private address", set("token_endpoint", "https://10.1.1.1/token"), tool.PermissionDenied, "token_endpoint: 10.1.1.1 is not allowed"},
		{"a token endpoint at a name that leads there", set("token_endpoint", "https://private.test/token"), tool.PermissionDenied, "it is at 10.0.0.1"},
		{"no token endpoint", set("token_endpoint", ""), tool.PermissionDenied, "token_endpoint"},
		{"a registration endpoint on loopback", set("registration_endpoint", "https://[::1]/r"), tool.PermissionDenied, "registration_endpoint"},
		{"a page to log in that is a script", set("authorization_endpoint", "javascript:alert(1)"), tool.PermissionDenied, "authorization_endpoint"},
		{"a page to log in with a user", set("authorization_endpoint", "https://as.test@evil.test/"), tool.PermissionDenied, "a user in it"},
		{"a page to log in by plain HTTP", set("authorization_endpoint", "http://evil.test/"), tool.PermissionDenied, "not encrypted"},
		{"metadata of another kind", set("scopes_supported", "a"), tool.ConnectionError, "no JSON of the kind"},
		{"metadata without end", set("x", strings.Repeat("x", 2<<20)), tool.ConnectionError, "longer than allowed"},
		{"nowhere to register", set("registration_endpoint", ""), tool.PermissionDenied, "registers no clients"},
		{"registration refused", func(w *world) {
			w.as["as.test"].register = func(rw http.ResponseWriter) {
				rw.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(rw, `{"error":"access_denied"}`)
			}
		}, tool.PermissionDenied, "refuses with 403 access_denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.odd(w)
			w.fails(w.authorizer(nil), c.code, c.want)
			for _, addr := range w.dialed {
				if !strings.HasPrefix(addr, "93.184.216.") {
					t.Errorf("%s was dialled", addr)
				}
			}
			if n := len(w.as["as.test"].accepted); n != 0 {
				t.Errorf("%d tokens were got", n)
			}
		})
	}
}

func TestMetadataThatIsTaken(t *testing.T) {
	for _, c := range []struct {
		name string
		odd  func(w *world)
	}{
		{"the origin as resource", func(w *world) { w.prm["resource"] = "http://mcp.test" }},
		{"with a slash", func(w *world) { w.prm["resource"] = "http://mcp.test/" }},
		{"the port in it", func(w *world) { w.prm["resource"] = "http://mcp.test:80/mcp" }},
		{"an issuer with a slash", func(w *world) { w.prm["authorization_servers"] = []string{"http://as.test/"} }},
		{"no header", func(w *world) {
			w.mcp = func(rw http.ResponseWriter, r *http.Request) { w.need(rw, r, "", "") }
		}},
		{"no metadata at the place of the header", func(w *world) {
			w.mcp = func(rw http.ResponseWriter, r *http.Request) {
				w.need(rw, r, "", `resource_metadata="http://mcp.test/nothing"`)
			}
		}},
		{"the right iss", func(w *world) {
			w.as["as.test"].metadata["authorization_response_iss_parameter_supported"] = true
			w.as["as.test"].redirect = func(q url.Values) { q.Set("iss", "http://as.test") }
		}},
		{"the right iss, not advertised", func(w *world) { w.as["as.test"].redirect = func(q url.Values) { q.Set("iss", "http://as.test") } }},
		{"a lifetime as text", func(w *world) { w.as["as.test"].lifetime = "3600" }},
		{"no lifetime", func(w *world) { w.as["as.test"].lifetime = 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.odd(w)
			w.works(w.authorizer(nil))
		})
	}
}

func TestAnswersToTheLogIn(t *testing.T) {
	for _, c := range []struct {
		name string
		odd  func(as *issuer)
		code tool.Code
		want string
	}{
		{"denied", func(as *issuer) {
			as.redirect = func(q url.Values) {
				q.Del("code")
				q.Set("error", "access_denied")
				q.Set("error_description", "the person\nsaid no")
			}
		}, tool.PermissionDenied, "access_denied: the person?said no"},
		{"no code", func(as *issuer) { as.redirect = func(q url.Values) { q.Del("code") } }, tool.PermissionDenied, "no code"},
		{"two codes", func(as *issuer) { as.redirect = func(q url.Values) { q.Add("code", "x") } }, tool.PermissionDenied, "twice"},
		{"another iss", func(as *issuer) { as.redirect = func(q url.Values) { q.Set("iss", "https://evil.test") } }, tool.PermissionDenied, "is one of"},
		{"an iss with a slash more", func(as *issuer) { as.redirect = func(q url.Values) { q.Set("iss", as.url+"/") } }, tool.PermissionDenied, "is one of"},
		{"an empty iss", func(as *issuer) { as.redirect = func(q url.Values) { q.Set("iss", "") } }, tool.PermissionDenied, "is one of"},
		{"no iss where there must be one", func(as *issuer) { as.metadata["authorization_response_iss_parameter_supported"] = true }, tool.PermissionDenied, "does not say which"},
		{"an error of another issuer", func(as *issuer) {
			as.redirect = func(q url.Values) {
				q.Set("iss", "https://evil.test")
				q.Set("error", "access_denied")
			}
		}, tool.PermissionDenied, "is one of"},
		{"the code is not taken", func(as *issuer) { as.redirect = func(q url.Values) { q.Set("code", "x") } }, tool.PermissionDenied, "invalid_grant: no?more"},
		{"another code's verifier", func(as *issuer) {
			as.redirect = func(q url.Values) { as.challenge[q.Get("code")] = "x" }
		}, tool.PermissionDenied, "invalid_grant"},
		{"the endpoint redirects", func(as *issuer) {
			as.token = func(rw http.ResponseWriter, _ url.Values) {
				rw.Header().Set("Location", "http://as2.test/token")
				rw.WriteHeader(http.StatusTemporaryRedirect)
			}
		}, tool.PermissionDenied, "refuses with 307"},
		{"the endpoint is down", func(as *issuer) {
			as.token = func(rw http.ResponseWriter, _ url.Values) { rw.WriteHeader(http.StatusBadGateway) }
		}, tool.ConnectionError, "502"},
		{"a token of another type", func(as *issuer) {
			as.token = func(rw http.ResponseWriter, _ url.Values) {
				_, _ = io.WriteString(rw, `{"access_token":"x","token_type":"DPoP"}`)
			}
		}, tool.ConnectionError, "of type \"DPoP\""},
		{"a token that is two headers", func(as *issuer) {
			as.token = func(rw http.ResponseWriter, _ url.Values) {
				_, _ = io.WriteString(rw, `{"access_token":"x\r\nX-Evil: 1","token_type":"Bearer"}`)
			}
		}, tool.ConnectionError, "no token that could be sent"},
		{"no JSON", func(as *issuer) {
			as.token = func(rw http.ResponseWriter, _ url.Values) { _, _ = io.WriteString(rw, "access_token=x") }
		}, tool.ConnectionError, "is no token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.odd(w.as["as.test"])
			w.fails(w.authorizer(nil), c.code, c.want)
			if w.count("POST as2.test") != 0 {
				t.Error("a secret followed a redirect")
			}
		})
	}
}

func TestOnlyTheRightStateEndsALogIn(t *testing.T) {
	w := newWorld(t)
	var statuses []int
	open := func(ctx context.Context, page string) error {
		u, _ := url.Parse(page)
		back := u.Query().Get("redirect_uri")
		for _, q := range []string{"", "?code=x", "?code=x&state=", "?code=x&state=wrong", "?code=x&state=" + u.Query().Get("state") + "&state=y", "/../x?state=" + u.Query().Get("state")} {
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, back+q, nil)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			answer.Body.Close()
			statuses = append(statuses, answer.StatusCode)
		}
		return w.browse(ctx, page)
	}
	w.works(w.authorizer(func(c *oauth.Config) { c.Open = open }))
	if !slices.Equal(statuses, []int{400, 400, 400, 400, 400, 404}) {
		t.Errorf("answers with another state get %v", statuses)
	}
}

func TestRefresh(t *testing.T) {
	w := newWorld(t)
	now := time.Unix(1e9, 0)
	clock := func(c *oauth.Config) { c.Now = func() time.Time { return now } }
	a := w.authorizer(clock)
	w.works(a)
	now = now.Add(time.Hour - 10*time.Second) // about to end
	w.works(a)
	as := w.as["as.test"]
	if len(as.grants) != 2 || as.grants[1].Get("grant_type") != "refresh_token" || as.grants[1].Get("resource") != "http://mcp.test/mcp" {
		t.Fatalf("grants %v", as.grants)
	}
	// A token that the server does not take any more is refreshed too.
	clear(as.accepted)
	w.works(a)
	if len(as.grants) != 3 || w.count("GET as.test/authorize") != 1 {
		t.Errorf("%d grants, %d log-ins", len(as.grants), w.count("GET as.test/authorize"))
	}
	// Refused, the person is asked.
	clear(as.refresh)
	clear(as.accepted)
	now = now.Add(2 * time.Hour)
	w.works(a)
	if n := w.count("GET as.test/authorize"); n != 2 {
		t.Errorf("%d log-ins", n)
	}
	// While the endpoint is down a token that holds is used, one that has ended is
	// not.
	as.token = func(rw http.ResponseWriter, _ url.Values) { rw.WriteHeader(http.StatusServiceUnavailable) }
	now = now.Add(time.Hour - 10*time.Second)
	w.works(a)
	now = now.Add(time.Minute)
	w.fails(a, tool.ConnectionError, "503")
}

func TestScopes(t *testing.T) {
	for _, c := range []struct {
		name                             string
		challenge, supported, configured string
		offline                          bool
		want                             string
	}{
		{"nothing said", "", "", "", false, ""},
		{"of the challenge", "a b", "c", "", false, "a b"},
		{"of the metadata", "", "c d", "", false, "c d"},
		{"configured", "", "c d", "x", false, "x"},
		{"configured and challenged", "a", "c", "x", false, "x a"},
		{"offline access", "a", "", "", true, "a offline_access"},
		{"what can be no scope", "a \"b\" c", "", "", false, "a c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			if c.challenge != "" {
				w.mcp = func(rw http.ResponseWriter, r *http.Request) {
					w.need(rw, r, "", `scope="`+strings.ReplaceAll(c.challenge, `"`, `\"`)+`"`)
				}
			}
			if c.supported != "" {
				w.prm["scopes_supported"] = strings.Fields(c.supported)
			}
			if c.offline {
				w.as["as.test"].metadata["scopes_supported"] = []string{"offline_access"}
			}
			w.works(w.authorizer(func(o *oauth.Config) { o.Scopes = strings.Fields(c.configured) }))
			if got := w.pages[0].Get("scope"); got != c.want {
				t.Errorf("asked for %q, want %q", got, c.want)
			}
		})
	}
}

func TestStepUp(t *testing.T) {
	w := newWorld(t)
	scope := "read"
	w.mcp = func(rw http.ResponseWriter, r *http.Request) { w.need(rw, r, scope, `scope="`+scope+`"`) }
	a := w.authorizer(nil)
	w.works(a)
	scope = "write"
	w.works(a)
	if got := w.pages[1].Get("scope"); got != "read write" {
		t.Errorf("the second log-in asks for %q", got)
	}
	if got := w.pages[1].Get("client_id"); got != w.pages[0].Get("client_id") {
		t.Error("it registered again")
	}
	// What never comes is asked for once.
	scope = "admin"
	w.as["as.test"].token = func(rw http.ResponseWriter, form url.Values) {
		w.as["as.test"].accepted["little"] = "read"
		_, _ = io.WriteString(rw, `{"access_token":"little","token_type":"Bearer","scope":"read"}`)
	}
	w.fails(a, tool.PermissionDenied, `the scope "admin"`)
	w.fails(a, tool.PermissionDenied, `the scope "admin"`)
	if n := w.count("GET as.test/authorize"); n != 3 {
		t.Errorf("%d log-ins", n)
	}
}

func TestOtherRefusalsAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.mcp = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusForbidden) }
	status, err := w.call(t.Context(), w.authorizer(nil))
	if status != http.StatusForbidden || err != nil || len(w.pages) != 0 {
		t.Errorf("got %d, %v, %d pages", status, err, len(w.pages))
	}
}

func TestALogInThatDoesNotHelpIsNotRepeated(t *testing.T) {
	w := newWorld(t)
	w.mcp = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) }
	a := w.authorizer(nil)
	w.fails(a, tool.PermissionDenied, "refuses the token that it was just given")
	if n := len(w.pages); n != 1 {
		t.Errorf("%d log-ins", n)
	}
	// However it goes on, it ends.
	w = newWorld(t)
	w.mcp = func(rw http.ResponseWriter, r *http.Request) {
		w.as["as.test"].mu.Lock()
		clear(w.as["as.test"].refresh)
		w.as["as.test"].mu.Unlock()
		rw.WriteHeader(http.StatusUnauthorized)
	}
	a = w.authorizer(nil)
	for range 20 {
		r, _ := http.NewRequest(http.MethodPost, "http://mcp.test/mcp", nil)
		_ = a.Authorize(t.Context(), r)
		_, _ = w.call(t.Context(), a)
	}
	if n := len(w.pages); n > 5 {
		t.Errorf("%d log-ins", n)
	}
	w.quiet()
}

func TestOneLogInForAll(t *testing.T) {
	w := newWorld(t)
	a := w.authorizer(nil)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if status, err := w.call(t.Context(), a); status != http.StatusOK || err != nil {
				t.Errorf("got %d, %v", status, err)
			}
		})
	}
	wg.Wait()
	if n := len(w.pages); n != 1 {
		t.Errorf("%d log-ins", n)
	}
}

func TestALogInGoesOnWithoutWhoAskedForIt(t *testing.T) {
	w := newWorld(t)
	pages := make(chan string, 1)
	a := w.authorizer(func(c *oauth.Config) {
		c.Open = func(_ context.Context, page string) error { pages <- page; return nil }
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := w.call(ctx, a)
	var e *tool.Error
	if !errors.As(err, &e) || e.Details["reason"] != "login_pending" {
		t.Fatalf("got %v", err)
	}
	done := make(chan struct{})
	go func() { defer close(done); w.works(a) }() // waits for the same one
	if err := w.browse(t.Context(), <-pages); err != nil {
		t.Fatal(err)
	}
	<-done
	if n := w.count("GET as.test/authorize"); n != 1 {
		t.Errorf("%d log-ins", n)
	}
}

func TestNobodyComes(t *testing.T) {
	w := newWorld(t)
	w.fails(w.authorizer(func(c *oauth.Config) { c.Open = nil }), tool.PermissionDenied, "nobody can be asked")
	w.fails(w.authorizer(func(c *oauth.Config) {
		c.Open = func(context.Context, string) error { return nil }
		c.Wait = 20 * time.Millisecond
	}), tool.PermissionTimeout, "nobody logged in")
	w.fails(w.authorizer(func(c *oauth.Config) {
		c.Open = func(context.Context, string) error { return errors.New("there is no browser") }
	}), tool.ConnectionError, "there is no browser")

	began := make(chan struct{})
	a := w.authorizer(func(c *oauth.Config) {
		c.Open = func(ctx context.Context, _ string) error { close(began); <-ctx.Done(); return ctx.Err() }
	})
	failed := make(chan error)
	go func() { _, err := w.call(t.Context(), a); failed <- err }()
	<-began
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("a log-in outlives Close")
	}
	w.fails(a, tool.PermissionDenied, "nobody can be asked")
}

func TestTheServerMovesToAnotherIssuer(t *testing.T) {
	w := newWorld(t)
	a := w.authorizer(nil)
	w.works(a)
	w.works(a)
	w.mu.Lock()
	w.prm["authorization_servers"] = []string{"http://as2.test"}
	w.mu.Unlock()
	clear(w.as["as.test"].accepted)
	w.works(a)
	if got := w.pages[1].Get("client_id"); !strings.HasPrefix(got, "client-as2.test") {
		t.Errorf("the client at the second issuer is %s", got)
	}
	if n := len(w.as["as.test"].grants); n != 1 {
		t.Errorf("the first issuer was asked for %d tokens", n)
	}
}

func TestAConfiguredClient(t *testing.T) {
	for _, c := range []struct {
		name, secret string
		methods      []string
		check        func(t *testing.T, as *issuer)
	}{
		{"public", "", []string{"none"}, func(t *testing.T, as *issuer) {
			if as.grants[0].Get("client_id") != "mine:1" || as.grants[0].Has("client_secret") {
				t.Errorf("sent %v", as.grants[0])
			}
		}},
		{"basic", "s€cret+secretvalue", []string{"client_secret_post", "client_secret_basic"}, func(t *testing.T, as *issuer) {
			if !slices.Equal(as.basic, []string{"mine%3A1"}) || as.grants[0].Has("client_secret") || as.grants[0].Has("client_id") {
				t.Errorf("sent %v, %v", as.basic, as.grants[0])
			}
		}},
		{"nothing said", "x-secretvalue", nil, func(t *testing.T, as *issuer) {
			if !slices.Equal(as.basic, []string{"mine%3A1"}) {
				t.Errorf("sent %v, %v", as.basic, as.grants[0])
			}
		}},
		{"post", "x-secretvalue", []string{"client_secret_post"}, func(t *testing.T, as *issuer) {
			if as.grants[0].Get("client_id") != "mine:1" || as.grants[0].Get("client_secret") != "x-secretvalue" || as.basic != nil {
				t.Errorf("sent %v, %v", as.basic, as.grants[0])
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.secrets = append(w.secrets, "secretvalue")
			as := w.as["as.test"]
			as.metadata["token_endpoint_auth_methods_supported"] = c.methods
			mine := func(o *oauth.Config) { o.ClientID, o.ClientSecret = "mine:1", c.secret }
			w.works(w.authorizer(mine))
			c.check(t, as)
			if w.count("POST as.test/register") != 0 {
				t.Error("it registered")
			}
			// It belongs to that issuer, in the next process too.
			w.prm["authorization_servers"] = []string{"http://as2.test"}
			clear(as.accepted)
			a := w.authorizer(mine)
			w.fails(a, tool.PermissionDenied, "the configured client belongs to http://as.test")
			if w.count("GET as2.test/authorize") != 0 || w.count("POST as2.test") != 0 {
				t.Error("the second issuer saw the client")
			}
		})
	}
	w := newWorld(t)
	w.fails(w.authorizer(func(o *oauth.Config) { o.ClientID, o.Issuer = "x", "http://as2.test" }), tool.PermissionDenied, "belongs to http://as2.test")
}

func TestAClientMetadataDocument(t *testing.T) {
	const id = "https://toolyard.test/client.json"
	document := func(c *oauth.Config) { c.ClientMetadata = id }
	w := newWorld(t)
	w.as["as.test"].metadata["client_id_metadata_document_supported"] = true
	w.works(w.authorizer(document))
	if got := w.pages[0].Get("client_id"); got != id {
		t.Errorf("the client is %s", got)
	}
	w = newWorld(t)
	w.works(w.authorizer(document))
	if got := w.pages[0].Get("client_id"); got == id {
		t.Error("a server that knows no documents got one")
	}
}

func TestLogOut(t *testing.T) {
	w := newWorld(t)
	a := w.authorizer(nil)
	w.works(a)
	if err := a.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := w.config.Tokens.Load(t.Context(), "one"); r != nil || err != nil {
		t.Errorf("kept %v, %v", r, err)
	}
	w.works(a)
	if err := a.Login(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(w.pages); n != 3 {
		t.Errorf("%d log-ins", n)
	}
	w.works(a)
}

func TestTokensInAVault(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	files := func() *oauth.File {
		v, err := vault.Open(vault.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return oauth.NewFile(v, dir)
	}
	now := time.Unix(1e9, 0)
	process := func() *oauth.Authorizer {
		return w.authorizer(func(c *oauth.Config) { c.Tokens, c.Now = files(), func() time.Time { return now } })
	}
	w.works(process())
	// Many processes refresh a token that ends: one does, the others find it.
	all := []*oauth.Authorizer{process(), process(), process(), process()}
	for _, a := range all {
		w.works(a)
	}
	now = now.Add(time.Hour)
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			if status, err := w.call(t.Context(), a); status != http.StatusOK || err != nil {
				t.Errorf("got %d, %v", status, err)
			}
		})
	}
	wg.Wait()
	if n := len(w.as["as.test"].grants); n != 2 || len(w.pages) != 1 {
		t.Errorf("%d grants, %d log-ins", n, len(w.pages))
	}
	if err := files().Delete(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if r, err := files().Load(t.Context(), "one"); r != nil || err != nil {
		t.Errorf("kept %v, %v", r, err)
	}
}

func TestBadConfigurations(t *testing.T) {
	good := oauth.Config{Server: "one", URL: "https://mcp.test/mcp"}
	for name, change := range map[string]func(c *oauth.Config){
		"no URL":                         func(c *oauth.Config) { c.URL = "" },
		"a file":                         func(c *oauth.Config) { c.URL = "file:///x" },
		"a user in the URL":              func(c *oauth.Config) { c.URL = "https://a@mcp.test/" },
		"a redirect elsewhere":           func(c *oauth.Config) { c.Redirect = "http://mcp.test/callback" },
		"an encrypted redirect":          func(c *oauth.Config) { c.Redirect = "https://127.0.0.1/callback" },
		"a redirect without a path":      func(c *oauth.Config) { c.Redirect = "http://127.0.0.1:0" },
		"a redirect to a mapped address": func(c *oauth.Config) { c.Redirect = "http://[::ffff:127.0.0.1]/x" },
		"a document by plain HTTP":       func(c *oauth.Config) { c.ClientMetadata = "http://a.test/x" },
		"a document without a path":      func(c *oauth.Config) { c.ClientMetadata = "https://a.test/" },
		"a secret without a client":      func(c *oauth.Config) { c.ClientSecret = "x" },
	} {
		c := good
		change(&c)
		if _, err := oauth.New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := oauth.New(good); err != nil {
		t.Error(err)
	}
}
