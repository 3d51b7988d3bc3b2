// Command faults measures what one bad MCP server does to nine good ones behind
// the same gateway: the latency of the good ones' calls and of tools/list, with
// and without the bad one, and whether a process is left after the program was
// killed. The first row is a tenth good server: what the machine's noise makes of
// nothing.
//
//	go run ./bench/faults -toolyard BIN [-time 3s] [-rounds 3] [MODE...]
//
// Each bad server is the program itself in another role; it runs in the sandbox,
// as any stdio server does.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	good = 9
	// pace is how often each good server is called.
	pace = 5 * time.Millisecond
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "-serve" {
		serve(os.Args[2])
		return
	}
	toolyard := flag.String("toolyard", "", "binary of cmd/toolyard")
	span := flag.Duration("time", 3*time.Second, "how long one measurement takes")
	rounds := flag.Int("rounds", 3, "rounds; the medians are printed")
	flag.Parse()
	bad := flag.Args()
	if len(bad) == 0 {
		bad = modes
	}
	if err := run(*toolyard, bad, *rounds, *span); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// figures of one run.
type figures struct {
	p50, p99 time.Duration // of the good servers' calls
	list     time.Duration // slowest tools/list
	memory   int64         // peak of the program, in bytes
	calls    int
	failed   int    // calls of good servers that failed
	why      string // the first of them
	left     int    // processes that outlived a kill -9
}

func run(toolyard string, bad []string, rounds int, span time.Duration) error {
	if toolyard == "" {
		return errors.New("-toolyard BIN is needed")
	}
	fmt.Printf("%-10s %10s %10s %10s %8s %12s %12s %8s %6s %10s\n", "bad server", "p50", "p99", "p99 alone", "p99 ×", "tools/list", "list alone", "failed", "left", "memory")
	for _, mode := range bad {
		var with, without []figures
		for range rounds {
			for _, m := range []string{"", mode} {
				f, err := measure(toolyard, m, span)
				if err != nil {
					return fmt.Errorf("%s: %w", cmp.Or(m, "none"), err)
				}
				if f.why != "" {
					fmt.Fprintf(os.Stderr, "beside %s a good call failed: %s\n", cmp.Or(m, "none"), f.why)
				}
				if m == "" {
					without = append(without, f)
				} else {
					with = append(with, f)
				}
			}
		}
		a, b := median(without), median(with)
		fmt.Printf("%-10s %10s %10s %10s %8.2f %12s %12s %8d %6d %7d MB\n", mode, b.p50, b.p99, a.p99, float64(b.p99)/float64(a.p99), b.list, a.list, b.failed, b.left, b.memory>>20)
	}
	return nil
}

// median takes the middle latencies, the largest memory and the sums of counts.
func median(list []figures) figures {
	pick := func(of func(figures) time.Duration) time.Duration {
		values := make([]time.Duration, len(list))
		for i, f := range list {
			values[i] = of(f)
		}
		slices.Sort(values)
		return values[len(values)/2].Round(time.Microsecond)
	}
	sum := figures{
		p50:  pick(func(f figures) time.Duration { return f.p50 }),
		p99:  pick(func(f figures) time.Duration { return f.p99 }),
		list: pick(func(f figures) time.Duration { return f.list }),
	}
	for _, f := range list {
		sum.memory = max(sum.memory, f.memory)
		sum.failed, sum.left = sum.failed+f.failed, sum.left+f.left
	}
	return sum
}

// measure runs the program with nine good servers and perhaps a bad one.
func measure(toolyard, mode string, span time.Duration) (f figures, err error) {
	dir, err := os.MkdirTemp("", "faults-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	if err := configure(dir, mode); err != nil {
		return f, err
	}
	c, err := start(toolyard, dir)
	if err != nil {
		return f, err
	}
	defer c.kill()
	names := make([]string, good)
	for i := range names {
		names[i] = fmt.Sprintf("good%d__echo", i)
		if err := c.until(names[i], 30*time.Second); err != nil {
			return f, err
		}
	}
	// The first list waits for the program's own tools, which a new home has to make.
	if _, err := c.call("tools/list", map[string]any{}, 30*time.Second); err != nil {
		return f, err
	}
	f.load(c, names, mode, span)
	if f.memory, err = c.peak(); err != nil {
		return f, err
	}
	c.kill()
	f.left, err = outlived(dir, 5*time.Second)
	return f, err
}

// configure writes the home's servers.
func configure(dir, mode string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "bin", "server")
	data, err := os.ReadFile(self)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(program), 0o755)
	}
	if err == nil {
		err = os.WriteFile(program, data, 0o755)
	}
	if err != nil {
		return err
	}
	servers := map[string]any{}
	add := func(name, mode string) {
		servers[name] = map[string]any{
			"command": program, "args": []string{"-serve", mode}, "timeout": "2s",
			"sandbox": map[string]any{"read": []string{filepath.Dir(program)}},
		}
	}
	for i := range good {
		add(fmt.Sprintf("good%d", i), "good")
	}
	if mode != "" {
		add("bad", mode)
	}
	body, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "home"), 0o700)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "work"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "home", "mcp.json"), body, 0o600)
	}
	return err
}

// load calls the good servers at a steady pace, the bad one as fast as it answers
// but at most a hundred times a second, and lists the tools ten times a second.
func (f *figures) load(c *client, names []string, mode string, span time.Duration) {
	end := time.Now().Add(span)
	var mu sync.Mutex
	var all []time.Duration
	var work sync.WaitGroup
	for _, name := range names {
		work.Go(func() {
			n := 0
			for next := time.Now(); next.Before(end); next = next.Add(pace) {
				n++ // the same call over and over would be refused
				time.Sleep(time.Until(next))
				began := time.Now()
				answer, err := c.call("tools/call", map[string]any{"name": name, "arguments": map[string]any{"n": n}}, 10*time.Second)
				took := time.Since(began)
				mu.Lock()
				all = append(all, took)
				if err != nil || !bytes.Contains(answer, []byte(`"said"`)) {
					f.failed++
					if f.why == "" {
						f.why = fmt.Sprintf("%s after %s: %v %.500s", name, took, err, answer)
					}
				}
				mu.Unlock()
			}
		})
	}
	if mode != "" {
		work.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				_, _ = c.call("tools/call", map[string]any{"name": "bad__echo", "arguments": map[string]any{"n": n}}, time.Until(end)+time.Millisecond)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	work.Go(func() {
		for time.Now().Before(end) {
			began := time.Now()
			if _, err := c.call("tools/list", map[string]any{}, 10*time.Second); err == nil {
				f.list = max(f.list, time.Since(began))
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	work.Wait()
	slices.Sort(all)
	f.calls = len(all)
	f.p50, f.p99 = all[len(all)/2], all[len(all)*99/100]
}
