package runtimes

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
)

const (
	rememberedFile = "runtimes.json"
	rememberedMost = 1 << 20 // bytes
	rememberedRows = 64
)

func (r *Runtimes) remembered() map[string]answer {
	if r.c.Cache == "" {
		return nil
	}
	f, err := os.Open(filepath.Join(r.c.Cache, rememberedFile))
	if err != nil {
		return nil
	}
	defer f.Close()
	var rows map[string]answer
	if json.NewDecoder(io.LimitReader(f, rememberedMost)).Decode(&rows) != nil {
		return nil
	}
	return rows
}

// stored is what another process found out.
func (r *Runtimes) stored(key string) (answer, bool) {
	a, ok := r.remembered()[key]
	return a, ok && filepath.IsAbs(a.Runtime.Program)
}

// store keeps an answer for other processes. It is only to save time, so that it
// cannot be written is no error; of two that write at once one is kept.
func (r *Runtimes) store(a answer) {
	if r.c.Cache == "" {
		return
	}
	rows := r.remembered()
	if rows == nil || len(rows) >= rememberedRows {
		rows = map[string]answer{}
	}
	rows[a.Path] = a
	text, err := json.Marshal(rows)
	if err == nil {
		err = os.MkdirAll(r.c.Cache, 0o700)
	}
	if err == nil {
		err = writeFile(filepath.Join(r.c.Cache, rememberedFile), text)
	}
	if err != nil {
		r.c.Log.Debug("what was found out about runtimes is not kept", "error", err)
	}
}

// writeFile replaces a small file as a whole.
func writeFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // in vain once it has its name
	_, err = f.Write(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
