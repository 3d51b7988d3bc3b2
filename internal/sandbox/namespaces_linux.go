//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/launch"
	"github.com/toolyard/toolyard/internal/sandbox/landlock"
	"github.com/toolyard/toolyard/internal/sandbox/seccomp"
)

// oldRoot is where the host's files are while the new root is built. The name
// is one that a grant cannot have.
const oldRoot = "/.host"

// devices are what a program may expect below /dev.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

const sizeofMountAttr = 32 // MOUNT_ATTR_SIZE_VER0

// builder writes the program of one launch.
type builder struct {
	*program
	profile    *Profile
	tree       *tree
	abi        int // of Landlock
	uid        int
	gid        int
	userns     bool
	proc       bool // a fresh /proc can be had
	tty        bool
	groupFiles int
	ownControl bool     // the command gets a descriptor 3
	boundPIDs  bool     // nothing in the kernel counts the tree's processes
	watchTmp   bool     // the runtime measures the tmpfs of the sandbox
	network    *network // nil where there is none
	extraRules []rule   // of Landlock, for files that the set-up puts over the host's
	filter     func(seccomp.Options) []unix.SockFilter
	child      func() // what else the process of the command does to itself

	made  map[string]bool // directories of the new root that exist
	fd    uint32          // slot of the place being mounted
	how   uint32          // open_how that follows no symlink
	attrs map[unix.MountAttr]uint32
}

// footing is the beginning of level L2: everything that can be separated is, and
// the file system holds only what was granted. It needs to know nothing of the
// command itself: see the type of the same name.
func (b *builder) footing() {
	b.more = true
	b.clone = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if b.userns {
		b.clone |= unix.CLONE_NEWUSER
	}
	b.section = launch.Init
	if b.userns {
		b.mapIDs()
	}
	b.loopback()
	b.openNetwork()
	b.call("name the machine", unix.SYS_SETHOSTNAME, b.str("sandbox"), num(len("sandbox")))
	b.newRoot()
	b.system()
	for _, p := range b.tree.places {
		b.mount(p)
	}
	for _, socket := range b.tree.sockets {
		b.hideSocket(socket.target)
	}
	b.networkFiles()
	b.symlinks()
	b.sealRoot()
	b.narrow()
	// What the mounts left open would be in the ruleset's way.
	b.call("close the setup's files", unix.SYS_CLOSE_RANGE, num(launch.ControlFD+1), num(uint32(1<<31-1)), num(0))
	if b.abi > 0 {
		b.ruleset(b.rules())
	}
	b.call("close the rules' files", unix.SYS_CLOSE_RANGE, num(launch.ControlFD+1), num(rulesetFD-1), num(0))
	b.call("close the rules' files", unix.SYS_CLOSE_RANGE, num(rulesetFD+1), num(uint32(1<<31-1)), num(0))
	b.call("hide init while it waits", unix.SYS_PRCTL, num(unix.PR_SET_DUMPABLE), num(0))
}

// namespaces is the rest of level L2, after which nothing can be changed any
// more.
func (b *builder) namespaces() {
	b.section = launch.Init
	// Only now: the root of the namespace is the group that init is in.
	b.call("make a cgroup namespace", unix.SYS_UNSHARE, num(unix.CLONE_NEWCGROUP)).ignore()
	b.measureTmp()
	b.giveUp()
	if b.abi > 0 {
		b.call("enforce the Landlock ruleset", unix.SYS_LANDLOCK_RESTRICT_SELF, num(rulesetFD), num(0))
	}
	b.call("close the setup's files", unix.SYS_CLOSE_RANGE, num(b.firstOfSetUp()), num(uint32(1<<31-1)), num(0))
	b.call("hide init from its children", unix.SYS_PRCTL, num(unix.PR_SET_DUMPABLE), num(0))
	b.seccomp(seccomp.Options{Sockets: seccomp.OwnSockets})
}

// rulesetFD is where a footing keeps its Landlock ruleset, above what the set-up
// opens otherwise.
const rulesetFD = 64

