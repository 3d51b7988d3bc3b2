package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolyard/toolyard/internal/flock"
	"github.com/toolyard/toolyard/tool"
)

// maxFile is how large a file of servers may be, in bytes.
const maxFile = 4 << 20

// Parsed is what a file of servers holds.
type Parsed struct {
	Servers map[string]Server
	// Notes are sentences about single entries, with the server's name in front.
	Notes []string
	// Errs are what is wrong with single entries, by the server's name.
	Errs map[string]error
}

// FilePath is the file that Add writes.
func FilePath(home string) string { return filepath.Join(home, "mcp.json") }

// ReadFile reads a file with mcpServers, or with the servers at its top. One that
// is not there is empty. The error is that the file as a whole cannot be used;
// what is wrong with single entries is in Parsed.
func ReadFile(path string) (Parsed, error) {
	raw, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Parsed{}, nil
	}
	if err != nil {
		return Parsed{}, tool.Errorf(tool.ExecutionError, "the servers in %s cannot be read: %v", path, err).WithHint("Look at the file's permissions and size.")
	}
	return Parse(raw, path)
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, errors.New("it is no file of at most 4 MiB")
	}
	return os.ReadFile(path)
}

// Parse reads what [ReadFile] reads; from is put into the entries.
func Parse(raw []byte, from string) (Parsed, error) {
	entries, err := entriesOf(raw)
	if err != nil {
		return Parsed{}, tool.Errorf(tool.ValidationError, "%s is no JSON with mcpServers: %v", from, err).
			WithHint(`Write {"mcpServers": {"name": {"command": "…"}}}.`)
	}
	p := Parsed{Servers: map[string]Server{}, Errs: map[string]error{}}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		s, notes, err := ParseServer(name, entries[name])
		for _, n := range notes {
			p.Notes = append(p.Notes, name+": "+n)
		}
		if err != nil {
			p.Errs[name] = err
			continue
		}
		s.From = from
		p.Servers[name] = s
	}
	return p, nil
}

// entriesOf finds the entries in a file of a client: under mcpServers, or under
// servers.
func entriesOf(raw []byte) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	top, err := objectOf(raw)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"mcpServers", "servers"} {
		if inner, ok := top[key]; ok {
			return objectOf(inner)
		}
	}
	if len(top) == 0 {
		return nil, nil
	}
	for _, v := range top {
		if _, err := objectOf(v); err != nil {
			return nil, errors.New("there is no mcpServers in it")
		}
	}
	return top, nil
}

// WriteServer puts an entry into a file, in place of one of its name. What else
// is in the file stays as it is, and so do keys of the entry that are not ours:
// raw is written as it came.
func WriteServer(ctx context.Context, path, name string, raw json.RawMessage) error {
	if _, _, err := ParseServer(name, raw); err != nil {
		return err
	}
	return changeFile(ctx, path, func(entries map[string]json.RawMessage) error {
		entries[name] = raw
		return nil
	})
}

// RemoveServer takes an entry out of a file. NOT_FOUND if it is not there.
func RemoveServer(ctx context.Context, path, name string) error {
	return changeFile(ctx, path, func(entries map[string]json.RawMessage) error {
		if _, ok := entries[name]; !ok {
			return tool.Errorf(tool.NotFound, "there is no MCP server %q in %s", name, path).
				WithHint("toolyard gateway list shows where each one stands; take it out there.")
		}
		delete(entries, name)
		return nil
	})
}

// changeFile rewrites a file of ours, one process at a time and in one step.
func changeFile(ctx context.Context, path string, change func(map[string]json.RawMessage) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := flock.Open(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	raw, err := readBounded(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tool.Errorf(tool.ExecutionError, "the servers in %s cannot be read: %v", path, err).WithHint("Look at the file's permissions and size.")
	}
	top := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if top, err = objectOf(raw); err != nil {
			return tool.Errorf(tool.Conflict, "%s is no JSON and is left as it is: %v", path, err).WithHint("Correct it, or move it away.")
		}
	}
	entries := map[string]json.RawMessage{}
	if inner, ok := top["mcpServers"]; ok {
		if entries, err = objectOf(inner); err != nil {
			return tool.Errorf(tool.Conflict, "mcpServers in %s is no object, and is left as it is", path).WithHint("Correct it, or move the file away.")
		}
	}
	if err := change(entries); err != nil {
		return err
	}
	if top["mcpServers"], err = json.Marshal(entries); err != nil {
		return err
	}
	out, err := json.MarshalIndent(top, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(out, '\n'))
}

// replaceFile writes a file that only its owner may read, in one step.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".mcp-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
