// Package check validates a tool of the toolbox: eleven layers, good practice,
// and the checklist of a release. It reads the tool's folder and what the tool
// said of itself, and lets a [Trial] run it; it knows neither sandboxes nor how a
// tool is installed, and it prints nothing.
//
//	report := check.Run(ctx, check.Subject{Dir: dir, Definition: def, Trial: trial}, check.Options{})
//	w.WriteString(report.Text("en"))
//	if report.Failed > 0 { … }
//
// # What is counted
//
// A layer is a list of rules, each with a stable id. A rule that was looked at
// and found nothing is passed; each warning and each error that was found counts
// by itself. A rule that could not be looked at (the module does not load, there
// is no trial) counts nowhere and says why. Notes are neither.
//
// # What the specification leaves open
//
// A method that is not there is one warning of layer 2; what it would have
// returned is then not asked for by layers 3 to 5. A parameter that is refused may
// be refused by the runtime's validator or by the tool, for a call meets both, one
// after the other: layer 6 tests the pair, as [Trial.Validate] and [Trial.Execute].
// A result whose content is a text is a warning, for many tools mean it as plain
// data; any other content that is no list is an error. A required variable that is
// not set is a warning: a tool is installed before it is configured. A trial run
// that the tool itself refuses is a warning, since made-up parameters can be wrong;
// one that never ends, or ends the process, is an error.
package check
