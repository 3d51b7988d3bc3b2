// Package store is the record that Toolyard keeps, as plain rows: sessions,
// calls, events, metrics, the journal of file changes, artifacts, jobs, rules,
// trust, questions and tasks. It knows no SQL; the drivers in its folders do.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Errors that every driver returns, wrapped.
var (
	ErrNotFound = errors.New("not in the store")
	// ErrFull says that the disk or quota under the store is full. The record is
	// whole; what was being written is not in it.
	ErrFull = errors.New("no space left for the store")
	// ErrBusy says that another process held the store for longer than the wait.
	ErrBusy = errors.New("the store is locked by another process")
	// ErrClosed says that the store has been closed.
	ErrClosed = errors.New("the store is closed")
)

// Store keeps rows. All methods are safe for concurrent use. Times are UTC with
// at least microseconds. A method that finds nothing returns ErrNotFound for a
// single row, deletions included, and an empty slice for a list. A list's limit
// of zero means 100, unless it says otherwise. After ErrFull or ErrBusy the store
// goes on working and nothing is corrupt.
type Store interface {
	Sessions
	Calls
	Events
	Metrics
	Journal
	Artifacts
	Jobs
	Rules
	Settings
	Questions
	Tasks

	// Flush waits until everything queued (calls, events) is durable.
	Flush(ctx context.Context) error
	// Prune deletes what is older than the retention says and reports how many
	// rows of each kind went. Zero keeps for ever.
	Prune(ctx context.Context, r Retention) (map[string]int64, error)
	// Close flushes and releases the store.
	Close() error
}

// Retention is how long rows are kept. Zero means for ever.
type Retention struct {
	Calls, Journal, Artifacts time.Duration
}

// Session is one client's conversation with the runtime.
type Session struct {
	ID        string    `json:"id"`
	Client    string    `json:"client"` // name/version, or "cli"
	Workspace string    `json:"workspace"`
	Mode      string    `json:"mode"`
	Started   time.Time `json:"started"`
	Seen      time.Time `json:"seen"` // last activity
	Ended     time.Time `json:"ended,omitzero"`
	Turn      string    `json:"turn,omitempty"`
	Calls     int64     `json:"calls"` // filled by reads
}

// Sessions keeps sessions.
type Sessions interface {
	// PutSession inserts or replaces a session by ID.
	PutSession(ctx context.Context, s Session) error
	Session(ctx context.Context, id string) (Session, error)
	// ListSessions gives the newest first.
	ListSessions(ctx context.Context, limit int) ([]Session, error)

	// PutSeen records what a session has seen of a file; one row per session
	// and path, replaced. It queues, as PutCall does: Seen of the same store finds
	// the row at once, another process 10 ms later, and Flush and Close write it.
	// The caller does not change s.Lines afterwards.
	PutSeen(ctx context.Context, s Seen) error
	// Seen finds what a session has seen of a path.
	Seen(ctx context.Context, session, path string) (Seen, error)
}

// Seen is what a session knows of a file: its content at that time and which
// lines were really shown.
type Seen struct {
	Session string
	Path    string // real, absolute
	Hash    string
	Size    int64
	ModTime time.Time
	Lines   []LineRange // sorted, disjoint; empty with Whole
	Whole   bool
	At      time.Time
}

// LineRange is lines From to To, 1-based, both included.
type LineRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Call is the audit record of one call, refusals included.
type Call struct {
	ID         string          `json:"id"`
	ParentID   string          `json:"parent_id,omitempty"`
	Session    string          `json:"session"`
	Turn       string          `json:"turn,omitempty"`
	Workspace  string          `json:"workspace,omitempty"`
	Tool       string          `json:"tool"` // full name
	Arguments  json.RawMessage `json:"arguments"`
	Status     string          `json:"status"` // running, ok, error, refused, cancelled, lost
	Code       string          `json:"code,omitempty"`
	Message    string          `json:"message,omitempty"`
	Verdict    string          `json:"verdict,omitempty"` // allow, ask, deny
	Rule       string          `json:"rule,omitempty"`    // what decided
	Started    time.Time       `json:"started"`
	DurationMS float64         `json:"duration_ms"`
	BytesIn    int64           `json:"bytes_in"`
	BytesOut   int64           `json:"bytes_out"`
	Meta       json.RawMessage `json:"meta,omitempty"` // tool.Meta
}

