package workspace

import (
	"path/filepath"
	"slices"
	"strings"
)

// Protected reports that a path, with slashes and relative to any directory, is
// one through which a tool could change how programs of this user behave, or
// what it may do itself: hooks and configuration of git, environment files, the
// runtime's and the clients' own settings, editors' settings that run commands,
// and start files of shells. Letter case is ignored, as some file systems do.
//
// To protect more: a name in one of the lists below.
func Protected(rel string) bool {
	parts := strings.Split(strings.ToLower(filepath.ToSlash(rel)), "/")
	for i, part := range parts {
		switch {
		case slices.Contains(protectedDirs(), part):
			return true
		case part == ".git" && i+1 < len(parts):
			if slices.Contains(gitNames(), parts[i+1]) {
				return true
			}
			// The same files of submodules and worktrees.
			if inner := parts[i+1:]; (inner[0] == "modules" || inner[0] == "worktrees") &&
				slices.ContainsFunc(inner, func(p string) bool { return slices.Contains(gitNames(), p) }) {
				return true
			}
		}
	}
	last := parts[len(parts)-1]
	return strings.HasPrefix(last, ".env") || slices.Contains(protectedFiles(), last)
}

// gitNames decide, in a directory of git's own, what git runs: commondir makes
// it take hooks and configuration from elsewhere.
func gitNames() []string { return []string{"hooks", "config", "config.worktree", "commondir"} }

// protectedDirs are directories protected with all that is in them.
func protectedDirs() []string {
	return []string{".toolyard", ".claude", ".vscode", ".idea"}
}

// protectedFiles are files protected wherever they lie.
func protectedFiles() []string {
	return []string{
		".mcp.json", ".toolyardignore",
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
		".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
		".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc",
	}
}
