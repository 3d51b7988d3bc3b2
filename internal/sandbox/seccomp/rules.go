package seccomp

// lastKnown is the newest system call that was looked at for the filter:
// file_setattr, Linux 6.17. Later ones do not exist inside.
const lastKnown = 469

// Rule is a set of system calls that the filter refuses for one reason. The list
// of rules is the filter and its documentation alike.
type Rule struct {
	Calls []string
	// When says which uses of the calls are refused; empty is every one.
	When string
	// Answer is the error that the call returns, or "killed".
	Answer string
	// Reason says what the calls would do for a command.
	Reason string
	// Shared says that the rule is only for commands which share the machine's
	// processes and files: level L1.
	Shared bool
	// Only names the one architecture that has the calls; empty is all.
	Only string
}

// Category is a heading of the rules.
type Category struct {
	Name  string
	Rules []Rule
}

// Rules lists what the filter refuses. Those without a When are refused by
// number; to add one, add its name here and its number to the table. Those with a
// When are written out in Filter.
func Rules() []Category {
	return []Category{
		{"Ways around the filter", []Rule{
			{Calls: []string{"clone3"}, Answer: "ENOSYS", Reason: "its flags are in memory, where a filter cannot look; libc falls back to clone"},
			{Calls: []string{"openat2"}, Answer: "ENOSYS", Reason: "so is the mode of a new file; libc falls back to openat"},
			{Calls: []string{"io_uring_setup", "io_uring_enter", "io_uring_register"}, Answer: "ENOSYS", Reason: "do in the kernel whatever a filter would refuse"},
			{Calls: []string{"every call"}, When: "of a foreign architecture, or of x32", Answer: "killed", Reason: "has other numbers, so that nothing else here would hold"},
			{Calls: []string{"every call"}, When: "newer than Linux 6.17", Answer: "ENOSYS", Reason: "nobody has looked at it for this filter"},
		}},
		{"Another view of the file system", []Rule{
			{Calls: []string{"mount", "umount2", "pivot_root", "chroot"}, Answer: "EPERM", Reason: "change what is mounted where"},
			{Calls: []string{"open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"}, Answer: "EPERM", Reason: "the same, by descriptors"},
			{Calls: []string{"open_by_handle_at", "name_to_handle_at"}, Answer: "EPERM", Reason: "open files by number, past every directory"},
			{Calls: []string{"statmount", "listmount"}, Answer: "ENOSYS", Reason: "tell about the mounts of others"},
			{Calls: []string{"fanotify_init", "fanotify_mark"}, Answer: "EPERM", Reason: "watch, and answer for, what others do with files"},
			{Calls: []string{"quotactl", "quotactl_fd", "acct", "swapon", "swapoff"}, Answer: "EPERM", Reason: "set up disks for the whole machine"},
		}},
		{"Files that are traps outside", []Rule{
			{Calls: []string{"fchmod", "fchmodat", "fchmodat2", "mknodat", "mkdirat"}, When: "with the set-user-ID or set-group-ID bit", Answer: "EPERM", Reason: "whoever runs the file outside runs it as its owner"},
			{Calls: []string{"chmod", "creat", "mknod", "mkdir"}, When: "with the set-user-ID or set-group-ID bit", Answer: "EPERM", Reason: "the same", Only: "amd64"},
			{Calls: []string{"openat"}, When: "making a file with one of those bits", Answer: "EPERM", Reason: "the same"},
			{Calls: []string{"open"}, When: "making a file with one of those bits", Answer: "EPERM", Reason: "the same", Only: "amd64"},
			{Calls: []string{"fchmodat", "fchmodat2", "fchownat", "setxattr", "lsetxattr", "removexattr", "lremovexattr", "setxattrat", "removexattrat", "file_setattr"}, Answer: "EPERM", Shared: true,
				Reason: "change mode, owner or attributes by a path, which Landlock does not see; by a descriptor they are allowed"},
			{Calls: []string{"chmod", "chown", "lchown"}, Answer: "EPERM", Shared: true, Reason: "the same", Only: "amd64"},
		}},
		{"Other namespaces", []Rule{
			{Calls: []string{"unshare", "setns"}, Answer: "EPERM", Reason: "give a command a root user and devices of its own, and with them much more of the kernel"},
			{Calls: []string{"clone"}, When: "with a flag for a new namespace", Answer: "EPERM", Reason: "the same"},
			{Calls: []string{"sethostname", "setdomainname"}, Answer: "EPERM", Reason: "name the machine"},
		}},
		{"Other processes", []Rule{
			{Calls: []string{"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"}, Answer: "EPERM", Reason: "look into and change other processes"},
			{Calls: []string{"process_mrelease"}, Answer: "ENOSYS", Reason: "frees the memory of a process that is dying"},
			{Calls: []string{"move_pages", "migrate_pages"}, Answer: "EPERM", Reason: "move other processes' memory, and tell where it lies"},
			{Calls: []string{"shmget", "msgget", "semget", "mq_open", "mq_unlink"}, Answer: "EPERM", Shared: true, Reason: "shared with the machine's processes"},
			{Calls: []string{"shmat", "shmctl", "msgsnd", "msgrcv", "msgctl", "semop", "semtimedop", "semctl"}, Answer: "EPERM", Shared: true, Reason: "the same, by numbers that can be guessed"},
			{Calls: []string{"ioprio_set", "setpriority"}, Answer: "EPERM", Shared: true, Reason: "change the priority of the user's other processes"},
			{Calls: []string{"prlimit64"}, When: "of another process", Answer: "EPERM", Shared: true, Reason: "changes the limits of the user's other processes"},
			{Calls: []string{"sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"}, When: "of another process or thread", Answer: "EPERM", Shared: true, Reason: "take processor time from the user's other processes"},
		}},
		{"Terminals", []Rule{
			{Calls: []string{"ioctl"}, When: "TIOCSTI, TIOCLINUX or TIOCSETD", Answer: "EPERM", Reason: "type into a terminal as if its user did, paste from a console, load a line discipline"},
			{Calls: []string{"vhangup"}, Answer: "EPERM", Reason: "takes terminals away from others"},
		}},
		{"Sockets", []Rule{
			{Calls: []string{"socket"}, When: "other than TCP, UDP, unix and NETLINK_ROUTE", Answer: "EACCES", Reason: "MPTCP, UDPLITE, SCTP, raw, packet, vsock and other netlink sockets go around rules that were made for TCP and UDP"},
			{Calls: []string{"socket"}, When: "of any kind", Answer: "EACCES", Shared: true, Reason: "reaches the machine's network and services where there is no network namespace"},
			{Calls: []string{"socketpair"}, When: "other than unix", Answer: "EAFNOSUPPORT", Reason: "other families are kernel surface that nobody needs"},
			{Calls: []string{"socketpair"}, When: "of datagrams", Answer: "EACCES", Shared: true, Reason: "one end can send to any socket of the machine that takes datagrams, the system's log among them"},
		}},
		{"The kernel itself", []Rule{
			{Calls: []string{"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"}, Answer: "EPERM", Reason: "load, replace and stop the kernel"},
			{Calls: []string{"bpf", "perf_event_open", "userfaultfd"}, Answer: "EPERM", Reason: "where holes in the kernel are used most"},
			{Calls: []string{"keyctl", "add_key", "request_key"}, Answer: "EPERM", Reason: "the kernel's keys do not know namespaces"},
			{Calls: []string{"syslog", "lookup_dcookie", "nfsservctl"}, Answer: "EPERM", Reason: "tell about, and belong to, the whole machine"},
			{Calls: []string{"lsm_set_self_attr", "set_mempolicy_home_node"}, Answer: "ENOSYS", Reason: "new, and needed by no command"},
			{Calls: []string{"uselib", "_sysctl", "ustat", "sysfs"}, Answer: "ENOSYS", Reason: "long obsolete", Only: "amd64"},
			{Calls: []string{"iopl", "ioperm", "modify_ldt"}, Answer: "EPERM", Reason: "reach the hardware and rarely tested parts of the kernel", Only: "amd64"},
			{Calls: []string{"personality"}, When: "other than the ordinary one", Answer: "EPERM", Reason: "turns off the randomisation of addresses"},
		}},
		{"The clock", []Rule{
			{Calls: []string{"settimeofday", "clock_settime", "adjtimex", "clock_adjtime"}, Answer: "EPERM", Reason: "set the machine's time"},
		}},
	}
}
