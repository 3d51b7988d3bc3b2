// Command frames sends damaged messages to the real program, over stdio, over
// HTTP in both eras and over WebSockets at once, and asks something good after
// each burst. It fails if the program dies, does not answer, or keeps goroutines,
// descriptors or memory.
//
//	go run ./bench/frames -duration 10m [-toolyard BIN]
//
// Linux only: it looks into /proc.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	duration := flag.Duration("duration", 10*time.Minute, "how long, over all transports at once")
	binary := flag.String("toolyard", "", "binary of cmd/toolyard; built if empty")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "where the damage begins: the same seed damages alike")
	flag.Parse()
	if err := run(*duration, *binary, *seed); err != nil {
		fmt.Fprintf(os.Stderr, "frames: seed %d: %v\n", *seed, err)
		os.Exit(1)
	}
}

// patience is how long a good request may take on a busy machine.
const patience = time.Minute

// way is one transport. burst sends damaged frames; ask sends a good request
// afterwards and fails if it is not answered.
type way interface {
	burst(frames [][]byte)
	ask() error
	close()
}

// lane drives one way.
type lane struct {
	name           string
	open           func(*rand.Rand) (way, error)
	frames, bursts atomic.Int64
	err            error
}

func run(duration time.Duration, binary string, seed uint64) error {
	temp, err := os.MkdirTemp("", "frames-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	work := filepath.Join(temp, "work")
	if err := errors.Join(os.Mkdir(work, 0o755), os.WriteFile(filepath.Join(work, "hello.txt"), []byte("hello\n"), 0o644)); err != nil {
		return err
	}
	if binary == "" {
		binary = filepath.Join(temp, "toolyard")
		if out, err := exec.Command("go", "build", "-o", binary, "./cmd/toolyard").CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w: %s", err, out)
		}
	}
	over, err := startStdio(binary, temp, work)
	if err != nil {
		return err
	}
	defer over.stop()
	front, err := startServe(binary, temp, work)
	if err != nil {
		return err
	}
	defer front.stop()

	lanes := []*lane{
		{name: "stdio", open: func(*rand.Rand) (way, error) { return over.lines, nil }},
		{name: "http 2025-11-25", open: func(r *rand.Rand) (way, error) { return openHTTP(front.url, false, r) }},
		{name: "http 2026-07-28", open: func(r *rand.Rand) (way, error) { return openHTTP(front.url, true, r) }},
		{name: "WebSocket", open: func(r *rand.Rand) (way, error) { return openSocket(front.url, r) }},
	}
	processes := []*process{over, front}
	end := time.Now().Add(duration)
	var wg sync.WaitGroup
	for i, l := range lanes {
		wg.Go(func() { l.err = l.drive(end, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	growth := watch(processes, end)
	wg.Wait()
	failed := growth
	for _, l := range lanes {
		fmt.Printf("%-16s %9d frames in %6d bursts, each followed by a good answer\n", l.name, l.frames.Load(), l.bursts.Load())
		if l.err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", l.name, l.err))
		}
	}
	for _, p := range processes {
		fmt.Printf("%-16s %s\n", p.name, strings.Join(p.history(), "  "))
		if err := p.alive(); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// drive sends bursts until the end. A connection is left after a while, and not
// always politely.
func (l *lane) drive(end time.Time, r *rand.Rand) error {
	for time.Now().Before(end) {
		w, err := l.open(r)
		if err != nil {
			return err
		}
		for range 1 + r.IntN(40) {
			frames := damagedBurst(r)
			w.burst(frames)
			if err := w.ask(); err != nil {
				return fmt.Errorf("%w, after the burst that is in %s", err, keep(l.name, frames))
			}
			l.frames.Add(int64(len(frames)))
			l.bursts.Add(1)
			if time.Now().After(end) {
				break
			}
		}
		w.close()
	}
	return nil
}

// keep writes a burst to a file, so that it can be sent again.
func keep(name string, frames [][]byte) string {
	f, err := os.CreateTemp("", "frames-"+strings.ReplaceAll(name, " ", "-")+"-*.txt")
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	_, _ = f.Write(bytes.Join(frames, []byte("\n")))
	return f.Name()
}

// Bounds of growth between the first and the last third of the samples.
const (
	moreDescriptors = 24
	moreGoroutines  = 40
	moreMemory      = 48 << 10 // KiB
)

// watch samples the processes until the end and says what has grown.
func watch(processes []*process, end time.Time) error {
	const samples = 12
	pause := time.Until(end) / samples
	for range samples {
		time.Sleep(pause)
		for _, p := range processes {
			p.sample()
		}
	}
	var failed error
	for _, p := range processes {
		for _, g := range []struct {
			what  string
			of    func(sample) int
			bound int
		}{
			{"descriptors", func(s sample) int { return s.descriptors }, moreDescriptors},
			{"goroutines", func(s sample) int { return s.goroutines }, moreGoroutines},
			{"KiB resident", func(s sample) int { return s.resident }, moreMemory},
		} {
			third := len(p.samples) / 3
			if third == 0 {
				continue
			}
			first, last := middle(p.samples[:third], g.of), middle(p.samples[len(p.samples)-third:], g.of)
			if last-first > g.bound {
				failed = errors.Join(failed, fmt.Errorf("%s: %s grew from %d to %d", p.name, g.what, first, last))
			}
		}
	}
	return failed
}

func middle(samples []sample, of func(sample) int) int {
	var values []int
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