// CallFilter selects calls. Zero fields do not restrict.
type CallFilter struct {
	Tool, Session, Status string
	Since, Until          time.Time // Since is included, Until is not
	// Before pages: only calls older than the one with this ID, which must be in
	// the store (ErrNotFound).
	Before string
	Limit  int // zero means 100
}

// Calls keeps the audit record. PutCall queues: rows are committed in groups,
// at most 10 ms later, and a later row of the same ID replaces an earlier one.
type Calls interface {
	// PutCall queues a row. It blocks only while the queue (4096 rows) is full,
	// and then at most until ctx is done. An earlier failure to write is returned
	// once.
	PutCall(ctx context.Context, c Call) error
	// PutCallNow writes a row and returns when it is durable.
	PutCallNow(ctx context.Context, c Call) error
	Call(ctx context.Context, id string) (Call, error)
	// ListCalls gives the newest first.
	ListCalls(ctx context.Context, f CallFilter) ([]Call, error)
}

// Event is one event of the bus, kept so that a client can resume.
type Event struct {
	ID   uint64
	Time time.Time
	Body json.RawMessage // tool.Event
}

// Events keeps the last events (100,000).
type Events interface {
	// PutEvents queues events, like PutCall.
	PutEvents(ctx context.Context, events []Event) error
	// EventsAfter gives at most limit events with a higher ID, oldest first.
	EventsAfter(ctx context.Context, id uint64, limit int) ([]Event, error)
	// LastEventID is the highest ID ever stored; 0 if none.
	LastEventID(ctx context.Context) (uint64, error)
}

// Metric is one tool's counters over one minute.
type Metric struct {
	Tool   string
	Minute time.Time
	Body   json.RawMessage
}

// Metrics keeps counters per tool and minute.
type Metrics interface {
	// PutMetrics inserts or replaces by tool and minute.
	PutMetrics(ctx context.Context, m []Metric) error
	// ListMetrics gives the oldest first; tool "" means all.
	ListMetrics(ctx context.Context, tool string, since time.Time) ([]Metric, error)
}

// Change is one file change, so that it can be undone. Content is kept as blobs
// named by hash, outside the store.
type Change struct {
	ID        int64 // given by the store, rising
	Call      string
	Session   string
	Turn      string
	Workspace string
	Path      string // real, absolute
	// Kind is write, create, delete, rename or mode.
	Kind    string
	OldPath string // of a rename
	// Before and After are content hashes; "" means that there was no file.
	Before, After         string
	BeforeMode, AfterMode uint32
	// BeforeLink and AfterLink are targets where the path is a symlink.
	BeforeLink, AfterLink string
	At                    time.Time
	// State is begun (written before the file changes), done or undone.
	State string
}

// ChangeFilter selects changes. Zero fields do not restrict.
type ChangeFilter struct {
	Session, Call, Turn, Workspace, Path, State string
	Limit                                       int // zero means 1000
}

// Journal keeps file changes.
type Journal interface {
	// PutChange inserts a change durably and returns its ID.
	PutChange(ctx context.Context, c Change) (int64, error)
	// PutChanges inserts many in one transaction.
	PutChanges(ctx context.Context, c []Change) ([]int64, error)
	// SetChangeState updates the state and After fields of changes in one
	// transaction. If one is not there, nothing changes (ErrNotFound).
	SetChangeState(ctx context.Context, changes []Change) error
	// ListChanges gives the newest first.
	ListChanges(ctx context.Context, f ChangeFilter) ([]Change, error)
}

