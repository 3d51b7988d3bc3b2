package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of keys.
const (
	keyPrefix   = "ty_"
	keyRows     = "key:" // of settings
	keySecret   = 32     // random bytes
	maxName     = 100    // characters
	maxPatterns = 200
	keyCache    = time.Second // how long a key that was removed elsewhere still works
	maxCached   = 1024
)

// Key is an API key, without its secret.
type Key struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Hash    string    `json:"hash,omitempty"` // SHA-256 of the whole key, in hex
	Created time.Time `json:"created"`
	// Expires is when it ends; zero is never.
	Expires time.Time `json:"expires,omitzero"`
	Tenant  string    `json:"tenant,omitempty"`
	Project string    `json:"project,omitempty"`
	Profile string    `json:"profile,omitempty"`
	// Tools are patterns as a profile has them; none means all tools.
	Tools    []string `json:"tools,omitempty"`
	ReadOnly bool     `json:"read_only,omitempty"`
	Admin    bool     `json:"admin,omitempty"`
	// Rate is requests a minute; zero is no bound.
	Rate int `json:"rate,omitempty"`
}

// Keys are the API keys of a home. It is safe for concurrent use, by several
// processes too.
type Keys struct {
	rows store.Settings
	test func(profile string, tools []string) (func(*tool.Spec) bool, error)
	now  func() time.Time

	mu    sync.Mutex
	known map[string]cached // by ID
}

type cached struct {
	hash   [32]byte
	caller Caller
	ends   time.Time // of the key
	until  time.Time // of this entry
}

// NewKeys keeps keys in rows. test makes the test for the tools of a key with a
// profile, patterns, or both; now is the clock, nil for [time.Now].
func NewKeys(rows store.Settings, test func(profile string, tools []string) (func(*tool.Spec) bool, error), now func() time.Time) *Keys {
	if now == nil {
		now = time.Now
	}
	return &Keys{rows: rows, test: test, now: now, known: map[string]cached{}}
}

// Add makes a key and gives its secret, which is kept nowhere. Errors about k are
// VALIDATION_ERROR.
func (k *Keys) Add(ctx context.Context, key Key) (Key, string, error) {
	if err := k.check(key); err != nil {
		return Key{}, "", err
	}
	var id [4]byte
	var secret [keySecret]byte
	_, _ = rand.Read(id[:]) // never fails
	_, _ = rand.Read(secret[:])
	key.ID = hex.EncodeToString(id[:])
	whole := keyPrefix + key.ID + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
	sum := sha256.Sum256([]byte(whole))
	key.Hash, key.Created = hex.EncodeToString(sum[:]), k.now().UTC().Truncate(time.Second)
	row, err := json.Marshal(key)
	if err != nil {
		return Key{}, "", err
	}
	if err := k.rows.PutSetting(ctx, keyRows+key.ID, string(row)); err != nil {
		return Key{}, "", err
	}
	key.Hash = ""
	return key, whole, nil
}

func (k *Keys) check(key Key) error {
	switch {
	case len(key.Name) > maxName || len(key.Tenant) > maxName || len(key.Project) > maxName || len(key.Profile) > maxName:
		return tool.Errorf(tool.ValidationError, "a name of the key has more than %d bytes", maxName).WithHint("Use a shorter one.")
	case len(key.Tools) > maxPatterns:
		return tool.Errorf(tool.ValidationError, "the key has %d patterns of tools, at most %d", len(key.Tools), maxPatterns).WithHint("Define a profile and name it.")
	case key.Rate < 0:
		return tool.Errorf(tool.ValidationError, "rate %d is negative", key.Rate).WithHint("Say how many requests a minute are let through; 0 is no bound.")
	case !key.Expires.IsZero() && !key.Expires.After(k.now()):
		return tool.Errorf(tool.ValidationError, "the key would have ended at %s", key.Expires.UTC().Format(time.RFC3339)).WithHint("Name a time that is to come.")
	case key.Admin && (key.ReadOnly || len(key.Tools) > 0 || key.Profile != "" || key.Tenant != "" || key.Project != ""):
		return tool.Errorf(tool.ValidationError, "an admin key cannot be bound otherwise").WithHint("Leave out either admin or the bounds: the API can change what bounds a call.")
	}
	if len(key.Tools) > 0 || key.Profile != "" {
		_, err := k.test(key.Profile, key.Tools)
		return err
	}
	return nil
}

