package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tokenBytes is the randomness of a token.
const tokenBytes = 32

// openToken reads the token of a home directory, and makes it first if there is
// none. A file that others can read is refused.
func openToken(home string) (path, token string, err error) {
	if home == "" {
		return "", "", errors.New("authentication by token needs a home directory")
	}
	path = filepath.Join(home, "token")
	token, err = readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, token, err
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return path, "", err
	}
	if err := makeToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return path, "", err
	}
	token, err = readToken(path)
	return path, token, err
}

// makeToken writes a new token, whole or not at all. If another process was
// quicker, its token stays and the error is fs.ErrExist.
func makeToken(path string) error {
	var raw [tokenBytes]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(hex.EncodeToString(raw[:]) + "\n")
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Link(temp.Name(), path)
}

func readToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !private(info) {
		return "", fmt.Errorf("%s can be read by others (mode %04o): delete it to get a new token, or chmod 600 it if it is not known to them", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < tokenBytes {
		return "", fmt.Errorf("%s holds no token: delete it to get a new one", path)
	}
	return token, nil
}
