package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/tool"
)

func open(t *testing.T) (*toolyard.Toolyard, string) {
	t.Helper()
	dir := t.TempDir()
	yard, err := toolyard.New(toolyard.Config{Workspaces: []string{dir}, Tools: []tool.Tool{newAddNote()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := yard.Close(); err != nil {
			t.Error(err)
		}
	})
	return yard, dir
}

// TestNotesKeepTheirOrder calls the tool many times at once: Resources makes the
// calls wait for each other.
func TestNotesKeepTheirOrder(t *testing.T) {
	yard, dir := open(t)
	var calls []toolyard.Call
	want := ""
	for i := range 20 {
		note := fmt.Sprintf("note %d", i)
		arguments, err := json.Marshal(map[string]string{"text": note}) // the alias of "note"
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, toolyard.Call{Tool: "notes:add", Arguments: arguments})
		want += "- " + note + "\n"
	}
	for i, r := range yard.ExecuteBatch(t.Context(), calls, tool.BatchOptions{}) {
		if r.IsError {
			t.Errorf("call %d: %s", i, r.TextContent())
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, notesFile))
	if err != nil || string(got) != want {
		t.Errorf("notes %q, %v, want %q", got, err, want)
	}
}

func TestRefusals(t *testing.T) {
	yard, _ := open(t)
	for name, tt := range map[string]struct {
		arguments string
		code      tool.Code
	}{
		"two lines": {`{"note": "a\nb"}`, tool.ParameterError},
		"empty":     {`{"note": ""}`, tool.ValidationError},
		"missing":   {`{}`, tool.ValidationError},
	} {
		t.Run(name, func(t *testing.T) {
			r := yard.Call(t.Context(), toolyard.Call{Tool: "notes:add", Arguments: json.RawMessage(tt.arguments)})
			if r.Err == nil || r.Err.Code != tt.code {
				t.Errorf("got %q, want %s", r.TextContent(), tt.code)
			}
		})
	}
}
