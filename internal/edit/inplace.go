package edit

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolyard/toolyard/internal/workspace"
)

// torn is the note that a file is being written in place: between its start and
// its end the file may be neither old nor new.
type torn struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	After  string `json:"after"`
}

func (e *Engine) tornFile(real string) string {
	return filepath.Join(e.config.Blobs, "inplace", Sum([]byte(real))+".json")
}

// writeInPlace overwrites the bytes of a file that must stay the same file,
// because it has other names or an owner that we cannot give. A note and both
// contents are kept meanwhile, so that Recover can complete the old content
// after a crash.
func (e *Engine) writeInPlace(dir *os.Root, base string, p *workspace.Path, before, after state) error {
	f, err := openRegular(dir, base, os.O_RDWR, p)
	if err != nil {
		return err
	}
	defer f.Close()
	if e.blobs != nil {
		note := torn{Path: p.Real}
		if note.Before, err = e.blobs.put(before.raw); err != nil {
			return err
		}
		if note.After, err = e.blobs.put(after.raw); err != nil {
			return err
		}
		body, err := json.Marshal(note)
		if err != nil {
			return err
		}
		name := e.tornFile(p.Real)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := writeWhole(name, body); err != nil {
			return err
		}
		defer os.Remove(name)
	}
	err = overwrite(f, after.raw)
	if err != nil {
		// A full disk, most likely: what was there fits.
		err = errors.Join(err, overwrite(f, before.raw))
	}
	if err == nil && after.mode != 0 && after.mode.Perm() != before.mode.Perm() {
		err = f.Chmod(after.mode.Perm())
	}
	return err
}

// overwrite makes content the whole content of f.
func overwrite(f *os.File, content []byte) error {
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	if err := f.Truncate(int64(len(content))); err != nil {
		return err
	}
	return f.Sync()
}

// isTorn reports that now is what an interrupted overwrite leaves: every byte is
// that of before or that of after.
func isTorn(now, before, after []byte) bool {
	if len(now) < min(len(before), len(after)) || len(now) > max(len(before), len(after)) {
		return false
	}
	for i, c := range now {
		if (i >= len(before) || c != before[i]) && (i >= len(after) || c != after[i]) {
			return false
		}
	}
	return true
}

// readTorn reads the notes of interrupted overwrites.
func (e *Engine) readTorn() ([]torn, error) {
	names, err := filepath.Glob(filepath.Join(e.config.Blobs, "inplace", "*.json"))
	if err != nil {
		return nil, err
	}
	var all []torn
	for _, name := range names {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return all, err
		}
		body, err := io.ReadAll(io.LimitReader(f, 1<<20))
		f.Close()
		var note torn
		if err != nil || json.Unmarshal(body, &note) != nil || note.Path == "" {
			continue
		}
		all = append(all, note)
	}
	return all, nil
}