// Artifact is the metadata of kept data; the bytes lie in the artifact folder
// under SHA256.
type Artifact struct {
	ID       string    `json:"id"`
	Session  string    `json:"session"`
	Call     string    `json:"call"`
	Name     string    `json:"name"`
	MIME     string    `json:"mime"`
	Category string    `json:"category"`
	Size     int64     `json:"size"`
	SHA256   string    `json:"sha256"`
	Created  time.Time `json:"created"`
}

// Artifacts keeps artifact metadata.
type Artifacts interface {
	PutArtifact(ctx context.Context, a Artifact) error
	Artifact(ctx context.Context, id string) (Artifact, error)
	// ListArtifacts gives the newest first; session "" means all.
	ListArtifacts(ctx context.Context, session string, limit int) ([]Artifact, error)
	DeleteArtifact(ctx context.Context, id string) error
	// ArtifactsWithHash counts the rows that refer to a content.
	ArtifactsWithHash(ctx context.Context, sha256 string) (int64, error)
}

// Job is a background command.
type Job struct {
	ID         string    `json:"id"`
	Call       string    `json:"call"`
	Session    string    `json:"session"`
	Workspace  string    `json:"workspace"`
	Command    string    `json:"command"`
	Status     string    `json:"status"` // running, exited, killed, lost
	ExitCode   int       `json:"exit_code"`
	Signal     string    `json:"signal,omitempty"`
	Reason     string    `json:"reason,omitempty"` // tool.Ending.Reason
	RuntimePID int       `json:"runtime_pid"`      // whose job it is
	Runtime    string    `json:"runtime"`          // identity of that process: pid and start time
	Handle     string    `json:"handle"`           // of its output
	Bytes      int64     `json:"bytes"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended,omitzero"`
}

// Jobs keeps jobs.
type Jobs interface {
	PutJob(ctx context.Context, j Job) error
	Job(ctx context.Context, id string) (Job, error)
	// ListJobs gives the newest first; session "" means all.
	ListJobs(ctx context.Context, session string, limit int) ([]Job, error)
	// LoseJobs marks running jobs as lost whose runtime alive says is gone.
	LoseJobs(ctx context.Context, alive func(runtime string) bool) (int64, error)
}

// Rule is a permission rule that a person saved outside the config file.
type Rule struct {
	ID        int64     `json:"id"`
	Scope     string    `json:"scope"`     // user, project, session
	ScopeKey  string    `json:"scope_key"` // workspace or session; "" for user
	Action    string    `json:"action"`    // allow, ask, deny
	Rule      string    `json:"rule"`
	Overrides []string  `json:"overrides,omitempty"` // the ask rules that it answered
	By        string    `json:"by"`
	Created   time.Time `json:"created"`
}

// Rules keeps permission rules.
type Rules interface {
	// PutRule inserts a rule, or replaces the one with the same scope, key and
	// rule text, and returns its ID.
	PutRule(ctx context.Context, r Rule) (int64, error)
	DeleteRule(ctx context.Context, id int64) error
	// ListRules gives all rules, oldest first.
	ListRules(ctx context.Context) ([]Rule, error)
}

// Settings keeps small values by name, such as the hash at which a workspace
// was trusted ("trust:/srv/app").
type Settings interface {
	PutSetting(ctx context.Context, name, value string) error
	Setting(ctx context.Context, name string) (string, error)
	DeleteSetting(ctx context.Context, name string) error
	// ListSettings gives those whose name begins with prefix.
	ListSettings(ctx context.Context, prefix string) (map[string]string, error)
}

