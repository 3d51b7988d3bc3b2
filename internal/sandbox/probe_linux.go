//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox/cgroup"
	"github.com/toolyard/toolyard/internal/sandbox/landlock"
	"github.com/toolyard/toolyard/internal/sandbox/seccomp"
	"github.com/toolyard/toolyard/tool"
)

// measured is what a probe found, and how a sandbox is built from it.
type measured struct {
	report  Report
	variant variant
	abi     int
	groups  *cgroup.Root // nil where no cgroup can be made
	passing bool         // something stronger failed for what may pass: not to be kept
	filters sync.Map     // seccomp.Options → []unix.SockFilter, which take longer to make than to load
}

func (m *measured) filter(o seccomp.Options) []unix.SockFilter {
	if kept, ok := m.filters.Load(o); ok {
		return kept.([]unix.SockFilter)
	}
	made := seccomp.Filter(o)
	m.filters.Store(o, made)
	return made
}

// variant is one way to build a sandbox.
type variant struct {
	level  Level
	userns bool // with a user namespace
	proc   bool // with a /proc of its own
}

// variants are tried from the strongest to the weakest. To add one: a line here
// and its case in build.
var variants = []variant{
	{L2, true, true},
	{L2, false, true}, // needs CAP_SYS_ADMIN
	{L2b, true, false},
	{L2b, false, false},
	{L1, false, true},
	{L0, false, true},
}

// measure returns the kept probe, or makes it.
func (s *Sandbox) measure(ctx context.Context) *measured {
	s.probeOnce.Lock()
	defer s.probeOnce.Unlock()
	s.mu.Lock()
	m := s.probed
	s.mu.Unlock()
	if m != nil {
		return m
	}
	m = s.probe(ctx)
	if ctx.Err() == nil && !m.passing {
		s.mu.Lock()
		s.probed = m
		s.mu.Unlock()
	}
	return m
}

// probe tries the variants, each by running a command that does nothing.
func (s *Sandbox) probe(ctx context.Context) *measured {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	abi, groups, missing := s.survey()
	failures := map[variant]error{}
	passing := false
	for _, v := range variants {
		m := &measured{variant: v, abi: abi, groups: groups, passing: passing, report: Report{Level: v.level}}
		if s.config.atMost != "" && !s.config.atMost.AtLeast(v.level) {
			continue
		}
		if v.level == L1 && abi == 0 {
			continue // nothing but a filter of system calls is no L1
		}
		if err := s.tryAgain(ctx, m); err != nil {
			failures[v] = err
			passing = passing || !settled(err)
			continue
		}
		m.describe(append(missing, lacking(v, failures)...))
		return m
	}
	return &measured{passing: passing, report: Report{Level: "", Layers: []string{}, Missing: missing}}
}

// tryAgain tries a variant, and again where it failed for a reason that may have
// passed: a machine that is out of processes for a moment, a mount that went away
// meanwhile.
func (s *Sandbox) tryAgain(ctx context.Context, m *measured) (err error) {
	for range 3 {
		if err = s.try(ctx, m); err == nil || settled(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// refusals are how the kernel says that it will not do a thing, now or later.
var refusals = []error{syscall.EPERM, syscall.EACCES, syscall.ENOSYS, syscall.EINVAL, syscall.ENOSPC, syscall.EUSERS, syscall.EOPNOTSUPP, syscall.ENODEV}

func settled(err error) bool {
	return slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) })
}

// survey looks at what every variant needs, and takes away what runtimes that are
// dead have left.
func (s *Sandbox) survey() (abi int, groups *cgroup.Root, missing []Missing) {
	groups, reason := cgroup.Find()
	if groups != nil {
		groups.Sweep()
	}
	sweepTmp()
	s.launcher.tidies(groups)
	return landlock.ABI(), groups, unlimited(groups, reason, os.Getuid())
}

// strongest is what a probe finds where nothing is in the way: nothing is tried.
func (s *Sandbox) strongest() *measured {
	v := variants[0]
	if s.config.atMost != "" && !s.config.atMost.AtLeast(v.level) {
		return nil
	}
	abi, groups, missing := s.survey()
	m := &measured{variant: v, abi: abi, groups: groups, report: Report{Level: v.level}}
	m.describe(missing)
	return m
}

