// Command soak runs confined commands for hours, 20 a second, and measures what
// stays behind in the process that runs them: memory, descriptors, goroutines,
// processes, mounts, cgroups, private directories. It fails if any of them grows.
//
//	go run ./bench/soak -duration 1h
//
// Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

func main() {
	duration := flag.Duration("duration", time.Hour, "how long")
	rate := flag.Float64("rate", 20, "calls a second")
	samples := flag.Int("samples", 60, "how often to look")
	flag.Parse()
	s := &soak{duration: *duration, rate: *rate, samples: max(*samples, 6)}
	if err := s.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// soak is one run.
type soak struct {
	duration time.Duration
	rate     float64
	samples  int

	calls atomic.Int64
	late  atomic.Int64 // calls that could not begin when they were due
	wrong atomic.Int64 // calls that did not end as they should have

	mu    sync.Mutex
	first error // of those
}

// maxInFlight bounds the calls that run together.
const maxInFlight = 16

func (s *soak) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	box := sandbox.New(sandbox.Config{})
	report := box.Probe(ctx)
	fmt.Printf("level %s, layers %v, %v at %g calls/s\n", report.Level, report.Layers, s.duration, s.rate)
	list := kinds(dir)
	s.stretch(ctx, box, list, min(s.duration/10, 20*time.Second)) // what is made once, is made now
	s.calls.Store(0)
	s.late.Store(0)

	began := time.Now()
	all := []sample{look(ctx, box)}
	fmt.Println(header)
	fmt.Println(all[0].row(0, 0))
	for i := range s.samples {
		until := began.Add(s.duration * time.Duration(i+1) / time.Duration(s.samples))
		s.stretch(ctx, box, list, time.Until(until))
		all = append(all, look(ctx, box))
		fmt.Println(all[i+1].row(time.Since(began), s.calls.Load()))
	}
	took := time.Since(began)
	if err := box.Close(); err != nil {
		return err
	}
	fmt.Printf("%d calls in %v, %.1f/s, %d began late, %d ended wrong\n",
		s.calls.Load(), took.Round(time.Second), float64(s.calls.Load())/took.Seconds(), s.late.Load(), s.wrong.Load())
	return errors.Join(s.first, s.verdict(all))
}

// stretch makes calls at the rate for a while and waits until all have ended.
func (s *soak) stretch(ctx context.Context, box *sandbox.Sandbox, list []kind, length time.Duration) {
	ticker := time.NewTicker(time.Duration(float64(time.Second) / s.rate))
	defer ticker.Stop()
	end := time.NewTimer(length)
	defer end.Stop()
	slots := make(chan struct{}, maxInFlight)
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-end.C:
			return
		case <-ticker.C:
		}
		select {
		case slots <- struct{}{}:
		default:
			s.late.Add(1)
			slots <- struct{}{}
		}
		k := list[int(s.calls.Add(1))%len(list)]
		running.Go(func() {
			defer func() { <-slots }()
			if err := k.call(ctx, box); err != nil {
				s.wrong.Add(1)
				s.mu.Lock()
				if s.first == nil {
					s.first = fmt.Errorf("%s: %w", k.name, err)
				}
				s.mu.Unlock()
			}
		})
	}
}
