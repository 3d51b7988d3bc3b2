package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/store"
)

// Bounds of what is read of the record.
const (
	logLines   = 50 // shown if no --since says otherwise
	followEach = 250 * time.Millisecond
	recordPage = 1000
	recordMax  = 100_000 // rows that stats looks at
)

// statuses of a call in the record.
var statuses = []string{"ok", "error", "refused", "cancelled", "running", "lost"}

func newLog(p *program) *cobra.Command {
	var follow bool
	var name, session, since, status string
	c := &cobra.Command{
		Use:   "log [--follow] [--tool T] [--session ID] [--since WHEN] [--status S]",
		Short: "Show the record of calls, refused ones included",
		Long: "Shows the last 50 calls, or all since a time, the oldest first. Refused calls are in\n" +
			"it, with the rule that refused them.",
		Example: "toolyard log --since 1h --status refused\n" +
			"toolyard log --follow --tool bash\n" +
			"toolyard log --since 2026-01-31 --json | jq .tool",
		Args: args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := oneOf("status", status, statuses...); err != nil {
				return err
			}
			from, err := parseSince(since, time.Now())
			if err != nil {
				return err
			}
			return p.log(c.Context(), store.CallFilter{Tool: name, Session: session, Status: status, Since: from}, follow)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with the calls to come")
	c.Flags().StringVar(&name, "tool", "", "only calls of a `TOOL`")
	c.Flags().StringVar(&session, "session", "", "only calls of a session `ID`")
	c.Flags().StringVar(&since, "since", "", "only calls since `WHEN`: 15m, 24h, 7d, 2026-01-31 or 2026-01-31T15:04:05Z")
	c.Flags().StringVar(&status, "status", "", "only calls with a `STATUS`: ok, error, refused, cancelled, running or lost")
	return c
}

// parseSince reads a duration back from now, or a time.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if n := len(text) - 1; text[n] == 'd' {
		if days, err := strconv.ParseUint(text[:n], 10, 16); err == nil {
			return now.AddDate(0, 0, -int(days)), nil
		}
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("--since does not take %q", oneLine(text, 40)).
		withHint("Write 15m, 24h, 7d, 2026-01-31 or 2026-01-31T15:04:05Z.")
}

func (p *program) log(ctx context.Context, f store.CallFilter, follow bool) error {
	_, db, err := p.record(ctx, openOptions{})
	if err != nil {
		return err
	}
	defer db.Close()
	var watch *follower
	if follow {
		// Before the calls of the past are read, so that none falls between.
		if watch, err = newFollower(ctx, db, f); err != nil {
			return err
		}
	}
	rows, err := lastCalls(ctx, db, f)
	if err != nil {
		return err
	}
	for _, c := range rows {
		if follow && c.Status == "running" {
			continue // printed when it has ended
		}
		if err := p.printCall(c); err != nil {
			return err
		}
	}
	if follow {
		return p.follow(ctx, watch, rows)
	}
	if len(rows) == 0 && !p.flags.json {
		p.note("No calls.")
	}
	return nil
}

// lastCalls gives the calls of a filter, the oldest first: all since a time, or
// the last few.
func lastCalls(ctx context.Context, db store.Calls, f store.CallFilter) ([]store.Call, error) {
	limit := recordMax
	if f.Since.IsZero() {
		limit = logLines
	}
	rows, err := readCalls(ctx, db, f, limit)
	slices.Reverse(rows)
	return rows, err
}

// readCalls pages through the calls of a filter, the newest first.
func readCalls(ctx context.Context, db store.Calls, f store.CallFilter, limit int) ([]store.Call, error) {
	var rows []store.Call
	for len(rows) < limit {
		f.Limit = min(recordPage, limit-len(rows))
		page, err := db.ListCalls(ctx, f)
		if errors.Is(err, store.ErrNotFound) {
			break // pruned while we read
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, page...)
		if len(page) < f.Limit {
			break
		}
		f.Before = page[len(page)-1].ID
	}
	return rows, nil
}

// follower finds calls that have ended. A call is in the record from its start or,
// if it only reads, from its end; and it may run for long.
type follower struct {
	db      store.Calls
	filter  store.CallFilter
	from    time.Time
	known   map[string]bool // ended and told, since from
	running map[string]bool
	status  string // only these are printed; "" is all
}

// commitDelay is how late a row can come into the record, with time to spare.
const commitDelay = 5 * time.Second

func newFollower(ctx context.Context, db store.Calls, f store.CallFilter) (*follower, error) {
	status := f.Status
	f.Status = "" // a call that runs has not its status yet
	w := &follower{status: status, db: db, filter: f, from: time.Now(), known: map[string]bool{}, running: map[string]bool{}}
	f.Status = "running"
	rows, err := readCalls(ctx, db, f, recordPage)
	for _, c := range rows {
		w.running[c.ID] = true
	}
	if err != nil {
		return nil, err
	}
	// What has ended before is not told.
	_, err = w.next(ctx)
	return w, err
}

// next gives the calls that have ended since the last time, the oldest first.
func (w *follower) next(ctx context.Context) ([]store.Call, error) {
	var ended []store.Call
	for id := range w.running {
		c, err := w.db.Call(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if err != nil || c.Status != "running" {
			delete(w.running, id)
		}
		if err == nil && c.Status != "running" && !w.known[id] {
			w.known[id] = true
			ended = append(ended, c)
		}
	}
	now := time.Now()
	w.filter.Since = w.from.Add(-commitDelay)
	rows, err := readCalls(ctx, w.db, w.filter, recordMax)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, c := range rows {
		if c.Status == "running" {
			w.running[c.ID] = true
			continue
		}
		if known[c.ID] = true; !w.known[c.ID] {
			ended = append(ended, c)
		}
	}
	w.known, w.from = known, now
	slices.SortFunc(ended, func(a, b store.Call) int { return a.Started.Compare(b.Started) })
	return ended, nil
}

// follow prints calls as they end, until ctx is done. shown have been printed.
func (p *program) follow(ctx context.Context, w *follower, shown []store.Call) error {
	for _, c := range shown {
		if c.Status != "running" {
			w.known[c.ID] = true
			delete(w.running, c.ID)
		}
	}
	tick := time.NewTicker(followEach)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		rows, err := w.next(ctx)
		if err != nil {
			return err
		}
		for _, c := range rows {
			if w.status != "" && c.Status != w.status {
				continue
			}
			if err := p.printCall(c); err != nil {
				return err
			}
		}
	}
}

// printCall prints one call of the record.
func (p *program) printCall(c store.Call) error {
	if p.flags.json {
		return p.printJSON(c)
	}
	l := p.out
	line := fmt.Sprintf("%s  %s  %s %s %s  %s",
		l.dim(c.Started.Local().Format("2006-01-02 15:04:05")), l.dim(c.ID),
		pad(l.status(c.Status), c.Status, 9), pad(l.cyan(c.Tool), c.Tool, 14),
		fmt.Sprintf("%8s", durationText(time.Duration(c.DurationMS*float64(time.Millisecond)))),
		argumentsText(c.Arguments, 100))
	if c.Code != "" {
		line += "  " + l.red(c.Code)
		if c.Message != "" {
			line += " " + oneLine(c.Message, 120)
		}
	}
	_, err := fmt.Fprintln(p.stdout, line)
	return err
}

// pad fills painted, which looks as wide as plain, up to width.
func pad(painted, plain string, width int) string {
	for range max(0, width-len(plain)) {
		painted += " "
	}
	return painted
}
