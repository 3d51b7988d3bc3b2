package vault_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/internal/secret/vault"
)

func open(t *testing.T, c vault.Config) *vault.Vault {
	t.Helper()
	v, err := vault.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func set(t *testing.T, v *vault.Vault, name, value string) {
	t.Helper()
	if err := v.Set(t.Context(), name, []byte(value)); err != nil {
		t.Fatalf("setting %s: %v", name, err)
	}
}

func get(t *testing.T, v *vault.Vault, name, want string) {
	t.Helper()
	got, err := v.Get(name)
	if err != nil || string(got) != want {
		t.Errorf("%s is %q, %v, want %q", name, got, err, want)
	}
}

const hexKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func TestValuesAreKept(t *testing.T) {
	for _, c := range []struct{ name, key string }{
		{"key in a file", ""}, {"key in hex", hexKey}, {"key in base64", "ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8="},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "home")
			v := open(t, vault.Config{Dir: dir, Key: c.key})
			if _, err := v.Get("a"); !errors.Is(err, vault.ErrNotFound) {
				t.Errorf("before anything was set: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "master.key")); err == nil {
				t.Error("a key was made by reading")
			}
			set(t, v, "a", "the first value")
			set(t, v, "b/c", "")
			set(t, v, "a", "a value in place of it")
			again := open(t, vault.Config{Dir: dir, Key: c.key})
			get(t, again, "a", "a value in place of it")
			get(t, again, "b/c", "")
			if names, err := again.Names(); err != nil || !slices.Equal(names, []string{"a", "b/c"}) {
				t.Errorf("names %v, %v", names, err)
			}
			if data, _ := os.ReadFile(filepath.Join(dir, "secrets.json")); bytes.Contains(data, []byte("in place")) {
				t.Errorf("the file shows a value: %s", data)
			}
			if err := again.Delete(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			if _, err := v.Get("a"); !errors.Is(err, vault.ErrNotFound) {
				t.Errorf("after it was deleted: %v", err)
			}
			_, err := os.Stat(filepath.Join(dir, "master.key"))
			if (err == nil) != (c.key == "") {
				t.Errorf("master.key: %v", err)
			}
			for _, name := range []string{"secrets.json", "master.key"} {
				if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %04o", name, info.Mode().Perm())
				}
			}
		})
	}
}

