package launch

const sysSignalfd = 74 // signalfd4

// vfork clones with the flags given, which must hold CLONE_VFORK and CLONE_VM,
// and returns twice. A failure is the negative error number.
func vfork(flags uintptr) uintptr
