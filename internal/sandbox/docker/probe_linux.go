//go:build amd64 || arm64

package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// probeTimeout is how long a container may take to be measured: a first start
// may load the daemon's own programs from a cold disk.
const probeTimeout = 60 * time.Second

// measured is what a probe found.
type measured struct {
	report   sandbox.Report
	rootless bool // the daemon's root is this process's user
	userns   bool // the daemon maps root to another user unless told not to
	cpus     int
}

func (m *measured) meta() tool.SandboxMeta {
	missing := []string{}
	for _, x := range m.report.Missing {
		missing = append(missing, x.Layer)
	}
	return tool.SandboxMeta{Level: string(m.report.Level), Layers: slices.Clone(m.report.Layers), Missing: missing}
}

// measure returns the kept probe, or makes it. A failure is not kept: the daemon
// may be started meanwhile.
func (r *Runner) measure(ctx context.Context) *measured {
	r.probeOnce.Lock()
	defer r.probeOnce.Unlock()
	r.mu.Lock()
	m := r.probed
	r.mu.Unlock()
	if m != nil {
		return m
	}
	m = r.probe(ctx)
	if m.report.Level != "" {
		r.mu.Lock()
		r.probed = m
		r.mu.Unlock()
	}
	return m
}

func (r *Runner) probe(ctx context.Context) *measured {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	none := func(layer, reason, fix string) *measured {
		return &measured{report: sandbox.Report{Layers: []string{}, Missing: []sandbox.Missing{{Layer: layer, Reason: reason, Fix: fix}}}}
	}
	if r.clientErr != nil {
		return none("docker", r.clientErr.Error(), "Set DOCKER_HOST to the unix socket of a daemon on this machine.")
	}
	var info information
	if err := r.client.call(ctx, http.MethodGet, "/info", nil, nil, &info); err != nil {
		return none("docker", err.Error(), "Start Docker, let this user open its socket, or set sandbox.driver to local.")
	}
	sweepDirs()
	if err := r.sweep(ctx); err != nil {
		r.config.Log.Warn("docker: removing containers of dead runtimes", "error", err)
	}
	if reason, fix := r.checkImage(ctx); reason != "" {
		return none("image", reason, fix)
	}
	m := &measured{cpus: info.NCPU, report: sandbox.Report{Layers: []string{}}}
	for _, option := range info.SecurityOptions {
		m.rootless = m.rootless || strings.HasPrefix(option, "name=rootless")
		m.userns = m.userns || strings.HasPrefix(option, "name=userns")
	}
	seen, err := r.look(ctx, m)
	if err != nil {
		reason := err.Error()
		if e := tool.AsError(err); e != nil {
			reason = e.Message
		}
		fix := "Look at the daemon's log; a container with no capability, no network and a read-only root must start there."
		if r.config.Image != "" {
			fix = "The image " + r.config.Image + " must hold cat, and a loader for this program unless it was built with CGO_ENABLED=0."
		}
		return none("container", reason, fix)
	}
	m.report = judge(seen, info)
	return m
}

// checkImage refuses an image that is not there or brings volumes.
func (r *Runner) checkImage(ctx context.Context) (reason, fix string) {
	if r.config.Image == "" {
		return "", ""
	}
	var image imageInspected
	err := r.client.call(ctx, http.MethodGet, "/images/"+r.config.Image+"/json", nil, nil, &image)
	switch {
	case is(err, http.StatusNotFound):
		return "the Docker image " + r.config.Image + " is not there", "Run docker pull " + r.config.Image + ", or leave sandbox.image empty to use the machine's own programs."
	case err != nil:
		return err.Error(), "Look at the image with docker image inspect."
	case len(image.Config.Volumes) > 0:
		return "the Docker image " + r.config.Image + " declares volumes, which a command could fill", "Use an image without VOLUME."
	}
	return "", ""
}

// seen is what was found in a container.
type seen struct {
	text       string // files of /proc, one after the other
	namespaces []string
	secret     bool // a file of this machine was visible
	group      bool // so are the container's counters
}

// look runs a container that prints what the kernel says about it.
func (r *Runner) look(ctx context.Context, m *measured) (*seen, error) {
	dir, err := r.private()
	if err != nil {
		return nil, err
	}
	// A directory of this user's, so that the container runs as this user and can
	// be looked into.
	work, err := os.MkdirTemp(dir, "probe")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	secret := rand.Text()
	if err := os.WriteFile(filepath.Join(work, "secret"), []byte(secret), 0o600); err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := &sandbox.Cmd{
		Args: []string{"cat", "/proc/self/status", "/proc/self/mountinfo", "/proc/net/dev", "/proc/self/attr/current", filepath.Join(work, "secret")},
		Env:  []string{"PATH=/usr/bin:/bin"}, Stdout: theirs,
		Profile: sandbox.Profile{
			Kind: "run", Write: []string{work}, Protected: []string{}, Mounts: sandbox.Toolchains("/usr/bin:/bin", "").Mounts, Wall: probeTimeout,
		}.Defaults(),
	}
	p, err := r.begin(ctx, cmd, m)
	theirs.Close()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	s := &seen{namespaces: p.spaces}
	text, err := io.ReadAll(io.LimitReader(out, 1<<20))
	if err != nil {
		return nil, err
	}
	result := p.Wait(ctx)
	if !bytes.Contains(text, []byte("NSpid:")) {
		return nil, fmt.Errorf("a probe ended by %s %d", result.Ending.Reason, result.Ending.Code)
	}
	s.text, s.secret = string(text), bytes.Contains(text, []byte(secret))
	p.mu.Lock()
	s.group = p.meter.group != nil
	p.mu.Unlock()
	return s, nil
}

