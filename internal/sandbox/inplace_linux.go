//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"

	"github.com/toolyard/toolyard/internal/sandbox/landlock"
	"github.com/toolyard/toolyard/internal/sandbox/seccomp"
)

// inPlace is level L1: the command stays in the machine's namespaces and file
// system, and Landlock and the filter of system calls keep it from what was not
// granted. Init is not confined, because it has to find and kill what the
// command leaves behind; so everything happens in the command's own process.
func (b *builder) inPlace() {
	b.supervise = true
	b.child = func() {
		b.dropPrivileges()
		b.landlock(b.inPlaceRules())
		b.seccomp(seccomp.Options{Sockets: seccomp.NoSockets, Shared: true})
	}
}

// unconfined is level L0: only the life of the tree is bound to its init.
func (b *builder) unconfined() { b.supervise = true }

// inPlaceRules are the rules where paths are the host's own. /tmp is everybody's,
// so a directory of its own stands for it.
func (b *builder) inPlaceRules() []rule {
	// All of /proc: a process and what it starts have different directories
	// there, and a rule can name only those that exist. What counts in them is
	// kept by Landlock itself: a process outside cannot be looked into.
	rules := []rule{{"/proc", landlock.Read}}
	for _, d := range devices {
		rules = append(rules, rule{"/dev/" + d, landlock.Device})
	}
	if b.tty {
		rules = append(rules, rule{"/dev/pts", landlock.ReadDir})
	}
	for _, p := range b.tree.places {
		if p.access == hidden || p.within && p.access == readOnly {
			continue
		}
		for _, part := range b.withoutHidden(p) {
			if r, ok := placeRule(part); ok {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// withoutHidden splits a place into what is left when the hidden paths below it
// are taken out: Landlock cannot deny inside of what it allows.
func (b *builder) withoutHidden(p place) []place {
	holds := false
	for _, h := range b.tree.places {
		if h.access == hidden && inside(h.target, p.target) {
			if h.target == p.target {
				return nil
			}
			holds = true
		}
	}
	if !holds {
		return []place{p}
	}
	entries, err := os.ReadDir(p.source)
	if err != nil {
		return nil
	}
	var parts []place
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			continue
		}
		path := filepath.Join(p.source, e.Name())
		parts = append(parts, b.withoutHidden(place{source: path, target: path, access: p.access, dir: e.IsDir()})...)
	}
	return parts
}
