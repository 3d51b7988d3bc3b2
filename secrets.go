package toolyard

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/gateway/oauth"
	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/internal/secret/vault"
	"github.com/toolyard/toolyard/tool"
)

// masterKey is the operator's variable with the key of the secrets. It and the
// token of the home are never given to an entry that names them.
const masterKey = "TOOLYARD_MASTER_KEY"

// userSecret stands before the names of a person's own secrets.
const userSecret = "user/"

var secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`)

func (t *Toolyard) openVault() (*vault.Vault, error) {
	key, _ := lookup(t.config.MCP.Environ, masterKey)
	return vault.Open(vault.Config{Dir: t.config.Home, Key: key})
}

func namedSecret(name string) (string, error) {
	if !secretName.MatchString(name) {
		return "", tool.Errorf(tool.ParameterError, "%q is no name of a secret", name).
			WithHint("Use a letter, then letters, digits, _, - and dots; at most 128.")
	}
	return userSecret + name, nil
}

// SetSecret keeps a value that configurations name as ${secret:NAME}, encrypted
// in the home.
func (t *Toolyard) SetSecret(ctx context.Context, name, value string) error {
	full, err := namedSecret(name)
	if err != nil {
		return err
	}
	if value == "" {
		return tool.Errorf(tool.ParameterError, "the value of %s is empty", name).WithHint("Give it on standard input, or remove the secret.")
	}
	return t.vault.Set(ctx, full, []byte(value))
}

// Secrets lists the names of what SetSecret has kept, sorted.
func (t *Toolyard) Secrets() ([]string, error) {
	all, err := t.vault.Names()
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, name := range all {
		if own, ok := strings.CutPrefix(name, userSecret); ok {
			names = append(names, own)
		}
	}
	return names, nil
}

// RemoveSecret forgets a value. One that is not there is NOT_FOUND.
func (t *Toolyard) RemoveSecret(ctx context.Context, name string) error {
	names, err := t.Secrets()
	if err != nil {
		return err
	}
	if !slices.Contains(names, name) {
		return tool.Errorf(tool.NotFound, "there is no secret %q", name).WithHint("`toolyard secrets list` shows those that are kept.")
	}
	return t.vault.Delete(ctx, userSecret+name)
}

// KeyGiven reports whether the key of the secrets comes from TOOLYARD_MASTER_KEY.
func (t *Toolyard) KeyGiven() bool {
	key, _ := lookup(t.config.MCP.Environ, masterKey)
	return key != ""
}

// RotateSecrets encrypts everything with a new key: next, 32 bytes in hex or
// base64, where the key is given by TOOLYARD_MASTER_KEY; one that is made, with
// next empty, where it is in the home.
func (t *Toolyard) RotateSecrets(ctx context.Context, next string) error {
	return t.vault.Rotate(ctx, next)
}

// secretOf is what an entry of mcpServers names as ${secret:NAME}.
func (t *Toolyard) secretOf(_ context.Context, name string) (string, error) {
	full, err := namedSecret(name)
	if err != nil {
		return "", err
	}
	value, err := t.vault.Get(full)
	if errors.Is(err, vault.ErrNotFound) {
		return "", tool.Errorf(tool.ParameterError, "there is no secret %q", name).WithHint("Keep it with: toolyard secrets set %s", name)
	}
	return string(value), err
}

// authorizer logs in to one remote server.
func (t *Toolyard) authorizer(name string, s gateway.Server, open func(ctx context.Context, url string) error) (*oauth.Authorizer, error) {
	c := oauth.Config{
		Server: name, URL: s.URL, Open: open, Log: t.log,
		Tokens: oauth.NewFile(t.vault, filepath.Join(t.config.Home, "run")),
	}
	if o := s.OAuth; o != nil {
		c.ClientID, c.ClientSecret, c.Scopes = o.ClientID, o.ClientSecret, o.Scopes
		if o.CallbackPort > 0 {
			c.Redirect = "http://127.0.0.1:" + strconv.Itoa(o.CallbackPort) + "/callback"
		}
	}
	return oauth.New(c)
}

// authorize gives what proves who we are to a remote server: the tokens of a
// log-in that somebody made with `toolyard gateway login`.
func (t *Toolyard) authorize(name string, s gateway.Server) upstream.Authorizer {
	a, err := t.authorizer(name, s, nil)
	if err != nil {
		t.log.Warn("no log-in to this MCP server is possible", "server", name, "error", err)
		return nil
	}
	return a
}

// LoginServer logs in to a remote MCP server that wants it: open shows a URL to
// the person, who comes back through the browser. It waits at most 5 minutes.
func (t *Toolyard) LoginServer(ctx context.Context, name string, open func(ctx context.Context, url string) error) error {
	a, err := t.serverLogin(ctx, name, open)
	if err != nil {
		return err
	}
	return errors.Join(a.Login(ctx), a.Close())
}

// LogoutServer forgets the tokens and the registration for a remote server.
func (t *Toolyard) LogoutServer(ctx context.Context, name string) error {
	a, err := t.serverLogin(ctx, name, nil)
	if err != nil {
		return err
	}
	return errors.Join(a.Logout(ctx), a.Close())
}

func (t *Toolyard) serverLogin(ctx context.Context, name string, open func(ctx context.Context, url string) error) (*oauth.Authorizer, error) {
	if t.gateway == nil {
		return nil, tool.Errorf(tool.NotFound, "there is no MCP server %q", name)
	}
	s, err := t.gateway.Remote(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.authorizer(name, s, open)
}
