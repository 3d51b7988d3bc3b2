// Command whole is an MCP server over stdio or HTTP with an echo tool and the whole
// pipeline behind it: validation, permission, the record in SQLite.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/garbage"
	"github.com/toolyard/toolyard/sqlite"
	"github.com/toolyard/toolyard/tool"
)

func main() {
	profile := flag.String("cpuprofile", "", "write a profile of the processor to this file")
	workspace := flag.String("workspace", "", "a folder that the built-in tools may use")
	addr := flag.String("addr", "", "listen here; stdio if empty")
	heap := flag.String("heapprofile", "", "write a profile of what was allocated to this file")
	flag.Parse()
	garbage.Pace() // as cmd/toolyard does
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		defer pprof.StopCPUProfile()
	}
	defer func() {
		if *heap == "" {
			return
		}
		f, err := os.Create(*heap)
		if err == nil {
			err = pprof.Lookup("allocs").WriteTo(f, 0)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *workspace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type echo struct {
	Text string `json:"text" jsonschema:"what to say"`
}

func run(ctx context.Context, addr, workspace string) error {
	home, err := os.MkdirTemp("", "bench-whole-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	db, err := sqlite.Open(filepath.Join(home, "toolyard.db"))
	if err != nil {
		return err
	}
	defer db.Close()
	var workspaces []string
	if workspace != "" {
		workspaces = []string{workspace}
	}
	yard, err := toolyard.New(toolyard.Config{Home: home, Store: db, Workspaces: workspaces, Tools: []tool.Tool{
		tool.New(tool.Spec{
			Name: "echo", Description: "Says what it is told.", Effects: tool.Read, Idempotent: true, ConcurrencySafe: true, Default: tool.Allow,
		}, func(_ context.Context, _ *tool.Request, in echo) (*tool.Result, echo, error) { return nil, in, nil }),
	}})
	if err != nil {
		return err
	}
	defer yard.Close()
	garbage.TrimSoon()
	if addr != "" {
		return yard.Serve(ctx, toolyard.ServeConfig{Addr: addr, Auth: "none", Listening: func(url, _ string) {
			fmt.Printf("{\"url\": %q}\n", url)
		}})
	}
	return yard.ServeMCP(ctx, os.Stdin, os.Stdout)
}
