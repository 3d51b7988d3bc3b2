package sandboxtest

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// aim is what one run of an attack is aimed at, made for it alone. The bodies
// know each thing as a variable:
//
//	WS        the workspace, granted for writing, which is a git repository
//	RO        a directory granted for reading, with the file program in it
//	OUT       a directory that is not granted, with a file secret and one named
//	          hidden in the directory sub
//	SECRET    the file secret in OUT
//	VICTIM    the process ID of somebody outside: its working directory is OUT, its
//	          standard input SECRET, its environment has the token
//	TCP TCP6 UDP UDP6  ports of servers on 127.0.0.1 and ::1
//	HOSTIP    an address of the machine that is not loopback, and the port of a server
//	SOCK DGRAM  sockets outside;  ABSTRACT ADGRAM  abstract ones, without the NUL
//	WSSOCK ROSOCK  sockets of servers outside that lie in WS and in RO
//	SHM MSG SEM  System V objects outside;  MQ  a POSIX message queue outside
//	MARK      a word that no other run uses
//	WEB       the port of a web server on 127.0.0.1, which may be reached
//	FREE      a port that nobody listens on
//	NODE HOSTS IPC  the machine's name, its hosts, its IPC namespace
//	INHERITED a descriptor of SECRET that the test left open for its children
//	SELF      the helper
//	CONFINED  is set in the sandbox only
type aim struct {
	dir    string
	vars   map[string]string
	token  string
	secret string // of the test's environment

	mu       sync.Mutex
	received []string
	signals  []string

	victim  *exec.Cmd
	closers []func()
	forks   bool  // a body may leave processes behind
	appears bool  // a body makes files with MARK as their name
	killed  []int // what killCarriers has ended
}

