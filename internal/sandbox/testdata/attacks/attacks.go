// Package attacks holds the attack corpus: what a command in a sandbox tries and
// must not reach, one file of attacks for each category. It knows nothing of how
// they are run: see package sandboxtest.
package attacks

import "embed"

// Files are the categories.
//
//go:embed *.txt
var Files embed.FS
