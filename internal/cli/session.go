package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
)

// session is the session to call in: the one named, or that of this user in the
// workspace, so that what one command read another may edit.
func (y *yard) session(named string) string {
	if named != "" {
		return named
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "cli\x00%d\x00%s", os.Getuid(), y.workspace))
	return "cli_" + hex.EncodeToString(sum[:8])
}
