// Command mcp measures MCP servers against each other: calls a second, latency,
// CPU time a call and peak memory, over stdio and HTTP, with 1 and 64 calls in
// flight. All servers run in turn in each round, so that what else the machine
// does falls on all of them; the medians are printed.
//
//	go run ./bench/mcp [-toolyard BIN]
//
// Beside the program it runs testdata/conformance/fixture (this project's front
// door with an echo tool and nothing behind it), bench/mcp/whole (the same with
// everything behind it), the peers in bench/mcp/peers, and npm's
// @modelcontextprotocol/server-filesystem. All are built or installed
// into a temporary directory, or NPM_DIR, unless they are named; what cannot be
// had is left out, and that is said. "-" leaves one out. At last it opens many
// sessions that do nothing, and says what they cost.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// target is one server in one way of talking to it.
type target struct {
	name    string
	via     string // one of the constants below
	command []string
	tools   map[string]string // operation → tool
}

// sample is one measurement.
type sample struct {
	rate     float64 // calls a second
	p50, p99 time.Duration
	cpu      time.Duration // a call
	rss      int64         // peak, KiB
	first    time.Duration // from start to the answer to initialize
}

const (
	viaStdio     = "stdio"
	viaSession   = "http 2025-11-25"
	viaStateless = "http 2026-07-28"
	viaSocket    = "websocket"
)

func main() {
	fixture := flag.String("fixture", "", "binary of testdata/conformance/fixture")
	whole := flag.String("whole", "", "binary of bench/mcp/whole")
	toolyard := flag.String("toolyard", "", "binary of cmd/toolyard")
	gosdk := flag.String("gosdk", "", "binary of bench/mcp/peers/gosdk")
	mcpgo := flag.String("mcpgo", "", "binary of bench/mcp/peers/mcpgo")
	filesystem := flag.String("filesystem", "", "command of server-filesystem, without the directory")
	gateway := flag.String("gateway", "", "command of an MCP server on stdio that offers an echo server's tool as its own; the program in front of go-sdk's if empty, \"-\" leaves it out")
	gatewayTool := flag.String("gateway-tool", "echo", "what that tool is called there")
	idle := flag.Int("idle", 1000, "sessions that do nothing, whose memory is measured; 0 leaves that out")
	rounds := flag.Int("rounds", 5, "rounds; the medians are printed")
	span := flag.Duration("time", time.Second, "how long one measurement takes")
	only := flag.String("via", "", "measure only this way: stdio, http, websocket")
	flag.Parse()
	temp, err := os.MkdirTemp("", "bench-mcp-")
	if err != nil {
		exit(err)
	}
	defer os.RemoveAll(temp)
	if temp, err = filepath.EvalSymlinks(temp); err != nil {
		exit(err)
	}
	dir := filepath.Join(temp, "workspace")
	if err := os.Mkdir(dir, 0o755); err != nil {
		exit(err)
	}
	for i := range files {
		if err := os.WriteFile(fileName(dir, i), []byte(strings.Repeat("a line of forty characters, more or less\n", 100)), 0o644); err != nil {
			exit(err)
		}
	}
	obtain(fixture, "fixture", func() (string, error) { return build(temp, ".", "./testdata/conformance/fixture") })
	obtain(whole, "whole", func() (string, error) { return build(temp, ".", "./bench/mcp/whole") })
	obtain(gosdk, "go-sdk", func() (string, error) { return build(temp, "bench/mcp/peers", "./gosdk") })
	obtain(mcpgo, "mcp-go", func() (string, error) { return build(temp, "bench/mcp/peers", "./mcpgo") })
	obtain(filesystem, "server-filesystem", func() (string, error) { return install(temp) })

	if *gateway == "" && *toolyard != "" && *gosdk != "" && *toolyard != "-" && *gosdk != "-" {
		home, err := gatewayHome(temp, *gosdk)
		if err != nil {
			exit(err)
		}
		*gateway, *gatewayTool = *toolyard+" mcp --home "+home+" --workspace "+dir, "peer__echo"
	}

	both := map[string]string{"echo": "echo", "read 4 KB": "read"}
	echo := map[string]string{"echo": "echo"}
	read := map[string]string{"read 4 KB": "read"}
	var targets []target
	add := func(name, path string, args []string, tools map[string]string, http []string) {
		if path == "" || path == "-" {
			return
		}
		command := append(strings.Fields(path), args...)
		targets = append(targets, target{name, viaStdio, command, tools})
		for _, via := range http {
			targets = append(targets, target{name, via, command, tools})
		}
	}
	eras := []string{viaSession, viaStateless}
	all := []string{viaSession, viaStateless, viaSocket}
	add("fixture", *fixture, nil, both, all)
	add("whole", *whole, nil, echo, all)
	add("through gateway", *gateway, nil, map[string]string{"echo": *gatewayTool}, nil)
	add("toolyard", *toolyard, nil, read, all)
	add("go-sdk", *gosdk, nil, echo, eras)
	add("mcp-go", *mcpgo, nil, echo, eras[:1])
	add("server-filesystem", *filesystem, []string{dir}, map[string]string{"read 4 KB": "read_text_file"}, nil)
	targets = slices.DeleteFunc(targets, func(t target) bool { return !strings.HasPrefix(t.via, *only) })

	results := map[string][]sample{}
	for round := range *rounds {
		for _, t := range targets {
			for op, name := range t.tools {
				for _, flight := range []int{1, 64} {
					fmt.Fprintf(os.Stderr, "round %d: %s, %s, %s, %d in flight\n", round+1, t.name, t.via, op, flight)
					s, err := measure(t, dir, name, flight, *span)
					if err != nil {
						exit(fmt.Errorf("%s over %s: %s: %w", t.name, t.via, op, err))
					}
					k := fmt.Sprintf("%s | %s | %s | %d", op, t.via, t.name, flight)
					results[k] = append(results[k], s)
				}
			}
		}
	}
	report(results)
	if *idle > 0 && (*only == "" || *only == "idle") {
		for name, path := range map[string]string{"fixture": *fixture, "toolyard": *toolyard} {
			if path != "" && path != "-" {
				if err := idleSessions(target{name: name, command: strings.Fields(path)}, dir, *idle); err != nil {
					exit(err)
				}
			}
		}
	}
}

