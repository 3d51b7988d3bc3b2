package toolbox

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/page"
	"github.com/toolyard/toolyard/internal/toolbox/yamlin"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

//go:embed toolm.md
var toolmManual string

// source is where the registry has the tools of the toolbox.
const source = "toolbox"

type toolmIn struct {
	YAML       string          `json:"yaml,omitempty" jsonschema:"the request as YAML: tool, mode, parameters"`
	Tool       string          `json:"tool,omitempty" alias:"toolUrl,toolURL,tool_url,url,tool_name" jsonschema:"instead of yaml: name of the tool, or tool://name"`
	Mode       string          `json:"mode,omitempty" alias:"operation" jsonschema:"what to do; default=execute; enum=execute|manual|configure|log"`
	Parameters json.RawMessage `json:"parameters,omitempty" alias:"params,arguments" jsonschema:"an object: the tool's own parameters, variables to set, or action, lines, level, since, pattern of the log"`
	Language   string          `json:"language,omitempty" alias:"lang" jsonschema:"of headings: en or zh"`
}

// coordinator is a tool that only calls others. What its calls configure is not
// for the record, and rules see what a text says as fields.
type coordinator struct {
	tool.Tool
	box Box
}

// Coordinates is true: execute is judged, limited and counted as the inner call.
func (coordinator) Coordinates() bool { return true }

// Conceal leaves out the values of mode configure.
func (coordinator) Conceal(arguments json.RawMessage) json.RawMessage { return conceal(arguments) }

// Permit puts the fields beside the text, and the tool's own name in place of
// others for it, so that a rule as toolm(mode:configure) or toolm(tool:x) holds
// in whatever form the request came.
func (c coordinator) Permit(ctx context.Context, req *tool.Request, verdict tool.Action) (tool.Action, string) {
	in, err := tool.Arguments[toolmIn](req)
	if err != nil || c.box == nil {
		return verdict, ""
	}
	r, _, err := read(in)
	if err != nil {
		return verdict, "" // the call says what is wrong
	}
	plain := in
	plain.Tool, plain.Mode, plain.Parameters = r.Tool, string(r.Mode), r.Parameters
	if r.Language != "" {
		plain.Language = r.Language
	}
	if entry, err := c.box.Lookup(ctx, r.Tool); err == nil {
		plain.Tool = entry.Definition.Name
	}
	if plain.Tool != in.Tool || plain.Mode != in.Mode || !bytes.Equal(plain.Parameters, in.Parameters) {
		req.Arguments = encode(plain)
	}
	return verdict, ""
}

var (
	_ tool.Coordinator = coordinator{}
	_ tool.Concealer   = coordinator{}
	_ tool.Permitter   = coordinator{}
)

// Toolm is the one tool for the whole toolbox. A Spec is constant: where the
// toolbox has changed, make another one with its new d.Description.
func Toolm(d Deps) tool.Tool {
	description := d.Description
	if description == "" {
		description = page.ToolmDescription(nil, 0, page.English)
	}
	// An inner result is folded already; as JSON in JSON it is longer.
	const room = 6 * tool.DefaultMaxOutput
	return coordinator{box: d.Box, Tool: tool.New(tool.Spec{
		Name: "toolm", Title: "Toolbox", Description: description, Manual: toolmManual, Category: "toolbox",
		Default: tool.Allow, ConcurrencySafe: true, Timeout: -1, MaxOutput: room,
		Tags: []string{"toolbox", "yaml", "manual", "configure", "log"},
		Examples: []tool.Example{
			{Title: "Run a tool", Arguments: json.RawMessage(`{"yaml":"tool: todolist\nmode: execute\nparameters:\n  method: list_tasks\n"}`)},
			{Title: "Read a tool's manual", Arguments: json.RawMessage(`{"tool":"todolist","mode":"manual"}`)},
		},
	}, toolm{d}.call)}
}

type toolm struct{ d Deps }

// request is one call with all that is known of it.
type request struct {
	yamlin.Request
	host    *tool.Request
	repairs []string
	lang    page.Lang
	entry   Entry
}

