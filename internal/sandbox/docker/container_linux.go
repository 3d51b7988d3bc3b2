//go:build amd64 || arm64

package docker

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/toolyard/toolyard/internal/launch"
	"github.com/toolyard/toolyard/internal/process"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/seccomp"
	"github.com/toolyard/toolyard/tool"
)

// defaultUser is whose files nobody's are: spec/sandbox.md §2.
const defaultUser = 1001

// Where this program and its gate are in a container.
const (
	launcherTarget = "/.toolyard/launch"
	passTarget     = "/.toolyard/pass"
	recordsTarget  = "/.toolyard/records"
)

// Labels by which a container is known again.
const (
	labelOwner   = "dev.toolyard.owner"   // process.Identity
	labelMachine = "dev.toolyard.machine" // where that means something
)

// Sizes.
const (
	leastMemory = 16 * sandbox.MiB // what the container's own start needs
	initThreads = 8                // at most, of this program as the container's init
	maxMounts   = 1000
)

// plan is a container that is not made yet.
type plan struct {
	cmd      *sandbox.Cmd
	layout   *sandbox.Layout
	places   []sandbox.Bind // with what links and mounts below them add
	uid, gid int
	image    string
	links    map[string]string
	custom   bool // the image is the operator's
}

// plan works out where everything goes.
func (r *Runner) plan(ctx context.Context, cmd *sandbox.Cmd, m *measured) (*plan, error) {
	p := &plan{cmd: cmd, custom: r.config.Image != "", image: r.config.Image, links: map[string]string{}}
	if p.custom {
		// The image brings its own programs.
		cmd.Profile.Mounts = slices.DeleteFunc(slices.Clone(cmd.Profile.Mounts), func(m sandbox.Mount) bool { return !m.Write })
		cmd.Profile.Read = slices.DeleteFunc(slices.Clone(cmd.Profile.Read), system)
	}
	var err error
	if p.layout, err = sandbox.NewLayout(cmd.Profile); err != nil {
		return nil, err
	}
	if err := p.identify(m); err != nil {
		return nil, err
	}
	if err := p.place(); err != nil {
		return nil, err
	}
	if !p.custom {
		if p.image, err = r.image(ctx, root{p.uid, p.gid, p.links}); err != nil {
			return nil, tool.Errorf(tool.SandboxUnavailable, "an empty image cannot be made: %v", err)
		}
	}
	return p, p.checkDir()
}

