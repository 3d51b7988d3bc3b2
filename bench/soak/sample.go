package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// sample is what there is of everything between two calls.
type sample [len(measures)]int64

// measures is what is looked at. Slack is how much more at the end than at the
// start is no growth: what the collector and the moment make of it. To add one: a
// line here; the numbers are the process's own unless the name says otherwise.
var measures = [...]struct {
	name  string
	slack int64 // and a tenth of the start
	now   func() int64
}{
	{"heap KiB", 512, heap},
	{"resident KiB", 4096, func() int64 { return resident("self") }},
	// One to three sandboxes wait for the next commands, each with three descriptors.
	{"children KiB", 4096, children},
	{"descriptors", 10, func() int64 { return entries("/proc/self/fd") }},
	{"goroutines", 0, func() int64 { return int64(runtime.NumGoroutine()) }},
	{"processes", 3, func() int64 { return int64(len(offspring())) }},
	{"mounts", 8, mounts}, // of the whole machine, where others mount as well
	{"cgroups", 0, cgroups},
	{"private dirs", 0, func() int64 { return glob(filepath.Join(os.TempDir(), "toolyard-tmp-"+self()+"*")) }},
}

// rest is how long what is removed in the background may take to be gone.
const rest = 5 * time.Second

// look measures once what goes by itself has gone: the cgroups of the last calls.
func look(ctx context.Context, box *sandbox.Sandbox) sample {
	deadline := time.Now().Add(rest)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var before, now sample
	for same := 0; same < 10 && time.Now().Before(deadline) && ctx.Err() == nil; <-tick.C {
		runtime.GC()
		for i, m := range measures {
			now[i] = m.now()
		}
		if slices.Equal(now[3:], before[3:]) {
			same++
		} else {
			same = 0
		}
		before = now
	}
	return now
}

var header = func() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8s %9s", "at", "calls")
	for _, m := range measures {
		fmt.Fprintf(&b, " %13s", m.name)
	}
	return b.String()
}()

func (s sample) row(at time.Duration, calls int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8s %9d", at.Round(time.Second), calls)
	for _, v := range s {
		fmt.Fprintf(&b, " %13d", v)
	}
	return b.String()
}

// verdict compares the medians of the first, the middle and the last sixth.
func (s *soak) verdict(all []sample) error {
	sixth := max(len(all)/6, 1)
	middle := len(all)/2 - sixth/2
	var errs []error
	fmt.Printf("\n%-14s %10s %10s %10s\n", "median of", "start", "middle", "end")
	for i, m := range measures {
		start, mid, end := median(all[:sixth], i), median(all[middle:middle+sixth], i), median(all[len(all)-sixth:], i)
		verdict := ""
		if end > start+m.slack+start/10*min(m.slack, 1) {
			verdict = "  GROWS"
			errs = append(errs, fmt.Errorf("%s grew from %d to %d", m.name, start, end))
		}
		fmt.Printf("%-14s %10d %10d %10d%s\n", m.name, start, mid, end, verdict)
	}
	return errors.Join(errs...)
}

func median(list []sample, i int) int64 {
	values := make([]int64, len(list))
	for j := range list {
		values[j] = list[j][i]
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func self() string { return strconv.Itoa(os.Getpid()) }

func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc >> 10)
}

// resident is VmRSS in KiB.
func resident(pid string) int64 {
	text, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return n
		}
	}
	return 0
}

func children() int64 {
	sum := int64(0)
	for _, pid := range offspring() {
		sum += resident(pid)
	}
	return sum
}

// offspring lists the processes whose parent is this one: all that is kept, and
// the init of every sandbox.
func offspring() []string {
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	var list []string
	for _, file := range tasks {
		text, _ := os.ReadFile(file)
		list = append(list, strings.Fields(string(text))...)
	}
	return list
}

func entries(dir string) int64 {
	list, _ := os.ReadDir(dir)
	return int64(len(list))
}

func mounts() int64 {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return int64(strings.Count(string(text), "\n"))
}

func cgroups() int64 {
	found := int64(0)
	_ = filepath.WalkDir("/sys/fs/cgroup", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "toolyard-"+self()+"-") {
			found++
		}
		return nil
	})
	return found
}

func glob(pattern string) int64 {
	list, _ := filepath.Glob(pattern)
	return int64(len(list))
}