// describe fills the report of a variant that holds.
func (m *measured) describe(missing []Missing) {
	if m.abi == 0 {
		missing = append(missing, Missing{
			"landlock", "this kernel has Landlock neither built in nor enabled",
			"Add landlock to the lsm= parameter of the kernel's command line (Linux 5.13 or newer).",
		})
	} else if m.abi < 6 {
		missing = append(missing, Missing{
			"landlock scopes", fmt.Sprintf("Landlock here has version %d of its interface; signals and abstract sockets need 6", m.abi), "Use Linux 6.12 or newer.",
		})
	}
	m.report.Layers = layers(m.variant, m.abi, m.groups)
	m.report.Missing = append([]Missing{}, missing...)
}

// unlimited says which limits the kernel does not hold, what is done instead, and
// what that does not cover. To add one: a line here, and its row in TestUnlimited.
func unlimited(groups *cgroup.Root, reason string, uid int) []Missing {
	const fix = "Start it with a cgroup of its own: systemd-run --user --scope -p Delegate=yes -- toolyard …; for a service, Delegate=yes in its unit (toolyard doctor --print systemd)."
	var list []Missing
	if reason == "" {
		reason = "this process may not use the controller"
	}
	add := func(layer, instead string) {
		list = append(list, Missing{layer, reason + "; " + instead, fix})
	}
	if !groups.Has(cgroup.Memory) {
		add("memory limit", "what processes have mapped, files of memory and the sandbox's own tmpfs are counted up to fifty times a second instead")
		add("page cache limit", "the file cache that a command fills is the machine's, and the kernel takes it back when it needs it")
		add("kernel memory limit", "buffers of pipes and sockets and shared memory that nobody has attached are not counted")
	}
	if !groups.Has(cgroup.PIDs) {
		bound := "processes are counted up to fifty times a second, and RLIMIT_NPROC bounds what comes between"
		if uid == 0 {
			bound = "processes are counted up to fifty times a second, and nothing bounds what comes between: RLIMIT_NPROC does not count for root"
		}
		add("pids limit", bound)
	}
	if !groups.Has(cgroup.CPU) {
		add("cpu share", "a command may take all processors; its CPU time is limited all the same")
	}
	if groups == nil || groups.Version() == 1 && !groups.Has(cgroup.CPUAcc) {
		add("cpu accounting", "CPU time is added up from the processes, in steps of 10 ms, without those that ended unseen")
	}
	if !groups.LimitsSwap() {
		list = append(list, Missing{"swap limit", "swap is on and this kernel does not count it for a cgroup; a command's memory can go there above its limit", "Boot with swapaccount=1, use cgroup v2, or turn swap off."})
	}
	return list
}

// try runs a command that does nothing in one variant.
func (s *Sandbox) try(ctx context.Context, m *measured) error {
	if s.config.fault != nil {
		if err := s.config.fault(m.variant.level); err != nil {
			return err
		}
	}
	p := Profile{Read: []string{"/usr"}}.Defaults()
	t, err := newTree(&p)
	if err != nil {
		return err
	}
	proc, err := s.begin(ctx, &Cmd{Args: []string{"probe"}, Profile: p}, m, t, true)
	if err != nil {
		return err
	}
	defer proc.Close()
	if r := proc.Wait(ctx); r.Ending.Reason != EndExit || r.Ending.Code != 0 {
		return fmt.Errorf("a probe ended by %s %d", r.Ending.Reason, r.Ending.Code)
	}
	return nil
}

// userLimits is missing where there is no user namespace.
func userLimits() Missing {
	return Missing{"user limits", "what the kernel counts for a user, such as inotify instances, is shared with the user's other processes", ""}
}

// lacking says what the stronger variants failed for.
func lacking(v variant, failures map[variant]error) []Missing {
	var list []Missing
	reason := func(w variant) string {
		err := failures[w]
		var e *tool.Error
		switch {
		case err == nil:
			return "not tried"
		case errors.As(err, &e):
			return e.Message
		}
		return err.Error()
	}
	full := variants[0]
	if v.level.AtLeast(L2b) && !v.userns {
		list = append(list, userLimits())
	}
	switch v.level {
	case L2:
		if !v.userns && os.Getuid() != 0 {
			list = append(list, Missing{"user namespace", reason(full), userNamespaceFix()})
		}
	case L2b:
		list = append(list, Missing{"/proc of its own", reason(full), "In Docker: run with --security-opt systempaths=unconfined."})
	case L1, L0:
		list = append(list, Missing{"namespaces", reason(full), userNamespaceFix()})
		if v.level == L1 {
			list = append(list,
				Missing{"protected paths", "without a mount namespace they are put back after a change, not kept from it", ""},
				Missing{"process list", "without a pid namespace the names and arguments of other processes can be read, and by root what the kernel tells below /proc", ""},
				Missing{"file metadata", "Landlock sees what is opened, made and removed: whether a file exists, its size, times, attributes and where a symlink leads can be seen by its path, and " +
					"times changed; of what may be read, who owns it can change mode and attributes", ""},
				userLimits(),
			)
		}
	}
	if v.level == L0 {
		list = append(list, Missing{"everything", reason(variants[4]), "Use Linux 5.13 or newer with Landlock enabled."})
	}
	return list
}