// system reports whether a path is one where an image has its own programs.
func system(path string) bool {
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

// identify chooses the user: whose the first directory to write in is, or the
// private home, so that what the command makes belongs to them; else whoever may
// read what others may not; else 1001.
func (p *plan) identify(m *measured) error {
	p.uid, p.gid = defaultUser, defaultUser
	home := p.cmd.Profile.Home
	if uid, gid, ok := p.layout.Owner(); ok {
		p.uid, p.gid = uid, gid
		if home != "" && os.Getuid() == 0 {
			if err := os.Lchown(home, uid, gid); err != nil {
				return tool.Errorf(tool.Internal, "giving the private home to the workspace's owner: %v", err)
			}
		}
	} else if st, err := stat(home); home != "" && err == nil {
		p.uid, p.gid = int(st.Uid), int(st.Gid)
	} else {
		for _, q := range p.layout.Binds {
			st, err := stat(q.Source)
			if err != nil {
				continue
			}
			if need := uint32(0o004 | 0o001*b2u(q.Dir)); st.Mode&need != need {
				p.uid, p.gid = int(st.Uid), int(st.Gid)
				break
			}
		}
	}
	if m.rootless && p.uid == os.Getuid() {
		p.uid, p.gid = 0, 0 // the daemon's user, who is this one, is root inside
	}
	return nil
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func stat(path string) (*syscall.Stat_t, error) {
	var st syscall.Stat_t
	return &st, syscall.Stat(path, &st)
}

// place lists the mounts: the layout's places, what is mounted below those that
// are only read, and, where a link would lie on the tmpfs of /tmp, its target once
// more under the link's name.
func (p *plan) place() error {
	for _, q := range p.layout.Binds {
		if q.Target == "/sys" || strings.HasPrefix(q.Target, "/sys/") {
			continue // a container has its own
		}
		if q.Within {
			if _, err := os.Lstat(p.under(q)); err != nil {
				// The daemon would make the mount point, as root, on this machine.
				return tool.Errorf(tool.ParameterError, "sandbox path %s cannot be mounted: there is no such path in what is mounted around it", q.Target)
			}
		}
		p.places = append(p.places, q)
	}
	for name, to := range p.layout.Links {
		if name != "/tmp" && !strings.HasPrefix(name, "/tmp/") {
			p.links[name] = to
			continue
		}
		for _, q := range p.layout.Binds {
			if rest, ok := below(q.Target, to); ok {
				q.Target = name + rest
				p.places = append(p.places, q)
			}
		}
	}
	mounted, err := mountPoints()
	if err != nil {
		return tool.Errorf(tool.Internal, "the machine's mounts cannot be read: %v", err)
	}
	for _, q := range slices.Clone(p.places) {
		if q.Write || q.Hidden || !q.Dir {
			continue
		}
		for _, dir := range mounted {
			rest, ok := below(dir, q.Source)
			if !ok || rest == "" {
				continue
			}
			target := q.Target + rest
			if _, visible := p.layout.Host(target); visible && !slices.ContainsFunc(p.places, func(o sandbox.Bind) bool { return o.Target == target }) {
				info, err := os.Lstat(dir)
				p.places = append(p.places, sandbox.Bind{Source: dir, Target: target, Dir: err == nil && info.IsDir(), Within: true})
			}
		}
	}
	slices.SortStableFunc(p.places, func(a, b sandbox.Bind) int { return strings.Compare(a.Target, b.Target) })
	if len(p.places) > maxMounts {
		return tool.Errorf(tool.ResourceExhausted, "the command would need %d mounts and %d is the most", len(p.places), maxMounts)
	}
	return nil
}

// under is where the mount point of a place lies on this machine.
func (p *plan) under(q sandbox.Bind) string {
	for i := len(p.layout.Binds) - 1; i >= 0; i-- {
		o := p.layout.Binds[i]
		if rest, ok := below(q.Target, o.Target); ok && rest != "" && !o.Hidden {
			return o.Source + rest
		}
	}
	return q.Target
}

// below reports whether path is dir or lies below it, and what follows dir.
func below(path, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, dir)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// mountPoints lists the machine's mounts: proc_pid_mountinfo(5).
func mountPoints() ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var dirs []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		if fields := strings.Fields(s.Text()); len(fields) > 4 {
			dirs = append(dirs, unescape(fields[4]))
		}
	}
	return dirs, s.Err()
}

// unescape turns \040 into a blank.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// checkDir refuses a working directory that is not there: the daemon would make
// it, as root.
func (p *plan) checkDir() error {
	dir := p.cmd.Dir
	if dir == "" || dir == "/" || dir == "/tmp" {
		return nil
	}
	if !filepath.IsAbs(dir) {
		return tool.Errorf(tool.ParameterError, "directory %q is not absolute", dir)
	}
	host, visible := p.layout.Host(dir)
	if !visible && p.custom {
		return nil
	}
	info, err := os.Stat(host)
	if !visible || err != nil || !info.IsDir() {
		return tool.Errorf(tool.NotFound, "there is no directory %s in the sandbox", dir).
			WithHint("Work in a directory that the profile grants.")
	}
	return nil
}

