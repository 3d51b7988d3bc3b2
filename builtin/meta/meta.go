// Package meta holds the tools that are about tools: finding and calling those
// that are not listed, many calls at once, and what calls have cost. They reach
// other tools only through their host.
package meta

import "github.com/toolyard/toolyard/tool"

// Tools lists the family.
func Tools() []tool.Tool {
	return []tool.Tool{
		toolSearch(),
		toolDescribe(),
		callTool(),
		executeBatch(),
		toolStats(),
	}
}
