package docker

import (
	"log/slog"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// Config of a Runner. The zero value works where a daemon listens at
// [DefaultHost].
type Config struct {
	// Host is the daemon, as "unix:///path". Empty means [DefaultHost].
	Host string
	// Image is what containers are made of. It must be there: nothing is pulled.
	// With one, the machine's own programs are not mounted over it: see
	// [sandbox.Profile.Mounts]. Empty means an empty root, made on demand, into
	// which the profile's mounts bring the machine's programs.
	Image string
	// MinLevel is the operator's floor: no profile goes below it. Empty means that
	// of the profile.
	MinLevel sandbox.Level
	// Executable is this program, which waits in the container until its mounts
	// have been looked at. Empty means /proc/self/exe. It must have package launch
	// linked in.
	Executable string
	// Log gets what goes wrong while cleaning up. Nil discards it.
	Log *slog.Logger

	// noCgroup makes the daemon's statistics the only source of measurements, as
	// where its control groups cannot be seen.
	noCgroup bool
	// beforeStart is called when the container is about to be started.
	beforeStart func()
	// begun is called when the command runs and nothing holds it to its limits yet.
	begun func()
}
