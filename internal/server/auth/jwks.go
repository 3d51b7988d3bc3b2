package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bounds of an issuer's keys.
const (
	maxKeys    = 100
	keysFresh  = 10 * time.Minute // then they are read again, beside the requests
	keysStale  = 24 * time.Hour   // while the issuer does not answer
	keysAgain  = 10 * time.Second // at least between two readings
	minRSA     = 2048             // bits
	maxRSA     = 8192
	fetchLimit = 15 * time.Second
)

// publicKey is one of an issuer's keys.
type publicKey struct {
	id, alg string
	key     crypto.PublicKey
}

// jwk is RFC 7517 §4 with the members of the kinds that are taken.
type jwk struct {
	Kty string   `json:"kty"`
	Use string   `json:"use"`
	Ops []string `json:"key_ops"`
	Alg string   `json:"alg"`
	Kid string   `json:"kid"`
	Crv string   `json:"crv"`
	N   string   `json:"n"`
	E   string   `json:"e"`
	X   string   `json:"x"`
	Y   string   `json:"y"`
}

// parseKeys reads a key set. Keys of other kinds and for other uses are left out:
// an issuer may have them beside ours.
func parseKeys(data []byte) ([]publicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, errors.New("the key set is no JSON of the kind that is wanted")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys, at most %d", len(set.Keys), maxKeys)
	}
	var all []publicKey
	for _, raw := range set.Keys {
		var k jwk
		if json.Unmarshal(raw, &k) != nil || k.Use != "" && k.Use != "sig" {
			continue
		}
		if key := k.public(); key != nil {
			all = append(all, publicKey{k.Kid, k.Alg, key})
		}
	}
	return all, nil
}

// public is the key, or nil if it is none of ours or too weak.
func (k *jwk) public() crypto.PublicKey {
	number := func(s string) *big.Int {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
		if err != nil {
			return new(big.Int)
		}
		return new(big.Int).SetBytes(b)
	}
	switch {
	case k.Kty == "RSA":
		n, e := number(k.N), number(k.E)
		if n.BitLen() < minRSA || n.BitLen() > maxRSA || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 || e.Int64()%2 == 0 {
			return nil
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}
	case k.Kty == "EC" && k.Crv == "P-256":
		point := append([]byte{4}, append(number(k.X).FillBytes(make([]byte, 64))[32:], number(k.Y).FillBytes(make([]byte, 64))[32:]...)...)
		if number(k.X).BitLen() > 256 || number(k.Y).BitLen() > 256 {
			return nil
		}
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
		if err != nil {
			return nil
		}
		return key
	case k.Kty == "OKP" && k.Crv == "Ed25519":
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil
		}
		return ed25519.PublicKey(x)
	}
	return nil
}

// keySet is an issuer's keys, read when they are needed.
type keySet struct {
	issuer string
	client *http.Client
	now    func() time.Time

	turn chan struct{} // held by who reads
	// Read and written by the holder of turn.
	keys     []publicKey
	place    string    // jwks_uri
	read     time.Time // when they were read
	tried    time.Time // when that was last tried
	lastFail error
}

// find gives the keys that a token may be signed with. They are read if they are
// old, and if none has the token's id: the issuer may have a new one.
func (s *keySet) find(ctx context.Context, h jwtHeader) ([]publicKey, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	now := s.now()
	fit := s.fitting(h)
	if wanted := len(fit) == 0 || now.Sub(s.read) > keysFresh; wanted && (s.tried.IsZero() || now.Sub(s.tried) >= keysAgain) {
		s.tried = now
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchLimit)
		s.lastFail = s.fetch(ctx)
		cancel()
		if s.lastFail == nil {
			s.read = now
		}
		fit = s.fitting(h)
	}
	if s.read.IsZero() || now.Sub(s.read) > keysStale {
		return nil, fmt.Errorf("the keys of %s are not known: %w", s.issuer, s.lastFail)
	}
	return fit, nil
}

// fitting are the keys with the token's id and algorithm; without an id all with
// its algorithm.
func (s *keySet) fitting(h jwtHeader) []publicKey {
	var fit []publicKey
	for _, k := range s.keys {
		if (h.Kid == "" || k.id == h.Kid) && (k.alg == "" || k.alg == h.Alg) {
			fit = append(fit, k)
		}
	}
	return fit
}

// fetch reads the issuer's metadata and its keys.
func (s *keySet) fetch(ctx context.Context) error {
	place, err := s.discover(ctx)
	if err != nil {
		if s.place == "" {
			return err
		}
		place = s.place // it was there before
	}
	data, err := s.get(ctx, place)
	if err != nil {
		return err
	}
	keys, err := parseKeys(data)
	if err != nil {
		return err
	}
	s.place, s.keys = place, keys
	return nil
}

// discover finds where the keys are, by RFC 8414 or OpenID Connect Discovery.
func (s *keySet) discover(ctx context.Context) (string, error) {
	u, err := url.Parse(s.issuer)
	if err != nil {
		return "", err
	}
	base, path := u.Scheme+"://"+u.Host, strings.TrimRight(u.EscapedPath(), "/")
	places := []string{base + path + "/.well-known/openid-configuration", base + "/.well-known/oauth-authorization-server" + path}
	if path != "" {
		places = append(places, base+"/.well-known/openid-configuration"+path)
	}
	var last error
	for _, place := range places {
		data, err := s.get(ctx, place)
		if err != nil {
			last = errors.Join(last, err)
			continue
		}
		var m struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return "", fmt.Errorf("%s is no JSON of the kind that is wanted", place)
		}
		if m.Issuer != s.issuer {
			return "", fmt.Errorf("%s is the metadata of another issuer, %.200q", place, m.Issuer)
		}
		if m.Keys == "" {
			return "", fmt.Errorf("%s names no jwks_uri", place)
		}
		return m.Keys, nil
	}
	return "", last
}

func (s *keySet) get(ctx context.Context, place string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading %s: %s", place, answer.Status)
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", place, err)
	}
	return data, nil
}
