package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/config"
)

func newInit(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a commented configuration file",
		Long: "Writes config.yaml with every setting, its default and what it does, all commented\n" +
			"out. Nothing needs it: without a file everything is at its default. A file that is\n" +
			"there is left alone.",
		Example: "toolyard init\n$EDITOR \"$(toolyard config path)\"",
		Args:    args(0, 0, ""),
		RunE:    func(*cobra.Command, []string) error { return p.initConfig() },
	}
}

func (p *program) initConfig() error {
	path, err := p.configPath()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &hinted{fmt.Errorf("%s is there already", path), "`toolyard config check` looks through it; remove it first to begin anew."}
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(config.Example())
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	if p.flags.json {
		return p.printJSON(map[string]string{"path": path})
	}
	fmt.Fprintln(p.stdout, path)
	p.note("Written, with every setting at its default. `toolyard config check` finds mistakes.")
	return nil
}

// configPath is where the user's file is or would be. It needs no valid
// configuration.
func (p *program) configPath() (string, error) {
	settings, err := p.settings(openOptions{}, nil)
	if settings == nil {
		return "", err
	}
	for _, f := range settings.Files {
		if f.Layer == config.UserFile {
			return f.Path, nil
		}
	}
	if p.flags.config != "" { // named, and not there yet
		return filepath.Abs(p.flags.config)
	}
	return filepath.Join(settings.Home, "config.yaml"), nil
}
