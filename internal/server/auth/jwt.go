package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"
)

// Bounds of tokens.
const (
	maxToken = 16 << 10 // bytes
	leeway   = time.Minute
)

// errToken is why a token is none; what follows it is for the log.
var errToken = fmt.Errorf("%w: not a token of ours", ErrUnknown)

// bad makes an errToken. It never quotes the token.
func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errToken, fmt.Sprintf(format, args...))
}

// jwtHeader is the header of a signed token, RFC 7515 §4.
type jwtHeader struct {
	Alg  string          `json:"alg"`
	Kid  string          `json:"kid"`
	Typ  string          `json:"typ"`
	Crit json.RawMessage `json:"crit"`
	B64  *bool           `json:"b64"`
}

// claims are what a token says, RFC 7519 §4, RFC 9068 §2.2.
type claims struct {
	Issuer    string   `json:"iss"`
	Subject   string   `json:"sub"`
	ClientID  string   `json:"client_id"`
	Party     string   `json:"azp"`
	Audience  texts    `json:"aud"`
	Expires   *numeric `json:"exp"`
	NotBefore *numeric `json:"nbf"`
	Issued    *numeric `json:"iat"`
	Scope     texts    `json:"scope"`
	Scp       texts    `json:"scp"`
}

// texts is a string, of words where it stands for a list, or a list.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// words are the words of all texts.
func (t texts) words() []string { return strings.Fields(strings.Join(t, " ")) }

// numeric is a time as seconds, with or without a fraction.
type numeric struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (n *numeric) UnmarshalJSON(data []byte) error {
	var s float64
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if math.IsNaN(s) || s < 0 || s > 1e11 {
		return errors.New("no time")
	}
	n.Time = time.Unix(int64(s), 0)
	return nil
}

// signed is a token taken apart, not yet believed.
type signed struct {
	header    jwtHeader
	claims    claims
	signing   string // what is signed
	signature []byte
}

// parseToken takes a token apart. It believes nothing.
func parseToken(token string) (*signed, error) {
	if len(token) > maxToken {
		return nil, bad("%d bytes", len(token))
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, bad("%d parts", len(parts))
	}
	s := &signed{signing: parts[0] + "." + parts[1]}
	if err := part(parts[0], &s.header); err != nil {
		return nil, bad("the header: %v", err)
	}
	switch {
	case s.header.Crit != nil || s.header.B64 != nil:
		return nil, bad("the header demands what is not known")
	case algorithms[s.header.Alg] == nil:
		return nil, bad("the algorithm is not taken")
	}
	switch typ := strings.ToLower(strings.TrimPrefix(strings.ToLower(s.header.Typ), "application/")); typ {
	case "", "jwt", "at+jwt":
	default:
		return nil, bad("the type is not that of an access token")
	}
	if err := part(parts[1], &s.claims); err != nil {
		return nil, bad("the claims: %v", err)
	}
	var err error
	if s.signature, err = base64.RawURLEncoding.Strict().DecodeString(parts[2]); err != nil || len(s.signature) == 0 {
		return nil, bad("the signature is no base64")
	}
	return s, nil
}

func part(text string, into any) error {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return errors.New("no base64")
	}
	if json.Unmarshal(data, into) != nil {
		return errors.New("no JSON of the kind that is wanted")
	}
	return nil
}

// algorithms are the ones that are taken, each with the only kind of key that it
// takes: what a token says about its algorithm cannot turn a public key into a
// secret (RFC 8725 §2.1). To add one: a row.
var algorithms = map[string]func(key crypto.PublicKey, signing, signature []byte) bool{
	"RS256": func(key crypto.PublicKey, signing, signature []byte) bool {
		k, ok := key.(*rsa.PublicKey)
		sum := sha256.Sum256(signing)
		return ok && rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
	},
	"ES256": func(key crypto.PublicKey, signing, signature []byte) bool {
		k, ok := key.(*ecdsa.PublicKey)
		if !ok || len(signature) != 64 {
			return false
		}
		sum := sha256.Sum256(signing)
		return ecdsa.Verify(k, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	},
	"EdDSA": func(key crypto.PublicKey, signing, signature []byte) bool {
		k, ok := key.(ed25519.PublicKey)
		return ok && len(signature) == ed25519.SignatureSize && ed25519.Verify(k, signing, signature)
	},
}

// holds checks what a token says against what is wanted, once its signature is
// known to be good.
func (c *claims) holds(issuer, audience string, now time.Time) error {
	switch {
	case c.Issuer != issuer:
		return bad("another issuer")
	case c.Expires == nil:
		return bad("it never ends")
	case !now.Before(c.Expires.Add(leeway)):
		return bad("it has ended")
	case c.NotBefore != nil && now.Add(leeway).Before(c.NotBefore.Time):
		return bad("it does not hold yet")
	case c.Issued != nil && now.Add(leeway).Before(c.Issued.Time):
		return bad("it was issued in the future")
	case c.who() == "":
		return bad("it names nobody")
	}
	for _, a := range c.Audience {
		if a == audience {
			return nil
		}
	}
	return bad("it is for somebody else")
}

// who is the subject, or the client of a token without one.
func (c *claims) who() string {
	for _, s := range []string{c.Subject, c.ClientID, c.Party} {
		if s != "" {
			return s
		}
	}
	return ""
}