// Question is put to a person and outlives whoever asks it.
type Question struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"` // that of [tool.Question]
	Session   string          `json:"session"`
	Call      string          `json:"call,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Workspace string          `json:"workspace,omitempty"`
	Title     string          `json:"title"`
	Text      string          `json:"text,omitempty"`
	Options   []tool.Option   `json:"options,omitempty"`
	Default   string          `json:"default,omitempty"`
	Details   json.RawMessage `json:"details,omitempty"`
	// Binding and Fresh are those of [tool.Question].
	Binding string    `json:"-"`
	Fresh   bool      `json:"-"`
	Created time.Time `json:"created"`
	// Deadline is until when an answer counts.
	Deadline time.Time `json:"deadline"`
	State    string    `json:"state"` // pending, answered, cancelled, expired
	Option   string    `json:"option,omitempty"`
	Answer   string    `json:"answer,omitempty"` // free text
	By       string    `json:"by,omitempty"`
	Answered time.Time `json:"answered,omitzero"`
	// Used says that the answer has reached a call. It reaches only one.
	Used bool `json:"-"`
}

// QuestionFilter selects questions. Zero fields do not restrict.
type QuestionFilter struct {
	State, Session, Binding string
	Limit                   int // zero means 100
}

// Errors of Questions.
var (
	// ErrSettled says that a question is not pending any more.
	ErrSettled = errors.New("the question has been settled")
	// ErrExists says that there is a question with this ID.
	ErrExists = errors.New("the question is there already")
)

// Questions keeps questions.
type Questions interface {
	// PutQuestion inserts a question durably; ErrExists if its ID is taken.
	PutQuestion(ctx context.Context, q Question) error
	Question(ctx context.Context, id string) (Question, error)
	// ListQuestions gives the newest first.
	ListQuestions(ctx context.Context, f QuestionFilter) ([]Question, error)
	// PendingQuestions gives the IDs of the pending ones, the newest first, at most
	// 10,000: cheap enough to be asked again and again.
	PendingQuestions(ctx context.Context) ([]string, error)
	// SettleQuestion gives a pending question the State, Option, Answer, By,
	// Answered and Used of q, and its Deadline if that is later, durably. Of several that try, one succeeds; the others
	// get ErrSettled.
	SettleQuestion(ctx context.Context, q Question) error
	// ExtendQuestion gives a pending question another deadline, durably; ErrSettled
	// if it is not pending.
	ExtendQuestion(ctx context.Context, id string, deadline time.Time) error
	// TakeAnswer marks the answer to a question with this binding as used, durably,
	// and returns the question: answered, not used, its deadline not before now; of
	// several the one answered last. Of several that try, one gets it; the others get
	// ErrNotFound. So does who asks with no binding.
	TakeAnswer(ctx context.Context, binding string, now time.Time) (Question, error)
	// TakeQuestion is TakeAnswer for the question with this ID, whatever its binding
	// and deadline.
	TakeQuestion(ctx context.Context, id string) (Question, error)
}

// Task is a call that a client follows by an ID (MCP, tasks extension).
type Task struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Call    string `json:"call"`
	Tool    string `json:"tool"`
	// Status is working, input_required, completed, failed or cancelled.
	Status  string          `json:"status"`
	Message string          `json:"message,omitempty"`
	Created time.Time       `json:"created"`
	Updated time.Time       `json:"updated"`
	Expires time.Time       `json:"expires,omitzero"` // then it may be deleted
	Result  json.RawMessage `json:"result,omitempty"` // CallToolResult, once completed
	Error   json.RawMessage `json:"error,omitempty"`  // JSON-RPC error, once failed
	// Runtime is the identity of the process that runs the call: pid and start time.
	Runtime string `json:"runtime"`
}

// Tasks keeps tasks.
type Tasks interface {
	// PutTask inserts or replaces a task by ID, durably.
	PutTask(ctx context.Context, t Task) error
	Task(ctx context.Context, id string) (Task, error)
	// ListTasks gives the newest first; session "" means all.
	ListTasks(ctx context.Context, session string, limit int) ([]Task, error)
	DeleteTask(ctx context.Context, id string) error
	// LoseTasks marks tasks that are not over as failed whose runtime alive says is
	// gone, with message as Message.
	LoseTasks(ctx context.Context, alive func(runtime string) bool, message string) (int64, error)
}