func TestAMissingKeyIsNeverMadeAnew(t *testing.T) {
	dir := t.TempDir()
	v := open(t, vault.Config{Dir: dir})
	set(t, v, "a", "1")
	if err := os.Remove(filepath.Join(dir, "master.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Get("a"); !errors.Is(err, vault.ErrNoKey) {
		t.Errorf("reading: %v", err)
	}
	if err := v.Set(t.Context(), "b", nil); !errors.Is(err, vault.ErrNoKey) {
		t.Errorf("writing: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "master.key")); err == nil {
		t.Error("a key was made")
	}
	other := open(t, vault.Config{Dir: dir, Key: hexKey})
	if _, err := other.Get("a"); !errors.Is(err, vault.ErrWrongKey) {
		t.Errorf("reading with another key: %v", err)
	}
	if err := other.Set(t.Context(), "b", nil); !errors.Is(err, vault.ErrWrongKey) {
		t.Errorf("writing with another key: %v", err)
	}
	if err := other.Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	set(t, other, "b", "2")
	get(t, other, "b", "2")
}

func TestAlteredValuesAreRefused(t *testing.T) {
	type entry struct {
		Key         string
		Nonce, Data []byte
	}
	for _, c := range []struct {
		name  string
		alter func(values map[string]entry)
	}{
		{"a value under another name", func(v map[string]entry) { v["a"] = v["b"] }},
		{"a flipped bit", func(v map[string]entry) { v["a"].Data[0] ^= 1 }},
		{"another nonce", func(v map[string]entry) { v["a"].Nonce[0] ^= 1 }},
		{"a nonce of another length", func(v map[string]entry) { e := v["a"]; e.Nonce = e.Nonce[1:]; v["a"] = e }},
		{"no data", func(v map[string]entry) { e := v["a"]; e.Data = nil; v["a"] = e }},
		{"another key's id", func(v map[string]entry) { e := v["a"]; e.Key = "0011223344556677"; v["a"] = e }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			v := open(t, vault.Config{Dir: dir, Key: hexKey})
			set(t, v, "a", "1")
			set(t, v, "b", "2")
			path := filepath.Join(dir, "secrets.json")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var f struct {
				Version int
				Values  map[string]entry
			}
			if err := json.Unmarshal(data, &f); err != nil {
				t.Fatal(err)
			}
			c.alter(f.Values)
			data, _ = json.Marshal(f)
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := v.Get("a"); !errors.Is(err, vault.ErrWrongKey) {
				t.Errorf("got %q, %v", got, err)
			}
			get(t, v, "b", "2")
		})
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, file, content, want string
		mode                      os.FileMode
	}{
		{"no JSON", "secrets.json", "{", "damaged", 0o600},
		{"a newer version", "secrets.json", `{"version":2}`, "newer", 0o600},
		{"others can read the values", "secrets.json", `{"version":1}`, "chmod 600", 0o644},
		{"others can read the key", "master.key", hexKey, "chmod 600", 0o640},
		{"a short key", "master.key", "abcd", "32 bytes", 0o600},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.content), c.mode); err != nil {
				t.Fatal(err)
			}
			err := open(t, vault.Config{Dir: dir}).Set(t.Context(), "a", nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := vault.Open(vault.Config{Dir: "x", Key: "a bad key"}); err == nil || strings.Contains(err.Error(), "a bad key") {
		t.Errorf("a bad key gives %v", err)
	}
	if _, err := vault.Open(vault.Config{}); err == nil {
		t.Error("no directory is accepted")
	}
	if err := open(t, vault.Config{Dir: t.TempDir()}).Set(t.Context(), "a", make([]byte, vault.MaxValue+1)); err == nil {
		t.Error("a value above the bound is kept")
	}
}

func TestRotate(t *testing.T) {
	dir := t.TempDir()
	v := open(t, vault.Config{Dir: dir})
	set(t, v, "a", "1")
	set(t, v, "b", "2")
	before, _ := os.ReadFile(filepath.Join(dir, "master.key"))
	if err := v.Rotate(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	after, _ := os.ReadFile(filepath.Join(dir, "master.key"))
	if bytes.Equal(before, after) {
		t.Error("the key is the same")
	}
	get(t, v, "a", "1")
	get(t, open(t, vault.Config{Dir: dir}), "b", "2")

	// Cut off before the values were written: the old key stays.
	if err := os.WriteFile(filepath.Join(dir, "master.key.next"), []byte(hexKey), 0o600); err != nil {
		t.Fatal(err)
	}
	get(t, v, "a", "1")
	set(t, v, "c", "3")
	if _, err := os.Stat(filepath.Join(dir, "master.key.next")); err == nil {
		t.Error("the key of an attempt that failed is there still")
	}
	// Cut off after that: the new one is found.
	if err := os.Rename(filepath.Join(dir, "master.key"), filepath.Join(dir, "master.key.next")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "master.key"), []byte(hexKey), 0o600); err != nil {
		t.Fatal(err)
	}
	get(t, v, "c", "3")
	set(t, v, "d", "4")
	get(t, v, "d", "4")
	if now, _ := os.ReadFile(filepath.Join(dir, "master.key")); !bytes.Equal(now, after) {
		t.Error("the new key did not take the place of the old one")
	}

	given := open(t, vault.Config{Dir: t.TempDir(), Key: hexKey})
	set(t, given, "a", "1")
	if err := given.Rotate(t.Context(), ""); err == nil {
		t.Error("a given key is rotated to a made one")
	}
	if err := given.Rotate(t.Context(), strings.Repeat("ab", 32)); err != nil {
		t.Error(err)
	}
	get(t, given, "a", "1")
}

func TestWritersWaitForEachOther(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			v, err := vault.Open(vault.Config{Dir: dir})
			if err != nil {
				t.Error(err)
				return
			}
			if err := v.Set(t.Context(), strconv.Itoa(i), []byte{byte(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 8 {
		get(t, open(t, vault.Config{Dir: dir}), strconv.Itoa(i), string([]byte{byte(i)}))
	}
}
