package shell

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

//go:embed job_list.md
var jobListManual string

//go:embed job_output.md
var jobOutputManual string

//go:embed job_input.md
var jobInputManual string

//go:embed job_kill.md
var jobKillManual string

// shownJobs is how many jobs job_list shows.
const shownJobs = 50

func callerOf(req *tool.Request) Caller {
	return Caller{Session: req.Session, Workspace: req.Workspace}
}

type jobOut struct {
	JobID    string `json:"job_id" jsonschema:"the job"`
	Status   string `json:"status" jsonschema:"how it stands; enum=running|exited|killed|lost"`
	ExitCode *int   `json:"exit_code,omitempty" jsonschema:"once it has exited"`
	Command  string `json:"command" jsonschema:"what it runs"`
	Bytes    int64  `json:"bytes" jsonschema:"printed so far"`
	Started  string `json:"started" jsonschema:"when, RFC 3339"`
}

func jobOf(row store.Job) jobOut {
	out := jobOut{JobID: row.ID, Status: row.Status, Command: row.Command, Bytes: row.Bytes, Started: row.Started.Format(time.RFC3339)}
	if row.Status == "exited" || row.Status == "killed" {
		out.ExitCode = &row.ExitCode
	}
	return out
}

type jobListOut struct {
	Jobs []jobOut `json:"jobs" jsonschema:"the newest first"`
}

func newJobList(jobs *Jobs) tool.Tool {
	return tool.New(tool.Spec{
		Name: "job_list", Title: "List background jobs",
		Description: "Lists the background jobs of this session and workspace, newest first, with their state.",
		Manual:      jobListManual, Category: "shell",
		Effects: tool.State, Default: tool.Allow, Idempotent: true, ConcurrencySafe: true, Repeatable: true,
	}, func(ctx context.Context, req *tool.Request, _ struct{}) (*tool.Result, jobListOut, error) {
		rows, err := jobs.List(ctx, callerOf(req), shownJobs)
		if err != nil {
			return nil, jobListOut{}, err
		}
		out, text := jobListOut{Jobs: []jobOut{}}, ""
		for _, row := range rows {
			out.Jobs = append(out.Jobs, jobOf(row))
			text += fmt.Sprintf("%s  %s  %d bytes  %s\n", row.ID, describe(row), row.Bytes, oneLine(row.Command))
		}
		if text == "" {
			text = "there are no jobs"
		}
		return tool.Text(strings.TrimRight(text, "\n")), out, nil
	})
}

func oneLine(command string) string {
	const longest = 100
	command = strings.Join(strings.Fields(command), " ")
	if len(command) > longest {
		command = strings.ToValidUTF8(command[:longest], "") + "…"
	}
	return command
}

type jobOutputIn struct {
	JobID  string `json:"job_id" jsonschema:"the job; minLength=1"`
	Offset int64  `json:"offset,omitempty" jsonschema:"bytes to skip: next_offset of the last call; default=0; min=0"`
	Wait   int    `json:"wait,omitempty" jsonschema:"seconds to wait for something new or the end; default=0; min=0; max=600"`
	Filter string `json:"filter,omitempty" jsonschema:"show only lines that this RE2 expression matches"`
}

type jobOutputOut struct {
	Status     string `json:"status" jsonschema:"how the job stands; enum=running|exited|killed|lost"`
	ExitCode   *int   `json:"exit_code,omitempty" jsonschema:"once it has exited"`
	Output     string `json:"output" jsonschema:"what it printed from offset on"`
	NextOffset int64  `json:"next_offset" jsonschema:"where to go on reading"`
}

// jobOutput waits as long as its arguments say.
type jobOutput struct{ tool.Tool }

var _ tool.Timeouter = jobOutput{}

func (jobOutput) CallTimeout(req *tool.Request) time.Duration {
	in, err := tool.Arguments[jobOutputIn](req)
	if err != nil {
		return 0
	}
	return time.Duration(in.Wait)*time.Second + tool.DefaultTimeout
}

