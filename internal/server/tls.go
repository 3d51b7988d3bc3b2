package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certLook is how often a certificate's files are looked at, while there are
// handshakes.
const certLook = time.Second

// certificate is a key pair in files that may be replaced while it is in use. One
// that does not fit is not taken: the one before goes on.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	stamp  stamp
	looked time.Time
}

// stamp tells whether files have changed.
type stamp struct {
	cert, key         time.Time
	certSize, keySize int64
}

// openCertificate reads a key pair.
func openCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	if cert == "" || key == "" {
		return nil, errors.New("TLS needs both a certificate and a key")
	}
	c := &certificate{cert: cert, key: key, log: log}
	var err error
	if c.stamp, err = c.look(); err != nil {
		return nil, err
	}
	if c.pair, err = c.load(); err != nil {
		return nil, err
	}
	c.looked = time.Now()
	return c, nil
}

func (c *certificate) look() (stamp, error) {
	cert, err := os.Stat(c.cert)
	if err != nil {
		return stamp{}, fmt.Errorf("the certificate: %w", err)
	}
	key, err := os.Stat(c.key)
	if err != nil {
		return stamp{}, fmt.Errorf("the certificate's key: %w", err)
	}
	return stamp{cert.ModTime(), key.ModTime(), cert.Size(), key.Size()}, nil
}

func (c *certificate) load() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s with the key %s: %w", c.cert, c.key, err)
	}
	return &pair, nil
}

// get is for [tls.Config.GetCertificate].
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= certLook {
		c.looked = now
		c.renew()
	}
	return c.pair, nil
}

// renew takes files that have changed; c is locked.
func (c *certificate) renew() {
	s, err := c.look()
	if err == nil && s == c.stamp {
		return
	}
	var pair *tls.Certificate
	if err == nil {
		pair, err = c.load()
	}
	if err != nil {
		c.log.Warn("the certificate was changed and is not taken; the one before goes on", "err", err)
		return
	}
	c.pair, c.stamp = pair, s
	c.log.Info("the certificate was changed and is taken", "file", c.cert)
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}
}
