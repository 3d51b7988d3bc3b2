package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// ownFailure marks a command that passes another one's exit code on, so that its
// own failures need a code of their own.
const ownFailure = "own failure"

func newSandbox(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "sandbox",
		Short: "Run a command safely, without an agent",
		Long: "Runs one command confined by the kernel, or says what it would be granted. Nothing\n" +
			"is read from the configuration and nothing is recorded.",
		Example: "toolyard sandbox run -- npm test\n" +
			"toolyard sandbox explain --write . -- make",
		Args: cobra.ArbitraryArgs,
		RunE: p.noCommand,
	}
	c.AddCommand(newSandboxRun(p), newSandboxExplain(p))
	return c
}

func newSandboxRun(p *program) *cobra.Command {
	var f sandboxFlags
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run a command that sees only what it is granted",
		Long: "Runs a command that may read the current directory and the machine's programs (/usr,\n" +
			"/bin, /lib*, harmless files of /etc, the language runtimes of your PATH), and nothing\n" +
			"else. It may write nothing but a /tmp of its own, which is its home as well, has no\n" +
			"network, an environment made from nothing (PATH, HOME, TERM, LANG), 1 GiB of memory\n" +
			"and 256 processes. When it ends, or this program does, all that it started is gone.\n\n" +
			"stdin, stdout and stderr are passed on as they are; on a terminal the command gets a\n" +
			"terminal of its own. Paths are as seen from here; sizes are numbers with K, M, G or\n" +
			"KiB, MiB, GiB, all of 1024; times are 500ms, 30s, 5m or a number of seconds; none is\n" +
			"no limit.\n\n" +
			"The exit code is the command's, or 128 and the number of the signal that ended it;\n" +
			"126 if it cannot be executed, 127 if it is not there, 125 if the sandbox fails or is\n" +
			"weaker than --level, 2 if these flags make no sense.\n\n" +
			"--profile names a file with the same as JSON: {\"read\": [], \"write\": [], \"deny\": [],\n" +
			"\"protected\": [], \"network\": \"none\", \"memory\": \"256M\", \"pids\": 64, \"cpu\": \"5s\",\n" +
			"\"wall\": \"10s\", \"min_level\": \"L2\"}. What flags say besides counts instead, lists are\n" +
			"joined. Without \"mounts\" the machine's programs are there, with it only what it lists.",
		Example: "toolyard sandbox run -- npm test\n" +
			"toolyard sandbox run --write . --memory 512M --wall 1m -- make\n" +
			"toolyard sandbox run --net registry.npmjs.org --write . -- npm ci\n" +
			"curl -s https://example.org/install.sh | toolyard sandbox run -- sh\n" +
			"toolyard sandbox run --json -- ./untrusted 2> report",
		Annotations: map[string]string{ownFailure: "125"},
		RunE: func(c *cobra.Command, args []string) error {
			cmd, err := f.command(c, args, true)
			if err != nil {
				return err
			}
			if cmd.Dir == privateTmp && !p.flags.json && !within(cmd.Dir, slices.Concat(cmd.Profile.Read, cmd.Profile.Write)) {
				p.note("toolyard: the command has a /tmp of its own: what lies in this one is not there (--read /tmp shows it)")
			}
			return p.runSandboxed(c.Context(), cmd)
		},
	}
	f.add(c)
	return c
}

// sandboxArgs is what follows --, which must be there: without it a flag of the
// command could be taken for one of ours.
func sandboxArgs(c *cobra.Command, args []string, needed bool) ([]string, error) {
	dash := c.ArgsLenAtDash()
	switch {
	case len(args) > 0 && dash != 0:
		fixed := c.CommandPath() + " -- " + strings.Join(args, " ")
		if slices.Contains(args, "--") {
			return nil, usagef("%s takes no argument %q before --", commandName(c), oneLine(args[0], 40)).withHint("Usage: %s", c.UseLine())
		}
		return nil, usagef("the command must stand behind --").withHint("Write: %s", oneLine(fixed, 200))
	case len(args) == 0 && needed:
		return nil, usagef("%s needs a command", commandName(c)).withHint("Usage: %s", c.UseLine())
	case len(args) > 0 && args[0] == "":
		return nil, usagef("the command is empty").withHint("Usage: %s", c.UseLine())
	}
	return args, nil
}