func newJobOutput(jobs *Jobs) tool.Tool {
	return jobOutput{tool.New(tool.Spec{
		Name: "job_output", Title: "Read a job's output",
		Description: "Reads what a background job has printed, from a byte offset. With wait it returns as soon as there is something new or the job has ended.",
		Manual:      jobOutputManual, Category: "shell", MaxTimeout: maxTimeout*time.Second + tool.DefaultTimeout,
		Effects: tool.State, Default: tool.Allow, Idempotent: true, ConcurrencySafe: true, Repeatable: true, Pages: true,
	}, func(ctx context.Context, req *tool.Request, in jobOutputIn) (*tool.Result, jobOutputOut, error) {
		var filter *regexp.Regexp
		if in.Filter != "" {
			var err error
			if filter, err = regexp.Compile(in.Filter); err != nil {
				return nil, jobOutputOut{}, tool.Errorf(tool.ParameterError, "filter does not compile: %v", err).
					WithHint("It is an RE2 expression; a literal ( [ . * is written with a backslash before it.")
			}
		}
		limit := req.MaxOutput
		if limit <= 0 {
			limit = tool.DefaultMaxOutput
		}
		o, err := jobs.Read(ctx, callerOf(req), in.JobID, in.Offset, limit, time.Duration(in.Wait)*time.Second)
		if err != nil {
			return nil, jobOutputOut{}, err
		}
		return jobOutputResult(in, o, limit, filter)
	})}
}

func jobOutputResult(in jobOutputIn, o Output, limit int, filter *regexp.Regexp) (*tool.Result, jobOutputOut, error) {
	text := o.Text
	if len(text) == limit {
		// There may be more: stop at the end of a line, if there is one.
		if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
			text = text[:i+1]
		}
	}
	out := jobOutputOut{Status: o.Job.Status, NextOffset: o.From + int64(len(text)), ExitCode: jobOf(o.Job).ExitCode}
	shown := strings.ToValidUTF8(string(text), "\uFFFD")
	if filter != nil {
		var kept strings.Builder
		for line := range strings.Lines(shown) {
			if filter.MatchString(strings.TrimRight(line, "\r\n")) {
				kept.WriteString(line)
			}
		}
		shown = kept.String()
	}
	out.Output = shown
	parts := []string{shown}
	if o.From > in.Offset {
		parts = append([]string{fmt.Sprintf("[bytes %d to %d came with the result of the call that started the command]", in.Offset, o.From)}, parts...)
	}
	status := fmt.Sprintf("[job %s: %s; next offset %d", in.JobID, describe(o.Job), out.NextOffset)
	if more := o.Job.Bytes - out.NextOffset; more > 0 {
		status += fmt.Sprintf(", %d bytes more", more)
	}
	return tool.Text(joinText(append(parts, status+"]")...)), out, nil
}

type jobInputIn struct {
	JobID string `json:"job_id" jsonschema:"the job; minLength=1"`
	Input string `json:"input" jsonschema:"text for its standard input, as it is: end a line with a newline"`
}

func newJobInput(jobs *Jobs) tool.Tool {
	return tool.New(tool.Spec{
		Name: "job_input", Title: "Write to a job",
		Description: "Writes text to the standard input of a background job (or its terminal, if it was started with tty).",
		Manual:      jobInputManual, Category: "shell",
		Effects: tool.Execute, Default: tool.Allow, ConcurrencySafe: true,
	}, func(ctx context.Context, req *tool.Request, in jobInputIn) (*tool.Result, struct{}, error) {
		if err := jobs.Write(ctx, callerOf(req), in.JobID, in.Input); err != nil {
			return nil, struct{}{}, err
		}
		return tool.Text(fmt.Sprintf("wrote %d bytes to %s", len(in.Input), in.JobID)), struct{}{}, nil
	})
}

type jobKillIn struct {
	JobID string `json:"job_id" jsonschema:"the job; minLength=1"`
}

func newJobKill(jobs *Jobs) tool.Tool {
	return tool.New(tool.Spec{
		Name: "job_kill", Title: "End a job",
		Description: "Ends a background job with everything it started.",
		Manual:      jobKillManual, Category: "shell",
		Effects: tool.Execute, Default: tool.Allow, Idempotent: true, ConcurrencySafe: true,
	}, func(ctx context.Context, req *tool.Request, in jobKillIn) (*tool.Result, jobOut, error) {
		row, err := jobs.Kill(ctx, callerOf(req), in.JobID)
		if err != nil {
			return nil, jobOut{}, err
		}
		return tool.Text(fmt.Sprintf("job %s: %s", row.ID, describe(row))), jobOf(row), nil
	})
}
