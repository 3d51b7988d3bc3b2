package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Profile is what a command is granted. Everything that is not granted is
// absent. Numbers that are zero take the default of the kind; negative ones mean
// no limit.
type Profile struct {
	// Kind picks the defaults: "bash" (and "git", "tests"), "toolbox", "gateway",
	// "service" (language servers, browsers, extraction) or "run". Empty is "bash".
	Kind string `json:"kind,omitempty"`
	// Read and Write are absolute directories or files. What is granted for
	// writing can be read as well.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	// Home is the command's private home: granted for writing, and nothing in it
	// is protected. The environment's HOME is the caller's to set.
	Home string `json:"home,omitempty"`
	// Deny are absolute paths, or names below each entry of Write, that are absent
	// although something above them is granted.
	Deny []string `json:"deny,omitempty"`
	// Protected are paths, absolute or below each entry of Write, with * in a
	// component, that cannot be changed although something above them is granted
	// for writing. Those that do not exist cannot be made: what appears there is
	// taken away and reported. Nil is [DefaultProtected]; an empty list is none.
	Protected []string `json:"protected,omitempty"`
	// Mounts are runtime directories, usually from [Toolchains].
	Mounts []Mount `json:"mounts,omitempty"`

	Network Network `json:"network,omitzero"`

	// Memory is in bytes, of all processes together. In JSON it and the other
	// sizes may be "256M" as well, and "none".
	Memory int64 `json:"memory,omitempty"`
	PIDs   int   `json:"pids,omitempty"` // processes and threads
	// CPU is the CPU time of all processes together, Wall the time since the
	// start. In JSON they are "cpu" and "wall", as "1m30s" or a number of seconds.
	CPU      time.Duration `json:"-"`
	Wall     time.Duration `json:"-"`
	CPUShare float64       `json:"cpu_share,omitempty"` // cores; 0.5 is half of one
	Files    int           `json:"files,omitempty"`     // open files of one process
	Disk     int64         `json:"disk,omitempty"`      // bytes that what it may write grows by, all files together
	Inodes   int           `json:"inodes,omitempty"`    // files and directories that it may add
	Output   int64         `json:"output,omitempty"`    // bytes; counted by the caller, who kills with reason "output"
	Tmp      int64         `json:"tmp,omitempty"`       // bytes of /tmp and of /dev/shm each, and a file for every 4 KiB

	// MinLevel is the weakest level at which the command may run. Empty is the
	// default of the kind.
	MinLevel Level `json:"min_level,omitempty"`
}

// profileJSON is a Profile on the wire.
type profileJSON struct {
	plainProfile
	CPU    duration `json:"cpu,omitempty"`
	Wall   duration `json:"wall,omitempty"`
	Memory size     `json:"memory,omitempty"`
	Disk   size     `json:"disk,omitempty"`
	Output size     `json:"output,omitempty"`
	Tmp    size     `json:"tmp,omitempty"`
}

type plainProfile Profile

// MarshalJSON writes the profile with durations as "1m30s".
func (p Profile) MarshalJSON() ([]byte, error) {
	return json.Marshal(profileJSON{
		plainProfile: plainProfile(p), CPU: duration(p.CPU), Wall: duration(p.Wall),
		Memory: size(p.Memory), Disk: size(p.Disk), Output: size(p.Output), Tmp: size(p.Tmp),
	})
}

// UnmarshalJSON refuses names that a profile does not have: a misspelt limit
// would be no limit.
func (p *Profile) UnmarshalJSON(data []byte) error {
	var wire profileJSON
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&wire); err != nil {
		return fmt.Errorf("sandbox profile: %w", err)
	}
	*p = Profile(wire.plainProfile)
	p.CPU, p.Wall = time.Duration(wire.CPU), time.Duration(wire.Wall)
	p.Memory, p.Disk, p.Output, p.Tmp = int64(wire.Memory), int64(wire.Disk), int64(wire.Output), int64(wire.Tmp)
	return nil
}

// Mount makes a file or directory of the host visible, at Target if that is set,
// else where it is.
type Mount struct {
	Source string `json:"source"`
	Target string `json:"target,omitempty"`
	Write  bool   `json:"write,omitempty"`
}

func (m Mount) target() string {
	if m.Target != "" {
		return filepath.Clean(m.Target)
	}
	return filepath.Clean(m.Source)
}

// DefaultProtected lists the files through which a workspace could run code
// outside of the sandbox later on: hooks, editors' and agents' settings, shell
// start files, secrets.
func DefaultProtected() []string {
	return []string{
		".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir",
		".git/modules/*/hooks", ".git/modules/*/config", ".git/modules/*/config.worktree", ".git/modules/*/commondir",
		".git/worktrees/*/hooks", ".git/worktrees/*/config", ".git/worktrees/*/config.worktree", ".git/worktrees/*/commondir",
		".env*", ".toolyard", ".toolyardignore", ".mcp.json",
		".claude", ".vscode", ".idea",
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
		".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
		".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc",
	}
}

// Sizes.
const (
	MiB = 1 << 20
	GiB = 1 << 30

	defaultFiles = 4096
	defaultTmp   = 1 * GiB
)

// kinds holds the defaults of spec/sandbox.md §1. To add a kind: one row.
var kinds = map[string]Profile{
	"bash":    {Memory: 4 * GiB, PIDs: 512, MinLevel: L1},
	"git":     {Memory: 4 * GiB, PIDs: 512, MinLevel: L1},
	"tests":   {Memory: 4 * GiB, PIDs: 512, MinLevel: L1},
	"toolbox": {Memory: 512 * MiB, PIDs: 64, Wall: 30 * time.Second, MinLevel: L2},
	"gateway": {Memory: 1 * GiB, PIDs: 128, MinLevel: L2},
	"service": {Memory: 2 * GiB, PIDs: 256, MinLevel: L1},
	"run":     {Memory: 1 * GiB, PIDs: 256, MinLevel: L1},
}

// Kinds lists the kinds that a profile may name, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Defaults is p with the defaults of its kind where it says nothing.
func (p Profile) Defaults() Profile {
	if p.Kind == "" {
		p.Kind = "bash"
	}
	d, known := kinds[p.Kind]
	if !known {
		d = kinds["toolbox"] // the narrowest
	}
	setDefault(&p.Memory, d.Memory)
	setDefault(&p.PIDs, d.PIDs)
	setDefault(&p.Wall, d.Wall)
	setDefault(&p.Files, defaultFiles)
	setDefault(&p.Tmp, defaultTmp)
	setDefault(&p.MinLevel, d.MinLevel)
	setDefault(&p.Network.Mode, NetworkNone)
	if p.Protected == nil {
		p.Protected = DefaultProtected()
	}
	return p
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// inside reports whether path is dir or below it. Both are clean.
func inside(path, dir string) bool {
	if dir == "/" || path == dir {
		return true
	}
	return strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
