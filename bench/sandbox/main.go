// Command sandbox measures how long a confined /bin/true takes, from a running
// process, beside bubblewrap, runc and Docker doing the same, and a bash through
// the whole pipeline, in interleaved rounds.
//
//	go run ./bench/sandbox -rounds 5 -runs 100
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds")
	runs := flag.Int("runs", 100, "runs of each contender in a round")
	only := flag.String("only", "", "only the contenders whose names match this regular expression")
	warm := flag.Bool("workers", false, "measure calls of warm tools instead")
	flag.Parse()
	var err error
	if *warm {
		err = workers(*runs)
	} else {
		err = bench(*rounds, *runs, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox bench:", err)
		os.Exit(1)
	}
}

// goal is an upper bound of the median and of the 95th percentile, 0 if there is
// none, and how many times what another contender takes the median may be.
type goal struct {
	p50, p95 time.Duration
	times    float64
	of       string
}

func (g goal) String() string {
	text := ""
	if g.p50 > 0 {
		text = fmt.Sprintf("≤ %g", ms(g.p50))
		if g.p95 > 0 {
			text += fmt.Sprintf(" / %g", ms(g.p95))
		}
		text += " ms"
	}
	if g.times > 0 {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("≤ %.1f × %s", g.times, g.of)
	}
	return text
}

func bench(rounds, runs int, only string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	ctx := context.Background()
	s := sandbox.New(sandbox.Config{})
	defer s.Close()
	report := s.Probe(ctx)
	fmt.Printf("level %s, missing %d, %d rounds of %d runs\n", report.Level, len(report.Missing), rounds, runs)
	all, end, err := contenders(s)
	if err != nil {
		return err
	}
	defer end()
	list := slices.DeleteFunc(all, func(c contender) bool { return !wanted.MatchString(c.name) })
	times := make([][]time.Duration, len(list))
	for range rounds {
		for i, c := range list {
			for range max(runs/max(c.dear, 1), 1) {
				if c.skip != "" {
					break
				}
				start := time.Now()
				if err := c.run(ctx); err != nil {
					list[i].skip = err.Error()
					break
				}
				times[i] = append(times[i], time.Since(start))
			}
		}
	}
	medians := map[string]time.Duration{}
	for i, c := range list {
		if slices.Sort(times[i]); c.skip == "" {
			medians[c.name] = quantile(times[i], 0.5)
		}
	}
	fmt.Printf("%-34s %9s %9s %9s  %s\n", "", "p50 ms", "p95 ms", "× bwrap", "goal")
	for i, c := range list {
		if c.skip != "" {
			fmt.Printf("%-34s skipped: %s\n", c.name, c.skip)
			continue
		}
		ratio := "–"
		if peer := medians["bwrap --unshare-all"]; peer > 0 && c.compare {
			ratio = fmt.Sprintf("%.2f", float64(medians[c.name])/float64(peer))
		}
		fmt.Printf("%-34s %9.2f %9.2f %9s  %s\n", c.name, ms(medians[c.name]), ms(quantile(times[i], 0.95)), ratio, c.goal)
	}
	return nil
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
