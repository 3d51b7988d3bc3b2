package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// cold compares the first call of a tool, in a Toolyard that has just been made and
// knows the tool from its index, with the start of the language alone.
func (b *bench) cold(ctx context.Context) error {
	p, err := b.home(ctx, "cold", map[string]string{"sum": jsTool, "other": jsTool})
	if err != nil {
		return err
	}
	var bare, first, other, whole []time.Duration
	stop, err := b.observe()
	if err != nil {
		return err
	}
	defer stop()
	for range 5 * b.runs {
		took, err := timed(bareNode(ctx).Run)
		if err != nil {
			return err
		}
		bare = append(bare, took)
		began := time.Now()
		y, err := p.open("metadata", nil)
		if err != nil {
			return err
		}
		y.AwaitTool(ctx, "toolbox:sum")
		call := func(name string) (time.Duration, error) {
			return timed(func() error { _, err := y.add(ctx, name); return err })
		}
		took, err = call("sum")
		whole, first = append(whole, time.Since(began)), append(first, took)
		if err == nil {
			took, err = call("other")
			other = append(other, took)
		}
		if err := errors.Join(err, y.close()); err != nil {
			return err
		}
	}
	how := fmt.Sprintf("median of %d, in turn", len(first))
	b.note("bare node -e 0", fmt.Sprintf("%.1f ms", millis(middle(bare))), how)
	b.note("cold JS call", fmt.Sprintf("%.1f ms", millis(middle(first))), "the first of a fresh Toolyard that knows the tool")
	b.most("cold JS call / bare node", "%.2f", ratio(first, bare), 2.2, how)
	b.note("cold call of a second tool / bare node", fmt.Sprintf("%.2f", ratio(other, bare)), how)
	b.note("from New to the first answer / bare node", fmt.Sprintf("%.2f", ratio(whole, bare)), how)
	return nil
}

// bareNode is the language alone, with as little around it as a tool has.
func bareNode(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", "-e", "0")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	return cmd
}

// ratio is that of the medians.
func ratio(a, b []time.Duration) float64 { return float64(middle(a)) / float64(middle(b)) }

// contender is one way to call a warm tool.
type contender struct {
	name  string
	call  func() error
	times []time.Duration
	here  time.Duration // CPU of this process
	below time.Duration // and of those below it
}