// request is what the daemon is to make of a plan.
func (r *Runner) request(p *plan, m *measured, g *gate) (*createRequest, error) {
	executable, err := r.executable()
	if err != nil {
		return nil, err
	}
	profile := &p.cmd.Profile
	filter, err := seccomp.DockerJSON(seccomp.Options{Sockets: seccomp.OwnSockets})
	if err != nil {
		return nil, err
	}
	c := &createRequest{
		Image: p.image, User: fmt.Sprintf("%d:%d", p.uid, p.gid), Hostname: "sandbox", WorkingDir: p.cmd.Dir,
		Entrypoint: append([]string{launcherTarget, passTarget, recordsTarget}, p.cmd.Args...), Cmd: []string{},
		Env: environment(p.cmd), Labels: map[string]string{labelOwner: process.Identity(), labelMachine: machine()},
		Tty: p.cmd.TTY != nil, OpenStdin: p.cmd.Stdin != nil || p.cmd.TTY != nil, StdinOnce: true, AttachStdin: p.cmd.Stdin != nil || p.cmd.TTY != nil,
		Healthcheck: healthcheck{[]string{"NONE"}},
		HostConfig: hostConfig{
			NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private", ReadonlyRootfs: true,
			CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges", "seccomp=" + string(filter)},
			MaskedPaths: masked(), Tmpfs: map[string]string{}, LogConfig: logConfig{"none"}, Ulimits: ulimits(profile), OomScoreAdj: 500,
		},
	}
	h := &c.HostConfig
	if m.userns {
		h.UsernsMode = "host" // the files' owners are this machine's
	}
	if p.cmd.TTY != nil && r.client.atLeast("1.42") {
		size := sizeOf(p.cmd.TTY)
		h.ConsoleSize = &[2]uint16{size.Row, size.Col}
	}
	if err := h.limit(profile, m); err != nil {
		return nil, err
	}
	options := fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,nr_inodes=%d", p.layout.TmpInodes)
	if size := p.layout.TmpBytes; size > 0 {
		options += fmt.Sprintf(",size=%d", size)
		h.ShmSize = size
	}
	h.Tmpfs["/tmp"] = options
	for _, q := range p.places {
		switch {
		case !q.Hidden && q.Target == "/tmp":
			delete(h.Tmpfs, "/tmp")
			fallthrough
		case !q.Hidden:
			h.Mounts = append(h.Mounts, bind(q.Source, q.Target, !q.Write))
		case q.Dir:
			h.Mounts = append(h.Mounts, bind(filepath.Join(filepath.Dir(g.pass.Name()), emptyDir), q.Target, true))
		default:
			h.Mounts = append(h.Mounts, bind(filepath.Join(filepath.Dir(g.pass.Name()), emptyFile), q.Target, true))
		}
	}
	for name := range etcFiles {
		if !slices.ContainsFunc(p.places, func(q sandbox.Bind) bool { return q.Target == "/etc" || q.Target == name }) {
			h.Mounts = append(h.Mounts, bind(filepath.Join(filepath.Dir(g.pass.Name()), filepath.Base(name)), name, true))
		}
	}
	h.Mounts = append(h.Mounts, bind(executable, launcherTarget, true), bind(g.pass.Name(), passTarget, true), bind(g.records.Name(), recordsTarget, true))
	return c, nil
}

func bind(source, target string, readOnly bool) mount {
	// A read-only mount says nothing of the mounts below it; those that are to be
	// seen have a place of their own.
	return mount{Type: "bind", Source: source, Target: target, ReadOnly: readOnly, BindOptions: bindOptions{Propagation: "rprivate", NonRecursive: readOnly}}
}

// kernelPaths tell about the machine and its kernel. A container's own /proc shows
// them, to root at least; hidden, they can be opened and are empty.
var kernelPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/kpagecgroup",
	"/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/pagetypeinfo", "/proc/sched_debug", "/proc/scsi", "/proc/slabinfo",
	"/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo",
}

