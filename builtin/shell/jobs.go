package shell

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// maxJobs is how many jobs may run at once.
const maxJobs = 64

// JobsConfig says where jobs are kept. Rows and Dir are required.
type JobsConfig struct {
	Rows store.Jobs
	// Dir holds the output of jobs, a file each.
	Dir string
	// Stored is how many bytes one job may print. Zero means 1 GiB.
	Stored int64
	// Runtime identifies this process among those that share the store.
	Runtime string
	Bus     *event.Bus
	Log     *slog.Logger
}

// Jobs owns the commands that run on after their call. They end with it: Close
// kills what still runs. It is safe for concurrent use.
type Jobs struct {
	config JobsConfig

	mu      sync.Mutex
	running map[string]*job
	closed  bool
	ended   sync.WaitGroup
}

// job is a command that runs on.
type job struct {
	row     store.Job
	command *command
	end     func() []string
	settled chan struct{} // closed when row says how the command ended
}

// NewJobs makes an empty set of jobs. It starts nothing.
func NewJobs(c JobsConfig) *Jobs {
	if c.Stored == 0 {
		c.Stored = maxStored
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Jobs{config: c, running: map[string]*job{}}
}

// Close kills all jobs, waits until they are gone and their ends are recorded,
// and takes no more.
func (j *Jobs) Close() error {
	j.mu.Lock()
	j.closed = true
	running := make([]*job, 0, len(j.running))
	for _, job := range j.running {
		running = append(running, job)
	}
	j.mu.Unlock()
	for _, job := range running {
		job.command.kill("killed")
	}
	j.ended.Wait()
	return nil
}

// adopt makes a job of a running command. end is called when it has ended.
func (j *Jobs) adopt(ctx context.Context, req *tool.Request, line string, cmd *command, end func() []string) (string, error) {
	if err := cmd.spool.persist(); err != nil {
		return "", tool.Errorf(tool.ResourceExhausted, "the job's output cannot be kept: %v", err)
	}
	var random [4]byte
	rand.Read(random[:]) // never fails, see crypto/rand
	id := "job_" + hex.EncodeToString(random[:])
	row := store.Job{
		ID: id, Call: req.CallID, Session: req.Session, Workspace: req.Workspace, Command: line, Status: "running",
		RuntimePID: os.Getpid(), Runtime: j.config.Runtime, Handle: filepath.Base(cmd.spool.path), Started: time.Now().UTC(),
	}
	started := &job{row: row, command: cmd, end: end, settled: make(chan struct{})}
	j.mu.Lock()
	switch {
	case j.closed:
		j.mu.Unlock()
		return "", tool.Errorf(tool.Cancelled, "the runtime is ending and takes no more jobs")
	case len(j.running) >= maxJobs:
		j.mu.Unlock()
		return "", tool.Errorf(tool.ResourceExhausted, "%d jobs run already, which is the limit", maxJobs).
			WithHint("End one with job_kill; job_list shows them.")
	}
	j.running[id] = started
	j.ended.Add(1)
	j.mu.Unlock()
	if err := j.config.Rows.PutJob(ctx, row); err != nil {
		// The job runs all the same; only a later runtime would not know of it.
		j.config.Log.Warn("job not recorded", "job", id, "error", err)
	}
	j.publish(tool.EventJobStarted, row)
	go j.watch(started)
	return id, nil
}

// watch waits for the end of a job and records it.
func (j *Jobs) watch(job *job) {
	defer j.ended.Done()
	<-job.command.done
	result := job.command.result
	size, _ := job.command.spool.total()
	j.mu.Lock()
	row := job.row
	row.Status, row.Reason = "exited", result.Ending.Reason
	if result.Ending.Reason != "exit" {
		row.Status = "killed"
	}
	row.ExitCode, row.Signal, row.Bytes, row.Ended = result.Ending.Code, result.Ending.Signal, size, time.Now().UTC()
	job.row = row
	j.mu.Unlock()
	close(job.settled)
	for _, note := range job.end() {
		j.config.Log.Info("job", "job", row.ID, "note", note)
	}
	if err := j.config.Rows.PutJob(context.Background(), row); err != nil {
		j.config.Log.Warn("end of job not recorded", "job", row.ID, "error", err)
	}
	j.mu.Lock()
	delete(j.running, row.ID)
	j.mu.Unlock()
	job.command.spool.release()
	j.publish(tool.EventJobFinished, row)
}

func (j *Jobs) publish(kind string, row store.Job) {
	if j.config.Bus == nil {
		return
	}
	j.config.Bus.Publish(tool.Event{Type: kind, Session: row.Session, CallID: row.Call, Tool: "bash",
		Data: map[string]any{"job_id": row.ID, "command": row.Command, "status": row.Status, "exit_code": row.ExitCode}})
}

// Caller says who asks for a job: a job is visible to its own session and to
// others in the same workspace. The zero Caller is the operator, who sees all.
type Caller struct {
	Session, Workspace string
}

func (c Caller) sees(row store.Job) bool {
	return c == Caller{} || row.Session == c.Session || c.Workspace != "" && row.Workspace == c.Workspace
}

// List gives the newest jobs first, ended ones included.
func (j *Jobs) List(ctx context.Context, c Caller, limit int) ([]store.Job, error) {
	rows, err := j.config.Rows.ListJobs(ctx, "", 1000)
	if err != nil {
		return nil, err
	}
	var seen []store.Job
	for _, row := range rows {
		if c.sees(row) && len(seen) < limit {
			seen = append(seen, j.fresh(row))
		}
	}
	return seen, nil
}

// rowNow is the job's row with what it has printed so far.
func (job *job) rowNow(j *Jobs) store.Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	row := job.row
	row.Bytes, _ = job.command.spool.total()
	return row
}

