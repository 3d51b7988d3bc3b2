// Package vault keeps secret values in one file, each encrypted by itself with
// AES-256-GCM. It knows names and bytes, not what they are for.
package vault

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/toolyard/toolyard/internal/flock"
)

// Bounds of what is kept.
const (
	MaxValue = 1 << 20  // bytes of one value
	maxFile  = 64 << 20 // bytes of the file
)

// Errors that callers test.
var (
	// ErrNotFound says that no value has the name.
	ErrNotFound = errors.New("there is no such secret")
	// ErrNoKey says that there are values and no key to read them with.
	ErrNoKey = errors.New("the master key is missing")
	// ErrWrongKey says that a value was encrypted with another key, or altered.
	ErrWrongKey = errors.New("the master key does not fit")
)

// Config is where the values are.
type Config struct {
	// Dir holds secrets.json and, unless Key is given, master.key; both 0600. It
	// is made when it is needed.
	Dir string
	// Key is the master key as text, 32 bytes in hex or base64: TOOLYARD_MASTER_KEY.
	// Empty means the file, which is made with the first value.
	Key string
}

// Vault is the file of values. It is safe for concurrent use, by several
// processes too: writers wait for each other, readers see one state or the next.
type Vault struct {
	dir   string
	given atomic.Pointer[masterKey] // from Config.Key
}

// Open checks the configuration. It reads and makes no file.
func Open(c Config) (*Vault, error) {
	if c.Dir == "" {
		return nil, errors.New("the secrets have no directory")
	}
	v := &Vault{dir: c.Dir}
	if c.Key != "" {
		k, err := parseKey(c.Key)
		if err != nil {
			return nil, fmt.Errorf("the given master key %w", err)
		}
		v.given.Store(k)
	}
	return v, nil
}

// file is what secrets.json holds.
type file struct {
	Version int              `json:"version"`
	Values  map[string]entry `json:"values"`
}

// entry is one encrypted value. Key and the name are authenticated with it, so
// that a value cannot be passed off as another one's.
type entry struct {
	Key   string `json:"key"` // id of the master key
	Nonce []byte `json:"nonce"`
	Data  []byte `json:"data"`
}

// Get decrypts a value. It returns [ErrNotFound], [ErrNoKey] or [ErrWrongKey].
func (v *Vault) Get(name string) ([]byte, error) {
	f, err := v.read()
	if err != nil {
		return nil, err
	}
	e, ok := f.Values[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, name)
	}
	key, err := v.key(f, false)
	if err != nil {
		return nil, err
	}
	return key.open(name, e)
}

// Names lists what there is, sorted.
func (v *Vault) Names() ([]string, error) {
	f, err := v.read()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(f.Values)), nil
}

// Set encrypts a value and keeps it, in place of the one before.
func (v *Vault) Set(ctx context.Context, name string, value []byte) error {
	if name == "" {
		return errors.New("a secret needs a name")
	}
	if len(value) > MaxValue {
		return fmt.Errorf("the secret %s has %d bytes, at most %d", name, len(value), MaxValue)
	}
	return v.change(ctx, func(f *file) error {
		key, err := v.key(f, true)
		if err != nil {
			return err
		}
		// A vault has one key: a second one would only show when the first is lost.
		if err := key.fits(f); err != nil {
			return err
		}
		f.Values[name], err = key.seal(name, value)
		return err
	})
}

// Delete forgets a value. It is no error if there is none.
func (v *Vault) Delete(ctx context.Context, name string) error {
	return v.change(ctx, func(f *file) error {
		delete(f.Values, name)
		return nil
	})
}

// Rotate encrypts every value with a new key, which it keeps in master.key, or
// which is next if the key is given by the configuration; empty otherwise. All
// values must be readable, or nothing changes.
func (v *Vault) Rotate(ctx context.Context, next string) error {
	fresh := &masterKey{}
	if (v.given.Load() != nil) != (next != "") {
		return errors.New("a new key is given where the old one was given, and made where it was made")
	}
	if next != "" {
		k, err := parseKey(next)
		if err != nil {
			return fmt.Errorf("the new master key %w", err)
		}
		fresh = k
	} else if _, err := rand.Read(fresh.raw[:]); err != nil {
		return err
	}
	err := v.change(ctx, func(f *file) error {
		old, err := v.key(f, true)
		if err != nil {
			return err
		}
		for name, e := range f.Values {
			value, err := old.open(name, e)
			if err != nil {
				return err
			}
			if f.Values[name], err = fresh.seal(name, value); err != nil {
				return err
			}
		}
		if next != "" {
			return nil
		}
		// Until the values are renamed into place both keys are there, so that a
		// crash between the two loses nothing.
		return v.writeKey(nextKeyName, fresh)
	})
	if err == nil && next != "" {
		v.given.Store(fresh)
	}
	return err
}

// change reads, changes and writes the file while nobody else does.
func (v *Vault) change(ctx context.Context, do func(f *file) error) error {
	unlock, err := flock.Open(ctx, filepath.Join(v.dir, "secrets.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	f, err := v.read()
	if err != nil {
		return err
	}
	if err := do(f); err != nil {
		return err
	}
	data, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return err
	}
	if err := v.replace("secrets.json", append(data, '\n')); err != nil {
		return err
	}
	return v.settleKey()
}

func (v *Vault) read() (*file, error) {
	f := &file{Version: 1, Values: map[string]entry{}}
	path := filepath.Join(v.dir, "secrets.json")
	data, err := readPrivate(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, f); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("%s has version %d: it was written by a newer program", path, f.Version)
	}
	if f.Values == nil {
		f.Values = map[string]entry{}
	}
	return f, nil
}

// replace writes a file whole or not at all.
func (v *Vault) replace(name string, data []byte) error {
	temp, err := os.CreateTemp(v.dir, ".secrets-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), filepath.Join(v.dir, name))
}

// seal encrypts a value for its name.
func (k *masterKey) seal(name string, value []byte) (entry, error) {
	aead, err := k.aead()
	if err != nil {
		return entry{}, err
	}
	e := entry{Key: k.id(), Nonce: make([]byte, aead.NonceSize())}
	if _, err := rand.Read(e.Nonce); err != nil {
		return entry{}, err
	}
	e.Data = aead.Seal(nil, e.Nonce, value, bound(e.Key, name))
	return e, nil
}

// open decrypts the value of a name.
func (k *masterKey) open(name string, e entry) ([]byte, error) {
	if e.Key != k.id() {
		return nil, fmt.Errorf("%w: %s was encrypted with the key %s, this one is %s", ErrWrongKey, name, e.Key, k.id())
	}
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	if len(e.Nonce) != aead.NonceSize() {
		return nil, fmt.Errorf("%w: %s is damaged", ErrWrongKey, name)
	}
	value, err := aead.Open(nil, e.Nonce, e.Data, bound(e.Key, name))
	if err != nil {
		return nil, fmt.Errorf("%w: %s was altered", ErrWrongKey, name)
	}
	return value, nil
}

func (k *masterKey) fits(f *file) error {
	for name, e := range f.Values {
		if e.Key != k.id() {
			return fmt.Errorf("%w: %s was encrypted with the key %s, this one is %s", ErrWrongKey, name, e.Key, k.id())
		}
	}
	return nil
}

// bound is what is authenticated with a value.
func bound(keyID, name string) []byte { return []byte(keyID + "\x00" + name) }

func (k *masterKey) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.raw[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
