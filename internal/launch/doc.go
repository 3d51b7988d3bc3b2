// Package launch turns a fresh process of this program into the launcher of
// sandboxes, before main and before nearly every other package is initialised.
//
// It imports only syscall, so the linker orders its init right after that
// package's. It knows nothing of sandboxes. It is handed descriptors over the
// socket that is its descriptor 3, one set for each launch; from the first of
// them, the control socket, it reads a [Header] and a list of [Op], each one
// system call. It clones, and the clone makes the calls one after the other,
// executes a command, and stays behind as the command's init: it reaps, reports
// on the control socket how the command ended, and takes everything down when
// the other end of that socket is gone. The launcher itself stays for the next
// launch and ends with its own socket; starting it is what costs, and is paid
// once.
//
// What the calls are is decided by the sandbox package; a program can do nothing
// that the process holding it could not do by itself.
//
// After the clone there is one thread and no Go runtime worth the name: nothing
// there allocates, grows the stack or takes a lock.
package launch

// Marker is the environment variable whose presence makes this program a
// launcher, or a gate where its value is "gate".
const Marker = "TOOLYARD_LAUNCH"

// Leftovers is the environment variable that tells a launcher what to take away
// if the process that holds its socket dies: how the names of empty directories
// begin, and where they are, separated by colons.
const Leftovers = "TOOLYARD_LAUNCH_LEFTOVERS"

// Bye is what a launcher is sent, with no descriptors, before its socket is
// closed by one that clears up by itself.
const Bye = 1
