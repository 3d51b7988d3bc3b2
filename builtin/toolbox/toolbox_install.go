package toolbox

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

//go:embed toolbox_install.md
var installManual string

type installIn struct {
	Source string `json:"source" alias:"url,path,package" jsonschema:"folder, archive (.zip, .tar.gz), npm package[@version], git URL[#ref] or .mcpb; minLength=1; maxLength=4096"`
}

func newInstall(d Deps) tool.Tool {
	return tool.New(tool.Spec{
		Name: "toolbox_install", Title: "Install a toolbox tool",
		Description: "Installs a JavaScript or Python tool into the toolbox from a folder, an archive, an npm package, a git repository or an .mcpb file: fetches it, validates it, asks a person about what it wants to use, installs its dependencies, and puts it in place whole or not at all. " +
			"A tool of the same name is updated. Not for packages that a program of the workspace needs.",
		Manual: installManual, Category: "toolbox", Tags: []string{"toolbox", "install", "npm"},
		Effects: tool.Network | tool.Write | tool.Execute, Default: tool.Ask, OpenWorld: true, Timeout: 10 * time.Minute, MaxTimeout: 30 * time.Minute,
		ConcurrencySafe: true,
		Examples:        []tool.Example{{Title: "From a folder of the workspace", Arguments: json.RawMessage(`{"source":"./my-tool"}`)}},
	}, func(ctx context.Context, req *tool.Request, in installIn) (*tool.Result, Installed, error) {
		return runInstall(ctx, d, req, in)
	})
}

func runInstall(ctx context.Context, d Deps, req *tool.Request, in installIn) (*tool.Result, Installed, error) {
	if d.Box == nil {
		return nil, Installed{}, errNoBox()
	}
	source := strings.TrimSpace(in.Source)
	if source == "" {
		return nil, Installed{}, tool.Errorf(tool.ParameterError, "source is empty").WithHint("Give a folder, an archive, an npm package, a git URL or an .mcpb file.")
	}
	if isPath(source) {
		var err error
		if source, err = d.resolve(req, source); err != nil {
			return nil, Installed{}, err
		}
	}
	done, err := d.Box.Install(ctx, source, InstallOptions{
		Confirm: func(ctx context.Context, title, text string) (bool, error) {
			answer, err := req.Ask(ctx, tool.Question{
				Kind: "permission", Title: title, Text: text,
				Options: []tool.Option{{ID: "yes", Label: "Install"}, {ID: "no", Label: "Do not install"}},
			})
			return err == nil && answer.Option == "yes", err
		},
		Progress: func(done, total int64, text string) {
			data := map[string]any{"progress": done, "message": text}
			if total > 0 {
				data["total"] = total
			}
			req.Emit(tool.Event{Type: tool.EventCallProgress, Data: data})
		},
	})
	if err != nil {
		return nil, Installed{}, err
	}
	return tool.Text(installedText(done)), done, nil
}

func installedText(i Installed) string {
	text := "Installed " + i.Name
	if i.Version != "" {
		text += " " + i.Version
	}
	if i.Replaced != "" {
		text += " in place of " + i.Replaced
	}
	text += fmt.Sprintf(" from %s.\nRead its manual with toolm: tool: %s, mode: manual.", i.Source, i.Name)
	for _, w := range i.Warnings {
		text += "\nWarning: " + w
	}
	return text
}

// isPath reports whether a source is a path of this machine; what could be the
// name of a package is none.
func isPath(source string) bool {
	return source == "." || source == ".." || strings.HasPrefix(source, "./") || strings.HasPrefix(source, "../") ||
		strings.HasPrefix(source, "~") || filepath.IsAbs(source)
}

// resolve makes a path of a call one that may be read.
func (d Deps) resolve(req *tool.Request, path string) (string, error) {
	if d.Resolve == nil {
		return "", tool.Errorf(tool.PermissionDenied, "paths cannot be read here").WithHint("Name a tool of the toolbox, or a package.")
	}
	return d.Resolve(req, path)
}