// fresh takes what this process knows over what the store says.
func (j *Jobs) fresh(row store.Job) store.Job {
	j.mu.Lock()
	job, ok := j.running[row.ID]
	j.mu.Unlock()
	if ok {
		return job.rowNow(j)
	}
	return row
}

// find gives a job's row and, if it runs here, the job.
func (j *Jobs) find(ctx context.Context, c Caller, id string) (store.Job, *job, error) {
	j.mu.Lock()
	running, ok := j.running[id]
	j.mu.Unlock()
	if ok {
		if row := running.rowNow(j); c.sees(row) {
			return row, running, nil
		}
	}
	row, err := j.config.Rows.Job(ctx, id)
	if err == nil && !c.sees(row) {
		err = store.ErrNotFound
	}
	if errors.Is(err, store.ErrNotFound) {
		return row, nil, tool.Errorf(tool.NotFound, "no job %s", id).WithHint("job_list shows the jobs.")
	}
	return row, nil, err
}

// Output is a part of what a job printed.
type Output struct {
	Job store.Job
	// From is where Text begins: the offset asked for, or later if what was there
	// is kept only by the call that started the command.
	From, Next int64
	Text       []byte
}

// Read gives at most limit bytes of a job's output from offset. It waits until
// there is something, the job has ended, or wait is over.
func (j *Jobs) Read(ctx context.Context, c Caller, id string, offset int64, limit int, wait time.Duration) (Output, error) {
	row, running, err := j.find(ctx, c, id)
	if err != nil {
		return Output{}, err
	}
	if running != nil && wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		running.command.spool.wait(waiting, offset)
		cancel()
		if ctx.Err() != nil {
			return Output{}, context.Cause(ctx)
		}
	}
	buf := make([]byte, limit)
	var n int
	from := offset
	if running != nil {
		select {
		case <-running.command.done:
			<-running.settled // at once: so that the end and its output come together
		default:
		}
		n, from, err = running.command.spool.readAt(buf, offset)
		row = running.rowNow(j)
	}
	if running == nil || errors.Is(err, os.ErrClosed) {
		n, from, err = readFile(filepath.Join(j.config.Dir, row.Handle), buf, offset)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return Output{}, tool.Errorf(tool.ExecutionError, "the output of job %s cannot be read: %v", id, err)
	}
	if n == 0 {
		from = min(from, row.Bytes) // past the end: what comes later is not skipped
	}
	return Output{Job: row, From: from, Next: from + int64(n), Text: buf[:n]}, nil
}

// readFile reads the output of a job that has ended, from offset or from the
// first byte kept. Retention may have removed it: then it is empty.
func readFile(path string, buf []byte, offset int64) (n int, from int64, err error) {
	_, number, _ := strings.Cut(filepath.Base(path), "@")
	base, err := strconv.ParseInt(strings.TrimSuffix(number, ".out"), 10, 64)
	if err != nil {
		return 0, offset, io.EOF
	}
	from = max(offset, base)
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, from, io.EOF
	}
	if err != nil {
		return 0, from, err
	}
	defer file.Close()
	n, err = file.ReadAt(buf, from-base)
	if n > 0 {
		err = nil
	}
	return n, from, err
}

// Follow gives what is closed when a job of a session has ended; false if it does
// not run here, or is another session's.
func (j *Jobs) Follow(ctx context.Context, session, id string) (done <-chan struct{}, ok bool) {
	row, running, err := j.find(ctx, Caller{Session: session}, id)
	if err != nil || running == nil || row.Session != session {
		return nil, false
	}
	return running.settled, true
}

// Write sends text to a job's input.
func (j *Jobs) Write(ctx context.Context, c Caller, id, text string) error {
	row, running, err := j.find(ctx, c, id)
	if err != nil {
		return err
	}
	if running == nil {
		return ended(row)
	}
	return running.command.write(ctx, text)
}

// Kill ends a job and waits until its tree is gone. Killing one that has ended
// changes nothing.
func (j *Jobs) Kill(ctx context.Context, c Caller, id string) (store.Job, error) {
	row, running, err := j.find(ctx, c, id)
	if err != nil || running == nil {
		return row, err
	}
	running.command.kill("killed")
	select {
	case <-running.settled:
		return running.rowNow(j), nil
	case <-ctx.Done():
		return row, context.Cause(ctx)
	}
}

// ended is the error for a job that runs no more, or runs elsewhere.
func ended(row store.Job) error {
	if row.Status == "running" {
		return tool.Errorf(tool.Conflict, "job %s belongs to another runtime (process %d)", row.ID, row.RuntimePID).
			WithHint("Use: toolyard jobs %s", row.ID)
	}
	return tool.Errorf(tool.Conflict, "job %s has ended: %s", row.ID, describe(row))
}

// describe says how a job stands.
func describe(row store.Job) string {
	switch {
	case row.Status == "running":
		return "running"
	case row.Status == "lost":
		return "lost: the runtime that owned it is gone"
	case row.Status == "exited":
		return fmt.Sprintf("exited with code %d", row.ExitCode)
	case row.Signal != "" && row.Reason == "signal":
		return "ended by signal " + row.Signal
	}
	return "killed (" + row.Reason + ")"
}