// obtain gets a server that was not named.
func obtain(path *string, name string, get func() (string, error)) {
	if *path != "" {
		return
	}
	got, err := get()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s is left out: %v\n", name, err)
		return
	}
	*path = got
}

// build compiles a package of a module and gives the program.
func build(temp, module, pkg string) (string, error) {
	out := filepath.Join(temp, filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Dir = module
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return out, nil
}

// install gets server-filesystem from npm and gives its command.
func install(temp string) (string, error) {
	dir := os.Getenv("NPM_DIR")
	if dir == "" {
		dir = filepath.Join(temp, "npm")
	}
	modules := filepath.Join(dir, "node_modules")
	script := filepath.Join(modules, "@modelcontextprotocol", "server-filesystem", "dist", "index.js")
	if _, err := os.Stat(script); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		cmd := exec.Command("npm", "install", "--prefix", dir, "--no-fund", "--no-audit", "--silent", "node@22", "@modelcontextprotocol/server-filesystem@latest")
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, text)
		}
	}
	return filepath.Join(modules, "node", "bin", "node") + " " + script, nil
}

func report(results map[string][]sample) {
	fmt.Println("| operation | over | server | in flight | calls/s | p50 µs | p99 µs | CPU µs a call | peak MiB | first answer ms | calls/s over the peer's |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	keys := make([]string, 0, len(results))
	for k := range results {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		s := results[k]
		fmt.Printf("| %s | %.0f | %.0f | %.0f | %.0f | %.1f | %.1f | %s |\n", k,
			median(s, func(s sample) float64 { return s.rate }),
			median(s, func(s sample) float64 { return float64(s.p50.Microseconds()) }),
			median(s, func(s sample) float64 { return float64(s.p99.Microseconds()) }),
			median(s, func(s sample) float64 { return float64(s.cpu.Nanoseconds()) / 1000 }),
			median(s, func(s sample) float64 { return float64(s.rss) / 1024 }),
			median(s, func(s sample) float64 { return float64(s.first.Microseconds()) / 1000 }), ratio(results, k))
	}
}

// ratio compares a server with the one it has to be measured by: for reading
// server-filesystem, which only speaks stdio, else the bare go-sdk.
func ratio(results map[string][]sample, key string) string {
	parts := strings.Split(key, " | ")
	peer := "go-sdk"
	if parts[0] != "echo" {
		peer = "server-filesystem"
	}
	theirs := results[strings.Join([]string{parts[0], parts[1], peer, parts[3]}, " | ")]
	if theirs == nil {
		return "–"
	}
	rate := func(s sample) float64 { return s.rate }
	return fmt.Sprintf("%.2f", median(results[key], rate)/median(theirs, rate))
}

func median(samples []sample, of func(sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// gatewayHome makes a home whose gateway offers the tools of an MCP server on
// stdio. The program itself runs it in its sandbox.
func gatewayHome(temp, server string) (string, error) {
	home := filepath.Join(temp, "gateway")
	if err := os.Mkdir(home, 0o700); err != nil {
		return "", err
	}
	entries, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"peer": map[string]any{
		"command": server, "permissions": map[string]any{"allow": []string{"*"}}, "concurrency": 64, "session": true, // the era in which it is spoken to directly too
		"sandbox": map[string]any{"read": []string{server}},
	}}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(home, "mcp.json"), entries, 0o600); err != nil {
		return "", err
	}
	// The same call again and again is what is measured.
	return home, os.WriteFile(filepath.Join(home, "config.yaml"), []byte("doomLoop: off\n"), 0o600)
}
