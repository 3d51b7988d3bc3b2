package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

func newSandboxExplain(p *program) *cobra.Command {
	var f sandboxFlags
	c := &cobra.Command{
		Use:   "explain [flags] [-- COMMAND [ARGUMENT…]]",
		Short: "Say what `sandbox run` would grant, and how well it would be held",
		Long: "Takes the flags of `toolyard sandbox run`, runs nothing, and prints what would count:\n" +
			"the level that this machine gives, what the command finds and may change, where it may\n" +
			"connect to, its limits, what is missing here with the reason and what to do, and what\n" +
			"is not stopped. With --json the profile is in it as --profile takes it.",
		Example: "toolyard sandbox explain\n" +
			"toolyard sandbox explain --write . --net registry.npmjs.org -- npm ci\n" +
			"toolyard sandbox explain --memory 256M --json | jq .profile > tool.json",
		RunE: func(c *cobra.Command, args []string) error {
			cmd, err := f.command(c, args, false)
			if err != nil {
				return err
			}
			return p.explainSandbox(c.Context(), cmd)
		},
	}
	f.add(c)
	return c
}

// sandboxView is what `sandbox explain` says.
type sandboxView struct {
	Level    sandbox.Level     `json:"level"`
	Layers   []string          `json:"layers"`
	Missing  []sandbox.Missing `json:"missing"`
	Required sandbox.Level     `json:"required"`
	Refused  bool              `json:"refused"` // the level is below what is required
	Command  []string          `json:"command"`
	Dir      string            `json:"dir"`
	Env      []string          `json:"env"`
	Places   []sandbox.Place   `json:"places"`
	Profile  sandbox.Profile   `json:"profile"`
	// NotStopped is what a command can do in spite of it all.
	NotStopped []string `json:"not_stopped"`
}

func (p *program) explainSandbox(ctx context.Context, cmd sandbox.Cmd) error {
	box := runner(cmd.Profile) // measures, for nothing has been started
	defer box.Close()
	places, err := sandbox.View(cmd.Profile)
	if e := tool.AsError(err); e != nil && e.Code == tool.ParameterError {
		return usagef("%s", e.Message).withHint("%s", e.Hint)
	} else if err != nil {
		return err
	}
	report := box.Probe(ctx)
	profile := cmd.Profile.Defaults()
	v := sandboxView{
		Level: report.Level, Layers: report.Layers, Missing: report.Missing,
		Required: profile.MinLevel, Refused: !report.Level.AtLeast(profile.MinLevel),
		Command: cmd.Args, Dir: cmd.Dir, Env: cmd.Env, Places: places, Profile: profile, NotStopped: report.NotStopped(),
	}
	if v.Command == nil {
		v.Command = []string{}
	}
	if p.flags.json {
		return p.printJSON(v)
	}
	p.printView(v)
	return nil
}

// printView prints rows of a name and what it is.
func (p *program) printView(v sandboxView) {
	const width, wide = 12, 100
	margin := "\n" + strings.Repeat(" ", width)
	row := func(name, text string) {
		fmt.Fprintf(p.stdout, "%s%s%s\n", p.out.bold(name), strings.Repeat(" ", width-len(name)), wrap(printable(text), wide-width, margin))
	}
	list := func(name string, paths []string) {
		if len(paths) > 0 {
			row(name, strings.Join(paths, "  "))
		}
	}
	level := "none"
	if v.Level != "" {
		level = string(v.Level) + ": " + strings.Join(v.Layers, ", ")
	}
	if v.Refused {
		level = p.out.red("refused") + ": " + string(v.Required) + " is required and this machine gives " + level
	}
	row("level", level)
	if len(v.Command) > 0 {
		row("command", strings.Join(v.Command, " "))
	}
	row("runs in", v.Dir)
	var system, read, write, protected, hidden []string
	for _, place := range v.Places {
		path := place.Path
		if place.Source != "" {
			path += " (" + place.Source + ")"
		}
		switch {
		case place.Access == sandbox.AccessWrite:
			write = append(write, path)
		case place.Access == sandbox.AccessProtected:
			protected = append(protected, path)
		case place.Access == sandbox.AccessHidden:
			hidden = append(hidden, path)
		case slices.ContainsFunc(v.Profile.Read, func(dir string) bool { return within(place.Path, []string{dir}) }):
			read = append(read, path)
		default:
			system = append(system, path)
		}
	}
	if !slices.ContainsFunc(v.Places, func(place sandbox.Place) bool { return place.Path == privateTmp }) {
		write = append(write, privateTmp+" (its own, "+limitText(v.Profile.Tmp, bytesText)+")")
	}
	list("read", read)
	list("write", write)
	list("protected", protected)
	if patterns := absentProtected(v, protected); len(v.Profile.Write) > 0 {
		list("not made", patterns)
	}
	list("hidden", hidden)
	list("programs", system)
	network := v.Profile.Network.Mode
	if network == sandbox.NetworkDomains {
		network = strings.Join(v.Profile.Network.Domains, "  ")
	}
	row("network", network)
	row("limits", limitsText(v.Profile))
	row("environment", strings.Join(v.Env, "  "))
	for _, m := range v.Missing {
		if m.Fix == "" {
			continue // it is among what is not stopped
		}
		row("missing", m.Layer+": "+m.Reason)
		fmt.Fprintf(p.stdout, "%s%s %s\n", strings.Repeat(" ", width), p.out.dim("→"), wrap(printable(m.Fix), wide-width-2, margin+"  "))
	}
	for i, text := range v.NotStopped {
		name := ""
		if i == 0 {
			name = "not stopped"
		}
		row(name, text)
	}
}

// absentProtected are the protected paths that do not exist, which cannot be
// made either.
func absentProtected(v sandboxView, found []string) []string {
	return slices.DeleteFunc(slices.Clone(v.Profile.Protected), func(pattern string) bool {
		return slices.ContainsFunc(found, func(path string) bool {
			if filepath.IsAbs(pattern) {
				return path == pattern
			}
			for _, dir := range v.Profile.Write {
				if ok, err := filepath.Match(filepath.Join(dir, pattern), path); ok && err == nil {
					return true
				}
			}
			return false
		})
	})
}

// limitText is a limit for people; none if there is none.
func limitText[T int | int64](n T, text func(T) string) string {
	if n <= 0 {
		return "no limit"
	}
	return text(n)
}

// limitsText lists the limits of a profile.
func limitsText(p sandbox.Profile) string {
	times := func(d int64) string { return time.Duration(d).String() }
	parts := []string{
		"memory " + limitText(p.Memory, bytesText),
		"processes and threads " + limitText(p.PIDs, strconv.Itoa),
		"CPU time " + limitText(int64(p.CPU), times),
		"time " + limitText(int64(p.Wall), times),
		"disk " + limitText(p.Disk, bytesText),
		"output " + limitText(p.Output, bytesText),
		"open files " + limitText(p.Files, strconv.Itoa),
	}
	return strings.Join(parts, " · ")
}
