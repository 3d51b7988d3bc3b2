package sandbox

import "strings"

// NotStopped lists what a command can do in spite of the sandbox at the level
// and with the layers of the report, a sentence each: what would be stopped
// elsewhere first, what holds at every level last.
func (r Report) NotStopped() []string {
	list := append(r.Gaps(), everywhere...)
	if r.Level.AtLeast(L2b) {
		// Those that are there at the start are hidden, and at L1 there are no sockets.
		// Landlock has a right for it from version 9 on.
		list = append(list, "sockets: a service that begins to listen in a granted directory while the command runs can be spoken to.")
	}
	return list
}

// Gaps lists what the sandbox does not stop here, would stop at full strength,
// and cannot be mended at this level: the entries of Missing without a Fix, and
// what lies around them.
func (r Report) Gaps() []string {
	if r.Level == "" || r.Level == L0 {
		return []string{"Nothing is stopped: a command may do all that its user may do."}
	}
	var list []string
	for _, m := range r.Missing {
		if m.Fix == "" {
			list = append(list, m.Layer+": "+strings.TrimSuffix(m.Reason, ".")+".")
		}
	}
	if !r.Level.AtLeast(L2b) {
		list = append(list, inPlaceGaps...)
	}
	return list
}

// inPlaceGaps is what L1 does not stop besides, because a command is there in the
// machine's own namespaces.
var inPlaceGaps = []string{
	"the machine: its name, mounts, network interfaces and kernel settings can be read.",
	"denied paths: they are left out as they are at the start, so that what is made beside them meanwhile is absent too.",
}

// everywhere is what no level stops.
var everywhere = []string{
	"the kernel: a hole in it, for it is shared with the command, though most of what it offers is out of reach.",
	"what is read: it can be printed, and sent wherever the network grant leads.",
	"what is changed: where writing is granted, somebody outside may run it later on.",
	"side channels: through the processor, and the load that the limits leave room for.",
}
