package seccomp

import (
	"encoding/json"
	"slices"
)

// launcher are the calls that the filter of a command refuses and that whoever
// makes a sandbox needs.
var launcher = []string{
	"clone", "clone3", "unshare", "sethostname", // namespaces
	"mount", "umount2", "pivot_root", "open_tree", "move_mount", "mount_setattr", "openat2", // a root of its own
	"chroot", // not the launcher, but package managers, and Docker lets them
}

// closed are calls that a command's filter leaves to the kernel's own checks and
// that Docker's profile refuses: https://docs.docker.com/engine/security/seccomp/
var closed = []string{
	"mbind", "set_mempolicy", "get_mempolicy",
	"create_module", "get_kernel_syms", "query_module", "afs_syscall", "tuxcall", "security", "getpmsg", "putpmsg", "vserver",
	"epoll_ctl_old", "epoll_wait_old",
}

// LastKnown is the number of the newest system call that the filters were made
// for.
const LastKnown = lastKnown

// dockerProfile is a filter as Docker takes it: `docker run --security-opt
// seccomp=FILE`. https://docs.docker.com/engine/security/seccomp/
type dockerProfile struct {
	DefaultAction   string       `json:"defaultAction"`
	DefaultErrnoRet uint         `json:"defaultErrnoRet"`
	ArchMap         []dockerArch `json:"archMap"`
	Syscalls        []dockerRule `json:"syscalls"`
}

type dockerArch struct {
	Architecture     string   `json:"architecture"`
	SubArchitectures []string `json:"subArchitectures"`
}

type dockerRule struct {
	Names    []string    `json:"names"`
	Action   string      `json:"action"`
	ErrnoRet *uint       `json:"errnoRet,omitempty"`
	Args     []dockerArg `json:"args,omitempty"`
	Comment  string      `json:"comment,omitempty"`
}

// dockerArg compares an argument with a value, or with SCMP_CMP_MASKED_EQ with a
// mask: argument & Value == ValueTwo.
type dockerArg struct {
	Index    uint   `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo,omitempty"`
	Op       string `json:"op"`
}

const (
	dockerAllow = "SCMP_ACT_ALLOW"
	dockerErrno = "SCMP_ACT_ERRNO"
)

// ContainerJSON is a Docker seccomp profile for a container in which Toolyard
// itself runs: what Docker's own profile closes stays closed, but a sandbox can
// be made. The names are those of every system call up to LastKnown; what is not
// among them does not exist in the container.
func ContainerJSON(names []string) ([]byte, error) {
	const enosys = 38
	eperm := uint(1)
	refused := map[string]bool{"socket": true, "personality": true} // by their arguments, below
	var denied []string
	for _, c := range Rules() {
		for _, r := range c.Rules {
			if r.When == "" && !r.Shared {
				denied = append(denied, r.Calls...)
			}
		}
	}
	denied = slices.DeleteFunc(append(denied, closed...), func(name string) bool { return slices.Contains(launcher, name) })
	slices.Sort(denied)
	for _, name := range denied {
		refused[name] = true
	}
	allowed := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return refused[name] })
	slices.Sort(allowed)
	p := dockerProfile{
		DefaultAction: dockerErrno, DefaultErrnoRet: enosys,
		ArchMap: []dockerArch{{"SCMP_ARCH_X86_64", []string{}}, {"SCMP_ARCH_AARCH64", []string{}}},
		Syscalls: []dockerRule{
			{Names: slices.Compact(allowed), Action: dockerAllow},
			{Names: slices.Compact(denied), Action: dockerErrno, ErrnoRet: &eperm, Comment: "closed to commands and by Docker's own profile"},
		},
	}
	for _, persona := range []uint64{0, 0x8, 0x20000, 0x20008, 0xffffffff} {
		p.Syscalls = append(p.Syscalls, dockerRule{Names: []string{"personality"}, Action: dockerAllow, Args: []dockerArg{{Value: persona, Op: "SCMP_CMP_EQ"}}})
	}
	// Neither AF_ALG (38) nor AF_VSOCK (40), which know no namespaces.
	for _, family := range []dockerArg{{Value: 38, Op: "SCMP_CMP_LT"}, {Value: 39, Op: "SCMP_CMP_EQ"}, {Value: 40, Op: "SCMP_CMP_GT"}} {
		p.Syscalls = append(p.Syscalls, dockerRule{Names: []string{"socket"}, Action: dockerAllow, Args: []dockerArg{family}})
	}
	text, err := json.MarshalIndent(p, "", "\t")
	return append(text, '\n'), err
}
