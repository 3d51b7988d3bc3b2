package executor

import (
	"context"
	"log/slog"
	"time"

	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/scheduler"
	"github.com/toolyard/toolyard/internal/secret"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// Defaults of a Config.
const (
	DefaultStored      = 1 << 30 // bytes of one call's output that are kept
	DefaultMaxParallel = 10      // calls of one batch that run together
	DefaultAskDeadline = 50 * time.Second
)

// Config is what an executor works with. Only Registry is needed; a part that
// is nil is left out.
type Config struct {
	Registry *registry.Registry
	// Policy judges the calls. Nil means every tool's own default; see
	// [Executor.SetPolicy].
	Policy *policy.Policy
	// Scheduler orders the calls. Nil means one without limits.
	Scheduler *scheduler.Scheduler
	// Artifacts keeps what is too long for a result. Nil means that it is cut
	// off.
	Artifacts *artifact.Dir
	// Redactor knows the secret values. Nil knows none.
	Redactor *secret.Redactor
	// Store keeps the audit record and the counters. Nil keeps none.
	Store Store
	// Bus gets the events of every call. Nil means that only Call.OnEvent does.
	Bus *event.Bus
	// Log gets panics, lost records and tools that do not stop. Nil discards.
	Log *slog.Logger

	// Tools are the settings of single tools by full name. See
	// [Executor.SetTools].
	Tools map[string]ToolConfig
	// MaxOutput is the text of one result in bytes where neither the tool nor
	// its settings say. Zero means [tool.DefaultMaxOutput].
	MaxOutput int
	// Stored is how many bytes of one call's output are kept. Zero means
	// [DefaultStored].
	Stored int64
	// MaxParallel is how many calls of one batch run together. Zero means
	// [DefaultMaxParallel].
	MaxParallel int
	// DoomLoop is what happens to a call that repeats itself: "ask" (the
	// default), "refuse" or "off".
	DoomLoop string
	// AuditStrict writes the start of a call that writes or executes before it
	// runs, and refuses it if that fails.
	AuditStrict bool
	// AskDeadline is how long a person has for a permission. Zero means
	// [DefaultAskDeadline].
	AskDeadline time.Duration
	// Rate and SessionRate limit calls a second, over all and per session, with
	// bursts of one second's worth (at least 1). Zero means no limit.
	Rate, SessionRate float64
	// Backoff is the wait between attempts.
	Backoff Backoff

	// Home is what "~" means in permission rules.
	Home string
	// RealPath finds the real path behind a name as a tool of this workspace
	// would. Nil means that rules see only the name given.
	RealPath func(workspace, path string) (string, error)
	// SaveRule keeps the rule of an "always" answer. It returns once the rule
	// holds for further calls (see [Executor.SetPolicy]). Nil means that the rule
	// holds for the session, in memory.
	SaveRule func(ctx context.Context, r store.Rule) error
	// ResourceHash is the content hash of a resource that a cached call read.
	// Nil means that calls which read resources are not cached.
	ResourceHash func(key string) (string, error)
	// CacheBytes bounds the cache of results. Zero means 32 MiB, negative none.
	CacheBytes int64
}

// Store is the part of the record that the executor writes.
type Store interface {
	store.Calls
	store.Metrics
	Flush(ctx context.Context) error
}

// ToolConfig changes how one tool is run. Zero fields change nothing.
type ToolConfig struct {
	// Timeout is the limit of one attempt where the caller names none. Negative
	// means no limit.
	Timeout time.Duration
	// Attempts is how many runs there may be in all; 1 means no retry. Zero
	// means 1 and the retries of the code.
	Attempts int
	// MaxOutput is the text of one result in bytes.
	MaxOutput int
	// Cache switches the cache of results on for a tool that may be cached, or
	// off. Nil means Spec.Cacheable.
	Cache *bool
	// Safe overrides what the tool says of its concurrency: false lets a call run
	// alone in its workspace. Nil keeps it.
	Safe *bool
	// Backoff is the wait between attempts. Its zero fields are those of
	// Config.Backoff.
	Backoff Backoff
	// Priority among the calls that wait; higher goes first.
	Priority int
}

// Backoff is the wait before the next attempt: Base × 2ⁿ, at most Cap, then
// plus or minus Jitter of it. Zero means 1 s, 30 s and 0.25; a negative Jitter
// means none.
type Backoff struct {
	Base, Cap time.Duration
	Jitter    float64
}

// fill sets the defaults.
func (c *Config) fill() error {
	switch c.DoomLoop {
	case "":
		c.DoomLoop = doomAsk
	case doomAsk, doomRefuse, doomOff:
	default:
		return tool.Errorf(tool.ParameterError, "doomLoop is %q", c.DoomLoop).WithHint("Use ask, refuse or off.")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Scheduler == nil {
		c.Scheduler = scheduler.New(scheduler.Config{})
	}
	if c.Redactor == nil {
		c.Redactor = secret.New()
	}
	if c.MaxOutput <= 0 {
		c.MaxOutput = tool.DefaultMaxOutput
	}
	if c.Stored <= 0 {
		c.Stored = DefaultStored
	}
	if c.MaxParallel <= 0 {
		c.MaxParallel = DefaultMaxParallel
	}
	if c.AskDeadline <= 0 {
		c.AskDeadline = DefaultAskDeadline
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = defaultCacheBytes
	}
	return nil
}
