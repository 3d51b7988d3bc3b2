//go:build !linux

package deps

// importMethod is how pnpm brings files out of its store.
func importMethod(_, _ string, own bool) string {
	if own {
		return "clone-or-copy"
	}
	return "auto"
}
