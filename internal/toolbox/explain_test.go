package toolbox

import (
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// TestExplain: a failure for want of a grant names the command that gives it, and
// no other failure names one.
func TestExplain(t *testing.T) {
	thrown := func(code tool.Code, message string) *tool.Error {
		e := tool.Errorf(code, "%s", message)
		e.Err = &worker.Thrown{Message: message}
		return e
	}
	ended := func(code tool.Code, reason string) *tool.Error {
		return tool.Errorf(code, "it was ended").WithDetail("reason", reason).WithHint("Ask for less.")
	}
	for _, c := range []struct {
		name           string
		given, missing Grant
		err            *tool.Error
		want           string // of the hint; empty is none
		not            string
	}{
		{name: "refused", err: thrown(tool.ExecutionError, "fetch failed: connect ECONNREFUSED 127.0.0.1:8080"), want: "toolyard toolbox grant x --net 127.0.0.1:8080"},
		{name: "no such host", err: thrown(tool.ExecutionError, "getaddrinfo ENOTFOUND api.example.org"), want: "toolyard toolbox grant x --net api.example.org"},
		{name: "a browser's", err: thrown(tool.ExecutionError, "page.goto: net::ERR_CONNECTION_REFUSED at http://127.0.0.1:81/path"), want: "toolyard toolbox grant x --net 127.0.0.1:81"},
		{name: "what no browser visits", err: thrown(tool.ExecutionError, "page.goto: net::ERR_UNSAFE_PORT at http://127.0.0.1:1/")},
		{name: "of unknown destination", err: thrown(tool.ExecutionError, "TypeError: fetch failed"), want: "toolyard toolbox grant x --net HOST"},
		{name: "what is no host", err: thrown(tool.ExecutionError, "connect ECONNREFUSED [::]::1"), want: "--net HOST"},
		{name: "more of a command", err: thrown(tool.ExecutionError, "connect ECONNREFUSED a.example --memory 9GiB"), want: "--net a.example", not: "--memory"},
		{name: "granted, and refused all the same", given: Grant{Network: []string{"127.0.0.1:8080"}}, err: thrown(tool.ExecutionError, "connect ECONNREFUSED 127.0.0.1:8080")},
		{name: "everything granted", given: Grant{Network: []string{"all"}}, err: thrown(tool.ExecutionError, "fetch failed")},
		{name: "asked already", missing: Grant{Network: []string{"all"}}, err: thrown(tool.ExecutionError, "fetch failed"), want: "grant x --net all", not: "--net HOST"},
		{name: "outside", err: thrown(tool.PermissionDenied, "outside of what the tool may use (路径越权): /srv/notes/a.txt is not in the allowed directories [/d]"), want: "toolyard toolbox grant x --read /srv/notes"},
		{name: "outside, as a tool says it", err: thrown(tool.PermissionDenied, "路径越权: /srv/notes/a.txt 不在允许的目录范围内 [/d]"), want: "toolyard toolbox grant x --read /srv/notes"},
		{name: "outside, of the runtime's own", err: thrown(tool.PermissionDenied, "路径越权: /home/box/toolyard.db 不在允许的目录范围内 [/d]")},
		{name: "outside, and asked for", missing: Grant{Write: []string{"/srv"}}, err: thrown(tool.PermissionDenied, "路径越权: /srv/a/b 不在允许的目录范围内 [/d]"), want: "grant x --write /srv", not: "--read"},
		{name: "outside, in need of quotes", err: thrown(tool.PermissionDenied, "路径越权: /srv/$(rm)/a 不在允许的目录范围内 [/d]"), want: "--read DIR"},
		{name: "memory", err: ended(tool.ResourceExhausted, sandbox.EndMemory), want: "Ask for less. If the tool is to have that: toolyard toolbox grant x --memory 1024MiB"},
		{name: "processes", err: ended(tool.ResourceExhausted, sandbox.EndPIDs), want: "toolyard toolbox grant x --memory 1024MiB"},
		{name: "time", err: tool.Errorf(tool.TimeoutError, "it took too long"), want: "toolyard toolbox grant x --time 1m0s"},
		{name: "a time-out of the tool's own", err: thrown(tool.TimeoutError, "timeout of 5 s")},
		{name: "anything else", err: thrown(tool.ExecutionError, "no such method")},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &version{box: &Box{config: Config{Home: "/home/box"}}, def: &definition.Definition{Name: "x"}}
			p := &plan{given: c.given, missing: c.missing, wall: freeTime, profile: sandbox.Profile{Memory: freeMemory}}
			got := v.explain(p, c.err).Hint
			if c.want == "" && got != "" || !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("got %q, want %q and not %q", got, c.want, c.not)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		name               string
		asked, given, want time.Duration
	}{
		{"nothing asked, nothing given", 0, 0, freeTime},
		{"nothing asked, more given", 0, time.Minute, time.Minute},
		{"less asked", time.Second, time.Minute, time.Second},
		{"more asked than given", time.Hour, time.Minute, time.Minute},
		{"more asked, nothing given", time.Hour, 0, freeTime},
	} {
		if got := cut(c.asked, freeTime, c.given); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
