// Command core measures what the pipeline adds to a call, how soon a fresh
// process answers, and what a command that prints without end costs. It prints a
// table; `make bench-core` runs it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/sqlite"
	"github.com/toolyard/toolyard/tool"
)

const rounds = 7 // interleaved; the median counts

func main() {
	binary := flag.String("toolyard", "./toolyard", "the program, for the start of a process")
	big := flag.Bool("big", true, "run the command that prints 10 GB")
	flag.Parse()
	if err := run(*binary, *big); err != nil {
		fmt.Fprintln(os.Stderr, "bench core:", err)
		os.Exit(1)
	}
}

func run(binary string, big bool) error {
	fmt.Printf("%-44s %12s %12s %s\n", "what", "measured", "goal", "how")
	for _, measure := range []func(string) error{overhead, shell, start} {
		if err := measure(binary); err != nil {
			return err
		}
	}
	if !big {
		return nil
	}
	return endless(binary)
}

func row(what, measured, goal, how string) {
	fmt.Printf("%-44s %12s %12s %s\n", what, measured, goal, how)
}

func median[T float64 | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// yard is a Toolyard as the program makes it, with a database, in a new place.
func yard(extra ...tool.Tool) (*toolyard.Toolyard, func() error, error) {
	dir, err := os.MkdirTemp("", "toolyard-bench-")
	if err != nil {
		return nil, nil, err
	}
	workspace := filepath.Join(dir, "workspace")
	if err := os.MkdirAll(workspace, 0o755); err != nil {
		return nil, nil, err
	}
	db, err := sqlite.Open(filepath.Join(dir, "toolyard.db"))
	if err != nil {
		return nil, nil, err
	}
	y, err := toolyard.New(toolyard.Config{
		Home: filepath.Join(dir, "home"), Workspaces: []string{workspace}, Store: db, Tools: extra, Path: os.Getenv("PATH"), KeepJobs: true,
	})
	if err != nil {
		return nil, nil, err
	}
	return y, func() error { return errors.Join(y.Close(), db.Close(), os.RemoveAll(dir)) }, nil
}

// overhead compares a trivial tool called directly with the same call through
// the whole pipeline: validation, policy, schedule, audit row in the database.
func overhead(string) error {
	type in struct {
		Text string `json:"text"`
	}
	echo := tool.New(tool.Spec{
		Name: "bench_echo", Description: "Gives back its text.", Category: "bench", Effects: tool.Read, Default: tool.Allow, ConcurrencySafe: true,
	}, func(_ context.Context, _ *tool.Request, in in) (*tool.Result, struct{}, error) {
		return tool.Text(in.Text), struct{}{}, nil
	})
	y, closeYard, err := yard(echo)
	if err != nil {
		return err
	}
	ctx, args := context.Background(), json.RawMessage(`{"text":"hello"}`)
	const calls = 4000
	one := func(call func() error) (time.Duration, error) {
		took := make([]time.Duration, calls)
		for i := range took {
			start := time.Now()
			if err := call(); err != nil {
				return 0, err
			}
			took[i] = time.Since(start)
		}
		return median(took), nil
	}
	var added, direct []time.Duration
	for range rounds {
		bare, err := one(func() error {
			_, err := echo.Call(ctx, &tool.Request{Arguments: args})
			return err
		})
		if err != nil {
			return err
		}
		whole, err := one(func() error {
			if r := y.Call(ctx, toolyard.Call{Tool: "bench_echo", Arguments: args}); r.IsError {
				return r.Err
			}
			return nil
		})
		if err != nil {
			return err
		}
		added, direct = append(added, whole-bare), append(direct, bare)
	}
	row("pipeline over a direct Tool.Call, p50", micro(median(added)), "≤ 25 µs", fmt.Sprintf("%d × %d calls, direct %s", rounds, calls, micro(median(direct))))
	return closeYard()
}

func micro(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }
func milli(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

// shell is a command that does nothing, through everything, beside the same bash
// without and with bubblewrap, in turn.
func shell(string) error {
	y, closeYard, err := yard()
	if err != nil {
		return err
	}
	start := func(args ...string) func() error {
		return func() error { return exec.Command(args[0], args[1:]...).Run() }
	}
	contenders := []struct {
		name, goal string
		run        func() error
	}{
		{"bash -c : through the executor, p50", "≤ 5 ms", func() error {
			if r := y.Call(context.Background(), toolyard.Call{Tool: "bash", Arguments: json.RawMessage(`{"command":":"}`)}); r.IsError {
				return r.Err
			}
			return nil
		}},
		{"bash -c : started bare, p50", "", start("bash", "-c", ":")},
		{"bash -c : in bubblewrap, p50", "", start("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "bash", "-c", ":")},
	}
	if _, err := exec.LookPath("bwrap"); err != nil {
		contenders = contenders[:2]
	}
	const calls, warm = 60, 10 // the first one measures the sandbox
	took := make([][]time.Duration, len(contenders))
	for i := range calls {
		for j, c := range contenders {
			begin := time.Now()
			if err := c.run(); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if i >= warm {
				took[j] = append(took[j], time.Since(begin))
			}
		}
	}
	for j, c := range contenders {
		how := fmt.Sprintf("%d calls in turn", calls-warm)
		mid := median(took[j])
		if j == 0 {
			how += ", fastest tenth " + milli(took[j][len(took[j])/10]) // median has sorted them
		}
		row(c.name, milli(mid), c.goal, how)
	}
	return closeYard()
}

// start is the time from the start of `toolyard mcp` in an empty home to its
// answer to initialize, and the memory it then holds; and to the answer to a first
// call, which has to wait until the record is made.
func start(binary string) error {
	var answer, call []time.Duration
	var memory []float64
	for range 15 {
		dir, err := os.MkdirTemp("", "toolyard-bench-")
		if err != nil {
			return err
		}
		s, err := startOnce(binary, dir)
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			return err
		}
		answer, call, memory = append(answer, s.answer), append(call, s.call), append(memory, s.resident)
	}
	row("first answer of mcp in an empty home, p50", milli(median(answer)), "≤ 30 ms", "15 starts")
	row("first call answered, p50", milli(median(call)), "", "the same starts, from their beginning: read of a small file")
	row("resident at the first answer", fmt.Sprintf("%.1f MB", median(memory)), "≤ 40 MB", "VmRSS")
	return nil
}

// started is what one start of the program took.
type started struct {
	answer, call time.Duration
	resident     float64 // MB
}

func startOnce(binary, dir string) (s started, err error) {
	file := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(file, []byte("hello\n"), 0o644); err != nil {
		return s, err
	}
	begin := time.Now()
	cmd := exec.Command(binary, "mcp", "--home", filepath.Join(dir, "home"), "--workspace", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return s, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return s, err
	}
	if err := cmd.Start(); err != nil {
		return s, err
	}
	lines := bufio.NewReader(out)
	ask := func(message, want string) error {
		if _, err := in.Write([]byte(message + "\n")); err != nil {
			return err
		}
		line, err := lines.ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			return fmt.Errorf("want %s, got %q, %v", want, line, err)
		}
		return nil
	}
	if err := ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`, "protocolVersion"); err != nil {
		return s, err
	}
	s.answer = time.Since(begin)
	if s.resident, err = memoryOf(cmd.Process.Pid, "VmRSS:"); err != nil {
		return s, err
	}
	err = ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
		fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":{"file_path":%q}}}`, file), "hello")
	s.call = time.Since(begin)
	return s, errors.Join(err, in.Close(), cmd.Wait())
}

// memoryOf reads a line of /proc/PID/status, in MB.
func memoryOf(pid int, name string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(status), name)
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return 0, fmt.Errorf("no %s in /proc/%d/status", name, pid)
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib / 1024, err
}

// endless runs a command that would print 10 GB: it is ended at what may be
// stored, and this process stays small. The memory is that of this process, in
// which the whole pipeline runs.
func endless(string) error {
	y, closeYard, err := yard()
	if err != nil {
		return err
	}
	begin := time.Now()
	r := y.Call(context.Background(), toolyard.Call{Tool: "bash", Arguments: json.RawMessage(`{"command":"yes 'a line of output that is printed again and again' | head -c 10G","timeout":600}`)})
	took := time.Since(begin)
	peak, err := memoryOf(os.Getpid(), "VmHWM:")
	if err != nil {
		return err
	}
	reason := "none"
	if r.Meta.Ending != nil {
		reason = r.Meta.Ending.Reason
	}
	row("a command that prints 10 GB: peak memory", fmt.Sprintf("%.0f MB", peak), "< 100 MB", fmt.Sprintf("ended by %s after %s, handle %s", reason, took.Round(time.Millisecond), r.Meta.OutputHandle))
	return closeYard()
}
