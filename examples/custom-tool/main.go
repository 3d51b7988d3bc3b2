// Command custom-tool serves a tool of its own, notes:add, beside the built-in
// ones, to an MCP client on standard input and output.
//
//	go run ./examples/custom-tool DIR
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/tool"
)

const notesFile = "NOTES.md"

// addIn is what the tool takes: its JSON Schema is made from the tags.
type addIn struct {
	Note string `json:"note" alias:"text" jsonschema:"the note, one line; minLength=1; maxLength=500"`
}

// addOut is the structured part of what it gives.
type addOut struct {
	Notes int `json:"notes" jsonschema:"how many notes there are now"`
}

// addNote is a tool with two optional abilities.
type addNote struct{ tool.Tool }

var (
	_ tool.Resourcer = addNote{}
	_ tool.Validator = addNote{}
)

func newAddNote() tool.Tool {
	return addNote{tool.New(tool.Spec{
		Name: "add", Source: "notes", Title: "Add a note",
		Description: "Adds a line to NOTES.md in the workspace. Use it for what the next person has to know.",
		Effects:     tool.Write,
		Default:     tool.Allow,
	}, add)}
}

// Resources says what a call touches: two calls of one workspace run in order,
// calls of other tools on other files beside them.
func (addNote) Resources(req *tool.Request) []tool.Resource {
	return []tool.Resource{{Key: filepath.Join(req.Workspace, notesFile), Access: tool.WriteAccess}}
}

// Validate finds what the schema cannot say.
func (addNote) Validate(req *tool.Request) []tool.Fault {
	in, err := tool.Arguments[addIn](req)
	if err == nil && strings.Contains(in.Note, "\n") {
		return []tool.Fault{{Path: "note", Expected: "one line", Got: "several lines"}}
	}
	return nil
}

// add does the thing and nothing else: arguments have been checked, the call has
// been allowed, and time limits, records and long output are not its business.
func add(_ context.Context, req *tool.Request, in addIn) (*tool.Result, addOut, error) {
	if req.Workspace == "" {
		return nil, addOut{}, tool.Errorf(tool.PermissionDenied, "there is no workspace to keep notes in").WithHint("Start with a directory.")
	}
	root, err := os.OpenRoot(req.Workspace) // a symlink cannot lead out of it
	if err != nil {
		return nil, addOut{}, err
	}
	defer root.Close()
	old, err := root.ReadFile(notesFile)
	if err != nil && !os.IsNotExist(err) {
		return nil, addOut{}, err
	}
	text := string(old) + "- " + in.Note + "\n"
	if err := root.WriteFile(notesFile, []byte(text), 0o644); err != nil {
		return nil, addOut{}, err
	}
	out := addOut{Notes: strings.Count("\n"+text, "\n- ")}
	return tool.Text(fmt.Sprintf("noted; there are %d notes", out.Notes)), out, nil
}

func main() {
	log.SetFlags(0)
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(context.Background(), dir); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir string) error {
	yard, err := toolyard.New(toolyard.Config{Workspaces: []string{dir}, Tools: []tool.Tool{newAddNote()}})
	if err != nil {
		return err
	}
	defer yard.Close()
	return yard.ServeMCP(ctx, os.Stdin, os.Stdout)
}
