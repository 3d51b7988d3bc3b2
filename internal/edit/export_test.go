package edit

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// TempName is the name of a temporary file for a path.
func TempName(real string) string { return tempName(real) }

// Tear leaves the note of an overwrite that was interrupted.
func (e *Engine) Tear(real string, before, after []byte) error {
	note := torn{Path: real, Before: Sum(before), After: Sum(after)}
	for _, content := range [][]byte{before, after} {
		if _, err := e.PutBlob(content); err != nil {
			return err
		}
	}
	body, err := json.Marshal(note)
	if err != nil {
		return err
	}
	name := e.tornFile(real)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, body, 0o600)
}
