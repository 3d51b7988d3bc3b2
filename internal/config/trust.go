package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/toolyard/toolyard/tool"
)

// Dir is the directory of a workspace that only counts once it is trusted.
const Dir = ".toolyard"

// maxTrusted bounds what one trust covers, in bytes.
const maxTrusted = 16 << 20

// TrustKey is the name of the setting that keeps the sum at which a workspace
// was trusted.
func TrustKey(dir string) string { return "trust:" + filepath.Clean(dir) }

// Sum is the SHA-256, in hex, of all in a workspace that trust covers: the names
// and contents of .toolyard/config.yaml, .toolyard/skills and .toolyard/agents,
// and of .mcp.json.
// "" means that there is nothing. Symlinks there are refused.
func Sum(dir string) (string, error) {
	p, err := readProject(dir)
	if err != nil {
		return "", err
	}
	return p.sum, nil
}

// project is what a workspace brings.
type project struct {
	sum    string
	config []byte // of config.yaml; nil if there is none
	mcp    []byte // of .mcp.json; nil if there is none
}

// mcpFile is where projects of other clients name their MCP servers.
const mcpFile = ".mcp.json"

// readProject reads all at once, so that what was compared is what is used.
func readProject(dir string) (project, error) {
	var p project
	hash, left := sha256.New(), int64(maxTrusted)
	add := func(name string, content []byte) {
		fmt.Fprintf(hash, "%d %s %d\n", len(name), name, len(content))
		hash.Write(content)
	}
	names, err := p.files(dir, &left, add)
	if err != nil {
		return project{}, err
	}
	if p.mcp, err = readPlain(filepath.Join(dir, mcpFile), &left); err != nil {
		return project{}, tool.Errorf(tool.ExecutionError, "what trust would cover in %s cannot be read: %v", dir, err).
			WithHint("%s must be a plain file, not a symlink.", mcpFile)
	}
	if p.mcp != nil {
		add("../"+mcpFile, p.mcp)
	}
	if names > 0 || p.mcp != nil {
		p.sum = hex.EncodeToString(hash.Sum(nil))
	}
	return p, nil
}

// readPlain reads a file that must be plain; nil if it is not there.
func readPlain(path string, left *int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a plain file", filepath.Base(path))
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	content, err := readBounded(root, filepath.Base(path), left)
	if content == nil && err == nil {
		content = []byte{}
	}
	return content, err
}

// files reads the directory of ours in a workspace, and counts the files.
func (p *project) files(dir string, left *int64, add func(name string, content []byte)) (int, error) {
	root, err := os.OpenRoot(filepath.Join(dir, Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, tool.Errorf(tool.ExecutionError, "the directory %s of %s cannot be read: %v", Dir, dir, err)
	}
	defer root.Close()
	var names []string
	for _, top := range []string{"config.yaml", "skills", "agents"} {
		err := fs.WalkDir(root.FS(), top, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && name == top:
				return nil
			case err != nil:
				return err
			case entry.IsDir():
				return nil
			case !entry.Type().IsRegular():
				return fmt.Errorf("%s is not a plain file", path.Join(Dir, name))
			}
			names = append(names, name)
			return nil
		})
		if err != nil {
			return 0, tool.Errorf(tool.ExecutionError, "what trust would cover in %s cannot be read: %v", dir, err).
				WithHint("Files below .toolyard must be plain files, not symlinks.")
		}
	}
	slices.Sort(names)
	for _, name := range names {
		content, err := readBounded(root, name, left)
		if err != nil {
			return 0, tool.Errorf(tool.ExecutionError, "what trust would cover in %s cannot be read: %v", dir, err)
		}
		add(name, content)
		if name == "config.yaml" {
			p.config = content
		}
	}
	return len(names), nil
}

func readBounded(root *os.Root, name string, left *int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, *left+1))
	if err != nil {
		return nil, err
	}
	if *left -= int64(len(content)); *left < 0 {
		return nil, fmt.Errorf("there are more than %d MiB", maxTrusted>>20)
	}
	return content, nil
}

// project reads the workspace's own file, if it is trusted as it is now.
func (r *reader) project(dir string, trusted func(string) (string, error)) {
	file := filepath.Join(dir, Dir, "config.yaml")
	r.from = origin{layer: ProjectFile, file: file, name: file, dir: dir}
	p, err := readProject(dir)
	if err != nil {
		r.distrust(file, tool.AsError(err).Message)
		return
	}
	if p.config == nil {
		r.loaded.Files = append(r.loaded.Files, File{ProjectFile, file, Absent})
		if p.sum == "" {
			return
		}
	}
	pinned := ""
	if trusted != nil {
		if pinned, err = trusted(dir); err != nil {
			r.distrust(file, "whether "+dir+" is trusted is not known: "+err.Error())
			return
		}
	}
	switch {
	case pinned == p.sum:
	case pinned == "":
		r.distrust(file, "the workspace "+dir+" is not trusted, so its .toolyard directory and .mcp.json are not read; look at them, then run `toolyard trust "+dir+"`")
		return
	default:
		r.distrust(file, "the .toolyard directory or .mcp.json of "+dir+" has changed since it was trusted, so it is not read; look at it, then run `toolyard trust "+dir+"`")
		return
	}
	if p.mcp != nil {
		r.mcpFile(filepath.Join(dir, mcpFile), dir, p.mcp)
	}
	if p.config != nil {
		r.from = origin{layer: ProjectFile, file: file, name: file, dir: dir}
		r.loaded.Files = append(r.loaded.Files, File{ProjectFile, file, Read})
		r.yaml(p.config)
	}
}

// distrust notes that the project's file was not read.
func (r *reader) distrust(file, why string) {
	r.loaded.Files = slices.DeleteFunc(r.loaded.Files, func(f File) bool { return f.Path == file })
	r.loaded.Files = append(r.loaded.Files, File{ProjectFile, file, Untrusted})
	r.loaded.Notes = append(r.loaded.Notes, why)
}
