package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
)

// build is what this program was made of.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func thisBuild() build {
	b := build{Version: toolyard.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		}
	}
	return b
}

func newVersion(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  args(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if p.flags.json {
				return p.printJSON(b)
			}
			line := "toolyard " + b.Version
			if len(b.Commit) >= 12 {
				line += " (" + b.Commit[:12] + ")"
			}
			fmt.Fprintf(p.stdout, "%s %s %s/%s\n", line, b.Go, b.OS, b.Arch)
			return nil
		},
	}
}
