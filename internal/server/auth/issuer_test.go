package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// issuer is an OpenID Connect provider as far as a resource server sees it: real
// HTTP, metadata, and keys that rotate.
type issuer struct {
	*httptest.Server
	now time.Time

	mu      sync.Mutex
	keys    []jwk
	signers map[string]signer // by kid
	reads   int               // of the key set
	down    bool
	name    string // the issuer that the metadata names; its URL if empty
	keysURL string // another jwks_uri
}

type jwk map[string]any

type signer struct {
	alg  string
	sign func(signing []byte) []byte
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{signers: map[string]signer{}, now: time.Unix(1_700_000_000, 0)}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		name, keys := i.name, i.keysURL
		if name == "" {
			name = i.URL
		}
		if keys == "" {
			keys = i.URL + "/keys"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": name, "jwks_uri": keys})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.reads++
		if i.down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": i.keys})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	i.add(t, "r1", "RS256")
	i.add(t, "e1", "ES256")
	i.add(t, "d1", "EdDSA")
	return i
}

// add makes a key and publishes it.
func (i *issuer) add(t testing.TB, kid, alg string) {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	k := jwk{"kid": kid, "alg": alg, "use": "sig"}
	var s func([]byte) []byte
	switch alg {
	case "RS256":
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		k["kty"], k["n"], k["e"] = "RSA", b64(key.N.Bytes()), b64(big.NewInt(int64(key.E)).Bytes())
		s = func(signing []byte) []byte {
			sum := sha256.Sum256(signing)
			sig, _ := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
			return sig
		}
	case "ES256":
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		point, err := key.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		k["kty"], k["crv"], k["x"], k["y"] = "EC", "P-256", b64(point[1:33]), b64(point[33:])
		s = func(signing []byte) []byte {
			sum := sha256.Sum256(signing)
			r, v, _ := ecdsa.Sign(rand.Reader, key, sum[:])
			return append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...)
		}
	case "EdDSA":
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		k["kty"], k["crv"], k["x"] = "OKP", "Ed25519", b64(public)
		s = func(signing []byte) []byte { return ed25519.Sign(private, signing) }
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, k)
	i.signers[kid] = signer{alg, s}
}

// remove takes a key out of the set.
func (i *issuer) remove(kid string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var left []jwk
	for _, k := range i.keys {
		if k["kid"] != kid {
			left = append(left, k)
		}
	}
	i.keys = left
}

func (i *issuer) readings() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.reads
}

const audience = "https://tools.example.com/mcp"

// good are claims that hold.
func (i *issuer) good() map[string]any {
	return map[string]any{"iss": i.URL, "aud": audience, "sub": "ann", "exp": i.now.Add(time.Hour).Unix(), "iat": i.now.Unix(), "scope": "use extra"}
}

// token signs claims; change may alter them and the header.
func (i *issuer) token(kid string, change func(header, claims map[string]any)) string {
	i.mu.Lock()
	s := i.signers[kid]
	i.mu.Unlock()
	header, claims := map[string]any{"alg": s.alg, "kid": kid, "typ": "at+jwt"}, i.good()
	if change != nil {
		change(header, claims)
	}
	part := func(v any) string {
		data, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	signing := part(header) + "." + part(claims)
	return signing + "." + base64.RawURLEncoding.EncodeToString(s.sign([]byte(signing)))
}

// flip changes one character in the middle of a part of a token.
func flip(token string, part int) string {
	parts := strings.Split(token, ".")
	b := []byte(parts[part])
	at := len(b) / 2
	if b[at] == 'A' {
		b[at] = 'B'
	} else {
		b[at] = 'A'
	}
	parts[part] = string(b)
	return strings.Join(parts, ".")
}