// differing lists the namespaces of a process that are not this one's.
func differing(pid int) []string {
	var names []string
	for _, name := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, name))
		ours, err2 := os.Readlink("/proc/self/ns/" + name)
		if err == nil && err2 == nil && theirs != ours {
			if name == "mnt" {
				name = "mount"
			}
			names = append(names, name+"_ns")
		}
	}
	return names
}

// layer is one thing that must hold in a container, and what shows it.
type layer struct {
	name  string
	holds func(*seen) bool
	why   string
}

// line matches one whole line of the probe's text.
func line(pattern string) func(*seen) bool {
	r := regexp.MustCompile(`(?m)^` + pattern + `$`)
	return func(s *seen) bool { return r.MatchString(s.text) }
}

func namespace(name string) func(*seen) bool {
	return func(s *seen) bool { return slices.Contains(s.namespaces, name) }
}

// layers are what Level docker means. Without one of them a command is refused.
// To add one: a line here.
func layers() []layer {
	return []layer{
		{"mount_ns", namespace("mount_ns"), "the container shares the machine's mounts, or cannot be looked at from here"},
		{"pid_ns", namespace("pid_ns"), "the container shares the machine's processes"},
		{"net_ns", namespace("net_ns"), "the container shares the machine's network"},
		{"ipc_ns", namespace("ipc_ns"), "the container shares the machine's shared memory"},
		{"uts_ns", namespace("uts_ns"), "the container shares the machine's name"},
		{"cgroup_ns", namespace("cgroup_ns"), "the container sees the machine's control groups"},
		{"no_network", loopbackOnly, "the container has a network device"},
		{"read_only_root", line(`\S+ \S+ \S+ / / ro\b.*`), "the container's root can be written to"},
		{"capabilities", line(`CapBnd:\s*0+`), "the container keeps capabilities"},
		{"no_new_privs", line(`NoNewPrivs:\s*1`), "the container may gain privileges"},
		{"seccomp", line(`Seccomp:\s*2`), "the daemon applies no filter of system calls"},
		{"files", func(s *seen) bool { return s.secret }, "the daemon does not see the files of this process: it runs on another machine or in another container"},
	}
}

// loopbackOnly looks at /proc/net/dev.
func loopbackOnly(s *seen) bool {
	devices := regexp.MustCompile(`(?m)^\s*(\S+):\s+\d+(?:\s+\d+){15}\s*$`).FindAllStringSubmatch(s.text, -1)
	return len(devices) == 1 && devices[0][1] == "lo"
}

// judge turns what was seen into a report.
func judge(s *seen, info information) sandbox.Report {
	r := sandbox.Report{Level: sandbox.Docker, Layers: []string{"container"}, Missing: []sandbox.Missing{}}
	lack := func(layer, reason, fix string) {
		r.Missing = append(r.Missing, sandbox.Missing{Layer: layer, Reason: reason, Fix: fix})
	}
	for _, l := range layers() {
		if l.holds(s) {
			r.Layers = append(r.Layers, l.name)
			continue
		}
		r.Level = ""
		lack(l.name, l.why, "Use a Docker daemon on this machine with its defaults, or set sandbox.driver to local.")
	}
	if slices.Contains(s.namespaces, "user_ns") {
		r.Layers = append(r.Layers, "user_ns")
	}
	if line(`\S+ \(enforce\)`)(s) {
		r.Layers = append(r.Layers, "apparmor")
	}
	r.Layers = append(r.Layers, "cgroup("+info.CgroupVersion+")")
	const fix = "Run the Docker daemon where it may use the control groups of memory, pids and cpu."
	for _, c := range []struct {
		has   bool
		layer string
	}{{info.MemoryLimit, "memory limit"}, {info.SwapLimit, "swap limit"}, {info.PidsLimit, "pids limit"}, {info.CpuCfsQuota, "cpu share"}} {
		if !c.has {
			lack(c.layer, "the Docker daemon cannot limit it here", fix)
		}
	}
	if !s.group {
		lack("counters", "the containers' control groups cannot be seen from here; the daemon is asked four times a second instead", "")
	}
	if !slices.Contains(s.namespaces, "user_ns") {
		lack("user limits", "what the kernel counts for a user, such as inotify instances, is shared with the user's other processes", "Run the Docker daemon with userns-remap.")
	}
	lack("end with the runtime", "a container outlives a runtime that is killed until the next one starts and removes it", "")
	return r
}