// List gives all keys, the oldest first, without their hashes.
func (k *Keys) List(ctx context.Context) ([]Key, error) {
	rows, err := k.rows.ListSettings(ctx, keyRows)
	if err != nil {
		return nil, err
	}
	all := make([]Key, 0, len(rows))
	for name, row := range rows {
		key := Key{}
		if json.Unmarshal([]byte(row), &key) != nil || name != keyRows+key.ID {
			continue // it lets nobody in either
		}
		key.Hash = ""
		all = append(all, key)
	}
	slices.SortFunc(all, func(a, b Key) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, nil
}

// Remove ends a key. One that there is not is NOT_FOUND.
func (k *Keys) Remove(ctx context.Context, id string) error {
	if _, err := k.rows.Setting(ctx, keyRows+id); errors.Is(err, store.ErrNotFound) || id == "" {
		return tool.Errorf(tool.NotFound, "there is no API key %q", id).WithHint("`toolyard keys list` shows them.")
	} else if err != nil {
		return err
	}
	k.mu.Lock()
	delete(k.known, id)
	k.mu.Unlock()
	return k.rows.DeleteSetting(ctx, keyRows+id)
}

// IsKey reports whether a token has the form of an API key.
func IsKey(token string) bool { return strings.HasPrefix(token, keyPrefix) }

// Caller is who has a key: [ErrUnknown] if nobody has, or it has ended.
func (k *Keys) Caller(ctx context.Context, token string) (Caller, error) {
	rest, ok := strings.CutPrefix(token, keyPrefix)
	id, _, found := strings.Cut(rest, "_")
	if !ok || !found || len(id) != 8 || strings.Trim(id, "0123456789abcdef") != "" {
		return Caller{}, ErrUnknown
	}
	c, err := k.find(ctx, id)
	if err != nil {
		return Caller{}, err
	}
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], c.hash[:]) != 1 || !c.ends.IsZero() && !k.now().Before(c.ends) {
		return Caller{}, ErrUnknown
	}
	return c.caller, nil
}

func (k *Keys) find(ctx context.Context, id string) (cached, error) {
	now := k.now()
	k.mu.Lock()
	c, ok := k.known[id]
	k.mu.Unlock()
	if ok && now.Before(c.until) {
		return c, nil
	}
	row, err := k.rows.Setting(ctx, keyRows+id)
	if errors.Is(err, store.ErrNotFound) {
		return cached{}, ErrUnknown
	}
	if err != nil {
		return cached{}, err
	}
	var key Key
	if err := json.Unmarshal([]byte(row), &key); err != nil {
		return cached{}, ErrUnknown
	}
	hash, err := hex.DecodeString(key.Hash)
	if err != nil || len(hash) != sha256.Size || key.ID != id {
		return cached{}, ErrUnknown
	}
	c = cached{hash: [32]byte(hash), ends: key.Expires, until: now.Add(keyCache), caller: Caller{
		ID: "key:" + id, Name: key.Name, Tenant: key.Tenant, Project: key.Project, Profile: key.Profile,
		ReadOnly: key.ReadOnly, Admin: key.Admin, Rate: key.Rate,
	}}
	if !key.Admin {
		if c.caller.Allowed, err = k.test(key.Profile, key.Tools); err != nil {
			return cached{}, err
		}
	}
	if key.ReadOnly {
		c.caller.Allowed = reading(c.caller.Allowed)
	}
	k.mu.Lock()
	if len(k.known) >= maxCached {
		clear(k.known)
	}
	k.known[id] = c
	k.mu.Unlock()
	return c, nil
}