// race calls in rounds, each contender in turn.
func (b *bench) race(list []*contender) error {
	for _, c := range list {
		for range 50 { // until everything is compiled
			if err := c.call(); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	stop, err := b.observe()
	if err != nil {
		return err
	}
	defer stop()
	for range b.runs {
		for _, c := range list {
			here, below := cpu()
			for range b.calls {
				took, err := timed(c.call)
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				c.times = append(c.times, took)
			}
			hereNow, belowNow := cpu()
			c.here, c.below = c.here+hereNow-here, c.below+belowNow-below
		}
	}
	for _, c := range list {
		slices.Sort(c.times)
	}
	return nil
}

func (c *contender) quantile(q float64) float64 {
	return millis(c.times[min(int(q*float64(len(c.times))), len(c.times)-1)])
}

// each is CPU time for one call, in milliseconds.
func (c *contender) each(d time.Duration) float64 { return millis(d) / float64(len(c.times)) }

// warm takes a warm call apart: the worker alone, the tool with its log and its
// grants, the whole pipeline.
func (b *bench) warm(ctx context.Context) error {
	p, err := b.home(ctx, "warm", map[string]string{"sum": jsTool})
	if err != nil {
		return err
	}
	y, err := p.open("metadata", nil)
	if err != nil {
		return err
	}
	pool, end, err := y.bareWorker(p)
	if err != nil {
		return errors.Join(err, y.close())
	}
	alone := &contender{name: "the worker alone", call: func() error {
		args, sum := y.arguments()
		r, err := pool.Call(ctx, worker.Call{Name: "execute", Args: host.Arguments(args, "execute")})
		if err == nil {
			_, err = check(r.Value, sum)
		}
		return err
	}}
	single, whole, err := y.contenders(ctx)
	if err == nil {
		err = b.race([]*contender{alone, single, whole})
	}
	if err := errors.Join(err, end(), y.close()); err != nil {
		return err
	}
	how := fmt.Sprintf("%d calls", len(whole.times))
	b.most("warm JS call, p50", "%.3f ms", whole.quantile(0.5), 0.3, how)
	b.most("warm JS call, p95", "%.3f ms", whole.quantile(0.95), 1, how)
	b.most("warm JS call, CPU", "%.3f ms", whole.each(whole.here+whole.below), 0.4, fmt.Sprintf("%.3f here, %.3f in the worker", whole.each(whole.here), whole.each(whole.below)))
	before := 0.0
	for _, c := range []*contender{alone, single, whole} {
		name := map[*contender]string{alone: "- the worker alone, p50", single: "- checks of grants, run.log, result, p50", whole: "- the executor, p50"}[c]
		b.note(name, fmt.Sprintf("%.3f ms", c.quantile(0.5)-before), fmt.Sprintf("CPU to here %.3f ms here, %.3f in the worker", c.each(c.here), c.each(c.below)))
		before = c.quantile(0.5)
	}
	return nil
}

func (b *bench) warmPython(ctx context.Context) error {
	p, err := b.home(ctx, "python", map[string]string{"sum": pyTool})
	if err != nil {
		return err
	}
	y, err := p.open("metadata", nil)
	if err != nil {
		return err
	}
	single, whole, err := y.contenders(ctx)
	if err == nil {
		err = b.race([]*contender{single, whole})
	}
	if err := errors.Join(err, y.close()); err != nil {
		return err
	}
	b.most("warm Python call, p50", "%.3f ms", whole.quantile(0.5), 0.3, fmt.Sprintf("%d calls, p95 %.3f ms", len(whole.times), whole.quantile(0.95)))
	b.note("- without the executor, p50", fmt.Sprintf("%.3f ms", single.quantile(0.5)), fmt.Sprintf("CPU %.3f ms here, %.3f in the worker", single.each(single.here), single.each(single.below)))
	b.note("warm Python call, CPU", fmt.Sprintf("%.3f ms", whole.each(whole.here+whole.below)), fmt.Sprintf("%.3f here, %.3f in the worker", whole.each(whole.here), whole.each(whole.below)))
	return nil
}

// contenders are the tool sum as the toolbox has it, and through the pipeline.
func (y *yard) contenders(ctx context.Context) (single, whole *contender, err error) {
	y.AwaitTool(ctx, "toolbox:sum")
	tools, err := y.Toolbox().List(ctx)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(tools, func(t tool.Tool) bool { return t.Spec().Name == "sum" })
	if at < 0 {
		return nil, nil, errors.New("the tool was not loaded")
	}
	single = &contender{name: "without the executor", call: func() error {
		args, sum := y.arguments()
		r, err := tools[at].Call(ctx, &tool.Request{CallID: "call_0123456789abcdef", Session: "bench", Arguments: args})
		if err == nil {
			_, err = check(r.Structured, sum)
		}
		return err
	}}
	whole = &contender{name: "the whole pipeline", call: func() error { _, err := y.add(ctx, "sum"); return err }}
	return single, whole, nil
}

// bareWorker is a worker as the toolbox makes them, and nothing around it.
func (y *yard) bareWorker(p place) (*worker.Pool, func() error, error) {
	dir, files := filepath.Join(p.dir, "toolbox", "sum"), filepath.Join(p.dir, "cache", "worker")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return nil, nil, err
	}
	adapters, err := host.Write(files)
	if err != nil {
		return nil, nil, err
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, nil, err
	}
	if node, err = filepath.EvalSymlinks(node); err != nil {
		return nil, nil, err
	}
	setup := host.Setup{Name: "sum", Dir: dir, Data: filepath.Join(dir, "data"), Home: p.dir}
	box := sandbox.New(sandbox.Config{})
	pool := worker.New(worker.Config{
		Runner: box, Host: worker.Node{Program: node}, Module: filepath.Join(dir, "tool.js"), Adapter: adapters.JS, Setup: setup.JSON(), Files: files,
		Profile: sandbox.Profile{
			Kind: "toolbox", MinLevel: sandbox.L2, Read: []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", dir, files, filepath.Dir(node)},
		},
		Env: setup.Env(map[string]string{"NODE_ENV": "production"}), Dir: dir, Max: 1, MaxCalls: -1,
	})
	return pool, func() error { return errors.Join(pool.Close(context.Background()), box.Close()) }, nil
}
