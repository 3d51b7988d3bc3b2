package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/flock"
	"github.com/toolyard/toolyard/internal/secret/vault"
)

// Record is what is known for one server: its token and the clients that were
// registered for it. All of it is secret.
type Record struct {
	Token   *Token            `json:"token,omitempty"`
	Clients map[string]Client `json:"clients,omitempty"` // by issuer
	// Issuer is the authorization server that a configured client was first used
	// with.
	Issuer string `json:"issuer,omitempty"`
}

// Token is an access token and what is needed to get the next one.
type Token struct {
	Access   string    `json:"access"`
	Refresh  string    `json:"refresh,omitempty"`
	Expiry   time.Time `json:"expiry,omitzero"` // zero: not said
	Asked    []string  `json:"asked,omitempty"` // scopes asked for, those granted before with them
	Granted  []string  `json:"granted,omitempty"`
	Issuer   string    `json:"issuer"`
	Endpoint string    `json:"endpoint"` // the token endpoint
	Resource string    `json:"resource,omitempty"`
	Client   Client    `json:"client"`
}

// Client is a registration at one authorization server.
type Client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
	Auth   string `json:"auth,omitempty"` // client_secret_basic, client_secret_post or none
	// Redirect is the address that was registered; it has a port.
	Redirect string    `json:"redirect,omitempty"`
	Expiry   time.Time `json:"expiry,omitzero"` // of the secret
}

// Tokens keeps records, by the name of a server. Implementations are safe for
// concurrent use.
type Tokens interface {
	// Load returns nil without an error if there is nothing.
	Load(ctx context.Context, server string) (*Record, error)
	Save(ctx context.Context, server string, r *Record) error
	// Delete forgets a record. It is no error if there is none.
	Delete(ctx context.Context, server string) error
}

// Locker is implemented by Tokens that several processes share. While a token is
// refreshed no other process refreshes it: most authorization servers take a
// refresh token once, and revoke all if it comes twice.
type Locker interface {
	Lock(ctx context.Context, server string) (unlock func(), err error)
}

// Memory keeps records for as long as the process lives.
type Memory struct {
	mu      sync.Mutex
	records map[string][]byte
}

var (
	_ Tokens = (*Memory)(nil)
	_ Tokens = (*File)(nil)
	_ Locker = (*File)(nil)
)

// Load implements Tokens.
func (m *Memory) Load(_ context.Context, server string) (*Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return decode(m.records[server])
}

// Save implements Tokens.
func (m *Memory) Save(_ context.Context, server string, r *Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		m.records = map[string][]byte{}
	}
	m.records[server] = data
	return nil
}

// Delete implements Tokens.
func (m *Memory) Delete(_ context.Context, server string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, server)
	return nil
}

// File keeps records in a vault, encrypted, for all processes of one home.
type File struct {
	vault *vault.Vault
	dir   string
}

// NewFile keeps records in v; lock files go to dir.
func NewFile(v *vault.Vault, dir string) *File { return &File{vault: v, dir: dir} }

func (f *File) name(server string) string { return "oauth/" + server }

// Load implements Tokens.
func (f *File) Load(_ context.Context, server string) (*Record, error) {
	data, err := f.vault.Get(f.name(server))
	if errors.Is(err, vault.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decode(data)
}

// Save implements Tokens.
func (f *File) Save(ctx context.Context, server string, r *Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return f.vault.Set(ctx, f.name(server), data)
}

// Delete implements Tokens.
func (f *File) Delete(ctx context.Context, server string) error {
	return f.vault.Delete(ctx, f.name(server))
}

// Lock implements Locker.
func (f *File) Lock(ctx context.Context, server string) (func(), error) {
	sum := sha256.Sum256([]byte(server))
	return flock.Open(ctx, filepath.Join(f.dir, "oauth-"+hex.EncodeToString(sum[:8])+".lock"))
}

func decode(data []byte) (*Record, error) {
	if data == nil {
		return nil, nil
	}
	r := &Record{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("a kept token cannot be read: %w", err)
	}
	return r, nil
}

// load reads the record once.
func (a *Authorizer) load(ctx context.Context) error {
	if a.record != nil {
		return nil
	}
	r, err := a.config.Tokens.Load(ctx, a.config.Server)
	if err != nil {
		return err
	}
	if r == nil {
		r = &Record{}
	}
	a.record = r
	return nil
}

// keep changes the record and saves it. What cannot be saved is used all the
// same, for as long as the process lives.
func (a *Authorizer) keep(ctx context.Context, change func(r *Record)) {
	next := *a.record
	next.Clients = maps.Clone(next.Clients)
	change(&next)
	a.record = &next
	if err := a.config.Tokens.Save(ctx, a.config.Server, &next); err != nil {
		a.config.Log.Error("the token of an MCP server is not kept", "server", a.config.Server, "err", err)
	}
}
