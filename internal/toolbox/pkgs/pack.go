package pkgs

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Packed is an archive of a tool.
type Packed struct {
	Path      string   `json:"path"`
	Name      string   `json:"name"`
	Version   string   `json:"version,omitempty"`
	Integrity string   `json:"integrity"`
	Size      int64    `json:"size"`
	Files     []string `json:"files"`
}

// packTime is that of all files in an archive, as npm has it: a zip cannot say
// 1970.
var packTime = time.Date(1985, time.October, 26, 8, 15, 0, 0, time.UTC)

// Pack writes the tool in a folder as a tar.gz with everything below package/,
// which Fetch and npm read. The same files give the same bytes. Not in it are
// node_modules, .venv, data, logs, .env, run.log and .git; nor what .npmignore
// names; and if package.json has a list "files", only that, the tool itself,
// package.json, README and LICENSE. Out is a file, or a directory for
// <name>-<version>.tgz in it; empty is the current one.
func (p *Packages) Pack(ctx context.Context, dir, out string) (*Packed, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, failure(err, "packing %s", dir)
	}
	files, err := topFiles(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tool.Errorf(tool.NotFound, "there is no folder %s", dir)
	}
	if err != nil {
		return nil, failure(err, "packing %s", dir)
	}
	file, name, err := findTool(files, dir)
	if err != nil {
		return nil, err
	}
	pkg, _ := readAbout(dir, "package.json")
	if name == "" {
		if name = nameOf(pkg.Name); name == "" {
			name = filepath.Base(dir)
		}
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	k := &Packed{Name: name, Version: pkg.Version}
	if k.Path, err = outFile(out, name, pkg.Version); err != nil {
		return nil, err
	}
	choice, err := chosen(dir, file)
	if err != nil {
		return nil, err
	}
	return k, failure(p.pack(ctx, dir, k, choice), "packing %s", dir)
}

func outFile(out, name, version string) (string, error) {
	info, err := os.Stat(out)
	if out != "" && (err != nil || !info.IsDir()) {
		return filepath.Abs(out)
	}
	if version != "" {
		name += "-" + strings.Map(func(r rune) rune {
			if r == '/' || r == '\\' || r < ' ' {
				return '_'
			}
			return r
		}, version)
	}
	return filepath.Abs(filepath.Join(out, name+".tgz"))
}

// pack writes the archive beside its place and renames it.
func (p *Packages) pack(ctx context.Context, dir string, k *Packed, want func(string) bool) error {
	tmp := k.Path + "." + randomID() + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	h := sha512.New()
	z := gzip.NewWriter(io.MultiWriter(f, h))
	t := tar.NewWriter(z)
	err = p.packFiles(ctx, dir, k, t, want)
	for _, c := range []io.Closer{t, z, f} {
		if e := c.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	k.Integrity = "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil))
	if info, err := os.Stat(tmp); err == nil {
		k.Size = info.Size()
	}
	return os.Rename(tmp, k.Path)
}

func (p *Packages) packFiles(ctx context.Context, dir string, k *Packed, t *tar.Writer, want func(string) bool) error {
	var total int64
	return walk(dir, isSource, func(name string, info fs.FileInfo) error {
		if err := context.Cause(ctx); err != nil {
			return cancelled(err)
		}
		full := filepath.Join(dir, filepath.FromSlash(name))
		if info.IsDir() || !want(name) || strings.HasPrefix(full, k.Path) {
			return nil
		}
		if _, reason := cleanEntry(name); reason != "" {
			return tool.Errorf(tool.ParameterError, "%q %s, so it could not be unpacked everywhere", name, reason).WithHint("Rename it, or name it in .npmignore.")
		}
		if !info.Mode().IsRegular() {
			return tool.Errorf(tool.ParameterError, "%q is a symlink, which no package may have", name).WithHint("Put the file itself there, or name it in .npmignore.")
		}
		if total += info.Size(); total > p.c.Limits.Unpacked {
			return tooLarge(dir, p.c.Limits)
		}
		if k.Files = append(k.Files, name); len(k.Files) > p.c.Limits.Entries {
			return tooMany(dir, p.c.Limits)
		}
		return packFile(t, full, name, info)
	})
}

func packFile(t *tar.Writer, full, name string, info fs.FileInfo) error {
	f, err := openRegular(full)
	if err != nil {
		return err
	}
	defer f.Close()
	h := &tar.Header{Typeflag: tar.TypeReg, Name: "package/" + name, Size: info.Size(), Mode: 0o644, ModTime: packTime}
	if info.Mode()&0o111 != 0 {
		h.Mode = 0o755
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(t, f)
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && n != info.Size() {
		return tool.Errorf(tool.Conflict, "%s changed while it was packed", name).WithHint("Try again.")
	}
	return err
}

// chosen says which sources are packed.
func chosen(dir, file string) (func(name string) bool, error) {
	var ignore []string
	text, err := os.ReadFile(filepath.Join(dir, ".npmignore"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, failure(err, "reading .npmignore")
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "!") || strings.Contains(line, "**") {
			return nil, tool.Errorf(tool.ParameterError, ".npmignore: %q is not understood: neither ! nor ** is", line).
				WithHint(`List what is to be packed as "files" in package.json instead.`)
		}
		ignore = append(ignore, line)
	}
	var only struct {
		Files []string `json:"files"`
	}
	if text, err := os.ReadFile(filepath.Join(dir, "package.json")); err == nil {
		json.Unmarshal(text, &only) // the validator tells what is wrong with it
	}
	return func(name string) bool {
		if name == file || name == "package.json" {
			return true
		}
		if name == ".npmignore" || slices.ContainsFunc(ignore, func(pattern string) bool { return matches(pattern, name) }) {
			return false
		}
		lower := strings.ToLower(name)
		return len(only.Files) == 0 || strings.HasPrefix(lower, "readme") || strings.HasPrefix(lower, "licen") ||
			slices.ContainsFunc(only.Files, func(pattern string) bool {
				return matches("/"+strings.TrimPrefix(strings.TrimPrefix(pattern, "."), "/"), name)
			})
	}, nil
}

// matches reports whether a pattern names a path or a folder above it. A pattern
// with a slash that is not at its end counts from the top, another one at any
// depth.
func matches(pattern, name string) bool {
	pattern = strings.TrimSuffix(pattern, "/")
	rooted := strings.Contains(pattern, "/")
	pattern = strings.TrimPrefix(pattern, "/")
	for at := name; at != "."; at = path.Dir(at) {
		if ok, _ := path.Match(pattern, at); ok {
			return true
		}
		if ok, _ := path.Match(pattern, path.Base(at)); ok && !rooted {
			return true
		}
	}
	return false
}
