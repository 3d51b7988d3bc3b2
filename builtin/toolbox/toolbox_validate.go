package toolbox

import (
	"context"
	_ "embed"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard/tool"
)

//go:embed toolbox_validate.md
var validateManual string

type validateIn struct {
	Name    string `json:"name,omitempty" jsonschema:"a tool of the toolbox"`
	Path    string `json:"path,omitempty" alias:"dir,directory" jsonschema:"instead of name: the folder of a tool that is not installed; format=path"`
	Release bool   `json:"release,omitempty" jsonschema:"also go through the checklist of a release"`
}

func newValidate(d Deps) tool.Tool {
	return tool.New(tool.Spec{
		Name: "toolbox_validate", Title: "Validate a toolbox tool",
		Description: "Checks a JavaScript or Python tool of the toolbox, or a folder with one, in eleven layers: files, interface, metadata, schemas, parameters, results, errors, dependencies, environment, and a trial in the sandbox. " +
			"Use it after writing or changing a tool. It changes nothing; the trial runs in a copy with no network.",
		Manual: validateManual, Category: "toolbox", Tags: []string{"toolbox", "validate", "lint"},
		Effects: tool.Execute, Default: tool.Allow, Idempotent: true, ConcurrencySafe: true, Timeout: 2 * time.Minute,
		Examples: []tool.Example{{Title: "Check an installed tool", Arguments: json.RawMessage(`{"name":"todolist"}`)}},
	}, func(ctx context.Context, req *tool.Request, in validateIn) (*tool.Result, struct{}, error) {
		return runValidate(ctx, d, req, in)
	})
}

func runValidate(ctx context.Context, d Deps, req *tool.Request, in validateIn) (*tool.Result, struct{}, error) {
	var none struct{}
	what := in.Name
	switch {
	case d.Box == nil:
		return nil, none, errNoBox()
	case (in.Name == "") == (in.Path == ""):
		return nil, none, tool.Errorf(tool.ParameterError, "one of name and path is needed").
			WithHint("Give name for a tool of the toolbox, or path for a folder.")
	case in.Path != "":
		var err error
		if what, err = d.resolve(req, in.Path); err != nil {
			return nil, none, err
		}
	}
	report, err := d.Box.Validate(ctx, what, in.Release)
	if err != nil {
		return nil, none, err
	}
	result := tool.Text(report.Text)
	result.Structured = report.JSON
	if !report.OK {
		result.IsError = true
		result.Err = tool.Errorf(tool.ValidationError, "%s does not pass the validation", what).
			WithHint("Mend the findings marked as errors and validate again.")
	}
	return result, none, nil
}
