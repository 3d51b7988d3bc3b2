package toolbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/page"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// configure merges what was given, if anything was, and shows what holds.
func (t toolm) configure(ctx context.Context, r request) (*tool.Result, error) {
	d := r.entry.Definition
	c := page.Configuration{Definition: d, Path: r.entry.EnvPath, Lang: r.lang}
	var err error
	if c.Values, err = t.d.Box.Environment(ctx, r.Tool); err != nil {
		return nil, err
	}
	if !r.empty() {
		c.Values, err = t.d.Box.Configure(ctx, r.Tool, func(current map[string]string) (map[string]string, error) {
			merged, faults := page.MergeConfig(d, current, r.Parameters)
			if err := validate.FaultsError(faults); err != nil {
				return nil, err.WithHint("Nothing was changed. See what can be set with tool: %s, mode: configure and no parameters.", r.Tool)
			}
			c.Changed, c.Removed = page.Changes(current, merged)
			return merged, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return shown(page.Configure(c)), nil
}

// empty reports whether there are no parameters.
func (r *request) empty() bool {
	var members map[string]json.RawMessage
	return len(r.Parameters) == 0 || json.Unmarshal(r.Parameters, &members) == nil && len(members) == 0
}

// logParameters are those of mode log.
type logParameters struct {
	Action  string          `json:"action"`
	Lines   json.RawMessage `json:"lines"`
	Level   string          `json:"level"`
	Since   json.RawMessage `json:"since"`
	Pattern string          `json:"pattern"`
	// Names that others use for the pattern.
	Keyword string `json:"keyword"`
	Query   string `json:"query"`
}

var (
	logActions = []string{"tail", "head", "all", "grep"}
	logLevels  = []string{"DEBUG", "INFO", "WARN", "ERROR"}
	logFields  = []string{"action", "lines", "level", "since", "pattern", "keyword", "query"}
)

func (t toolm) log(ctx context.Context, r request) (*tool.Result, error) {
	q, filters, faults := readLog(r.Parameters, time.Now())
	if err := validate.FaultsError(faults); err != nil {
		return nil, err.WithHint("Parameters of mode log: action tail, head, all or grep; lines; level; since; pattern.")
	}
	found, err := t.d.Box.Log(ctx, r.Tool, q)
	if err != nil {
		return nil, err
	}
	return shown(page.Log(page.Excerpt{
		Tool: r.Tool, Path: found.Path, Action: q.Action, Filters: filters, Lines: found.Lines, Matched: found.Matched, More: found.More, Lang: r.lang,
	})), nil
}

// readLog reads the parameters of mode log.
func readLog(raw json.RawMessage, now time.Time) (q LogQuery, filters []string, faults []tool.Fault) {
	const usual, most = 50, 10_000 // lines
	q = LogQuery{Action: "tail", Lines: usual}
	if len(raw) == 0 {
		return q, nil, nil
	}
	fault := func(path, expected, got string) {
		faults = append(faults, tool.Fault{Path: "parameters." + path, Expected: expected, Got: got})
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(raw, &members) // the reader has seen that it is an object
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(logFields, name) {
			fault(name, "one of "+strings.Join(logFields[:5], ", ")+didYouMean(name, logFields[:5]), "an unknown parameter")
		}
	}
	var p logParameters
	text := func(name string, to *string) {
		if members[name] != nil && json.Unmarshal(members[name], to) != nil {
			fault(name, "text", string(members[name]))
		}
	}
	text("action", &p.Action)
	text("level", &p.Level)
	text("pattern", &p.Pattern)
	text("keyword", &p.Keyword)
	text("query", &p.Query)
	q.Pattern = p.Pattern + p.Keyword + p.Query
	if p.Action != "" {
		q.Action = strings.ToLower(strings.TrimSpace(p.Action))
		if !slices.Contains(logActions, q.Action) {
			fault("action", "one of "+strings.Join(logActions, ", ")+didYouMean(q.Action, logActions), fmt.Sprintf("%q", p.Action))
		}
	} else if q.Pattern != "" {
		q.Action = "grep"
	}
	if q.Action == "grep" && q.Pattern == "" {
		fault("pattern", "a regular expression to look for", "nothing")
	}
	if _, err := regexp.Compile(q.Pattern); err != nil {
		fault("pattern", "a regular expression (RE2)", err.Error())
	}
	if p.Level != "" {
		q.Level = strings.ToUpper(strings.TrimSpace(p.Level))
		if q.Level == "WARNING" {
			q.Level = "WARN"
		}
		if !slices.Contains(logLevels, q.Level) {
			fault("level", "one of "+strings.Join(logLevels, ", ")+didYouMean(q.Level, logLevels), fmt.Sprintf("%q", p.Level))
		}
		filters = append(filters, "level "+q.Level)
	}
	if q.Action == "all" {
		q.Lines = 0
	}
	if lines := members["lines"]; lines != nil && string(lines) != "null" {
		n, err := strconv.Atoi(strings.Trim(string(lines), `"`))
		if err != nil || n < 1 || n > most {
			fault("lines", fmt.Sprintf("a number from 1 to %d", most), string(lines))
		}
		q.Lines = n
	}
	if since := members["since"]; since != nil && string(since) != "null" {
		var ok bool
		if q.Since, ok = sinceTime(strings.Trim(string(since), `"`), now); !ok {
			fault("since", "a time (2026-01-31T09:30:00Z), a date, or how long ago (30m, 2h)", string(since))
		}
		filters = append(filters, "since "+q.Since.UTC().Format(time.RFC3339))
	}
	if q.Pattern != "" {
		filters = append(filters, "pattern "+q.Pattern)
	}
	return q, filters, faults
}

// didYouMean offers the nearest name.
func didYouMean(name string, known []string) string {
	if best, near := validate.Nearest(name, known); near {
		return " (did you mean " + best + "?)"
	}
	return ""
}

// sinceTime reads a time, or how long before now it was. A number is
// milliseconds since 1970, as JavaScript has it.
func sinceTime(text string, now time.Time) (time.Time, bool) {
	text = strings.TrimSpace(text)
	if ago, err := time.ParseDuration(text); err == nil && text != "0" {
		return now.Add(-ago.Abs()), true
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 36500 {
			return now.AddDate(0, 0, -n), true
		}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, true
		}
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms > 0 {
		return time.UnixMilli(ms), true
	}
	return time.Time{}, false
}
