package toolyard

import (
	"context"
	"errors"

	"github.com/toolyard/toolyard/internal/netguard"
	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/tool"
)

// APIKey is a key for the HTTP front door, without its secret.
type APIKey = auth.Key

// apiKeys are the keys of the record.
func (t *Toolyard) apiKeys() *auth.Keys { return auth.NewKeys(t.store, t.keyTools, nil) }

// keyTools is the test for the tools of a key: those of its profile, or of the
// server's, that its patterns let in.
func (t *Toolyard) keyTools(profile string, patterns []string) (func(*tool.Spec) bool, error) {
	p := t.profile
	if profile != "" {
		var err error
		if p, err = t.profiles.Find(profile); err != nil {
			return nil, err
		}
	}
	if len(patterns) > 0 {
		var err error
		if p, err = p.Narrow(patterns); err != nil {
			return nil, err
		}
	}
	return p.Allowed(), nil
}

// AddAPIKey makes a key and gives its secret, which cannot be had again.
func (t *Toolyard) AddAPIKey(ctx context.Context, k APIKey) (key APIKey, secret string, err error) {
	if err := t.ready(ctx); err != nil {
		return APIKey{}, "", err
	}
	return t.apiKeys().Add(ctx, k)
}

// APIKeys lists the keys, the oldest first.
func (t *Toolyard) APIKeys(ctx context.Context) ([]APIKey, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	return t.apiKeys().List(ctx)
}

// RemoveAPIKey ends a key. Servers on the same record notice within a second.
func (t *Toolyard) RemoveAPIKey(ctx context.Context, id string) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	return t.apiKeys().Remove(ctx, id)
}

// resource checks the tokens of an authorization server; nil in other modes.
func (t *Toolyard) resource(mode string) (*auth.Resource, error) {
	a := t.config.Auth
	if mode != "oauth" {
		return nil, nil
	}
	if a.Issuer == "" || a.Audience == "" {
		return nil, errors.New("auth oauth needs auth.issuer and auth.audience in the configuration")
	}
	c := auth.ResourceConfig{Issuer: a.Issuer, Audience: a.Audience, Scopes: a.Scopes, ReadScope: a.ReadScope}
	for _, text := range a.Allow {
		allow, err := netguard.ParseAllow(text)
		if err != nil {
			return nil, err
		}
		c.Network.Allow = append(c.Network.Allow, allow)
	}
	return auth.NewResource(c)
}