// masked lists what is hidden below /proc and /sys: of the latter all but the
// processors, which several runtimes count.
func masked() []string {
	list := slices.Clone(kernelPaths)
	for _, dir := range []string{"/sys", "/sys/devices", "/sys/devices/system"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if path := filepath.Join(dir, e.Name()); path != "/sys/devices" && path != "/sys/devices/system" && path != "/sys/devices/system/cpu" {
				list = append(list, path)
			}
		}
	}
	return list
}

// limit sets what the kernel counts for the whole container.
func (h *hostConfig) limit(p *sandbox.Profile, m *measured) error {
	if p.Memory > 0 {
		if p.Memory < leastMemory {
			return tool.Errorf(tool.ParameterError, "memory %d is too little for a container: %d is the least", p.Memory, leastMemory)
		}
		h.Memory, h.MemorySwap = p.Memory, p.Memory
	}
	if p.PIDs > 0 {
		h.PidsLimit = int64(p.PIDs + initThreads)
	}
	if p.CPUShare > 0 {
		h.NanoCpus = int64(min(max(p.CPUShare, 0.01), float64(max(m.cpus, 1))) * 1e9)
	}
	return nil
}

// ulimits are per process, the second line behind the control group.
func ulimits(p *sandbox.Profile) []ulimit {
	list := []ulimit{{"core", 0, 0}}
	if p.Files > 0 {
		list = append(list, ulimit{"nofile", int64(p.Files), int64(p.Files)})
	}
	if p.Disk > 0 {
		list = append(list, ulimit{"fsize", p.Disk, p.Disk})
	}
	if p.CPU > 0 {
		n := int64(p.CPU.Seconds()) + 1
		list = append(list, ulimit{"cpu", n, n + 1}) // SIGXCPU says which limit it was; SIGKILL would not
	}
	return list
}

// environment is the command's, without what the daemon adds: a name without a
// value takes it away.
func environment(cmd *sandbox.Cmd) []string {
	env := sandbox.CleanEnv(cmd.Env)
	for _, added := range []string{"HOSTNAME", "PATH", "TERM"} {
		if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, added+"=") }) {
			env = append(env, added)
		}
	}
	return append(env, launch.Marker+"="+launch.Gate)
}

// machine is where the numbers of processes mean what they mean here: one boot,
// one pid namespace.
func machine() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return base64.RawURLEncoding.EncodeToString([]byte(strings.TrimSpace(string(boot)) + " " + namespace))
}

// image is the name of the image for a root, kept for the next command.
func (r *Runner) image(ctx context.Context, root root) (string, error) {
	key := fmt.Sprint(root)
	r.mu.Lock()
	name := r.images[key]
	r.mu.Unlock()
	if name != "" {
		return name, nil
	}
	name, err := r.client.image(ctx, root)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.images) > 100 {
		clear(r.images)
	}
	r.images[key] = name
	return name, nil
}

// sweep removes the containers of runtimes that are dead.
func (r *Runner) sweep(ctx context.Context) error {
	var list []listed
	filter := fmt.Sprintf(`{"label":[%q]}`, labelMachine+"="+machine())
	if err := r.client.call(ctx, http.MethodGet, "/containers/json", url.Values{"all": {"1"}, "filters": {filter}}, nil, &list); err != nil {
		return err
	}
	var errs []error
	for _, c := range list {
		if owner := c.Labels[labelOwner]; owner != "" && !process.Alive(owner) {
			errs = append(errs, r.remove(ctx, c.ID))
		}
	}
	return errors.Join(errs...)
}

// remove takes a container away, with all that runs in it.
func (r *Runner) remove(ctx context.Context, id string) error {
	err := r.client.call(ctx, http.MethodDelete, "/containers/"+id, url.Values{"force": {"1"}, "v": {"1"}}, nil, nil)
	if is(err, http.StatusNotFound) || is(err, http.StatusConflict) { // 409: somebody removes it already
		return nil
	}
	return err
}
