// Package toolyard gives an AI agent a safe, fast tool box: file, search, edit
// and shell tools behind one pipeline that validates, permits, schedules,
// limits and records every call.
//
// A program embeds it like this:
//
//	yard, err := toolyard.New(toolyard.Config{Workspaces: []string{"."}})
//	if err != nil {
//		return err
//	}
//	defer yard.Close()
//	result := yard.Call(ctx, toolyard.Call{
//		Tool:      "read",
//		Arguments: json.RawMessage(`{"file_path": "go.mod"}`),
//	})
//
// Records are kept in memory unless Config.Store is set; sqlite.Open in
// github.com/toolyard/toolyard/sqlite gives a durable one. Tools of your own are
// made with the package tool and passed in Config.Tools.
//
// The package reads no environment variable and no configuration file: the
// program in cmd/toolyard does that and fills a [Config].
package toolyard

//go:generate go run ./internal/docgen/cmd
