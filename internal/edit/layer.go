package edit

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/toolyard/toolyard/internal/text"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// The sentences that models know from other systems.
const (
	notRead  = "File has not been read yet. Read it first before writing to it."
	modified = "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it."
)

// layerError is the refusal of one of the nine layers. Layer 4 has no code: 0.
func layerError(code tool.Code, layer, layerCode int, format string, args ...any) *tool.Error {
	return inLayer(tool.Errorf(code, format, args...), layer, layerCode)
}

func inLayer(e *tool.Error, layer, layerCode int) *tool.Error {
	e.WithDetail("layer", layer).WithDetail("behavior", "ask")
	if layerCode > 0 {
		e.WithDetail("layer_code", layerCode)
	}
	return e
}

// Check is layer 1 for one replacement: do its parameters make sense?
func (r Replacement) Check() error {
	switch {
	case r.Old == r.New:
		return layerError(tool.ParameterError, 1, 1, "old_str and new_str are the same (%q), so nothing would change", clip(r.Old, 80)).
			WithHint("Give the text as it should become in new_str.")
	case r.Expected < 0:
		return layerError(tool.ParameterError, 1, 1, "expected_replacements is %d, which no edit can meet", r.Expected).
			WithHint("Give the number of occurrences to replace, 1 or more.")
	}
	return nil
}

// Resolve is layer 2: the file behind a name that is to be written. Use it for
// every path that comes from a user.
func Resolve(ws *workspace.Workspace, name string) (*workspace.Path, error) {
	return ResolveFor(ws, name, workspace.Write)
}

// ResolveFor is Resolve for a file that is perhaps only read.
func ResolveFor(ws *workspace.Workspace, name string, access workspace.Access) (*workspace.Path, error) {
	if strings.TrimSpace(name) == "" {
		return nil, layerError(tool.ParameterError, 1, 1, "file_path is empty").WithHint("Give the path of the file.")
	}
	p, err := ws.Resolve(name, access)
	if err != nil {
		return nil, resolveError(err)
	}
	if IsTemp(filepath.Base(p.Real)) {
		return nil, layerError(tool.PermissionDenied, 2, 2, "%s is the name of a temporary file of an edit", p.Display).
			WithHint("Choose another name.")
	}
	if strings.HasSuffix(name, "/") && !p.Exists() {
		return nil, layerError(tool.ParameterError, 4, 0, "%s names a directory, not a file", name).
			WithHint("Give the name of a file; directories on the way to it are made.")
	}
	return p, nil
}

func resolveError(err error) error {
	e, ok := errors.AsType[*tool.Error](err)
	if !ok {
		return err
	}
	switch e.Code {
	case tool.PermissionDenied:
		return inLayer(e, 2, 2)
	case tool.ParameterError:
		return inLayer(e, 1, 1)
	case tool.NotFound:
		return inLayer(e, 5, 4)
	}
	return err
}

// missing is layer 5.
func missing(p *workspace.Path) error {
	return inLayer(p.NotFound(), 5, 4)
}

// KindError is a refusal of layer 6, for tools that want a kind of file.
func KindError(format string, args ...any) *tool.Error {
	return layerError(tool.ParameterError, 6, 5, format, args...)
}

// checkKind is layer 6 for what is at a path: a regular file.
func checkKind(p *workspace.Path) error {
	if err := p.Regular(); err != nil {
		return inLayer(tool.AsError(err), 6, 5)
	}
	return nil
}

// checkText is layer 6 for content: text, and no notebook.
func checkText(p *workspace.Path, e text.Encoding) error {
	if strings.EqualFold(filepath.Ext(p.Real), ".ipynb") {
		return layerError(tool.ParameterError, 6, 5, "%s is a Jupyter notebook", p.Display).
			WithHint("Use notebook_edit, which changes one cell and keeps the rest of the JSON.")
	}
	return checkBinary(p, e)
}

func checkBinary(p *workspace.Path, e text.Encoding) error {
	if e.IsBinary() {
		return layerError(tool.ParameterError, 6, 5, "%s is a binary file, which text tools would damage", p.Display).
			WithHint("Use bash with a program that knows its format.")
	}
	return nil
}

// writeError turns what the operating system says while a file is written into
// what a caller can act on. Nothing was changed when it is returned.
func writeError(name string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	var e *tool.Error
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, errQuota):
		e = tool.Errorf(tool.ResourceExhausted, "no space left on the disk for %s; the file is unchanged", name).
			WithHint("Free some space, then try again.")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e = tool.Errorf(tool.ResourceExhausted, "too many open files to write %s; the file is unchanged", name).
			WithHint("Try again when less is going on.")
	case errors.Is(err, syscall.EROFS):
		e = layerError(tool.PermissionDenied, 2, 2, "%s is on a read-only file system", name).
			WithHint("Nothing can be written there. Choose another place.")
	case errors.Is(err, fs.ErrPermission):
		e = layerError(tool.PermissionDenied, 2, 2, "the file system does not permit writing %s", name).
			WithHint("Ask the person to change the permissions of the file or its directory.")
	case errors.Is(err, syscall.ENAMETOOLONG):
		e = tool.Errorf(tool.ParameterError, "the name of %s is longer than the file system allows", name)
	case errors.Is(err, syscall.ENOTDIR):
		e = layerError(tool.NotFound, 4, 0, "%s: a part of the path is a file, not a directory", name)
	default:
		cause := err
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			cause = pathErr.Err
		}
		e = tool.Errorf(tool.ExecutionError, "writing %s: %v", name, cause)
	}
	e.Err = err
	return e
}
