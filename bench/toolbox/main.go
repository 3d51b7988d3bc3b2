// Command toolbox measures tools that users write: cold and warm calls through the
// whole runtime beside bare programs, a hundred warm tools, an edit, a toolbox of a
// thousand tools, and how long dependencies take to install.
//
//	go run ./bench/toolbox
//	go run ./bench/toolbox -only 'warm|edit'
//	go run ./bench/toolbox -install
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/pprof"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	install := flag.Bool("install", false, "measure how long dependencies take to install instead")
	runs := flag.Int("runs", 5, "rounds, the contenders of each in turn")
	calls := flag.Int("calls", 500, "warm calls of each contender in a round")
	many := flag.Int("tools", 1000, "how many tools the large toolbox has")
	only := flag.String("only", "", "only the parts whose names match this regular expression: "+partNames())
	profile := flag.String("cpuprofile", "", "write a profile of this process, after what is made ready for each part, to this file")
	flag.Parse()
	var err error
	if *install {
		err = installs(os.Stdout, *runs)
	} else {
		err = measure(*only, *profile, &bench{runs: *runs, calls: *calls, tools: *many})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolbox bench:", err)
		os.Exit(1)
	}
}

// parts of the benchmark. To add one: a line here and its method.
var parts = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"cold", (*bench).cold},
	{"warm", (*bench).warm},
	{"warm-python", (*bench).warmPython},
	{"hundred", (*bench).hundred},
	{"edit", (*bench).edit},
	{"thousand", (*bench).thousand},
}

func partNames() string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// bench is one run. Its rows are printed at the end, in one table.
type bench struct {
	runs, calls, tools int
	dir                string // of the homes
	rows               []row
	profile            *os.File // nil unless a profile is wanted
}

// row is a line of the table.
type row struct {
	what, measured, goal string
	met                  bool
	how                  string
}

// measure runs the parts.
func measure(only, profile string, b *bench) (err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "toolbox-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if profile != "" {
		if b.profile, err = os.Create(profile); err != nil {
			return err
		}
		defer b.profile.Close()
	}
	for _, p := range parts {
		if !wanted.MatchString(p.name) {
			continue
		}
		if err := p.run(b, context.Background()); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintln(os.Stderr, p.name, "done")
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tmeasured\tgoal\t\thow")
	for _, r := range b.rows {
		verdict := ""
		if r.goal != "" {
			verdict = map[bool]string{true: "met", false: "MISSED"}[r.met]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.what, r.measured, r.goal, verdict, r.how)
	}
	return w.Flush()
}

// note adds a row that has no goal.
func (b *bench) note(what, measured, how string) {
	b.rows = append(b.rows, row{what: what, measured: measured, how: how})
}

// most adds a row whose value must not be above a bound, both printed as format
// says.
func (b *bench) most(what, format string, value, bound float64, how string) {
	b.rows = append(b.rows, row{what, fmt.Sprintf(format, value), "≤ " + fmt.Sprintf(format, bound), value <= bound, how})
}

// observe begins what a profile is of; the function that it returns ends it.
func (b *bench) observe() (func(), error) {
	if b.profile == nil {
		return func() {}, nil
	}
	if err := b.profile.Truncate(0); err != nil {
		return nil, err
	}
	if _, err := b.profile.Seek(0, 0); err != nil {
		return nil, err
	}
	return pprof.StopCPUProfile, pprof.StartCPUProfile(b.profile)
}

func seconds(d time.Duration) float64 { return d.Seconds() }
