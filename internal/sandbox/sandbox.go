package sandbox

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
	"github.com/toolyard/toolyard/tool"
)

// Config of a Sandbox. The zero value works.
type Config struct {
	// Executable is this program, which becomes the launcher. Empty means
	// /proc/self/exe. It must have package launch linked in.
	Executable string
	// MinLevel is the operator's floor: no profile goes below it. Empty means
	// that of the profile.
	MinLevel Level
	// AllowRanges are special addresses (private, loopback, …) that a granted name
	// may resolve to. An entry that names its address needs none.
	AllowRanges []netip.Prefix
	// Resolver finds the addresses of granted names. Nil is the machine's own.
	Resolver netproxy.Resolver
	// RootCAs verifies the servers of hosts for which something is injected. Nil is
	// the machine's own.
	RootCAs *x509.CertPool
	// Once says that the Sandbox is for one command: the strongest level is tried
	// with the command itself and measured only if that fails, and nothing is made
	// ahead for a next one.
	Once bool
	// Log gets the decisions of commands' networks, at debug those that allowed and
	// at info those that refused, and what goes wrong while cleaning up. Nil discards it.
	Log *slog.Logger

	// atMost lowers the level, for tests of the weaker ones.
	atMost Level
	// fault goes wrong in an attempt to measure a level, for tests.
	fault func(Level) error
}

// Runner confines commands: a [Sandbox] does it with this machine's kernel, a
// driver with something else. It is safe for concurrent use.
type Runner interface {
	// Probe measures what protects a command here. The answer is kept.
	Probe(ctx context.Context) Report
	// Start runs a command confined as its profile says: see [Sandbox.Start].
	Start(ctx context.Context, cmd Cmd) (Process, error)
	// Close gives back what was kept for the next command.
	Close() error
}

// Process is a confined command with all that descends from it. It is safe for
// concurrent use.
type Process interface {
	// Wait returns when the command itself has ended, whether or not something
	// that it started still runs or holds its pipes. If ctx ends before, the
	// command goes on and the result's Ending.Reason is empty.
	Wait(ctx context.Context) Result
	// Done is closed when the command itself has ended.
	Done() <-chan struct{}
	// Kill ends the whole tree at once and does not wait. The reason, one of the
	// End constants, becomes that of the result if the command has not ended yet;
	// the first one counts.
	Kill(reason string)
	// Close kills what is left of the tree and returns when it is gone.
	Close() error
	// Signal sends a signal to the command's process group.
	Signal(sig syscall.Signal) error
	// Usage is what the command uses now, or used if it has ended.
	Usage() tool.Peaks
	// PTY is the master of the command's terminal; nil if there is none. Close
	// closes it.
	PTY() *os.File
	// PID is the process that holds the tree, as this machine sees it; 0 if it is
	// on another.
	PID() int
}

// Sandbox confines commands with this machine's kernel. It is safe for concurrent use.
type Sandbox struct {
	config   Config
	launcher launcher
	groups   groups
	ahead    ahead
	trust    func() []string // environment by which programs use the machine's certificates

	probeOnce sync.Mutex // one probe at a time
	mu        sync.Mutex
	probed    *measured
}

