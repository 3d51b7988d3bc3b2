// Package landlock holds the numbers of Landlock: which rights exist at which
// version of its interface, and the structs that its system calls take. It makes
// no ruleset itself, because that happens in a sandbox's launcher.
package landlock

// Rights on files, as in linux/landlock.h:
// https://docs.kernel.org/userspace-api/landlock.html
const (
	Execute    = 1 << 0
	WriteFile  = 1 << 1
	ReadFile   = 1 << 2
	ReadDir    = 1 << 3
	RemoveDir  = 1 << 4
	RemoveFile = 1 << 5
	MakeChar   = 1 << 6
	MakeDir    = 1 << 7
	MakeReg    = 1 << 8
	MakeSock   = 1 << 9
	MakeFifo   = 1 << 10
	MakeBlock  = 1 << 11
	MakeSym    = 1 << 12
	Refer      = 1 << 13 // ABI 2
	Truncate   = 1 << 14 // ABI 3
	IoctlDev   = 1 << 15 // ABI 5
)

// Sets of rights.
const (
	// Read is to read and execute.
	Read = Execute | ReadFile | ReadDir
	// Write is everything but making devices and talking to them.
	Write = Read | WriteFile | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSock | MakeFifo | MakeSym |
		Refer | Truncate
	// Device is to use a device that exists.
	Device = ReadFile | WriteFile | IoctlDev | Truncate
	// OnFile are the rights that a rule for something else than a directory may
	// have.
	OnFile = Execute | WriteFile | ReadFile | Truncate | IoctlDev

	allRights = 1<<16 - 1
)

// Rights on the network (ABI 4) and scopes (ABI 6).
const (
	BindTCP    = 1 << 0
	ConnectTCP = 1 << 1

	ScopeAbstractUnix = 1 << 0
	ScopeSignal       = 1 << 1
)

// RulePathBeneath is the type of a rule about a file hierarchy.
const RulePathBeneath = 1

// RulesetAttr is struct landlock_ruleset_attr.
type RulesetAttr struct {
	HandledAccessFS, HandledAccessNet, Scoped uint64
}

// PathBeneathAttr is struct landlock_path_beneath_attr; the kernel's is packed
// and 12 bytes long, so the four that follow are not looked at.
type PathBeneathAttr struct {
	AllowedAccess uint64
	ParentFD      int32
	_             int32
}

// Size of the ruleset struct that a kernel of this version of the interface
// takes.
func Size(abi int) int {
	switch {
	case abi >= 6:
		return 24
	case abi >= 4:
		return 16
	}
	return 8
}

// Handled are the rights on files that a version of the interface knows: all of
// them are taken away and given back by rules.
func Handled(abi int) uint64 {
	switch {
	case abi >= 5:
		return allRights
	case abi >= 3:
		return allRights &^ IoctlDev
	case abi == 2:
		return allRights &^ (IoctlDev | Truncate)
	}
	return allRights &^ (IoctlDev | Truncate | Refer)
}
