package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// hundred starts a worker of each of a hundred tools.
func (b *bench) hundred(ctx context.Context) error {
	const count = 100
	p, err := b.home(ctx, "hundred", numbered(count))
	if err != nil {
		return err
	}
	var ready, bare []time.Duration
	var memory, own, idle, idleHere, starting []float64
	for range min(b.runs, 3) {
		took, err := bareNodes(ctx, count)
		if err != nil {
			return err
		}
		bare = append(bare, took)
		heard := &listener{word: "workers are ready", heard: make(chan string, 1)}
		stop, err := b.observe()
		if err != nil {
			return err
		}
		here, _ := cpu()
		began := time.Now()
		y, err := p.open("workers", heard)
		if err != nil {
			return err
		}
		<-heard.heard
		ready = append(ready, time.Since(began))
		now, _ := cpu()
		starting = append(starting, millis(now-here))
		stop()
		for i := range count {
			if _, err := y.add(ctx, number(i)); err != nil {
				return errors.Join(err, y.close())
			}
		}
		processes := below()
		if len(processes) < count {
			return errors.Join(fmt.Errorf("there are %d processes", len(processes)), y.close())
		}
		var pss int64
		for _, pid := range processes {
			pss += proportional(pid)
		}
		memory, own = append(memory, float64(pss)/1e6), append(own, float64(proportional(self()))/1e6)
		here, children := cpu()
		const rest = 5 * time.Second
		time.Sleep(rest)
		hereNow, childrenNow := cpu()
		idle = append(idle, 100*float64(hereNow-here+childrenNow-children)/float64(rest))
		idleHere = append(idleHere, 100*float64(hereNow-here)/float64(rest))
		if err := y.close(); err != nil {
			return err
		}
	}
	b.most("100 warm tools: memory", "%.0f MB", median(memory), 1000, fmt.Sprintf("PSS of all processes below this one; this one has %.0f MB", median(own)))
	b.most("100 warm tools: ready", "%.2f s", seconds(middle(ready)), 3, fmt.Sprintf("from New; %.0f ms of CPU here; median of %d", median(starting), len(ready)))
	b.note("100 bare node", fmt.Sprintf("%.2f s", seconds(middle(bare))), "started four at a time, as workers are, in turn with them: node -e 0")
	b.note("100 warm tools: idle", fmt.Sprintf("%.1f %%", median(idle)), fmt.Sprintf("of one core, this process and the workers; %.1f %% here", median(idleHere)))
	return nil
}

// bareNodes runs node as often, as many side by side as workers are started.
func bareNodes(ctx context.Context, count int) (time.Duration, error) {
	began := time.Now()
	slots, failed := make(chan struct{}, 4), make(chan error, count)
	for range count {
		slots <- struct{}{}
		go func() {
			failed <- bareNode(ctx).Run()
			<-slots
		}()
	}
	var err error
	for range count {
		err = errors.Join(err, <-failed)
	}
	return time.Since(began), err
}

func number(i int) string { return fmt.Sprintf("tool-%04d", i) }

func numbered(count int) map[string]string {
	tools := map[string]string{}
	for i := range count {
		tools[number(i)] = jsTool
	}
	return tools
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// listener is a log that waits for a word.
type listener struct {
	word  string
	heard chan string
}

func (l *listener) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *listener) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *listener) WithGroup(string) slog.Handler                    { return l }
func (l *listener) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, l.word) {
		select {
		case l.heard <- r.Message:
		default:
		}
	}
	return nil
}

// edit is the time from saving a tool's file until a call is answered by it.
func (b *bench) edit(ctx context.Context) error {
	p, err := b.home(ctx, "edit", map[string]string{"sum": jsTool, "other": jsTool})
	if err != nil {
		return err
	}
	y, err := p.open("metadata", nil)
	if err != nil {
		return err
	}
	var times []time.Duration
	for i := range max(b.runs, 5) {
		took, err := y.edited(ctx, p, i+2)
		if err != nil {
			return errors.Join(err, y.close())
		}
		times = append(times, took)
	}
	b.most("an edit is in force", "%.2f s", seconds(middle(times)), 1,
		fmt.Sprintf("from saving until a call answers with it, called all the time; median of %d, worst %.2f s", len(times), seconds(slices.Max(times))))
	return y.close()
}

func (y *yard) edited(ctx context.Context, p place, edit int) (time.Duration, error) {
	if _, err := y.add(ctx, "sum"); err != nil {
		return 0, err
	}
	if err := p.save("sum", jsTool, edit); err != nil {
		return 0, err
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		got, err := y.add(ctx, "sum")
		took := time.Since(began)
		if err != nil || got == edit {
			return took, err
		}
		if took > time.Minute {
			return 0, errors.New("the edit is not seen")
		}
	}
}

// thousand starts over a large toolbox, once without the index and then with it.
func (b *bench) thousand(ctx context.Context) error {
	p := place{dir: b.dir + "/thousand"}
	if err := p.empty(ctx); err != nil {
		return err
	}
	for name, text := range numbered(b.tools) {
		if err := p.save(name, text, 1); err != nil {
			return err
		}
	}
	last := "toolbox:" + number(b.tools-1)
	y, err := p.open("metadata", nil)
	if err != nil {
		return err
	}
	first, err := timed(func() error { y.AwaitTools(ctx); return nil })
	if err := errors.Join(err, y.close()); err != nil {
		return err
	}
	stop, err := b.observe()
	if err != nil {
		return err
	}
	defer stop()
	var starts []time.Duration
	var used []float64
	described := 0
	for range 2*b.runs + 1 {
		here, _ := cpu()
		took, err := timed(func() (err error) {
			if y, err = p.open("metadata", nil); err == nil {
				y.AwaitTool(ctx, last)
			}
			return err
		})
		if err != nil {
			return err
		}
		now, _ := cpu()
		starts, used = append(starts, took), append(used, millis(now-here))
		tools := y.Tools()
		if n := len(slices.DeleteFunc(slices.Clone(tools), func(s *tool.Spec) bool { return s.Source != "toolbox" })); n < b.tools {
			err = fmt.Errorf("only %d tools are there", n)
		}
		if at := slices.IndexFunc(tools, func(s *tool.Spec) bool { return s.Name == "toolm" }); at >= 0 {
			described = len(tools[at].Description)
		}
		if err := errors.Join(err, y.close()); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%d tools: ", b.tools)
	b.most(what+"start", "%.0f ms", millis(middle(starts)), 300,
		fmt.Sprintf("New until all are registered, from the index; median of %d, least %.0f ms, CPU %.0f ms", len(starts), millis(slices.Min(starts)), median(used)))
	b.most(what+"toolm's description", "%.0f B", float64(described), 4096, "")
	b.note(what+"start without index", fmt.Sprintf("%.1f s", seconds(first)), "each is asked what it is, beside the calls, two at a time")
	return nil
}
