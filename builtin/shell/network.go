package shell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

const (
	// maxNamed is how many hosts the description of bash names.
	maxNamed = 12
	// maxRefusals is how many refusals one result tells.
	maxRefusals = 10
)

// reach says what commands can reach.
func reach(network []string) string {
	switch {
	case len(network) == 0:
		return "has no network"
	case slices.Equal(network, []string{sandbox.NetworkAll}):
		return "can reach public addresses"
	case len(network) > maxNamed:
		return fmt.Sprintf("can reach %s and %d more hosts", strings.Join(network[:maxNamed], ", "), len(network)-maxNamed)
	}
	return "can reach only " + strings.Join(network, ", ")
}

// networkLimit is the same as a limitation.
func networkLimit(network []string) string {
	if len(network) == 0 {
		return "No network, not even the loopback of the machine."
	}
	return "Of the network only what sandbox.network names, by TCP and through the sandbox's proxy; the loopback of the machine is not reached."
}

// violationLines tell what a command was kept from, each in a line.
func violationLines(list []sandbox.Violation) []string {
	var lines []string
	refused := 0
	for _, v := range list {
		if v.Kind != "network" {
			lines = append(lines, fmt.Sprintf("[sandbox: %s was kept from %s by %s]", v.Kind, v.Target, v.Rule))
			continue
		}
		if refused++; refused <= maxRefusals {
			lines = append(lines, "[sandbox: "+v.Rule+"]")
		}
	}
	if refused > maxRefusals {
		lines = append(lines, fmt.Sprintf("[sandbox: %d more hosts were refused]", refused-maxRefusals))
	}
	return lines
}

// refusals are the sentences of what the network refused.
func refusals(list []sandbox.Violation) []string {
	var rules []string
	for _, v := range list {
		if v.Kind == "network" && !slices.Contains(rules, v.Rule) && len(rules) < maxRefusals {
			rules = append(rules, v.Rule)
		}
	}
	return rules
}

// explain adds to a failure what the network refused: the likely cause.
func explain(failure *tool.Error, rules []string) {
	if failure == nil || failure.Code != tool.ExecutionError || len(rules) == 0 {
		return
	}
	hint := "The sandbox refused: " + rules[0] + ". Ask the operator to add it to sandbox.network if it is needed."
	if failure.Hint != "" {
		hint = failure.Hint + " " + hint
	}
	failure.Hint = hint
}

// reportRefusals makes an event of each refusal.
func reportRefusals(req *tool.Request, list []sandbox.Violation) {
	sent := 0
	for _, v := range list {
		if v.Kind == "network" && sent < maxRefusals {
			sent++
			req.Emit(tool.Event{Type: tool.EventNetworkRefused, Data: map[string]any{"target": v.Target, "rule": v.Rule}})
		}
	}
}
