package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/validate"
)

// requestState is what a stateless client carries from a question to its answer:
// base64url of these members as JSON and their HMAC-SHA256. It tells the client
// nothing that it does not know, and is of use once.
type requestState struct {
	Operation string `json:"op"`
	Epoch     string `json:"ep"` // of the process that asks
	Runtime   string `json:"rt,omitempty"`
	Owner     string `json:"ow"`           // hash of session and principal
	Binds     string `json:"bi"`           // hash of what was asked for
	Binding   string `json:"bd,omitempty"` // of the question: the call, and the version of the rules
	Key       string `json:"ke,omitempty"` // of the one question that is Question
	Question  string `json:"qu,omitempty"` // its ID, if it is durable
	Fresh     bool   `json:"fr,omitempty"` // nothing had run
	Nonce     string `json:"no"`
	Expires   int64  `json:"ex"` // Unix seconds
}

const (
	// maxState bounds a requestState that is read, in bytes.
	maxState = 4 << 10
	// stateKeySize is the size of a key that we make.
	stateKeySize = 32
)

var (
	errStateAltered = errors.New("requestState has been altered, or is not one of this server")
	errStateExpired = errors.New("requestState has expired. Make the call again without it")
	errStateUsed    = errors.New("requestState has been used already. Make the call again without it")
	errStateSession = errors.New("requestState belongs to another session")
	errStateRequest = errors.New("requestState belongs to another request: the tool or its arguments are different")
	errStateAway    = errors.New("the call waits in another process of this server")
)

// seal encodes st under key.
func (st *requestState) seal(key []byte) (string, error) {
	payload, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(payload, stateMAC(key, payload)...)), nil
}

// openState decodes a state that was sealed under key. It does not look at its
// time.
func openState(key []byte, text string) (*requestState, error) {
	// Strict and without the line breaks that are passed over even so: no other text
	// stands for the same bytes.
	if len(text) > maxState || strings.ContainsAny(text, "\r\n") {
		return nil, errStateAltered
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) <= sha256.Size {
		return nil, errStateAltered
	}
	payload, mac := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if !hmac.Equal(mac, stateMAC(key, payload)) {
		return nil, errStateAltered
	}
	st := &requestState{}
	if json.Unmarshal(payload, st) != nil {
		return nil, errStateAltered
	}
	return st, nil
}

func stateMAC(key, payload []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("toolyard requestState 1\n"))
	mac.Write(payload)
	return mac.Sum(nil)
}

// stateKey is the key of requestState: the configured one, or one of this
// process. It is read once.
func (s *Server) stateKey(ctx context.Context) ([]byte, error) {
	s.operations.keyMu.Lock()
	defer s.operations.keyMu.Unlock()
	if s.operations.key != nil {
		return s.operations.key, nil
	}
	if s.config.StateKey == nil {
		key := make([]byte, stateKeySize)
		_, _ = rand.Read(key)
		s.operations.key = key
		return key, nil
	}
	key, err := s.config.StateKey(ctx)
	if err == nil && len(key) < 16 {
		err = fmt.Errorf("the key has %d bytes, not at least 16", len(key))
	}
	if err != nil {
		return nil, err
	}
	s.operations.key = key
	return key, nil
}

// owner names a session and who is behind it.
func owner(sess *session, principal string) string {
	return digest("owner", sess.id, principal)
}

// binds names what a request asks for, however its arguments are written.
func (p *operationParams) binds() string {
	arguments, err := validate.Canonical(p.arguments)
	if err != nil {
		arguments = p.arguments
	}
	return digest("request", p.method, p.subject, p.workspace, string(arguments))
}

// digest is a hash of parts that cannot be mixed up.
func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		writePart(h, part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func writePart(h hash.Hash, part string) { fmt.Fprintf(h, "%d %s\n", len(part), part) }

// check says why st is not of use for a request of owner that asks for binds.
func (st *requestState) check(owner, binds string, now time.Time) error {
	switch {
	case st.Owner != owner:
		return errStateSession
	case st.Binds != binds:
		return errStateRequest
	case now.Unix() > st.Expires:
		return errStateExpired
	}
	return nil
}
