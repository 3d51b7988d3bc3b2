package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
)

// published gives a gateway what it takes to run npx, with this machine's npm
// configuration. What a registry's host resolves to is let through.
func published(t *testing.T) func(*gateway.Config) {
	t.Helper()
	return func(c *gateway.Config) {
		c.Runner = online(t)
		cache := t.TempDir()
		var found *runtimes.Runtimes
		installer := deps.New(deps.Config{
			Runner: c.Runner, Cache: filepath.Join(cache, "npm"), Installer: deps.NPM, Copy: true, Env: os.Environ(),
			Program: func(ctx context.Context, name string) (string, error) {
				if name != "node" {
					return "", fmt.Errorf("no %s", name)
				}
				rt, err := found.Node(ctx)
				return rt.Program, err
			},
		})
		found = runtimes.New(runtimes.Config{Dir: filepath.Join(cache, "runtimes"), Cache: cache, Path: os.Getenv("PATH"), Home: os.Getenv("HOME"), Runner: c.Runner})
		c.JavaScript = installer
		c.Node = func(ctx context.Context) (string, error) {
			rt, err := found.Node(ctx)
			return rt.Program, err
		}
	}
}

// TestPublishedServers runs servers from npm, as their own instructions say, with
// no network granted.
func TestPublishedServers(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("hello from a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	npx := func(name string, args ...string) gateway.Server {
		return gateway.Server{Type: "stdio", Command: "npx", Args: append([]string{"-y", "@modelcontextprotocol/server-" + name}, args...), StartTimeout: gateway.Duration(2 * time.Minute)}
	}
	files := npx("filesystem", dir, out)
	files.Sandbox.Write = []string{out}
	y := open(t, map[string]gateway.Server{
		"everything": npx("everything"), "filesystem": files, "memory": npx("memory"), "thinking": npx("sequential-thinking"),
	}, published(t))
	for _, name := range []string{"everything", "filesystem", "memory", "thinking"} {
		start(t, y, name)
	}
	if n := len(y.tools(t, "everything")); n < 5 {
		t.Errorf("everything has %d tools", n)
	}
	if r := y.must(t, "everything", "echo", `{"message": "hi"}`, nil); !strings.Contains(r.TextContent(), "hi") {
		t.Errorf("echo: %s", r.TextContent())
	}
	hello := `{"path": ` + strconv.Quote(filepath.Join(dir, "hello.txt")) + `}`
	if r := y.must(t, "filesystem", "read_text_file", hello, nil); r.TextContent() != "hello from a file" {
		t.Errorf("read_text_file: %s", r.TextContent())
	}
	write := func(dir string) string {
		return `{"content": "x", "path": ` + strconv.Quote(filepath.Join(dir, "new.txt")) + `}`
	}
	if r := y.must(t, "filesystem", "write_file", write(dir), nil); !r.IsError {
		t.Error("it wrote where it may only read")
	}
	if r := y.must(t, "filesystem", "write_file", write(out), nil); r.IsError {
		t.Errorf("write_file where it may: %s", r.TextContent())
	}
	entity := `{"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}]}`
	if r := y.must(t, "memory", "create_entities", entity, nil); r.IsError {
		t.Errorf("create_entities: %s", r.TextContent())
	}
	if r := y.must(t, "memory", "read_graph", `{}`, nil); !strings.Contains(r.TextContent(), "Ada") {
		t.Errorf("read_graph: %s", r.TextContent())
	}
	thought := `{"thought": "one", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}`
	if r := y.must(t, "thinking", "sequentialthinking", thought, nil); r.IsError || !json.Valid([]byte(r.TextContent())) {
		t.Errorf("sequentialthinking: %s", r.TextContent())
	}
	// A second start needs no registry.
	if err := y.Stop(within(t), "memory"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	start(t, y, "memory")
	t.Logf("the second start of memory took %s", time.Since(began))
}

// start is yard.start with time to fetch packages.
func start(t *testing.T, y *yard, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	if err := y.Start(ctx, name); err != nil {
		logs, _ := y.Logs(ctx, name, 0)
		t.Fatalf("starting %s: %v\n%s", name, err, strings.Join(logs, "\n"))
	}
}

// online is a sandbox in which the operator's npm registry can be reached,
// wherever its name leads.
func online(t *testing.T) sandbox.Runner {
	t.Helper()
	out, err := exec.CommandContext(within(t), "npm", "config", "get", "registry").Output()
	if err != nil {
		t.Fatalf("npm config get registry: %v", err)
	}
	address, err := url.Parse(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal("npm's registry is no URL")
	}
	addrs, err := net.DefaultResolver.LookupNetIP(within(t), "ip", address.Hostname())
	if err != nil {
		t.Fatalf("npm's registry: %v", err)
	}
	var ranges []netip.Prefix
	for _, a := range addrs {
		ranges = append(ranges, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
	}
	box := sandbox.New(sandbox.Config{AllowRanges: ranges})
	t.Cleanup(func() { _ = box.Close() })
	return box
}
