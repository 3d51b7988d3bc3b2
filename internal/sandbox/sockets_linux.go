//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// findSockets finds the sockets of this machine's processes that lie in granted
// directories, as the command would find them. Whoever is granted a directory is
// granted files, not the servers behind them; but neither a read-only mount nor
// Landlock, before version 9 of its interface, keeps a command from connecting.
// A socket that is granted by its own name is left, and so are those of other
// sandboxes, which are in network namespaces of their own.
func (t *tree) findSockets() error {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return tool.Errorf(tool.SandboxUnavailable, "the machine's sockets, which a command must not reach, cannot be listed: %v", err).
			WithHint("Run Toolyard where /proc can be read.")
	}
	for line := range strings.Lines(string(text)) {
		name := socketName(line)
		if strings.HasPrefix(name, "/") {
			if real, err := filepath.EvalSymlinks(name); err == nil {
				t.findSocket(real)
			}
			continue
		}
		if name == "" || strings.HasPrefix(name, "@") || !filepath.IsLocal(name) {
			continue
		}
		// It is named from where its process was then, which is most often one of
		// the directories that were granted.
		for _, p := range t.places {
			if p.dir && p.access != hidden {
				t.findSocket(filepath.Join(p.source, name))
			}
		}
	}
	return nil
}

// socketName is what a line of /proc/net/unix ends with, after seven columns;
// "" for a socket without a name.
func socketName(line string) string {
	line = strings.TrimSuffix(line, "\n")
	for range 7 {
		line = strings.TrimLeft(line, " ")
		_, rest, ok := strings.Cut(line, " ")
		if !ok {
			return ""
		}
		line = rest
	}
	return line
}

// findSocket hides what is at a real path, if it is a socket in a place.
func (t *tree) findSocket(real string) {
	for _, p := range t.places {
		if !p.dir || p.access == hidden || !inside(real, p.source) {
			continue
		}
		target := p.target + strings.TrimPrefix(real, p.source)
		if above := covering(t.places, target); above == nil || above.target != p.target || slices.ContainsFunc(t.sockets, func(q place) bool { return q.target == target }) {
			continue
		}
		if info, err := os.Lstat(real); err == nil && info.Mode()&os.ModeSocket != 0 {
			t.sockets = append(t.sockets, place{source: real, target: target, access: hidden, within: true, id: identify(real)})
		}
	}
}
