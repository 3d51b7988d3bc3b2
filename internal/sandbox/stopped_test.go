package sandbox_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
)

func TestNotStopped(t *testing.T) {
	missing := []sandbox.Missing{{Layer: "namespaces", Reason: "forbidden", Fix: "Allow them."}, {Layer: "process list", Reason: "names can be read"}}
	for _, c := range []struct {
		name   string
		report sandbox.Report
		gaps   []string // their first words
	}{
		{"full strength", sandbox.Report{Level: sandbox.L2}, nil},
		{"a layer is missing that can be had", sandbox.Report{Level: sandbox.L2, Missing: missing[:1]}, nil},
		{"a layer is missing that cannot", sandbox.Report{Level: sandbox.L2b, Missing: missing}, []string{"process list: names can be read."}},
		{"in place", sandbox.Report{Level: sandbox.L1, Missing: missing}, []string{"process list: ", "the machine: ", "denied paths: "}},
		{"unconfined", sandbox.Report{Level: sandbox.L0, Missing: missing}, []string{"Nothing is stopped"}},
		{"nothing can be had", sandbox.Report{}, []string{"Nothing is stopped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gaps := c.report.Gaps()
			if !slices.EqualFunc(gaps, c.gaps, strings.HasPrefix) {
				t.Errorf("gaps %q, want those that begin with %q", gaps, c.gaps)
			}
			all := c.report.NotStopped()
			if len(all) <= len(gaps) || !slices.Equal(all[:len(gaps)], gaps) || !strings.HasPrefix(all[len(gaps)], "the kernel: ") {
				t.Errorf("not stopped: %q, want the gaps and then what no level stops", all)
			}
		})
	}
}