// mapIDs makes the invoker's own ids the only ones of the user namespace, under
// the same numbers, so that files belong to the same user on both sides.
func (b *builder) mapIDs() {
	b.write("/proc/self/setgroups", "deny")
	b.write("/proc/self/uid_map", fmt.Sprintf("%d %d 1", b.uid, b.uid))
	b.write("/proc/self/gid_map", fmt.Sprintf("%d %d 1", b.gid, b.gid))
	// These count for the user outside as well, whose limit is often 128.
	const instances = "/proc/sys/user/max_inotify_instances"
	b.call("open "+instances, unix.SYS_OPENAT, num(0), b.str(instances), num(unix.O_WRONLY|unix.O_CLOEXEC)).store(b.fd).ignore()
	b.call("write "+instances, unix.SYS_WRITE, load(b.fd), b.str("64"), num(2)).ignore()
	b.call("close "+instances, unix.SYS_CLOSE, load(b.fd)).ignore()
}

// write puts text into a file that exists.
func (b *builder) write(path, text string) {
	b.call("open "+path, unix.SYS_OPENAT, num(0), b.str(path), num(unix.O_WRONLY|unix.O_CLOEXEC)).store(b.fd)
	b.call("write "+path, unix.SYS_WRITE, load(b.fd), b.str(text), num(len(text)))
	b.call("close "+path, unix.SYS_CLOSE, load(b.fd))
}

// create makes a small file in the new root.
func (b *builder) create(path, text string, mode uint32) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC
	b.call("create "+path, unix.SYS_OPENAT, num(0), b.str(path), num(flags), num(mode)).store(b.fd)
	if text != "" {
		b.call("write "+path, unix.SYS_WRITE, load(b.fd), b.str(text), num(len(text)))
	}
	b.call("close "+path, unix.SYS_CLOSE, load(b.fd))
}

func (b *builder) loopback() {
	request := struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{name: [unix.IFNAMSIZ]byte{'l', 'o'}, flags: unix.IFF_UP | unix.IFF_RUNNING}
	b.call("open a socket for the loopback device", unix.SYS_SOCKET, num(unix.AF_INET), num(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), num(0)).store(b.fd)
	b.call("bring up the loopback device", unix.SYS_IOCTL, load(b.fd), num(unix.SIOCSIFFLAGS), at(object(b.program, &request)))
	b.call("close the loopback socket", unix.SYS_CLOSE, load(b.fd))
}

// newRoot swaps the root for an empty one, in which the host's is at oldRoot.
func (b *builder) newRoot() {
	const base = "/tmp" // any directory that every host has
	b.call("keep mounts from spreading", unix.SYS_MOUNT, num(0), b.str("/"), num(0), num(unix.MS_REC|unix.MS_PRIVATE), num(0))
	b.tmpfs("make a new root", base, "mode=755,size=8m,nr_inodes=16k", unix.MS_NOSUID|unix.MS_NODEV)
	b.call("make room for the host's files", unix.SYS_MKDIRAT, num(0), b.str(base+oldRoot), num(0o700))
	b.call("enter the new root", unix.SYS_PIVOT_ROOT, b.str(base), b.str(base+oldRoot))
	b.call("leave the old root", unix.SYS_CHDIR, b.str("/"))
}

func (b *builder) tmpfs(name, path, options string, flags int) {
	b.call(name, unix.SYS_MOUNT, b.str("tmpfs"), b.str(path), b.str("tmpfs"), num(flags), b.str(options))
}

// temporary mounts a directory that everybody may write to, limited in bytes and
// files.
func (b *builder) temporary(path string) {
	bytes, inodes := tmpLimits(b.profile)
	options := fmt.Sprintf("mode=1777,nr_inodes=%d", inodes+2) // its root, and one by which the limit is seen to be passed
	if bytes > 0 {
		options += fmt.Sprintf(",size=%d", bytes)
	} else {
		options += ",size=100%"
	}
	b.tmpfs("mount "+path, path, options, unix.MS_NOSUID|unix.MS_NODEV)
}

// measureTmp lets the runtime see what those directories hold.
func (b *builder) measureTmp() {
	if !b.watchTmp {
		return
	}
	for _, path := range []string{"/dev/shm", "/tmp"} {
		if covering(b.tree.places, path) != nil {
			continue
		}
		b.call("find "+path, unix.SYS_OPENAT, num(0), b.str(path), num(unix.O_PATH|unix.O_CLOEXEC)).store(b.fd)
		b.sendFD(b.fd, tmpMessage)
		b.call("close "+path, unix.SYS_CLOSE, load(b.fd))
	}
}