func newToken() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// aim makes the targets that an attack names.
func (c *Corpus) aim(t *testing.T, a *Attack) *aim {
	t.Helper()
	// Short: the path of a socket has room for 107 bytes.
	dir, err := os.MkdirTemp("", "sbx")
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	self, err := c.Self, error(nil)
	if self == "" {
		self, err = os.Executable()
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &aim{dir: dir, token: newToken(), secret: c.secret, vars: map[string]string{}}
	m.forks = a.mentions("&") || a.mentions("fork") || a.mentions("spawn") || a.mentions("clone") || a.Category == "lifetime"
	m.appears = strings.HasPrefix(a.Evidence, "appears") || a.mentions("/dev/shm/") || a.mentions("cgroup")
	t.Cleanup(m.tidy)
	name := filepath.Base(dir)
	m.vars = map[string]string{
		"WS": filepath.Join(dir, "ws"), "RO": filepath.Join(dir, "ro"), "OUT": filepath.Join(dir, "out"),
		"SECRET": filepath.Join(dir, "out", "secret"), "MARK": "mark-" + name, "SELF": self, "UID": strconv.Itoa(os.Getuid()),
	}
	m.files(t)
	m.servers(t, a)
	m.objects(a)
	m.facts(a)
	if a.mentions("VICTIM") || strings.HasPrefix(a.Evidence, "victim") {
		m.startVictim(t, c)
	}
	if c.User != 0 {
		m.giveTo(t, c.User)
	}
	return m
}

// files makes the directories.
func (m *aim) files(t *testing.T) {
	write := func(path, text string, mode os.FileMode) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	out, ro, ws := m.vars["OUT"], m.vars["RO"], m.vars["WS"]
	write(m.vars["SECRET"], m.token+"\n", 0o600)
	write(filepath.Join(out, "sub", "hidden"), m.token, 0o600)
	write(filepath.Join(out, "named-"+m.token), "", 0o600)
	write(filepath.Join(out, "tool"), "#!/bin/sh\necho "+m.token+"\n", 0o755)
	write(filepath.Join(ro, "program"), "#!/bin/sh\necho program\n", 0o755)
	write(filepath.Join(ro, "setuid"), "", 0o755)
	write(filepath.Join(ro, "private", "key"), "denied "+m.token+"\n", 0o644)
	_ = unix.Setxattr(m.vars["SECRET"], "user.token", []byte(m.token), 0)
	if err := os.Symlink(m.token, filepath.Join(out, "pointer")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(ro, "setuid"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		".git/hooks/pre-commit": "#!/bin/sh\n", ".git/config": "[core]\n\tbare = false\n", ".git/HEAD": "ref: refs/heads/main\n",
		".git/objects/info/x": "", ".git/refs/heads/x": "", ".env": "SECRET=0\n", ".mcp.json": "{}", ".claude/settings.json": "{}",
		"go.mod": "module x\n", "private/key": "denied " + m.token + "\n", "deep/down/key": "denied " + m.token + "\n", "src/main.go": "package main\n",
	} {
		write(filepath.Join(ws, name), text, 0o644)
	}
	if err := os.Symlink(m.vars["SECRET"], filepath.Join(ws, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(out, filepath.Join(ws, "dirlink")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// servers listens wherever a body may want to connect to.
func (m *aim) servers(t *testing.T, a *Attack) {
	short := filepath.Join(m.dir, "s")
	if err := os.Mkdir(short, 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(m.dir)
	for _, s := range []struct{ variable, network, address string }{
		{"TCP", "tcp", "127.0.0.1:0"}, {"TCP6", "tcp", "[::1]:0"}, {"UDP", "udp", "127.0.0.1:0"}, {"UDP6", "udp", "[::1]:0"},
		{"HOSTIP", "tcp", hostAddress() + ":0"},
		{"SOCK", "unix", filepath.Join(short, "sock")}, {"DGRAM", "unixgram", filepath.Join(short, "dgram")},
		{"ABSTRACT", "unix", "@" + name}, {"ADGRAM", "unixgram", "@d" + name},
		{"WSSOCK", "unix", filepath.Join(m.vars["WS"], "host.sock")}, {"ROSOCK", "unix", filepath.Join(m.vars["RO"], "host.sock")},
	} {
		if !a.mentions(s.variable) {
			continue
		}
		address, err := m.serve(s.network, s.address)
		if err != nil {
			m.vars[s.variable] = "none"
			continue
		}
		if _, port, err := net.SplitHostPort(address); err == nil && s.variable != "HOSTIP" {
			address = port
		}
		m.vars[s.variable] = strings.TrimPrefix(address, "@")
	}
}

// hostAddress is an address of the machine that is not loopback; "invalid" if
// it has none.
func hostAddress() string {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "invalid"
}

// serve notes every connection and packet.
func (m *aim) serve(network, address string) (string, error) {
	note := func(what string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.received = append(m.received, network+" "+what)
	}
	if network == "udp" || network == "unixgram" {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			return "", err
		}
		m.closers = append(m.closers, func() { c.Close() })
		go func() {
			buf := make([]byte, 256)
			for {
				n, from, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				note(strconv.Quote(string(buf[:n])))
				if from != nil {
					_, _ = c.WriteTo([]byte(m.token), from)
				}
			}
		}()
		return c.LocalAddr().String(), nil
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return "", err
	}
	m.closers = append(m.closers, func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			note("connection")
			_, _ = c.Write([]byte(m.token))
			c.Close()
		}
	}()
	return l.Addr().String(), nil
}

// objects makes what System V and POSIX call IPC.
func (m *aim) objects(a *Attack) {
	set := func(variable string, id int, err error, remove func()) {
		m.vars[variable] = "-1"
		if err == nil {
			m.vars[variable] = strconv.Itoa(id)
			m.closers = append(m.closers, remove)
		}
	}
	if a.mentions("SHM") {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666)
		if err == nil {
			if at, err := unix.SysvShmAttach(id, 0, 0); err == nil {
				copy(at, m.token)
				_ = unix.SysvShmDetach(at)
			}
		}
		set("SHM", id, err, func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	}
	if a.mentions("MSG") {
		id, err := sysv(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o666)
		if err == nil {
			sendMessage(id, m.token)
		}
		set("MSG", id, err, func() { _, _ = sysv(unix.SYS_MSGCTL, uintptr(id), unix.IPC_RMID) })
	}
	if a.mentions("SEM") {
		id, err := sysv(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, unix.IPC_CREAT|0o666)
		set("SEM", id, err, func() { _, _ = sysv(unix.SYS_SEMCTL, uintptr(id), 0, unix.IPC_RMID) })
	}
	if a.mentions("MQ") {
		name := "q" + filepath.Base(m.dir)
		fd, err := openQueue(name, unix.O_CREAT|unix.O_RDWR)
		m.vars["MQ"] = name
		if err == nil {
			sendQueue(fd, m.token)
			m.closers = append(m.closers, func() { unix.Close(fd); unlinkQueue(name) })
		}
	}
}

// startVictim starts somebody outside. A victim that looks for signals notes
// them all.
func (m *aim) startVictim(t *testing.T, c *Corpus) {
	secret, err := os.Open(m.vars["SECRET"])
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	cmd := exec.Command(m.vars["SELF"], VictimArg, m.token)
	cmd.Dir, cmd.Env, cmd.Stdin = m.vars["OUT"], []string{"VICTIM_SECRET=" + m.token}, secret
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if c.User != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.User), Gid: uint32(c.User)}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the victim does not live")
	}
	go func() {
		for lines.Scan() {
			m.mu.Lock()
			m.signals = append(m.signals, lines.Text())
			m.mu.Unlock()
		}
	}()
	m.victim = cmd
	m.vars["VICTIM"] = strconv.Itoa(cmd.Process.Pid)
}

// giveTo makes everything somebody else's.
func (m *aim) giveTo(t *testing.T, uid int) {
	err := filepath.WalkDir(m.dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// env is the whole environment of a body.
func (m *aim) env(a *Attack) []string {
	env := []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + m.vars["WS"], "ATTACK=" + m.vars["MARK"]}
	for name, value := range m.vars {
		env = append(env, name+"="+value)
	}
	for _, e := range a.Env {
		env = append(env, os.Expand(e, func(name string) string { return m.vars[name] }))
	}
	return env
}

// profile is what the sandbox of an attack is granted.
func (m *aim) profile(t *testing.T, a *Attack) sandbox.Profile {
	t.Helper()
	p := sandbox.Profile{Write: []string{m.vars["WS"]}, Read: []string{m.vars["RO"], m.vars["SELF"]}, Wall: attackTimeout}
	expand := func(path string) string { return os.Expand(path, func(name string) string { return m.vars[name] }) }
	for _, path := range a.Deny {
		p.Deny = append(p.Deny, expand(path))
	}
	if len(a.Net) > 0 {
		var entries []string
		for _, e := range a.Net {
			entries = append(entries, expand(e))
		}
		p.Network = sandbox.NetworkOf(entries)
	}
	for _, path := range a.Write {
		p.Write = append(p.Write, expand(path))
	}
	for _, limit := range a.Limit {
		name, value, _ := strings.Cut(limit, "=")
		n := number(value)
		switch name {
		case "memory":
			p.Memory = int64(n) << 20
		case "pids":
			p.PIDs = n
		case "files":
			p.Files = n
		case "tmp":
			p.Tmp = int64(n) << 20
		case "disk":
			p.Disk = int64(n) << 20
		case "inodes":
			p.Inodes = n
		case "cpu":
			p.CPU = time.Duration(n) * time.Second
		case "wall":
			p.Wall = time.Duration(n) * time.Second
		default:
			t.Fatalf("no limit %q", name)
		}
	}
	return p
}

// during is what the machine does while a body runs.
func (m *aim) during(a *Attack) {
	if a.Evidence != "listens" {
		return
	}
	for range 30 {
		for _, to := range [][2]string{{"tcp", "127.0.0.1:" + m.vars["FREE"]}, {"unix", "@" + m.vars["MARK"]}} {
			if c, err := net.Dial(to[0], to[1]); err == nil {
				c.Close()
				m.mu.Lock()
				m.received = append(m.received, "connected to "+to[1])
				m.mu.Unlock()
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// facts are what the machine is like.
func (m *aim) facts(a *Attack) {
	if a.mentions("FREE") {
		if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
			_, m.vars["FREE"], _ = net.SplitHostPort(l.Addr().String())
			l.Close()
		}
	}
	if a.mentions("WEB") {
		if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
			_, m.vars["WEB"], _ = net.SplitHostPort(l.Addr().String())
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.Host) })}
			go func() { _ = server.Serve(l) }()
			m.closers = append(m.closers, func() { server.Close() })
		}
	}
	if a.mentions("INHERITED") {
		if fd, err := unix.Open(m.vars["SECRET"], unix.O_RDONLY, 0); err == nil {
			// A number that the shell of a body uses for nothing else.
			const high = 200
			if inherited, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, high); err == nil {
				m.vars["INHERITED"] = strconv.Itoa(inherited)
				m.closers = append(m.closers, func() { unix.Close(inherited) })
			}
			unix.Close(fd)
		}
	}
	m.vars["NODE"], _ = os.Hostname()
	m.vars["IPC"], _ = os.Readlink("/proc/self/ns/ipc")
	hosts, _ := os.ReadFile("/etc/hosts")
	m.vars["HOSTS"] = strings.TrimRight(string(hosts), "\n")
}

