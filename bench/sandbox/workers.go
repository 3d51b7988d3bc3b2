package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// The tools that are called, in both languages.
const (
	jsTool = "export default { async execute (params) { return { sum: params.a + params.b } } }\n"
	pyTool = "def execute(params):\n    return {'sum': params['a'] + params['b']}\n"
	params = `{"a":1,"b":2}`
	answer = `{"sum":3}`

	warmTools = 100
)

// workers measures calls of confined tools: cold ones, warm ones, and what many
// warm tools cost.
//
//	go run ./bench/sandbox -workers
func workers(runs int) error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "bench-workers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{"tool.mjs": jsTool, "tool.py": pyTool} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	box := sandbox.New(sandbox.Config{})
	defer box.Close()
	b := workerBench{box: box, dir: dir}
	js := b.config(worker.Node{}, "tool.mjs")
	python := b.config(worker.Python{Program: "/usr/bin/python3"}, "tool.py")
	if err := b.cold(ctx, runs, js, python); err != nil {
		return err
	}
	for _, row := range []struct {
		name   string
		config worker.Config
	}{{"JS", js}, {"Python", python}} {
		if err := b.warm(ctx, row.name, 50*runs, row.config); err != nil {
			return err
		}
	}
	fresh := python
	fresh.Host = worker.Python{Program: "/usr/bin/python3", Fresh: true}
	if err := b.warm(ctx, "Python, a fork a call", 5*runs, fresh); err != nil {
		return err
	}
	if err := b.executor(ctx, 50*runs, js); err != nil {
		return err
	}
	return b.many(ctx, js)
}

type workerBench struct {
	box *sandbox.Sandbox
	dir string
}

func (b workerBench) config(host worker.Host, module string) worker.Config {
	return worker.Config{
		Runner: b.box, Host: host, Module: filepath.Join(b.dir, module), Env: []string{"PATH=/usr/bin:/bin"}, Files: b.dir,
		Profile: sandbox.Profile{
			Kind: "toolbox", MinLevel: sandbox.L1,
			Read: []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", b.dir},
		},
		MaxCalls: -1,
	}
}

// cold is the time from the first call of a tool to its result, with the sandbox,
// the start of the language and the load of the module, beside the language
// alone.
func (b workerBench) cold(ctx context.Context, runs int, js, python worker.Config) error {
	bare := func(args ...string) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			cmd := exec.CommandContext(ctx, args[0], args[1:]...)
			cmd.Env = js.Env
			start := time.Now()
			err := cmd.Run()
			return time.Since(start), err
		}
	}
	pooled := func(c worker.Config) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			p := worker.New(c)
			start := time.Now()
			err := callOnce(ctx, p)
			took := time.Since(start)
			if e := p.Close(ctx); err == nil {
				err = e
			}
			return took, err
		}
	}
	rows := []struct {
		name string
		run  func() (time.Duration, error)
	}{
		{"bare node", bare("/usr/bin/node", "-e", "0")}, {"cold JS call", pooled(js)},
		{"bare python", bare("/usr/bin/python3", "-I", "-c", "0")}, {"cold Python call", pooled(python)},
	}
	times := make([][]time.Duration, len(rows))
	for range runs {
		for i, row := range rows {
			took, err := row.run()
			if err != nil {
				return fmt.Errorf("%s: %w", row.name, err)
			}
			times[i] = append(times[i], took)
		}
	}
	for i, row := range rows {
		slices.Sort(times[i])
		fmt.Printf("%-32s p50 %7.2f ms  p95 %7.2f ms\n", row.name, ms(quantile(times[i], 0.5)), ms(quantile(times[i], 0.95)))
	}
	return nil
}

func callOnce(ctx context.Context, p *worker.Pool) error {
	r, err := p.Call(ctx, worker.Call{Name: "execute", Args: json.RawMessage(params)})
	if err == nil && string(r.Value) != answer {
		err = fmt.Errorf("got %s", r.Value)
	}
	return err
}

// warm is a call of a worker that is there, one after the other.
func (b workerBench) warm(ctx context.Context, name string, calls int, c worker.Config) error {
	p := worker.New(c)
	if err := callOnce(ctx, p); err != nil {
		return err
	}
	return measure("warm call, "+name, calls, func() error { return callOnce(ctx, p) }, func() error { return p.Close(ctx) })
}

