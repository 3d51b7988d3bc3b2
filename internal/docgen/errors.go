package docgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// meanings says what each code means to whoever reads it. A code without a row
// is an error, so that a new one gets its sentence.
var meanings = map[tool.Code]string{
	tool.ConnectionError:    "The other side could not be reached, or broke off.",
	tool.TimeoutError:       "The call's time limit passed; what it started has been ended.",
	tool.RateLimited:        "Too many calls in a short time. The hint says how long to wait.",
	tool.ParameterError:     "The arguments fit the schema and still make no sense.",
	tool.NotFound:           "A file, a text, a job or a handle is not there. The hint names what is near.",
	tool.ValidationError:    "The arguments, or the configuration, do not fit. `faults` lists everything that is wrong, with paths.",
	tool.Conflict:           "The file was not read, has changed since, or the text occurs more than once.",
	tool.PermissionDenied:   "A rule denies the call, the path lies outside of what was granted, or a person said no.",
	tool.PermissionTimeout:  "A person was asked and did not answer in time.",
	tool.ModeDenied:         "The session's mode refuses tools of this kind.",
	tool.HookDenied:         "A hook refused the call. Nothing in this version reports it.",
	tool.DoomLoop:           "The same call was made again and again.",
	tool.ExecutionError:     "The tool ran and failed.",
	tool.ResourceExhausted:  "Memory, disk, size or another limit was used up.",
	tool.DependencyError:    "A program or a part that the tool needs is not there.",
	tool.QueueFull:          "Too many calls of the tool are waiting.",
	tool.Cancelled:          "The caller cancelled the call, or the program is ending.",
	tool.Internal:           "A mistake in Toolyard or in a tool. The log has more.",
	tool.SandboxNotFound:    "A tool of your own said that its sandbox was not found.",
	tool.SandboxTerminated:  "A tool of your own said that its sandbox was terminated.",
	tool.SandboxUnavailable: "This machine cannot give the sandbox that is required; the command was not run.",
	tool.SandboxDenied:      "The sandbox stopped what the command did. Nothing in this version reports it.",
	tool.ToolNotFound:       "There is no tool of that name. The hint names the nearest.",
	tool.ToolDisabled:       "The tool is switched off, or has failed its health checks.",
	tool.AlreadyInPlanMode:  "For plan tools, which this version does not have.",
	tool.NotInPlanMode:      "For plan tools, which this version does not have.",
	tool.PlanNotFound:       "For plan tools, which this version does not have.",
	tool.InvalidPlanState:   "For plan tools, which this version does not have.",
}

// errorCodes is the table of codes, by class.
func errorCodes() (string, error) {
	codes := tool.Codes()
	slices.SortFunc(codes, func(a, b tool.Code) int {
		return cmp.Or(cmp.Compare(a.Class(), b.Class()), cmp.Compare(a, b))
	})
	var b strings.Builder
	b.WriteString("| code | class | tried again | meaning |\n|---|---|---|---|\n")
	for _, c := range codes {
		meaning, ok := meanings[c]
		if !ok {
			return "", fmt.Errorf("the code %s has no meaning in the table", c)
		}
		n, idempotent := c.Retries()
		again := "no"
		switch {
		case n > 0 && idempotent:
			again = fmt.Sprintf("up to %d times, if the tool is idempotent", n)
		case n > 0:
			again = fmt.Sprintf("up to %d times", n)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", c, c.Class(), again, meaning)
	}
	return b.String(), nil
}