// marker is the variable by which the processes of an attack are found.
func (m *aim) marker() string { return "ATTACK=" + m.vars["MARK"] }

// killCarriers ends what an attack has left behind.
func (m *aim) killCarriers() {
	if m.forks {
		m.killAll()
	}
}

// killAll does that whether or not the attack is said to leave something.
func (m *aim) killAll() {
	for range 20 {
		left := m.carriers()
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		m.killed = append(m.killed, left...)
		time.Sleep(time.Millisecond)
	}
}

// carriers are the processes of the attack, by their environment or arguments.
func (m *aim) carriers() []int {
	pids := Carriers(m.marker())
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		args, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && strings.HasPrefix(string(args), m.vars["MARK"]) {
			pids = append(pids, number(e.Name()))
		}
	}
	return pids
}

// removeMarked removes what bodies make all over the machine.
func (m *aim) removeMarked() {
	for _, glob := range []string{
		"/dev/shm/", "/tmp/", "/var/tmp/", "/dev/", "/dev/mqueue/", "/run/", "/root/", "/etc/", "/etc/*/", "/etc/systemd/system/",
		"/usr/local/bin/", "/usr/local/sbin/", "/usr/lib/*/", "/usr/lib/python3/dist-packages/", "/var/spool/cron/",
	} {
		left, _ := filepath.Glob(glob + m.vars["MARK"] + "*")
		for _, path := range left {
			_ = os.RemoveAll(path)
		}
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + m.vars["MARK"])
	for _, g := range groups {
		_ = unix.Rmdir(g)
	}
}

// tidy takes the targets away.
func (m *aim) tidy() {
	m.killCarriers()
	// One that was made with CLONE_PARENT is a child of this process.
	for _, pid := range m.killed {
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
	if m.victim != nil {
		_ = m.victim.Process.Kill()
		_ = m.victim.Wait()
		m.victim = nil
	}
	for _, c := range m.closers {
		c()
	}
	m.closers = nil
	if m.dir == "" {
		return
	}
	if m.appears {
		m.removeMarked()
	}
	_ = filepath.WalkDir(m.dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(m.dir)
	m.dir = ""
}

func sysv(nr uintptr, args ...uintptr) (int, error) {
	var a [4]uintptr
	copy(a[:], args)
	r, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// fail is an error of the set-up of a body, which is no refusal.
type broken struct{ error }

func brokenf(format string, args ...any) error { return broken{fmt.Errorf(format, args...)} }
