package gateway

import (
	"context"
	"regexp"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// reference is ${NAME}, ${NAME:-default} or ${secret:NAME}. Some clients write
// ${env:NAME} for the first.
var reference = regexp.MustCompile(`\$\{([^${}]*)\}`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expander puts values in the place of references.
type expander struct {
	env    func(string) (string, bool)
	secret func(context.Context, string) (string, error)
	// used are the values of secrets and of variables, by name: what must not be
	// shown.
	used map[string]string
}

// text expands one value; where says which, for the error.
func (x *expander) text(ctx context.Context, where, value string) (string, error) {
	if !strings.Contains(value, "${") {
		return value, nil
	}
	var failed error
	out := reference.ReplaceAllStringFunc(value, func(match string) string {
		v, err := x.value(ctx, where, match[2:len(match)-1])
		if err != nil && failed == nil {
			failed = err
		}
		return v
	})
	return out, failed
}

func (x *expander) value(ctx context.Context, where, name string) (string, error) {
	if secret, ok := strings.CutPrefix(name, "secret:"); ok {
		if x.secret == nil {
			return "", tool.Errorf(tool.ParameterError, "%s names the secret %q, and there are no secrets", where, secret).
				WithHint("Set it with: toolyard secrets set %s", secret)
		}
		v, err := x.secret(ctx, secret)
		if err != nil {
			fail := tool.Errorf(tool.ParameterError, "%s names the secret %q, which cannot be had: %v", where, secret, err).
				WithHint("Set it with: toolyard secrets set %s", secret)
			fail.Err = err
			return "", fail
		}
		x.used[secret] = v
		return v, nil
	}
	name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(name, "env:"), ":-")
	if !variableName.MatchString(name) {
		return "", tool.Errorf(tool.ParameterError, "%s holds ${%s}, which names no variable", where, name).
			WithHint("Write ${NAME}, ${NAME:-default} or ${secret:NAME}.")
	}
	if x.env != nil {
		if v, ok := x.env(name); ok && (v != "" || !hasFallback) {
			x.used[name] = v
			return v, nil
		}
	}
	if hasFallback {
		return fallback, nil
	}
	return "", tool.Errorf(tool.ParameterError, "%s names the variable %s, which is not set", where, name).
		WithHint("Set %s in the environment of toolyard, or write ${%s:-default}.", name, name)
}

// expand gives the entry with all references replaced.
func (x *expander) expand(ctx context.Context, s Server) (Server, error) {
	var err error
	one := func(where, value string) string {
		out, e := x.text(ctx, where, value)
		if err == nil {
			err = e
		}
		return out
	}
	all := func(where string, list []string) []string {
		out := make([]string, len(list))
		for i, v := range list {
			out[i] = one(where, v)
		}
		return out
	}
	texts := func(where string, m map[string]string) map[string]string {
		out := make(map[string]string, len(m))
		for k, v := range m {
			out[k] = one(where+"."+k, v)
		}
		return out
	}
	s.Command, s.Cwd, s.URL = one("command", s.Command), one("cwd", s.Cwd), one("url", s.URL)
	s.Args, s.Env, s.Headers = all("args", s.Args), texts("env", s.Env), texts("headers", s.Headers)
	s.Sandbox.Read, s.Sandbox.Write = all("sandbox.read", s.Sandbox.Read), all("sandbox.write", s.Sandbox.Write)
	if s.OAuth != nil {
		o := *s.OAuth
		o.ClientID, o.ClientSecret = one("oauth.clientId", o.ClientID), one("oauth.clientSecret", o.ClientSecret)
		s.OAuth = &o
	}
	return s, err
}
