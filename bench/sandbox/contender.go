package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/sqlite"
)

// contender is one way to run a command.
type contender struct {
	name    string
	run     func(context.Context) error
	goal    goal
	compare bool   // does what bwrap --unshare-all does
	dear    int    // is run only one time in so many
	skip    string // why it is not run
}

// contenders lists them; end gives up what they need. To add one: a line here.
func contenders(s *sandbox.Sandbox) (list []contender, end func(), err error) {
	dir, err := os.MkdirTemp("", "bench-sandbox-")
	if err != nil {
		return nil, nil, err
	}
	ends := []func(){func() { os.RemoveAll(dir) }}
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	y, closeYard, err := yard(dir)
	if err != nil {
		end()
		return nil, nil, err
	}
	ends = append([]func(){closeYard}, ends...)
	const millisecond = time.Millisecond
	minimal := sandbox.Profile{Read: []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"}}
	full := sandbox.Profile{Mounts: sandbox.Toolchains(os.Getenv("PATH"), os.Getenv("HOME")).Mounts}
	list = []contender{
		{name: "/bin/true, bare", run: program("/bin/true"), compare: true},
		{name: "/bin/true in L2", run: confined(s, minimal), compare: true,
			goal: goal{p50: 2400 * time.Microsecond, p95: 4 * millisecond, times: 1, of: "bwrap"}},
		{name: "/bin/true in L2 with toolchains", run: confined(s, full), compare: true, goal: goal{times: 1, of: "bwrap"}},
		{name: "bwrap --unshare-all", run: program("bwrap", "--unshare-all", "--ro-bind", "/", "/", "/bin/true"), compare: true, skip: absent("bwrap")},
		runc(dir),
		docker(dir),
		{name: "bash -c : bare", run: program("bash", "-c", ":")},
		{name: "bash -c : in bwrap", skip: absent("bwrap"),
			run: program("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "bash", "-c", ":")},
		{name: "bash -c : through the executor", goal: goal{p50: 5 * millisecond}, run: func(ctx context.Context) error {
			if r := y.Call(ctx, toolyard.Call{Tool: "bash", Arguments: json.RawMessage(`{"command":":"}`)}); r.IsError {
				return r.Err
			}
			return nil
		}},
	}
	return list, end, nil
}

func program(name string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			line, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
			return fmt.Errorf("%s: %w: %s", name, err, line)
		}
		return nil
	}
}

// absent says why a program cannot be run; "" if it can.
func absent(name string) string {
	if _, err := exec.LookPath(name); err != nil {
		return "there is no " + name + " here"
	}
	return ""
}

func confined(s *sandbox.Sandbox, p sandbox.Profile) func(context.Context) error {
	return func(ctx context.Context) error {
		proc, err := s.Start(ctx, sandbox.Cmd{Args: []string{"/bin/true"}, Profile: p})
		if err != nil {
			return err
		}
		if r := proc.Wait(ctx); r.Ending.Reason != sandbox.EndExit || r.Ending.Code != 0 {
			return fmt.Errorf("ended with %+v", r.Ending)
		}
		return proc.Close()
	}
}

// yard is a Toolyard as the program makes it, with a database.
func yard(dir string) (*toolyard.Toolyard, func(), error) {
	workspace := filepath.Join(dir, "workspace")
	if err := os.MkdirAll(workspace, 0o755); err != nil {
		return nil, nil, err
	}
	db, err := sqlite.Open(filepath.Join(dir, "toolyard.db"))
	if err != nil {
		return nil, nil, err
	}
	y, err := toolyard.New(toolyard.Config{
		Home: filepath.Join(dir, "home"), Workspaces: []string{workspace}, Store: db, Path: os.Getenv("PATH"), KeepJobs: true,
	})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return y, func() {
		y.Close()
		db.Close()
	}, nil
}

// runc runs /bin/true in a root file system that has nothing else.
func runc(dir string) contender {
	c := contender{name: "runc run", compare: true, dear: 5, skip: absent("runc")}
	if c.skip != "" {
		return c
	}
	bundle := filepath.Join(dir, "bundle")
	if err := errors.Join(root(filepath.Join(bundle, "rootfs")), specify(bundle)); err != nil {
		c.skip = err.Error()
		return c
	}
	count := 0
	c.run = func(ctx context.Context) error {
		count++
		id := fmt.Sprintf("bench-sandbox-%d-%d", os.Getpid(), count)
		return program("runc", "--root", filepath.Join(dir, "runc"), "run", "--bundle", bundle, id)(ctx)
	}
	return c
}

// specify has runc write a configuration and changes the command.
func specify(bundle string) error {
	if out, err := exec.Command("runc", "spec", "--bundle", bundle).CombinedOutput(); err != nil {
		return fmt.Errorf("runc spec: %w: %s", err, out)
	}
	file := filepath.Join(bundle, "config.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	process, ok := spec["process"].(map[string]any)
	if !ok {
		return errors.New("runc spec: it has no process")
	}
	process["terminal"], process["args"] = false, []string{"/bin/true"}
	if text, err = json.Marshal(spec); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// docker runs /bin/true in an image of the same file system.
func docker(dir string) contender {
	c := contender{name: "docker run", compare: true, dear: 20, skip: absent("docker")}
	if c.skip != "" {
		return c
	}
	if out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		c.skip = strings.TrimSpace(string(out))
		return c
	}
	tree, image := filepath.Join(dir, "image"), "toolyard-bench:"+strconv.Itoa(os.Getpid())
	if err := root(tree); err != nil {
		c.skip = err.Error()
		return c
	}
	load := exec.Command("sh", "-c", `tar -C "$1" -c . | docker import - "$2"`, "sh", tree, image)
	if out, err := load.CombinedOutput(); err != nil {
		c.skip = fmt.Sprintf("docker import: %v: %s", err, out)
		return c
	}
	c.run = program("docker", "run", "--rm", "--network", "none", image, "/bin/true")
	return c
}

// root copies /bin/true and what it loads.
func root(dir string) error {
	out, err := exec.Command("ldd", "/bin/true").Output()
	if err != nil {
		return fmt.Errorf("ldd: %w", err)
	}
	files := []string{"/bin/true"}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			files = append(files, word)
		}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			return err
		}
	}
	return nil
}