// userNamespaceFix finds out what forbids user namespaces here.
func userNamespaceFix() string {
	read := func(path string) string {
		b, _ := os.ReadFile(path)
		if len(b) == 0 {
			return ""
		}
		return string(b[0])
	}
	switch {
	case read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "Run: toolyard doctor --print apparmor | sudo tee /etc/apparmor.d/toolyard && sudo apparmor_parser -r /etc/apparmor.d/toolyard."
	case read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "Run: sysctl kernel.unprivileged_userns_clone=1."
	case read("/proc/sys/user/max_user_namespaces") == "0":
		return "Run: sysctl user.max_user_namespaces=10000."
	}
	return "Something around this process forbids it. In Docker: run the container with --security-opt seccomp=FILE --security-opt systempaths=unconfined, where FILE is what toolyard doctor --print seccomp prints " +
		"(or seccomp=unconfined); where the host has AppArmor, with --security-opt apparmor=unconfined too; as another user than root if all capabilities are dropped."
}

func layers(v variant, abi int, groups *cgroup.Root) []string {
	var list []string
	switch v.level {
	case L2, L2b:
		if v.userns {
			list = append(list, "user_ns")
		}
		list = append(list, "mount_ns", "pid_ns", "net_ns", "ipc_ns", "uts_ns", "cgroup_ns")
	case L0:
		return []string{}
	}
	list = append(list, "capabilities", "no_new_privs", "seccomp")
	if abi > 0 {
		list = append(list, fmt.Sprintf("landlock(%d)", abi))
	}
	if groups != nil {
		list = append(list, fmt.Sprintf("cgroup(%d)", groups.Version()))
	}
	return list
}

func (m *measured) meta() tool.SandboxMeta {
	missing := []string{}
	for _, x := range m.report.Missing {
		missing = append(missing, x.Layer)
	}
	return tool.SandboxMeta{Level: string(m.report.Level), Layers: slices.Clone(m.report.Layers), Missing: missing}
}

func (m *measured) builder(p *Profile, t *tree) *builder {
	b := &builder{
		program: newProgram(), profile: p, tree: t, abi: m.abi, userns: m.variant.userns, proc: m.variant.proc,
		filter: m.filter, made: map[string]bool{"/": true}, attrs: map[unix.MountAttr]uint32{},
	}
	b.uid, b.gid = identityOf(t)
	if b.uid != os.Getuid() {
		b.userns = false // one id is all that a user namespace can have here
	}
	b.fd = b.data(make([]byte, 16))
	b.how = object(b.program, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	return b
}

// identityOf is the user and group as whom a command runs: the invoker's, so that
// what it makes belongs to the invoker. Root is the exception where the first
// directory to write in belongs to somebody else: then the command is that
// user, in no user namespace, because files made by root would be lost to their
// owner. Otherwise root stays root in a user namespace that knows nobody else:
// it has no capability, cannot get one, and sees nothing of the host that was not
// granted, so the number is all that is left of it; a workspace of root's can be
// written in by nobody else.
func identityOf(t *tree) (uid, gid int) {
	uid, gid = os.Getuid(), os.Getgid()
	if uid != 0 {
		return uid, gid
	}
	if st, ok := t.owner.(*syscall.Stat_t); ok && st.Uid != 0 {
		return int(st.Uid), int(st.Gid)
	}
	return uid, gid
}

// staged reports whether a launch of the variant begins with a footing.
func (v variant) staged() bool { return v.level.AtLeast(L2b) }

// build writes the program of the variant around a command, or what follows its
// footing.
func (m *measured) build(b *builder, cmd *Cmd, probing bool) {
	b.child = func() {}
	switch m.variant.level {
	case L2, L2b:
		b.namespaces()
	case L1:
		b.inPlace()
	default:
		b.unconfined()
	}
	b.command(cmd)
	if probing {
		b.path = 0
	}
}
