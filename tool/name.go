package tool

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// maxWire is how long a name on the wire may be: clients add prefixes of their
// own and model APIs stop at 64.
const maxWire = 48

// WireName is the name of a tool on the wire: "source__name", or the bare name
// of a built-in; at most 48 letters, digits, '_' and '-'. A name that does not
// fit, or that could be split in two ways, is cut and ends in a hash of the full
// name, so it is the same at every start.
func WireName(fullName string) string {
	source, name, sourced := strings.Cut(fullName, ":")
	wire := source
	ambiguous := false
	if sourced {
		wire = source + "__" + name
		ambiguous = strings.Contains(source, "__") || strings.HasSuffix(source, "_") ||
			strings.Contains(name, "__") || strings.HasPrefix(name, "_")
	}
	clean := strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, wire)
	if clean == wire && !ambiguous && len(wire) <= maxWire && wire != "" {
		return wire
	}
	sum := sha256.Sum256([]byte(fullName))
	hash := fmt.Sprintf("_%x", sum[:4])
	return clean[:min(len(clean), maxWire-len(hash))] + hash
}
