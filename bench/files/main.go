//go:build unix

// Command files compares grep and glob with ripgrep and fd: the processor time
// (user and system) that each takes over the same tree, as medians of
// interleaved runs. Ours runs in this process, as it does in the server; the
// others are started with two threads. It needs rg and fdfind (Debian's fd).
//
//	go run ./bench/files [-runs 7] [-dir DIR]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolyard/toolyard/internal/search"
)

func main() {
	runs := flag.Int("runs", 7, "runs of each, interleaved; the median counts")
	dir := flag.String("dir", "", "tree to search (default: the source of Go)")
	flag.Parse()
	if *dir == "" {
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			fmt.Fprintln(os.Stderr, "files: asking go for its source:", err)
			os.Exit(1)
		}
		*dir = filepath.Join(strings.TrimSpace(string(root)), "src")
	}
	if err := run(*dir, *runs); err != nil {
		fmt.Fprintln(os.Stderr, "files:", err)
		os.Exit(1)
	}
}

// contest is one comparison.
type contest struct {
	name string
	ours func(place search.Place) error
	peer []string
}

func run(dir string, runs int) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	var contests []contest
	rg := []string{"rg", "-j2", "--no-config", "--hidden", "--no-require-git", "-n", "--no-heading"}
	for _, c := range []struct {
		pattern string
		o       search.PatternOptions
		args    []string
	}{
		{pattern: "zyxwvu"},
		{pattern: "Errorf"},
		{pattern: "err != nil"},
		{pattern: "TODO"},
		{pattern: "readall", o: search.PatternOptions{IgnoreCase: true}, args: []string{"-i"}},
		{pattern: "f(x)", o: search.PatternOptions{Literal: true}, args: []string{"-F"}},
		{pattern: `func.*error`},
		{pattern: `\w+Handler\b`},
		{pattern: `^package main$`},
		{pattern: `foo|bar|baz`},
		{pattern: `[A-Z]{6,}_[A-Z]+`},
	} {
		contests = append(contests, contest{"grep " + c.pattern, grep(c.pattern, c.o), append(append(slices.Clone(rg), c.args...), "-e", c.pattern, ".")})
	}
	for _, p := range []string{"**/*_test.go", "**/*.go", "cmd/**/testdata/*"} {
		contests = append(contests, contest{"glob " + p, glob(p), []string{"fdfind", "-j2", "-H", "-p", "-t", "f", "-g", filepath.Join(dir, p), "."}})
	}
	fmt.Printf("%-28s %10s %10s %7s\n", "", "ours ms", "peer ms", "ratio")
	for _, c := range contests {
		a, b, err := compare(c, dir, runs)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("%-28s %10.1f %10.1f %7.2f\n", c.name, a.Seconds()*1000, b.Seconds()*1000, a.Seconds()/b.Seconds())
	}
	return nil
}

func grep(pattern string, o search.PatternOptions) func(search.Place) error {
	var buffers search.Buffers
	return func(place search.Place) error {
		p, err := search.Compile(pattern, o)
		if err != nil {
			return err
		}
		_, err = search.Grep(context.Background(), place, search.Options{}, search.GrepOptions{Pattern: p, Lines: true, Buffers: &buffers}, func(*search.File) error { return nil })
		return err
	}
}

func glob(pattern string) func(search.Place) error {
	return func(place search.Place) error {
		g, err := search.CompileGlob(pattern)
		if err != nil {
			return err
		}
		_, _, err = search.Glob(context.Background(), place, search.Options{}, g, 100)
		return err
	}
}

// compare gives the medians of both sides.
func compare(c contest, dir string, runs int) (ours, peer time.Duration, err error) {
	var a, b []time.Duration
	for i := range runs + 1 {
		x, err := measure(c.ours, dir)
		if err != nil {
			return 0, 0, err
		}
		y, err := start(c.peer, dir)
		if err != nil {
			return 0, 0, err
		}
		if i > 0 { // the first one warms up
			a, b = append(a, x), append(b, y)
		}
	}
	slices.Sort(a)
	slices.Sort(b)
	return a[len(a)/2], b[len(b)/2], nil
}

func measure(f func(search.Place) error, dir string) (time.Duration, error) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	before := used()
	err = f(search.Place{Dir: d, Path: dir, Boundary: dir})
	return used() - before, err
}

// used is the processor time of this process so far.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func start(args []string, dir string) (time.Duration, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	err := cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 {
		err = nil // no match
	}
	if err != nil {
		return 0, err
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