// system mounts what every command finds: /proc, /dev, /tmp, and an /etc/passwd
// that knows the one user.
func (b *builder) system() {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	b.create(emptyFile, "", 0)
	b.mkdir("/proc")
	if b.proc {
		// Read-only: as root, even without a capability, the owner of /proc/sys
		// could change the host's settings there.
		b.call("mount /proc", unix.SYS_MOUNT, b.str("proc"), b.str("/proc"), b.str("proc"), num(safe|unix.MS_RDONLY), num(0))
		b.hideKernel()
	}
	b.mkdir("/dev")
	for _, d := range devices {
		b.create("/dev/"+d, "", 0o666)
		b.attach(oldRoot+"/dev/"+d, "/dev/"+d, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, false, false)
	}
	b.mkdir("/dev/pts")
	b.call("mount /dev/pts", unix.SYS_MOUNT, b.str("devpts"), b.str("/dev/pts"), b.str("devpts"),
		num(unix.MS_NOSUID|unix.MS_NOEXEC), b.str("newinstance,ptmxmode=0666,mode=620"))
	b.mkdir("/dev/shm")
	b.temporary("/dev/shm")
	if covering(b.tree.places, "/tmp") == nil {
		b.mkdir("/tmp")
		b.temporary("/tmp")
	}
	for _, link := range [][2]string{
		{"pts/ptmx", "/dev/ptmx"}, {"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"},
		{"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
	} {
		b.symlink(link[0], link[1])
	}
	if covering(b.tree.places, "/etc/passwd") == nil {
		b.identity()
	}
}

// kernelFiles tell root, whose they are, about the kernel's memory; nobody else
// can read them anyway.
var kernelFiles = []string{
	"/proc/kcore", "/proc/kmsg", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags",
	"/proc/pagetypeinfo", "/proc/slabinfo", "/proc/timer_list", "/proc/vmallocinfo",
}

func (b *builder) hideKernel() {
	if b.uid != 0 {
		return
	}
	for _, path := range kernelFiles {
		if _, err := os.Lstat(path); err == nil {
			b.hide(place{target: path, access: hidden, within: true})
		}
	}
}

func (b *builder) identity() {
	home := b.profile.Home
	if home == "" {
		home = "/"
	}
	b.mkdirAll("/etc")
	b.create("/etc/passwd", fmt.Sprintf("user:x:%d:%d::%s:/bin/sh\n", b.uid, b.gid, home), 0o644)
	b.create("/etc/group", fmt.Sprintf("user:x:%d:\n", b.gid), 0o644)
	b.create("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", 0o644)
	b.create("/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n", 0o644)
}

// mkdir makes one directory of the new root.
func (b *builder) mkdir(path string) {
	if b.made[path] {
		return
	}
	b.made[path] = true
	b.call("make the directory "+path, unix.SYS_MKDIRAT, num(0), b.str(path), num(0o755)).allow(unix.EEXIST)
}

func (b *builder) mkdirAll(path string) {
	if path == "/" || b.made[path] || covering(b.tree.places, path) != nil {
		return
	}
	b.mkdirAll(filepath.Dir(path))
	b.mkdir(path)
}

func (b *builder) symlink(to, path string) {
	b.call("link "+path, unix.SYS_SYMLINKAT, b.str(to), num(0), b.str(path))
}

// mount makes one place visible.
func (b *builder) mount(p place) {
	if !p.within {
		b.mkdirAll(filepath.Dir(p.target))
		if p.dir {
			b.mkdir(p.target)
		} else {
			b.create(p.target, "", 0o444)
		}
	}
	attrs := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	switch p.access {
	case hidden:
		b.hide(p)
		return
	case readOnly:
		attrs.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	b.attach(oldRoot+p.source, p.target, attrs.Attr_set, true, p.within)
}

// emptyFile is what is mounted over a file to hide it.
const emptyFile = "/.empty"

// hide puts something empty that nobody can open over a path.
func (b *builder) hide(p place) {
	if p.dir {
		b.tmpfs("hide "+p.target, p.target, "mode=000,size=4k,nr_inodes=2", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
		return
	}
	b.attach(emptyFile, p.target, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, false, true)
}

// hideSocket puts an empty file over a socket, if it is still there.
func (b *builder) hideSocket(path string) {
	b.call("find "+path, unix.SYS_OPENAT2, num(0), b.str(path), at(b.how), num(unix.SizeofOpenHow)).store(b.fd).ignore()
	b.call("take "+emptyFile, unix.SYS_OPEN_TREE, num(0), b.str(emptyFile), num(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)).store(b.fd + 4)
	b.call("hide "+path, unix.SYS_MOVE_MOUNT, load(b.fd+4), b.str(""), load(b.fd), b.str(""),
		num(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)).ignore()
}

// attach mounts source at target. Neither path is followed through a symlink:
// another command in the same workspace could have put one there since the
// paths were looked at.
func (b *builder) attach(source, target string, flags uint64, recursive, within bool) {
	tree := unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH
	set := unix.AT_EMPTY_PATH
	if recursive {
		tree |= unix.AT_RECURSIVE
		set |= unix.AT_RECURSIVE
	}
	b.open("find "+strings.TrimPrefix(source, oldRoot), source)
	b.call("take "+strings.TrimPrefix(source, oldRoot), unix.SYS_OPEN_TREE, load(b.fd), b.str(""), num(tree)).store(b.fd + 4)
	b.call("restrict "+target, unix.SYS_MOUNT_SETATTR, load(b.fd+4), b.str(""), num(set),
		at(b.attr(unix.MountAttr{Attr_set: flags})), num(sizeofMountAttr))
	if within {
		b.open("find "+target, target)
		b.call("mount "+target, unix.SYS_MOVE_MOUNT, load(b.fd+4), b.str(""), load(b.fd), b.str(""),
			num(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
		return
	}
	b.call("mount "+target, unix.SYS_MOVE_MOUNT, load(b.fd+4), b.str(""), num(0), b.str(target), num(unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// open leaves a descriptor of the path in b.fd. It stays open until the end of
// the set-up, where all are closed at once.
func (b *builder) open(name, path string) {
	b.call(name, unix.SYS_OPENAT2, num(0), b.str(path), at(b.how), num(unix.SizeofOpenHow)).store(b.fd)
}

func (b *builder) attr(a unix.MountAttr) uint32 {
	offset, ok := b.attrs[a]
	if !ok {
		offset = object(b.program, &a)
		b.attrs[a] = offset
	}
	return offset
}

// symlinks makes the names that lead to places.
func (b *builder) symlinks() {
	for _, name := range slices.Sorted(maps.Keys(b.tree.links)) {
		b.mkdirAll(filepath.Dir(name))
		b.call("link "+name, unix.SYS_SYMLINKAT, b.str(b.tree.links[name]), num(0), b.str(name)).allow(unix.EEXIST)
	}
}

// sealRoot lets go of the host's files and makes the new root read-only.
func (b *builder) sealRoot() {
	if dir := b.profile.Home; dir != "" {
		b.mkdirAll(dir)
	}
	b.call("let go of the host's files", unix.SYS_UMOUNT2, b.str(oldRoot), num(unix.MNT_DETACH))
	b.call("remove "+oldRoot, unix.SYS_UNLINKAT, num(0), b.str(oldRoot), num(unix.AT_REMOVEDIR))
	b.call("make the root read-only", unix.SYS_MOUNT_SETATTR, num(0), b.str("/"), num(0),
		at(b.attr(unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})), num(sizeofMountAttr))
}

// dropPrivileges gives up every capability for good.
func (b *builder) dropPrivileges() {
	b.narrow()
	b.giveUp()
}

// narrow makes sure that no capability can be had again once it was given up.
func (b *builder) narrow() {
	const lockedSecurebits = 0x2f | 0xc0 // noroot, no_setuid_fixup, keep_caps locked, no_cap_ambient_raise, each locked
	b.call("lock the securebits", unix.SYS_PRCTL, num(unix.PR_SET_SECUREBITS), num(lockedSecurebits)).ignore()
	for c := range 64 {
		b.call("empty the bounding set", unix.SYS_PRCTL, num(unix.PR_CAPBSET_DROP), num(c)).ignore()
	}
	b.call("clear the ambient set", unix.SYS_PRCTL, num(unix.PR_CAP_AMBIENT), num(unix.PR_CAP_AMBIENT_CLEAR_ALL)).ignore()
}

// giveUp drops the capabilities.
func (b *builder) giveUp() {
	b.becomeOwner()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	b.call("drop capabilities", unix.SYS_CAPSET, at(object(b.program, &head)), at(object(b.program, &none)))
	b.noNewPrivileges()
}

// becomeOwner changes to the workspace's owner where that is not the invoker.
// The securebits keep the capabilities that the rest of the drop needs.
func (b *builder) becomeOwner() {
	if b.uid == os.Getuid() {
		return
	}
	b.call("leave all groups", unix.SYS_SETGROUPS, num(0), num(0))
	b.call("become the owner's group", unix.SYS_SETRESGID, num(b.gid), num(b.gid), num(b.gid))
	b.call("become the owner", unix.SYS_SETRESUID, num(b.uid), num(b.uid), num(b.uid))
}

func (b *builder) noNewPrivileges() {
	b.call("set no_new_privs", unix.SYS_PRCTL, num(unix.PR_SET_NO_NEW_PRIVS), num(1))
}

// landlock says the same about files once more, to another part of the kernel.
func (b *builder) landlock(rules []rule) {
	if b.abi == 0 {
		return
	}
	b.ruleset(rules)
	b.call("enforce the Landlock ruleset", unix.SYS_LANDLOCK_RESTRICT_SELF, num(rulesetFD), num(0))
}

// ruleset leaves a ruleset at rulesetFD.
func (b *builder) ruleset(rules []rule) {
	attr := landlock.RulesetAttr{HandledAccessFS: landlock.Handled(b.abi)}
	if b.abi >= 6 {
		attr.Scoped = landlock.ScopeAbstractUnix | landlock.ScopeSignal
	}
	made := b.slot()
	b.call("make a Landlock ruleset", unix.SYS_LANDLOCK_CREATE_RULESET,
		at(object(b.program, &attr)), num(landlock.Size(b.abi)), num(0)).store(made)
	b.call("keep the Landlock ruleset", unix.SYS_DUP3, load(made), num(rulesetFD), num(unix.O_CLOEXEC))
	b.call("close the ruleset's first number", unix.SYS_CLOSE, load(made))
	b.allow(num(rulesetFD), rules)
}

// allow adds rules to a ruleset.
func (b *builder) allow(ruleset arg, rules []rule) {
	for _, r := range rules {
		beneath := landlock.PathBeneathAttr{AllowedAccess: r.rights & landlock.Handled(b.abi), ParentFD: -1}
		offset := object(b.program, &beneath)
		// Through no symlink: another command in the same workspace could have put
		// one there since the paths were looked at.
		b.call("find "+r.path, unix.SYS_OPENAT2, num(0), b.str(r.path), at(b.how), num(unix.SizeofOpenHow)).store(offset + 8).allow(unix.ENOENT)
		b.call("allow "+r.path, unix.SYS_LANDLOCK_ADD_RULE, ruleset, num(landlock.RulePathBeneath), at(offset), num(0)).allow(unix.EBADF)
	}
}

// rule is one line of the Landlock ruleset.
type rule struct {
	path   string
	rights uint64
}

// rules repeats the places of the tree and adds the sandbox's own directories.
func (b *builder) rules() []rule {
	rules := []rule{
		{"/", landlock.ReadDir}, {"/etc", landlock.Read}, {"/dev", landlock.ReadDir}, {"/dev/pts", landlock.Device | landlock.ReadDir},
		{"/dev/shm", landlock.Write},
	}
	if b.proc {
		rules = append(rules, rule{"/proc", landlock.Read})
	}
	if covering(b.tree.places, "/tmp") == nil {
		rules = append(rules, rule{"/tmp", landlock.Write})
	}
	for _, d := range devices {
		rules = append(rules, rule{"/dev/" + d, landlock.Device})
	}
	rules = append(rules, b.extraRules...)
	for _, p := range b.tree.places {
		if r, ok := placeRule(p); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

func placeRule(p place) (rule, bool) {
	rights := uint64(landlock.Read)
	switch p.access {
	case readWrite:
		rights = landlock.Write
	case hidden:
		return rule{}, false
	}
	if !p.dir {
		rights &= landlock.OnFile
	}
	return rule{p.target, rights}, true
}

func (b *builder) seccomp(o seccomp.Options) {
	filter := b.filter(o)
	code := b.data(raw(filter))
	prog := struct {
		length uint16
		_      [6]byte
		filter uint64
	}{length: uint16(len(filter))}
	offset := object(b.program, &prog)
	b.pointAt(offset+8, code)
	const setModeFilter = 1
	b.call("load the system-call filter", unix.SYS_SECCOMP, num(setModeFilter), num(0), at(offset))
}