func (t toolm) call(ctx context.Context, host *tool.Request, in toolmIn) (*tool.Result, struct{}, error) {
	var none struct{}
	if t.d.Box == nil {
		return nil, none, errNoBox()
	}
	r := request{host: host}
	var err error
	if r.Request, r.repairs, err = read(in); err != nil {
		return nil, none, unshown(in, err)
	}
	if r.Language == "" {
		r.Language = in.Language
	}
	if r.Language == "" && t.d.Language != nil {
		r.Language = t.d.Language(host)
	}
	r.lang = page.Language(r.Language)
	if r.entry, err = t.d.Box.Lookup(ctx, r.Tool); err != nil {
		return nil, none, err
	}
	r.Tool = r.entry.Definition.Name
	if err := offered(host, r.Tool); err != nil {
		return nil, none, err
	}
	var result *tool.Result
	switch r.Mode {
	case yamlin.Manual:
		result = t.manual(r)
	case yamlin.Configure:
		result, err = t.configure(ctx, r)
	case yamlin.Log:
		result, err = t.log(ctx, r)
	default:
		result, err = t.execute(ctx, r)
	}
	if err != nil {
		return nil, none, err
	}
	for _, said := range r.repairs {
		result.Meta.Notes = append(result.Meta.Notes, "The request was repaired: "+said+".")
	}
	return result, none, nil
}

// offered refuses a tool that the caller may not use: its manual, its settings and
// its log are no more there than the tool.
func offered(host *tool.Request, name string) error {
	if host.Host == nil {
		return nil
	}
	c, ok := host.Host.Catalog().(interface {
		Forbidden(name string) bool
		NotFound(name string) error
	})
	if !ok || !c.Forbidden(source+":"+name) {
		return nil
	}
	return c.NotFound(source + ":" + name)
}

// read takes the request from the text or from the fields. Where both are given
// they must say the same.
func read(in toolmIn) (yamlin.Request, []string, error) {
	members := map[string]json.RawMessage{}
	text := func(name, value string) {
		if value != "" {
			members[name] = encode(value)
		}
	}
	text("tool", in.Tool)
	if in.Mode != string(yamlin.Execute) { // the default is no field
		text("mode", in.Mode)
	}
	if len(in.Parameters) > 0 && string(in.Parameters) != "null" {
		members["parameters"] = in.Parameters
	}
	if in.YAML == "" {
		text("language", in.Language)
		if in.Tool == "" {
			return yamlin.Request{}, nil, tool.Errorf(tool.ValidationError, "there is neither yaml nor tool").
				WithHint("Write yaml: \"tool: NAME\", with mode and parameters below it, or give tool, mode and parameters as fields.")
		}
		return yamlin.FromFields(members)
	}
	r, repairs, err := yamlin.Parse(in.YAML)
	if err != nil || len(members) == 0 {
		return r, repairs, err
	}
	var faults []tool.Fault
	for name, same := range map[string]bool{
		"tool":       in.Tool == "" || sameName(in.Tool, r.Tool),
		"mode":       members["mode"] == nil || in.Mode == string(r.Mode),
		"parameters": members["parameters"] == nil || sameJSON(in.Parameters, r.Parameters),
	} {
		if !same {
			faults = append(faults, tool.Fault{Path: name, Expected: "what yaml says, or nothing", Got: "something else"})
		}
	}
	if len(faults) > 0 {
		slices.SortFunc(faults, func(a, b tool.Fault) int { return strings.Compare(a.Path, b.Path) })
		return yamlin.Request{}, nil, validate.FaultsError(faults).WithHint("Give either yaml alone, or tool, mode and parameters.")
	}
	return r, repairs, nil
}

// sameName reports whether two names can be of one tool.
func sameName(a, b string) bool {
	plain, ok := yamlin.Name(a)
	fold := strings.NewReplacer("_", "", "-", "")
	return ok && strings.EqualFold(fold.Replace(plain), fold.Replace(b))
}

func sameJSON(a, b json.RawMessage) bool {
	x, err := validate.Canonical(a)
	y, err2 := validate.Canonical(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

func (toolm) manual(r request) *tool.Result {
	o := page.ManualOptions{Lang: r.lang, Granted: r.entry.Granted}
	if r.entry.Failure != nil {
		o.Failure = tool.AsError(r.entry.Failure).Text()
	}
	return shown(page.Manual(r.entry.Definition, o))
}

// shown is the result that shows a page.
func shown(p page.Page) *tool.Result {
	r := tool.Text(p.Markdown)
	r.Structured = p.JSON
	return r
}
