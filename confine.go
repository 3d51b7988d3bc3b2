package toolyard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/builtin/shell"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// confiner works out what the commands of a workspace may touch. It is safe for
// concurrent use.
type confiner struct {
	config     Config
	level      sandbox.Level
	policy     func() *policy.Policy
	workspaces *workspaces

	toolchain func() sandbox.Toolchain // looked for once, at the first command
}

func newConfiner(c Config, level sandbox.Level, rules func() *policy.Policy, w *workspaces) *confiner {
	return &confiner{
		config: c, level: level, policy: rules, workspaces: w,
		toolchain: sync.OnceValue(func() sandbox.Toolchain { return sandbox.Toolchains(c.Path, c.UserHome) }),
	}
}

// networkSettings checks what the configuration says of the network and gives its
// ranges.
func networkSettings(s Sandbox) ([]netip.Prefix, error) {
	if _, err := sandbox.NetworkOf(s.Network).Entries(); err != nil {
		return nil, err
	}
	var ranges []netip.Prefix
	for _, text := range s.AllowRanges {
		r, err := sandbox.ParseRange(text)
		if err != nil {
			return nil, tool.Errorf(tool.ParameterError, "sandbox.allowRanges: %v", err).
				WithHint("Name an address, or a range such as 10.1.0.0/16.")
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// shells are tried in this order.
var shells = []string{"/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh"}

// of gives the grant of a request: the workspace for writing but for its
// protected paths, a private home, the operator's toolchains for reading, and the
// network that the configuration names.
func (c *confiner) of(_ context.Context, req *tool.Request) (shell.Confinement, error) {
	ws, err := c.workspaces.get(req.Workspace)
	if err != nil {
		return shell.Confinement{}, err
	}
	if ws.Dir() == "" {
		return shell.Confinement{}, tool.Errorf(tool.PermissionDenied, "there is no workspace to run commands in").
			WithHint("Start with --workspace DIR.")
	}
	home, err := c.privateHome(ws.Dir())
	if err != nil {
		return shell.Confinement{}, err
	}
	chain := c.toolchain()
	profile := sandbox.Profile{
		Kind: "bash", Write: append([]string{ws.Dir()}, c.config.Directories.Write...), Read: c.config.Directories.Read,
		Home: home, Mounts: chain.Mounts, Memory: c.config.Sandbox.Memory, MinLevel: c.level,
		Protected: c.protected(ws.Dir()), Network: sandbox.NetworkOf(c.config.Sandbox.Network),
	}
	if profile.Deny, err = c.denied(profile.Write, ws.Dir()); err != nil {
		return shell.Confinement{}, err
	}
	if !c.workspaces.ours(ws.Dir()) {
		profile.Deny = append(profile.Deny, c.own(home)...)
	}
	conf := shell.Confinement{Profile: profile, Home: home, Shell: firstShell()}
	if conf.Shell == "" {
		return conf, tool.Errorf(tool.DependencyError, "there is no shell on this machine").WithHint("Install bash.")
	}
	env := chain.Env(home)
	if profile.Network.Mode != sandbox.NetworkNone {
		env = chain.Online(env, home)
	}
	conf.Env = append(env,
		"HOME="+home, "TERM=dumb", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "GIT_TERMINAL_PROMPT=0", "PAGER=cat")
	return conf, nil
}

func firstShell() string {
	for _, name := range shells {
		if info, err := os.Stat(name); err == nil && info.Mode()&0o111 != 0 {
			return name
		}
	}
	return ""
}

// privateHome is the home directory of a workspace's commands. It stays between
// calls.
func (c *confiner) privateHome(root string) (string, error) {
	sum := sha256.Sum256([]byte(root))
	home := filepath.Join(c.config.Home, "workspaces", hex.EncodeToString(sum[:8]), "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", fmt.Errorf("private home of %s: %w", root, err)
	}
	return filepath.EvalSymlinks(home)
}

// protected lists the protected paths of a workspace less those that a rule
// opens. A rule opens a path that it names; for a pattern such as .env* that is
// each file that is there.
func (c *confiner) protected(root string) []string {
	allowed := c.policy().ProtectedAllowed(root)
	kept := []string{}
	for _, pattern := range sandbox.DefaultProtected() {
		path := filepath.Join(root, pattern)
		if !strings.Contains(pattern, "*") {
			if !allowed(path) {
				kept = append(kept, pattern)
			}
			continue
		}
		found, err := filepath.Glob(path)
		opened := false
		if err == nil {
			for _, path := range found {
				opened = opened || allowed(path)
			}
		}
		if !opened {
			kept = append(kept, pattern)
			continue
		}
		for _, path := range found {
			if !allowed(path) {
				kept = append(kept, path)
			}
		}
	}
	return kept
}

// maxDenied is how many files and directories are hidden from a command, each
// by a mount of its own.
const maxDenied = 256

// denied lists what deny rules of read meet in the directories that a command
// may use: no program may read what read may not.
func (c *confiner) denied(dirs []string, root string) ([]string, error) {
	denied := c.policy().Denied(root, c.config.UserHome)
	if denied == nil {
		return nil, nil
	}
	var found []string
	for _, dir := range append(dirs, c.config.Directories.Read...) {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil && entry != nil && entry.IsDir():
				return fs.SkipDir // cannot be read by the command either
			case err != nil:
				return nil
			case path == dir || !denied(path):
				return nil
			case len(found) == maxDenied:
				return tool.Errorf(tool.ResourceExhausted, "deny rules of read meet more than %d files below %s, which is more than can be hidden from a command", maxDenied, root).
					WithHint("Deny the directory as a whole: read(secrets) instead of read(secrets/**).")
			}
			found = append(found, path)
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// own lists what lies in the runtime's own home beside a private home, for
// workspaces and grants around it.
func (c *confiner) own(private string) []string {
	var found []string
	dir := c.workspaces.home()
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return append(found, dir)
		}
		below := ""
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			rel, err := filepath.Rel(path, private)
			switch {
			case err == nil && rel == ".":
			case err == nil && filepath.IsLocal(rel):
				below = path
			default:
				found = append(found, path)
			}
		}
		if below == "" {
			return found
		}
		dir = below
	}
}
