package toolbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// explain adds to a failure what the tool asked for and was not given, since that
// may be why; and where the failure looks like that of a limit that the tool did
// not ask to have lifted, the command that lifts it.
func (v *version) explain(p *plan, e *tool.Error) *tool.Error {
	var hints []string
	if e.Hint != "" {
		hints = append(hints, e.Hint)
	}
	name := v.def.Name
	if !p.missing.IsZero() {
		hints = append(hints, fmt.Sprintf("The tool asks for more than it was granted (%s): toolyard toolbox grant %s%s", strings.Join(p.missing.Lines(), ", "), name, p.missing.flags()))
	}
	for _, flags := range []string{p.network(e), v.box.outside(p, e), p.limit(e)} {
		if flags != "" && !strings.Contains(p.missing.flags()+" ", " "+flags+" ") {
			hints = append(hints, fmt.Sprintf("If the tool is to have that: toolyard toolbox grant %s %s", name, flags))
		}
	}
	if len(hints) == 0 {
		return e
	}
	return e.WithHint("%s", strings.Join(hints, " "))
}

// unreached are the signs of a connection that could not be made, unreachable
// those that say to where.
var (
	unreached   = lazy(`ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|fetch failed|net::ERR_(?:CONNECTION|NAME|ADDRESS|INTERNET|NETWORK|TUNNEL|PROXY)_|Network is unreachable|Connection refused|name resolution|Name or service not known`)
	unreachable = lazy(`(?:ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|ENOTFOUND|EAI_AGAIN) ([A-Za-z0-9.:\[\]_-]{1,255})|net::ERR_[A-Z_]+ at https?://([A-Za-z0-9.:\[\]_-]{1,255})`)
)

// network is the grant of what a failure says that the tool could not reach; ""
// if it was not for want of one.
func (p *plan) network(e *tool.Error) string {
	text := e.Message
	if !unreached().MatchString(text) || slices.Contains(p.given.Network, "all") || slices.Contains(p.missing.Network, "all") {
		return ""
	}
	host := ""
	if m := unreachable().FindStringSubmatch(text); m != nil {
		host = strings.TrimRight(m[1]+m[2], ".:-_")
	}
	switch {
	case host == "" || networkFault([]string{host}) != nil:
		return "--net HOST"
	case slices.ContainsFunc(p.given.Network, func(granted string) bool { return covers(granted, host) }):
		return ""
	}
	return "--net " + host
}

// scope is a path that a helper refused, ours or one that a tool brings along.
var scope = lazy(`路径越权\)?: (.+?) (?:is not in the allowed directories|不在允许的目录范围内|解析后超出允许的目录范围)`)

// plain is a path that needs no quotes in a shell.
var plain = lazy(`^[\pL\pN/._@%+,-]+$`)

// outside is the grant of the directory of a path that was refused; "" if none
// was, or if nobody may have it, or if the tool asks for it anyway.
func (b *Box) outside(p *plan, e *tool.Error) string {
	m := scope().FindStringSubmatch(e.Message)
	if m == nil {
		return ""
	}
	dir := filepath.Dir(b.expand(m[1]))
	within := func(asked string) bool { return within(dir, asked) }
	switch {
	case filepath.IsAbs(dir) && (b.ungrantable(dir) != "" || slices.ContainsFunc(p.missing.Write, within) || slices.ContainsFunc(p.missing.Read, within)):
		return ""
	case !filepath.IsAbs(dir) || dir == "/" || !plain().MatchString(dir):
		dir = "DIR"
	}
	return "--read " + dir
}

// limit is the grant of more of what a tool ran out of; "" if it did not.
func (p *plan) limit(e *tool.Error) string {
	_, thrown := errors.AsType[*worker.Thrown](e)
	memory := p.profile.Memory
	switch reason := e.Details["reason"]; {
	case reason == sandbox.EndMemory || reason == sandbox.EndPIDs && memory <= freeMemory:
		return Grant{Memory: max(2*memory, 2*freeMemory)}.flags()[1:]
	case reason == sandbox.EndWall || e.Code == tool.TimeoutError && !thrown:
		return Grant{Time: 2 * max(p.wall, freeTime).Round(time.Second)}.flags()[1:]
	}
	return ""
}

// lazy compiles a pattern when it is first needed, which most processes never do.
func lazy(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
