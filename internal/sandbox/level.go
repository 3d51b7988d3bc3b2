package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// Level says how strongly a command is confined. The empty Level stands for
// "not said" and takes the default of the profile's kind.
type Level string

const (
	L0  Level = "L0"  // not at all
	L1  Level = "L1"  // Landlock and seccomp
	L2b Level = "L2b" // as L2, without a /proc of its own
	L2  Level = "L2"  // namespaces, Landlock, seccomp, cgroup
	L3  Level = "L3"  // a virtual machine or gVisor

	// Docker is a container per command. It is no step of the ladder: it counts
	// as L2 where a level is required.
	Docker Level = "docker"
)

// levels is in order of strength. To add one: a constant, a place here, and what
// it means in [Report].
var levels = []Level{L0, L1, L2b, L2, L3}

// AtLeast reports whether l protects at least as well as other. An unknown level
// is below all.
func (l Level) AtLeast(other Level) bool {
	return l.rank() >= other.rank()
}

func (l Level) rank() int {
	if l == Docker {
		l = L2
	}
	return slices.Index(levels, l)
}

// ParseLevel turns "L2" into L2. Case does not matter.
func ParseLevel(text string) (Level, error) {
	for _, l := range slices.Concat(levels, []Level{Docker}) {
		if strings.EqualFold(string(l), text) {
			return l, nil
		}
	}
	return "", fmt.Errorf("no sandbox level %q: L0, L1, L2b, L2, L3 or docker", text)
}

// UnmarshalText accepts what ParseLevel does, and nothing at all.
func (l *Level) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*l = ""
		return nil
	}
	*l, err = ParseLevel(string(text))
	return err
}

func stronger(a, b Level) Level {
	if a.AtLeast(b) {
		return a
	}
	return b
}

// Report says what protects a command here, as measured.
type Report struct {
	Level  Level    `json:"level"`
	Layers []string `json:"layers"`
	// Missing is what would protect more. Empty at full strength.
	Missing []Missing `json:"missing"`
}

// Missing is one layer that does not hold here.
type Missing struct {
	Layer  string `json:"layer"`
	Reason string `json:"reason"`
	// Fix is what to do about it: a command or a setting.
	Fix string `json:"fix,omitempty"`
}
