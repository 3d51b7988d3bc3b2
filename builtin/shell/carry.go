package shell

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of what is carried from one command of a session to the next.
const (
	carrySessions = 256
	carryBytes    = 256 << 10 // of one session's variables
)

// carry remembers, per session, where the last command ended and what it
// exported. It is safe for concurrent use.
type carry struct {
	cwd, env bool

	mu    sync.Mutex
	last  map[string]carried
	order []string // sessions, oldest first
}

// carried is what a command starts with.
type carried struct {
	dir  string   // working directory; "" means the usual one
	env  []string // further variables
	file string   // where the command leaves its own state; "" if nobody asks
	// script runs the command given as its argument and leaves its state.
	script string
}

func newCarry(setting string) *carry {
	return &carry{cwd: setting == "cwd" || setting == "env", env: setting == "env", last: map[string]carried{}}
}

// The state is written by a trap, so that it is there however the command ends.
// It lies in the private home, which only this workspace's commands can write;
// what comes back is checked like any other input.
const (
	carryCwd = `trap 'pwd -P > "$_CARRY"' EXIT; eval "$1"`
	carryEnv = `trap '{ pwd -P; env -0; } > "$_CARRY"' EXIT; eval "$1"`
)

// before gives what the session's next command starts with.
func (c *carry) before(req *tool.Request, workingDir string, ws *workspace.Workspace, conf Confinement) carried {
	if !c.cwd {
		return carried{}
	}
	c.mu.Lock()
	state := c.last[req.Session]
	c.mu.Unlock()
	if workingDir != "" {
		state.dir = ""
	} else if state.dir != "" {
		// The directory may be gone, or a symlink by now.
		p, err := ws.Resolve(state.dir, workspace.Read)
		if err != nil || !p.Exists() || !p.Info.IsDir() {
			state.dir = ""
		} else {
			state.dir = p.Real
		}
	}
	state.file = filepath.Join(conf.Home, ".carry-"+req.CallID)
	state.env = append(state.env[:len(state.env):len(state.env)], "_CARRY="+state.file)
	state.script = carryCwd
	if c.env {
		state.script = carryEnv
	}
	return state
}

// after takes what the command left.
func (c *carry) after(req *tool.Request, used carried) {
	if used.file == "" {
		return
	}
	info, err := os.Lstat(used.file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > carryBytes {
		return
	}
	content, err := os.ReadFile(used.file)
	if err != nil {
		return
	}
	os.Remove(used.file)
	dir, rest, _ := bytes.Cut(content, []byte("\n"))
	state := carried{dir: string(dir)}
	if c.env {
		state.env = carriedEnv(rest)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.last[req.Session]; !known {
		if c.order = append(c.order, req.Session); len(c.order) > carrySessions {
			delete(c.last, c.order[0])
			c.order = c.order[1:]
		}
	}
	c.last[req.Session] = state
}

// own are variables that the runtime or the shell sets anew for each command.
var own = map[string]bool{"_": true, "PWD": true, "OLDPWD": true, "SHLVL": true, "HOME": true, "_CARRY": true}

// carriedEnv reads NUL-separated variables; the sandbox drops dangerous ones at
// the next start.
func carriedEnv(b []byte) []string {
	var env []string
	for entry := range strings.SplitSeq(string(b), "\x00") {
		name, _, ok := strings.Cut(entry, "=")
		if ok && name != "" && !own[name] && !strings.ContainsAny(name, "%()") {
			env = append(env, entry)
		}
	}
	return env
}
