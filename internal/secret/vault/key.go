package vault

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files of the master key in the directory.
const (
	keyName     = "master.key"
	nextKeyName = "master.key.next" // while values are encrypted anew
)

// masterKey is what the values are encrypted with.
type masterKey struct{ raw [32]byte }

// id names a key and says nothing about it.
func (k *masterKey) id() string {
	sum := sha256.Sum256(append([]byte("toolyard master key\x00"), k.raw[:]...))
	return hex.EncodeToString(sum[:8])
}

// parseKey reads 32 bytes of hex or base64. Its error goes on after "the key",
// and does not quote it.
func parseKey(text string) (*masterKey, error) {
	text = strings.TrimSpace(text)
	for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawURLEncoding.DecodeString} {
		if raw, err := decode(text); err == nil && len(raw) == 32 {
			return &masterKey{raw: [32]byte(raw)}, nil
		}
	}
	return nil, errors.New("is not 32 bytes in hex or base64: make one with `openssl rand -hex 32`")
}

// key is the key of the values in f. It is made if there is none and no value
// either; make says whether that may be done now, under the lock.
func (v *Vault) key(f *file, make bool) (*masterKey, error) {
	if given := v.given.Load(); given != nil {
		return given, nil
	}
	k, err := v.readKey(keyName)
	if errors.Is(err, fs.ErrNotExist) && len(f.Values) == 0 && make {
		k = &masterKey{}
		if _, err := rand.Read(k.raw[:]); err != nil {
			return nil, err
		}
		return k, v.writeKey(keyName, k)
	}
	if err == nil && k.fits(f) == nil {
		return k, nil
	}
	// A rotation that was cut off after the values were written.
	if next, nextErr := v.readKey(nextKeyName); nextErr == nil && len(f.Values) > 0 && next.fits(f) == nil {
		return next, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not there, and %d secrets were encrypted with it; put it back, or delete secrets.json to begin anew",
			ErrNoKey, filepath.Join(v.dir, keyName), len(f.Values))
	}
	return k, err
}

// settleKey ends a rotation: the new key takes the place of the old one once the
// values are encrypted with it.
func (v *Vault) settleKey() error {
	next, err := v.readKey(nextKeyName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := v.read()
	if err != nil {
		return err
	}
	path := filepath.Join(v.dir, nextKeyName)
	if next.fits(f) != nil {
		return os.Remove(path) // it was cut off before the values were written
	}
	return os.Rename(path, filepath.Join(v.dir, keyName))
}

func (v *Vault) readKey(name string) (*masterKey, error) {
	path := filepath.Join(v.dir, name)
	data, err := readPrivate(path, 1<<10)
	if err != nil {
		return nil, err
	}
	k, err := parseKey(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return k, nil
}

func (v *Vault) writeKey(name string, k *masterKey) error {
	return v.replace(name, []byte(hex.EncodeToString(k.raw[:])+"\n"))
}

// readPrivate reads a file that only its owner may read.
func readPrivate(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !private(info) {
		return nil, fmt.Errorf("%s can be read by others (mode %04o): chmod 600 it", path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, err
}
