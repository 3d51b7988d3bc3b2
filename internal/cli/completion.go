package cli

import (
	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/validate"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes commands in bash, zsh, fish or powershell",
		Example: "source <(toolyard completion bash)\n" +
			"toolyard completion zsh > \"${fpath[1]}/_toolyard\"\n" +
			"toolyard completion fish > ~/.config/fish/completions/toolyard.fish",
		Args:      args(1, 1, "a shell: bash, zsh, fish or powershell"),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(p.stdout, true)
			case "zsh":
				return root.GenZshCompletion(p.stdout)
			case "fish":
				return root.GenFishCompletion(p.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(p.stdout)
			}
			err := usagef("no completion for shell %q", oneLine(args[0], 40))
			if nearest, near := validate.Nearest(args[0], shells); near {
				return err.withHint("Did you mean %s?", nearest)
			}
			return err.withHint("There is bash, zsh, fish and powershell.")
		},
	}
}
