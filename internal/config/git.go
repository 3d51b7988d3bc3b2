package config

import (
	"os"
	"path/filepath"
	"strings"
)

// gitExcludes is git's core.excludesFile, "" if there is none: as the user's
// configuration of git says, else git's default, git/ignore in the directory for
// configuration.
func gitExcludes(home, xdg string) string {
	if xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	file := filepath.Join(xdg, "git", "ignore")
	for _, config := range []string{filepath.Join(xdg, "git", "config"), filepath.Join(home, ".gitconfig")} {
		content, err := os.ReadFile(config)
		if err != nil {
			continue
		}
		if set, ok := gitSetting(string(content), "core", "excludesfile"); ok {
			file = set
		}
	}
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		file = filepath.Join(home, rest)
	}
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || !filepath.IsAbs(file) {
		return ""
	}
	return file
}

// gitSetting finds the last value of a key in a section of a configuration of
// git. Includes are not followed.
func gitSetting(content, section, key string) (value string, found bool) {
	inside := false
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, rest, _ := strings.Cut(name, "]")
			inside = strings.EqualFold(strings.TrimSpace(name), section)
			line = strings.TrimSpace(rest)
		}
		name, text, ok := strings.Cut(line, "=")
		if inside && ok && strings.EqualFold(strings.TrimSpace(name), key) {
			text = strings.TrimSpace(text)
			if quoted, ok := strings.CutPrefix(text, `"`); ok {
				text, _, _ = strings.Cut(quoted, `"`)
			} else if at := strings.IndexAny(text, "#;"); at >= 0 {
				text = strings.TrimSpace(text[:at])
			}
			value, found = text, true
		}
	}
	return value, found
}