// measure prints the times of calls, with the CPU time of this process and of
// those that end with it.
func measure(name string, calls int, call, end func() error) error {
	times := make([]time.Duration, 0, calls)
	own, theirs := cpu(syscall.RUSAGE_SELF), cpu(syscall.RUSAGE_CHILDREN)
	for range calls {
		start := time.Now()
		if err := call(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		times = append(times, time.Since(start))
	}
	own = cpu(syscall.RUSAGE_SELF) - own
	if err := end(); err != nil {
		return err
	}
	theirs = cpu(syscall.RUSAGE_CHILDREN) - theirs
	slices.Sort(times)
	fmt.Printf("%-32s p50 %7.3f ms  p95 %7.3f ms  CPU a call: %.0f us here, %.0f us in the worker with its start\n", name,
		ms(quantile(times, 0.5)), ms(quantile(times, 0.95)),
		float64(own.Microseconds())/float64(calls), float64(theirs.Microseconds())/float64(calls))
	return nil
}

func cpu(who int) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(who, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// executor is a warm call through the whole pipeline: checks, permission, record.
func (b workerBench) executor(ctx context.Context, calls int, c worker.Config) error {
	type in struct {
		A int `json:"a" jsonschema:"a number"`
		B int `json:"b" jsonschema:"a number"`
	}
	type out struct {
		Sum int `json:"sum" jsonschema:"their sum"`
	}
	p := worker.New(c)
	sum := tool.New(tool.Spec{Name: "sum", Source: "bench", Description: "Adds.", Effects: tool.Read, Default: tool.Allow},
		func(ctx context.Context, req *tool.Request, _ in) (*tool.Result, out, error) {
			var o out
			r, err := p.Call(ctx, worker.Call{Name: "execute", Args: req.Arguments})
			if err == nil {
				err = json.Unmarshal(r.Value, &o)
			}
			return tool.Text("ok"), o, err
		})
	yard, err := toolyard.New(toolyard.Config{Tools: []tool.Tool{sum}, Workspaces: []string{b.dir}, Home: filepath.Join(b.dir, "home"), DoomLoop: "off"})
	if err != nil {
		return err
	}
	arguments := 0
	call := func() error {
		arguments++ // or it would be the same call again and again
		r := yard.Call(ctx, toolyard.Call{Tool: "bench:sum", Arguments: json.RawMessage(fmt.Sprintf(`{"a":%d,"b":2}`, arguments))})
		if r.IsError {
			return fmt.Errorf("%s", r.TextContent())
		}
		return nil
	}
	if err := call(); err != nil {
		return err
	}
	return measure("warm call, JS, executor", calls, call, func() error {
		if err := p.Close(ctx); err != nil {
			return err
		}
		return yard.Close()
	})
}

// many starts a hundred tools at once, beside as many bare processes of node.
func (b workerBench) many(ctx context.Context, c worker.Config) error {
	c.Warm = 1
	before := cpu(syscall.RUSAGE_SELF)
	start := time.Now()
	pools := make([]*worker.Pool, warmTools)
	ready := make(chan error, warmTools)
	for i := range pools {
		pools[i] = worker.New(c)
		go func() { ready <- pools[i].Start(ctx) }()
	}
	var failed error
	for range pools {
		if err := <-ready; err != nil {
			failed = err
		}
	}
	took := time.Since(start)
	starting := cpu(syscall.RUSAGE_SELF) - before
	if failed == nil {
		var pss int64
		for _, p := range pools {
			r, err := p.Call(ctx, worker.Call{Name: "execute", Args: json.RawMessage(params)})
			if err != nil {
				return err
			}
			pss += proportional(r.PID) // init, with its tree
		}
		idle := idleCPU(2 * time.Second)
		fmt.Printf("%-32s %.0f MB (PSS)  ready in %.2f s (%.0f ms CPU here)  then %.1f%% of a core here while idle\n",
			fmt.Sprintf("%d warm JS tools", warmTools), float64(pss)/1e6, took.Seconds(), ms(starting), idle)
	}
	for _, p := range pools {
		if err := p.Close(ctx); failed == nil {
			failed = err
		}
	}
	if failed != nil {
		return failed
	}
	return bareMany(ctx)
}

func idleCPU(d time.Duration) float64 {
	before := cpu(syscall.RUSAGE_SELF)
	time.Sleep(d)
	return 100 * float64(cpu(syscall.RUSAGE_SELF)-before) / float64(d)
}

func bareMany(ctx context.Context) error {
	start := time.Now()
	var list []*exec.Cmd
	defer func() {
		for _, cmd := range list {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	var pss int64
	var outs []*os.File
	for range warmTools {
		cmd := exec.CommandContext(ctx, "/usr/bin/node", "-e", "console.log(1); setInterval(() => {}, 1e9)")
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		cmd.Stdout = w
		err = cmd.Start()
		w.Close()
		if err != nil {
			r.Close()
			return err
		}
		list, outs = append(list, cmd), append(outs, r)
	}
	for _, r := range outs {
		if _, err := r.Read(make([]byte, 2)); err != nil {
			return err
		}
		r.Close()
	}
	took := time.Since(start)
	for _, cmd := range list {
		pss += proportional(cmd.Process.Pid)
	}
	fmt.Printf("%-32s %.0f MB (PSS)  ready in %.2f s\n", fmt.Sprintf("%d bare node", warmTools), float64(pss)/1e6, took.Seconds())
	return nil
}

// proportional is the memory of a process and of those below it, in bytes, what is
// shared counted in parts.
func proportional(pid int) int64 {
	var sum int64
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kilobytes, _ := strconv.ParseInt(f[1], 10, 64)
			sum += kilobytes << 10
		}
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, f := range strings.Fields(string(children)) {
		if child, err := strconv.Atoi(f); err == nil {
			sum += proportional(child)
		}
	}
	return sum
}
