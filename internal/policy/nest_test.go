package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Lines as deep and as wide as they may be end in an answer, and soon.
func TestHugeLines(t *testing.T) {
	const (
		length = maxCommandLine / 4
		slow   = 20 * time.Second // far more than a second means that the time grows with the square
	)
	p := mustPolicy(t, mustRule(t, tool.Deny, "bash(a*b*c *)", User), mustRule(t, tool.Allow, "bash(ls *)", User))
	for _, piece := range []string{"(", "$(", "{ ", "if ", "`", "((", "${a:-", "[[ ( ", "! ", "while ", "f() { ", "ls; ", "ls | ", "{a,b}", "$X ", "<<E\n", "ls $X a b;",
		"time ", "eval ", "env ", "sh -c ", "strace ", "xargs -I a ", "find -exec ", "rm "} {
		line := strings.Repeat(piece, length/len(piece))
		start := time.Now()
		v := checkBash(p, tool.Ask, line)
		SelfHarm(line)
		if took := time.Since(start); took > slow {
			t.Errorf("%d bytes of %q took %s", len(line), piece, took)
		}
		if v.Action == tool.Allow {
			t.Errorf("%d bytes of %q are allowed", len(line), piece)
		}
	}
}
