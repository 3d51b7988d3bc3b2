package worker

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// Config of a Pool. Runner, Host and Module are needed; the rest works when
// zero.
type Config struct {
	// Runner confines the workers.
	Runner sandbox.Runner
	// Host is the program that loads the module: [Node] or [Python].
	Host Host
	// Module is the absolute path of what is loaded, as the worker sees it. The
	// profile must grant it.
	Module string
	// Adapter is the absolute path of a module whose default export (in Python:
	// whose function adapt) is called once with the loaded module and Setup, and
	// returns the object whose functions are called. The pool grants its file. Empty
	// calls the module's own.
	Adapter string
	// Setup is JSON for the adapter.
	Setup json.RawMessage
	// Profile is what a worker is granted. Wall and CPU are those of a process
	// that lives for many calls, so they are not taken from it: see [Limits].
	Profile sandbox.Profile
	// Env is the whole environment, Dir the working directory.
	Env []string
	Dir string
	// Files is a directory for the hosts' own program files; many pools may share
	// it. Empty makes one for this pool and removes it at the end.
	Files string

	// Warm is how many workers [Pool.Start] starts, and how many stay however long
	// they idle. Max is how many there are at most; zero is 4.
	Warm, Max int
	// Concurrent is how many calls one worker runs at the same time, where its host
	// can. Zero is 1.
	Concurrent int
	// Queue is how many calls may wait for a worker. Zero is 64.
	Queue int
	// Idle is how long a worker that nobody uses stays. Zero is 5 minutes.
	Idle time.Duration
	// MaxCalls is after how many calls a worker is replaced. Zero is 1000,
	// negative is never.
	MaxCalls int
	// Grace is how long a call may take to stop after it was cancelled, before its
	// process is killed. Zero is 200 ms.
	Grace time.Duration
	// Ready is how long a start may take. Zero is 15 s.
	Ready time.Duration
	// Ping is how often an idle worker is asked whether it lives. Zero is 30 s,
	// negative is never.
	Ping time.Duration
	// Limits are those of calls that have none of their own.
	Limits Limits
	// Frame is the largest message, in bytes, either way. Zero is 16 MiB.
	Frame int

	// OnRequest answers what a worker asks outside of any call, or during a call
	// that does not answer itself. Nil refuses.
	OnRequest func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// OnLine gets what a worker prints when that belongs to no call. It must not
	// block. Nil drops it.
	OnLine func(Line)
	// Log gets what happens to workers. Nil discards it.
	Log *slog.Logger
}

// Defaults of a Config.
const (
	defaultMax      = 4
	defaultQueue    = 64
	defaultIdle     = 5 * time.Minute
	defaultMaxCalls = 1000
	defaultGrace    = 200 * time.Millisecond
	defaultReady    = 15 * time.Second
	defaultPing     = 30 * time.Second
)

func (c Config) defaults() Config {
	set(&c.Max, defaultMax)
	c.Max = max(c.Max, c.Warm)
	set(&c.Concurrent, 1)
	set(&c.Queue, defaultQueue)
	set(&c.Idle, defaultIdle)
	set(&c.MaxCalls, defaultMaxCalls)
	set(&c.Grace, defaultGrace)
	set(&c.Ready, defaultReady)
	set(&c.Ping, defaultPing)
	set(&c.Frame, defaultFrame)
	c.Limits = c.Limits.or(Limits{Wall: defaultWall, CPU: defaultCPU, Result: defaultResult, Output: defaultOutput})
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Profile.Kind == "" {
		c.Profile.Kind = "toolbox"
	}
	c.Profile = c.Profile.Defaults()
	c.Profile.Wall, c.Profile.CPU = -1, -1
	return c
}

func set[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Limits of one call. Zero takes the pool's, there the default; negative is no
// limit, but for Result, which no more than a frame can hold.
type Limits struct {
	Wall time.Duration // 30 s
	// CPU is the CPU time of all the worker's processes during the call, 30 s. It
	// is measured from outside, every 50 ms.
	CPU    time.Duration
	Result int // bytes of the result as JSON, 4 MiB
	// Output is how many bytes of lines are handed on, 1 MiB; the rest is dropped
	// and counted.
	Output int
}

// Defaults of Limits.
const (
	defaultWall   = 30 * time.Second
	defaultCPU    = 30 * time.Second
	defaultResult = 4 << 20
	defaultOutput = 1 << 20
)

func (l Limits) or(d Limits) Limits {
	set(&l.Wall, d.Wall)
	set(&l.CPU, d.CPU)
	set(&l.Result, d.Result)
	set(&l.Output, d.Output)
	return l
}

// Call is one call of a function. Its hooks are called one at a time, in order,
// from goroutines of the pool, and not after Call has returned; they must not
// block.
type Call struct {
	// Name is the function: a property of the module's default export, or an
	// export. Empty is the default export itself.
	Name string
	// Args is JSON, handed to the function as its first argument. Nil is null.
	Args   json.RawMessage
	Limits Limits

	OnProgress func(Progress)
	OnLine     func(Line)
	// OnRequest answers what the tool asks of the runtime. It may block, and is
	// called from several goroutines at once; its context ends with the call. Nil
	// is the pool's.
	OnRequest func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// Progress is how far a call has come. Total is 0 if it is not known.
type Progress struct {
	Done, Total float64
	Text        string
}

// Line is one line that a tool printed or logged.
type Line struct {
	// Stream is "stdout", "stderr" or "log".
	Stream string
	// Level of a log: "debug", "info", "warn" or "error". Empty for the others.
	Level string
	Text  string
	// Meta is what was logged beside the text, as JSON; nil if nothing.
	Meta json.RawMessage
}

// Result of a call.
type Result struct {
	// Value is the JSON of what the function returned; nil if it returned nothing.
	Value json.RawMessage
	// Took is how long the function ran, Waited how long the call waited for a
	// worker before.
	Took, Waited time.Duration
	// Dropped is how many bytes of output were not handed on.
	Dropped int
	// Calls is how many calls the worker had had before.
	Calls int
	// PID is the process that holds the worker, as this machine sees it.
	PID int
}
