package deps

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// readIn reads a regular file of at most limit bytes. Links may lead anywhere in
// root.
func readIn(root *os.Root, name string, limit int64) ([]byte, error) {
	name = filepath.FromSlash(name)
	info, err := root.Stat(name) // before it is opened: opening a pipe waits
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	return text, err
}

// writeFile replaces a file in dir as a whole, or leaves it as it was.
func writeFile(dir, name string, text []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(dir, stagingPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, name))
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}
