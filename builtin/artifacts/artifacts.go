// Package artifacts holds the tools for data that outlives its call. Whose data
// it is, the session of the request says.
package artifacts

import (
	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/tool"
)

// Deps is what the family needs.
type Deps struct {
	Artifacts *artifact.Dir
}

// Tools lists the family.
func Tools(d Deps) []tool.Tool {
	return []tool.Tool{
		outputRead(d),
		outputGrep(d),
	}
}
