package pkgs

import (
	"slices"
	"strings"
)

// What of a tool's folder belongs to whom. To add an entry: a line here, and in
// the table of the package comment.

// isKept reports whether a name at the top of a folder is the user's or the
// running tool's: no update touches it and no package brings it.
func isKept(name string) bool {
	switch name {
	case "data", "logs", ".env", "run.log", ".git", ".hg", ".svn": // the last ones: somebody keeps his tool's history
		return true
	}
	return strings.HasPrefix(name, "run.log.")
}

// installed are the folders that are made from the sources by installing
// dependencies.
var installed = []string{"node_modules", ".venv"}

// isInstalled reports whether a name at the top of a folder is made from the
// sources by installing dependencies: it goes with a version but is no part of
// what defines it.
func isInstalled(name string) bool { return slices.Contains(installed, name) }

// isNoise reports whether a name anywhere in a folder is no part of a package:
// what version control and other programs leave beside files, and what is there
// only while .env, run.log or dependencies are written.
func isNoise(name string) bool {
	switch name {
	case ".git", ".hg", ".svn", ".DS_Store", "Thumbs.db", "__pycache__", ".pytest_cache", ".venv.new", ".venv.old":
		return true
	}
	if strings.HasPrefix(name, ".deps-") || strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp") {
		return true
	}
	return strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".swp") || strings.HasPrefix(name, ".#") || name == "4913" // vim's trial file
}

// isSource reports whether a path below a tool's folder is part of what defines
// the tool.
func isSource(path string) bool {
	top, _, _ := strings.Cut(path, "/")
	if isKept(top) || isInstalled(top) {
		return false
	}
	for part := range strings.SplitSeq(path, "/") {
		if isNoise(part) {
			return false
		}
	}
	return true
}

// isLockfile reports whether a file at the top is one that installing
// dependencies writes.
func isLockfile(name string) bool {
	switch name {
	case "package-lock.json", "pnpm-lock.yaml", "npm-shrinkwrap.json", "yarn.lock", "bun.lock", "bun.lockb", "uv.lock":
		return true
	}
	return false
}