// New makes a Sandbox. It starts nothing; the first Start probes.
func New(c Config) *Sandbox {
	if c.Executable == "" {
		c.Executable = "/proc/self/exe"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Sandbox{
		config: c, launcher: launcher{executable: c.Executable}, groups: groups{log: c.Log}, ahead: ahead{log: c.Log},
		trust: sync.OnceValue(machineTrust),
	}
}

// Cmd is one command to run.
type Cmd struct {
	// Args is the program, as an absolute path or a name looked for in the PATH of
	// Env, and its arguments.
	Args []string
	// Env is the whole environment; only a network adds the variables that lead to
	// its proxy (HTTP_PROXY and the like). Variables that change what
	// a program loads (LD_PRELOAD, NODE_OPTIONS, BASH_ENV, …) are taken out.
	Env []string
	// Dir is the working directory, as an absolute path that the profile grants.
	// Empty means "/".
	Dir string
	// Stdin, Stdout and Stderr are the ends of pipes or files; the caller closes
	// its copies after Start. Nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Control becomes the command's descriptor 3, the only one besides the three
	// that it starts with: a socket to speak with whoever started it. The caller
	// closes its copy after Start. Nil leaves descriptor 3 closed.
	Control *os.File
	// TTY gives the command a terminal instead of those of the three that are nil.
	TTY *TTY
	// Profile is what the command is granted.
	Profile Profile
	// Inject are headers that the network adds to requests to named hosts, so that
	// the command never holds what is in them.
	Inject []netproxy.Injection
}

// TTY is the size of a terminal in characters. Zero means 80 by 24.
type TTY struct {
	Columns, Rows uint16
}

// Result says how a command ended. Until it has, Ending.Reason is empty.
type Result struct {
	Ending     tool.Ending
	Peaks      tool.Peaks
	Sandbox    tool.SandboxMeta
	Violations []Violation
	// Network is what the command's network decided, the oldest first: the last
	// thousand decisions. Those that refused are among the Violations as well.
	Network []netproxy.Decision
}

// Violation is something that the command tried and was kept from, as far as
// that can be seen from outside.
type Violation struct {
	Kind   string `json:"kind"`   // "protected", "seccomp", "network"
	Target string `json:"target"` // the path, the system call or host:port
	Rule   string `json:"rule"`   // what was in the way
}

// The reasons of an ending.
const (
	EndExit   = "exit"
	EndSignal = "signal"
	EndWall   = "wall"
	EndCPU    = "cpu"
	EndMemory = "memory"
	EndPIDs   = "pids"
	EndDisk   = "disk"
	EndOutput = "output"
	EndKilled = "killed"
)

// Probe measures, by really applying the layers in a child, what protects a
// command here. The answer is kept.
func (s *Sandbox) Probe(ctx context.Context) Report { return s.measure(ctx).report }

// Start runs a command confined as its profile says. It returns once the
// command has been executed. The error is a *tool.Error: SANDBOX_UNAVAILABLE
// where the level that the profile asks for cannot be had, PARAMETER_ERROR where
// the command or the profile makes no sense.
//
// The caller calls Close on the Process, always. When ctx ends the command is
// killed.
func (s *Sandbox) Start(ctx context.Context, cmd Cmd) (Process, error) {
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		return nil, tool.Errorf(tool.ParameterError, "no command to run")
	}
	cmd.Profile = cmd.Profile.Defaults()
	if _, err := cmd.Profile.Network.Entries(); err != nil {
		return nil, err
	}
	if s.config.Once && !s.wasMeasured() {
		if p, err := s.startStrongest(ctx, cmd); p != nil || err != nil {
			return p, err
		}
	}
	m := s.measure(ctx)
	floor := stronger(cmd.Profile.MinLevel, s.config.MinLevel)
	if !m.report.Level.AtLeast(floor) {
		return nil, unavailable(floor, m.report)
	}
	if mode := cmd.Profile.Network.Mode; mode != NetworkNone && !m.report.Level.AtLeast(L2b) {
		return nil, noNetwork(mode, m.report)
	}
	p, err := s.start(ctx, cmd, m)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (s *Sandbox) wasMeasured() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probed != nil
}

// startStrongest runs a command at the strongest level, which is a measurement
// too: every layer is applied or the command does not begin. Neither a process
// nor an error means that the level has to be measured.
func (s *Sandbox) startStrongest(ctx context.Context, cmd Cmd) (Process, error) {
	m := s.strongest()
	if m == nil || !m.report.Level.AtLeast(stronger(cmd.Profile.MinLevel, s.config.MinLevel)) {
		return nil, nil
	}
	p, err := s.start(ctx, cmd, m)
	if err == nil {
		s.mu.Lock()
		s.probed = m
		s.mu.Unlock()
		return p, nil
	}
	if code := tool.AsError(err).Code; code != tool.SandboxUnavailable && code != tool.Internal {
		return nil, err
	}
	return nil, nil
}

func unavailable(floor Level, r Report) error {
	given := string(r.Level)
	if given == "" {
		given = "none"
	}
	err := tool.Errorf(tool.SandboxUnavailable, "sandbox level %s is required and %s is what this machine gives", floor, given).
		WithDetail("required", string(floor)).WithDetail("level", string(r.Level))
	hint := "Run toolyard doctor to see what is missing and how to have it."
	if len(r.Missing) > 0 {
		// What decides the level, not what else is missing.
		m := r.Missing[max(0, slices.IndexFunc(r.Missing, func(m Missing) bool {
			return m.Layer == "everything" || m.Layer == "namespaces" || m.Layer == "/proc of its own"
		}))]
		hint = "Missing: " + m.Layer + " (" + m.Reason + "). " + m.Fix + " " + hint
	}
	return err.WithHint("%s", hint)
}

// noNetwork refuses a network where nothing would keep the command to it.
func noNetwork(mode string, r Report) error {
	why, fix := "there is no network namespace", ""
	for _, m := range r.Missing {
		if m.Layer == "namespaces" {
			why, fix = why+": "+m.Reason, m.Fix
		}
	}
	hint := "Run the command without a network, or use level L2: toolyard doctor says what is missing."
	if fix != "" {
		hint = fix + " " + hint
	}
	return tool.Errorf(tool.SandboxUnavailable, "network %q cannot be granted at sandbox level %s: %s", mode, r.Level, why).
		WithDetail("required", string(L2b)).WithDetail("level", string(r.Level)).WithHint("%s", hint)
}

// probeTimeout is how long one layer may take to be measured.
const probeTimeout = 5 * time.Second
