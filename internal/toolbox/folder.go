package toolbox

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/tool"
)

// namePattern is what a folder must be called to be a tool.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// The bounds of what defines one tool: its own files, without its dependencies
// and its data.
const (
	maxFiles = 5000
	maxBytes = 128 << 20
)

// notSource are the entries of a tool's folder that do not define it: what it
// depends on, what it writes, what configures it. To add one: a line here.
var notSource = []string{"node_modules", ".venv", "data", "logs", "__pycache__"}

func isSource(name string) bool {
	return !slices.Contains(notSource, name) && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "run.log")
}

// folder is a tool's folder as it is on disk at one moment.
type folder struct {
	name     string
	dir      string
	file     string // the module, in dir
	language definition.Language
	// subs are the directories below dir that hold files of the tool.
	subs []string
	// stamp changes with any file's name, size, times or identity. The same stamp
	// means the same content, as far as one can know without reading it.
	stamp string
}

// moduleNames are the names of a tool's module, in the order in which they count.
func moduleNames(name string) []string {
	return []string{name + ".tool.js", "tool.js", name + ".tool.py", "tool.py"}
}

// ErrNoTool is a folder without a module of a tool.
var ErrNoTool = errors.New("no module of a tool")

// look reads a folder. The error is [ErrNoTool], one of the file system, or a
// *tool.Error that says what is wrong with the folder.
func look(dir, name string) (*folder, error) {
	f := &folder{name: name, dir: dir}
	for _, file := range moduleNames(name) {
		info, err := os.Lstat(filepath.Join(dir, file))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		f.file, f.language = file, languageOf(file)
		break
	}
	if f.file == "" {
		return nil, ErrNoTool
	}
	sum := sha256.New()
	var total int64
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == dir:
			return nil
		case filepath.Dir(path) == dir && !isSource(entry.Name()), entry.Name() == "__pycache__", entry.Name() == "node_modules":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		case !entry.Type().IsRegular():
			return nil // a link or a device is none of the tool's own files
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if dir := filepath.Dir(rel); dir != "." && !slices.Contains(f.subs, dir) {
			f.subs = append(f.subs, dir)
		}
		files++
		total += info.Size()
		if files > maxFiles || total > maxBytes {
			return tool.Errorf(tool.ResourceExhausted, "the folder of tool %s holds more than %d files or %d MiB of its own", name, maxFiles, maxBytes>>20).
				WithHint("Put what the tool works on into data/, and what it depends on into package.json or requirements.txt.")
		}
		var number [24]byte
		binary.BigEndian.PutUint64(number[:], uint64(info.Size()))
		binary.BigEndian.PutUint64(number[8:], uint64(info.ModTime().UnixNano()))
		binary.BigEndian.PutUint64(number[16:], changed(info))
		fmt.Fprintf(sum, "%s\x00%o\x00", rel, info.Mode())
		sum.Write(number[:])
		return nil
	})
	if err != nil {
		return nil, err
	}
	f.stamp = hex.EncodeToString(sum.Sum(nil)[:16])
	return f, nil
}

// languageOf is the language of a module.
func languageOf(file string) definition.Language {
	if strings.HasSuffix(file, ".py") {
		return definition.Python
	}
	return definition.JavaScript
}
