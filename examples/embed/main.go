// Command embed is a Go program with a tool box inside: it makes one call, then
// several together, and shows what a refusal looks like.
//
//	go run ./examples/embed DIR
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/tool"
)

func main() {
	log.SetFlags(0)
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(context.Background(), os.Stdout, dir); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, w io.Writer, dir string) error {
	yard, err := toolyard.New(toolyard.Config{
		Workspaces:  []string{dir},
		Permissions: toolyard.Permissions{Deny: []toolyard.Rule{{Text: "read(*.key)"}}},
	})
	if err != nil {
		return err
	}
	defer yard.Close()

	// One call. A failure is a result too: IsError, with Err in detail.
	result := yard.Call(ctx, toolyard.Call{
		Tool:      "glob",
		Arguments: json.RawMessage(`{"pattern": "**/*.txt"}`),
	})
	if result.IsError {
		return result.Err
	}
	var found struct{ Files []string }
	if err := json.Unmarshal(result.Structured, &found); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d files\n", len(found.Files))

	// Many calls: those that do not conflict run side by side, and each result
	// comes as soon as it is there.
	calls := []toolyard.Call{
		{Tool: "grep", Arguments: json.RawMessage(`{"pattern": "tool", "output": "count"}`)},
		{Tool: "read", Arguments: json.RawMessage(`{"file_path": "server.key"}`)},
	}
	results := make([]*tool.Result, len(calls))
	for i, r := range yard.ExecuteBatch(ctx, calls, tool.BatchOptions{}) {
		results[i] = r
	}
	for i, r := range results {
		if r.IsError {
			fmt.Fprintf(w, "%s: %s\n", calls[i].Tool, r.Err.Code)
			continue
		}
		fmt.Fprintf(w, "%s: %s\n", calls[i].Tool, r.TextContent())
	}
	return nil
}
