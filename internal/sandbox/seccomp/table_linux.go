//go:build amd64 || arm64

package seccomp

import "golang.org/x/sys/unix"

// modeArg names the argument of a system call that holds a file's mode.
type modeArg struct {
	nr  uintptr
	arg int
}

// modeArgs are the calls whose mode always counts, openArgs those where it
// counts only if the flags in the argument before it make a file.
var (
	modeArgs = append([]modeArg{
		{unix.SYS_FCHMOD, 1}, {unix.SYS_FCHMODAT, 2}, {unix.SYS_FCHMODAT2, 2},
		{unix.SYS_MKNODAT, 2}, {unix.SYS_MKDIRAT, 2},
	}, modeArgsHere...)
	openArgs = append([]modeArg{{unix.SYS_OPENAT, 3}}, openArgsHere...)
)

// numbered is one call that is refused whatever its arguments are.
type numbered struct {
	nr     uintptr
	answer uint32
	shared bool
}

// byNumber are the rules that need no look at arguments.
var byNumber = number(Rules())

func number(categories []Category) []numbered {
	answers := map[string]uint32{"EPERM": fail(unix.EPERM), "ENOSYS": fail(unix.ENOSYS)}
	var list []numbered
	for _, c := range categories {
		for _, r := range c.Rules {
			if r.When != "" || r.Only != "" && r.Only != architecture {
				continue
			}
			answer, known := answers[r.Answer]
			if !known {
				panic("seccomp: a rule has the answer " + r.Answer)
			}
			for _, name := range r.Calls {
				nr, known := numbers[name]
				if !known {
					nr, known = numbersHere[name]
				}
				if !known {
					panic("seccomp: the table has no number for " + name)
				}
				list = append(list, numbered{nr, answer, r.Shared})
			}
		}
	}
	return list
}

// numbers of the calls that the rules name, where every architecture has them.
// Those that are plain numbers are newer than the package.
var numbers = map[string]uintptr{
	"acct":                    unix.SYS_ACCT,
	"add_key":                 unix.SYS_ADD_KEY,
	"adjtimex":                unix.SYS_ADJTIMEX,
	"bpf":                     unix.SYS_BPF,
	"chroot":                  unix.SYS_CHROOT,
	"clock_adjtime":           unix.SYS_CLOCK_ADJTIME,
	"clock_settime":           unix.SYS_CLOCK_SETTIME,
	"clone3":                  unix.SYS_CLONE3,
	"delete_module":           unix.SYS_DELETE_MODULE,
	"fanotify_init":           unix.SYS_FANOTIFY_INIT,
	"fanotify_mark":           unix.SYS_FANOTIFY_MARK,
	"fchmodat":                unix.SYS_FCHMODAT,
	"fchmodat2":               unix.SYS_FCHMODAT2,
	"fchownat":                unix.SYS_FCHOWNAT,
	"file_setattr":            469,
	"finit_module":            unix.SYS_FINIT_MODULE,
	"fsconfig":                unix.SYS_FSCONFIG,
	"fsmount":                 unix.SYS_FSMOUNT,
	"fsopen":                  unix.SYS_FSOPEN,
	"fspick":                  unix.SYS_FSPICK,
	"init_module":             unix.SYS_INIT_MODULE,
	"io_uring_enter":          unix.SYS_IO_URING_ENTER,
	"io_uring_register":       unix.SYS_IO_URING_REGISTER,
	"io_uring_setup":          unix.SYS_IO_URING_SETUP,
	"ioprio_set":              unix.SYS_IOPRIO_SET,
	"kcmp":                    unix.SYS_KCMP,
	"kexec_file_load":         unix.SYS_KEXEC_FILE_LOAD,
	"kexec_load":              unix.SYS_KEXEC_LOAD,
	"keyctl":                  unix.SYS_KEYCTL,
	"listmount":               unix.SYS_LISTMOUNT,
	"lookup_dcookie":          unix.SYS_LOOKUP_DCOOKIE,
	"lremovexattr":            unix.SYS_LREMOVEXATTR,
	"lsetxattr":               unix.SYS_LSETXATTR,
	"lsm_set_self_attr":       unix.SYS_LSM_SET_SELF_ATTR,
	"migrate_pages":           unix.SYS_MIGRATE_PAGES,
	"mount":                   unix.SYS_MOUNT,
	"mount_setattr":           unix.SYS_MOUNT_SETATTR,
	"move_mount":              unix.SYS_MOVE_MOUNT,
	"move_pages":              unix.SYS_MOVE_PAGES,
	"msgctl":                  unix.SYS_MSGCTL,
	"msgrcv":                  unix.SYS_MSGRCV,
	"msgsnd":                  unix.SYS_MSGSND,
	"semctl":                  unix.SYS_SEMCTL,
	"semop":                   unix.SYS_SEMOP,
	"semtimedop":              unix.SYS_SEMTIMEDOP,
	"shmat":                   unix.SYS_SHMAT,
	"shmctl":                  unix.SYS_SHMCTL,
	"mq_open":                 unix.SYS_MQ_OPEN,
	"mq_unlink":               unix.SYS_MQ_UNLINK,
	"msgget":                  unix.SYS_MSGGET,
	"name_to_handle_at":       unix.SYS_NAME_TO_HANDLE_AT,
	"nfsservctl":              unix.SYS_NFSSERVCTL,
	"open_by_handle_at":       unix.SYS_OPEN_BY_HANDLE_AT,
	"open_tree":               unix.SYS_OPEN_TREE,
	"open_tree_attr":          467,
	"openat2":                 unix.SYS_OPENAT2,
	"perf_event_open":         unix.SYS_PERF_EVENT_OPEN,
	"pidfd_getfd":             unix.SYS_PIDFD_GETFD,
	"pivot_root":              unix.SYS_PIVOT_ROOT,
	"process_madvise":         unix.SYS_PROCESS_MADVISE,
	"process_mrelease":        unix.SYS_PROCESS_MRELEASE,
	"process_vm_readv":        unix.SYS_PROCESS_VM_READV,
	"process_vm_writev":       unix.SYS_PROCESS_VM_WRITEV,
	"ptrace":                  unix.SYS_PTRACE,
	"quotactl":                unix.SYS_QUOTACTL,
	"quotactl_fd":             unix.SYS_QUOTACTL_FD,
	"reboot":                  unix.SYS_REBOOT,
	"removexattr":             unix.SYS_REMOVEXATTR,
	"removexattrat":           466,
	"request_key":             unix.SYS_REQUEST_KEY,
	"semget":                  unix.SYS_SEMGET,
	"set_mempolicy_home_node": unix.SYS_SET_MEMPOLICY_HOME_NODE,
	"setdomainname":           unix.SYS_SETDOMAINNAME,
	"sethostname":             unix.SYS_SETHOSTNAME,
	"setns":                   unix.SYS_SETNS,
	"setpriority":             unix.SYS_SETPRIORITY,
	"settimeofday":            unix.SYS_SETTIMEOFDAY,
	"setxattr":                unix.SYS_SETXATTR,
	"setxattrat":              463,
	"shmget":                  unix.SYS_SHMGET,
	"statmount":               unix.SYS_STATMOUNT,
	"swapoff":                 unix.SYS_SWAPOFF,
	"swapon":                  unix.SYS_SWAPON,
	"syslog":                  unix.SYS_SYSLOG,
	"umount2":                 unix.SYS_UMOUNT2,
	"unshare":                 unix.SYS_UNSHARE,
	"userfaultfd":             unix.SYS_USERFAULTFD,
	"vhangup":                 unix.SYS_VHANGUP,
}
