package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/builtin/shell"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

const (
	jobPiece   = 256 << 10 // bytes of output read at once
	jobTimeout = 10 * time.Second
)

func newJobs(p *program) *cobra.Command {
	var follow, kill bool
	var text string
	c := &cobra.Command{
		Use:   "jobs [ID [--follow|--kill|--input TEXT]]",
		Short: "List background commands, or watch, feed or end one",
		Long: "Lists the commands that agents left running and those that have ended. With an ID it\n" +
			"prints what that one has printed. Jobs belong to the `mcp` or `serve` that started\n" +
			"them and end with it.",
		Example: "toolyard jobs\ntoolyard jobs job_1f2e3d4c --follow\necho yes | toolyard jobs job_1f2e3d4c --input -\ntoolyard jobs job_1f2e3d4c --kill",
		Args:    args(0, 1, ""),
		RunE: func(c *cobra.Command, args []string) error {
			input := c.Flags().Changed("input")
			switch {
			case len(args) == 0 && (follow || kill || input):
				return usagef("which job? Name its ID").withHint("`toolyard jobs` lists them.")
			case len(args) == 0:
				return p.listJobs(c.Context())
			case follow && kill || follow && input || kill && input:
				return usagef("--follow, --kill and --input do not go together")
			case kill:
				return p.killJob(c.Context(), args[0])
			case input:
				return p.feedJob(c.Context(), args[0], text)
			}
			return p.showJob(c.Context(), args[0], follow)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print what it prints until it ends")
	c.Flags().BoolVar(&kill, "kill", false, "end it, with everything it has started")
	c.Flags().StringVar(&text, "input", "", "send it `TEXT`; - reads stdin")
	return c
}

// jobClient talks to the runtime that owns a job, over its socket.
type jobClient struct {
	http *http.Client
}

func newJobClient(home string, pid int) *jobClient {
	path := jobSocket(home, pid)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &jobClient{&http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: jobTimeout}}
}

// do sends a request about jobs.
func (c *jobClient) do(ctx context.Context, method, path string, in, out any) error {
	return c.call(ctx, method, "/jobs"+path, in, out)
}

// call sends a request and decodes the answer into out, unless that is nil.
func (c *jobClient) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://toolyard/api/v1"+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxInput))
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var failure struct {
			Error struct{ Code, Message, Hint string }
		}
		if json.Unmarshal(raw, &failure) != nil || failure.Error.Message == "" {
			return fmt.Errorf("the runtime answered %s", resp.Status)
		}
		e := tool.Errorf(tool.Code(failure.Error.Code), "%s", failure.Error.Message)
		e.Hint = failure.Error.Hint
		return e
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

// jobOutput is a piece of what a job has printed.
type jobOutput struct {
	Status     string `json:"status"`
	ExitCode   int    `json:"exit_code"`
	Output     string `json:"output"`
	NextOffset int64  `json:"next_offset"`
}

// listJobs prints the recorded jobs, the newest first. A job whose runtime does
// not answer is lost.
func (p *program) listJobs(ctx context.Context) error {
	settings, db, err := p.record(ctx, openOptions{})
	if err != nil {
		return err
	}
	defer db.Close()
	jobs, err := db.ListJobs(ctx, "", 0)
	if err != nil {
		return err
	}
	alive := map[int]bool{}
	for i := range jobs {
		j := &jobs[i]
		if j.Status != "running" {
			continue
		}
		answers, asked := alive[j.RuntimePID]
		if !asked {
			answers = newJobClient(settings.Home, j.RuntimePID).do(ctx, http.MethodGet, "?limit=1", nil, nil) == nil
			alive[j.RuntimePID] = answers
		}
		if !answers {
			j.Status = "lost"
		}
	}
	if p.flags.json {
		if jobs == nil {
			jobs = []store.Job{}
		}
		return p.printJSON(jobs)
	}
	if len(jobs) == 0 {
		p.note("No jobs.")
		return nil
	}
	rows := make([][]string, len(jobs))
	for i, j := range jobs {
		code := ""
		if j.Status == "exited" {
			code = strconv.Itoa(j.ExitCode)
		}
		end := j.Ended
		if end.IsZero() {
			end = time.Now()
		}
		rows[i] = []string{j.ID, j.Status, code, j.Started.Local().Format("2006-01-02 15:04:05"), durationText(end.Sub(j.Started)), bytesText(j.Bytes), oneLine(j.Command, 80)}
	}
	p.table(p.stdout, []column{
		{head: "JOB", paint: p.out.cyan}, {head: "STATUS", paint: p.out.status}, {head: "CODE", right: true}, {head: "STARTED", paint: p.out.dim},
		{head: "FOR", right: true}, {head: "OUTPUT", right: true}, {head: "COMMAND"},
	}, rows)
	return nil
}

// findJob gives the row of a job and a client of the runtime that owns it.
func (p *program) findJob(ctx context.Context, id string) (store.Job, *jobClient, error) {
	settings, db, err := p.record(ctx, openOptions{})
	if err != nil {
		return store.Job{}, nil, err
	}
	defer db.Close()
	j, err := db.Job(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return j, nil, &missing{what: "there is no job " + oneLine(id, 60), hint: "`toolyard jobs` lists them."}
	}
	return j, newJobClient(settings.Home, j.RuntimePID), err
}

// reached explains an error of a client whose runtime does not answer.
func reached(j store.Job, err error) error {
	if _, ok := errors.AsType[*tool.Error](err); ok || err == nil {
		return err
	}
	if j.Status != "running" {
		return tool.Errorf(tool.Conflict, "job %s has ended: %s", j.ID, j.Status)
	}
	return tool.Errorf(tool.NotFound, "job %s is lost: its runtime (process %d) does not answer", j.ID, j.RuntimePID).
		WithHint("A job ends with the `toolyard mcp` or `serve` that started it.")
}

func (p *program) killJob(ctx context.Context, id string) error {
	j, client, err := p.findJob(ctx, id)
	if err != nil {
		return err
	}
	if err := reached(j, client.do(ctx, http.MethodDelete, "/"+url.PathEscape(id), nil, &j)); err != nil {
		return err
	}
	if p.flags.json {
		return p.printJSON(j)
	}
	fmt.Fprintf(p.stdout, "%s %s\n", j.ID, p.out.status(j.Status))
	return nil
}

func (p *program) feedJob(ctx context.Context, id, text string) error {
	j, client, err := p.findJob(ctx, id)
	if err != nil {
		return err
	}
	if text == "-" {
		if text, err = readAll(p.stdin, "stdin"); err != nil {
			return err
		}
	}
	in := map[string]string{"input": text}
	return reached(j, client.do(ctx, http.MethodPost, "/"+url.PathEscape(id)+"/input", in, nil))
}

// showJob prints the output of a job, and with follow what is still to come. A
// job that failed makes the command fail.
func (p *program) showJob(ctx context.Context, id string, follow bool) error {
	j, client, err := p.findJob(ctx, id)
	if err != nil {
		return err
	}
	if j.Status != "running" {
		return p.showEnded(ctx, j)
	}
	tick := time.NewTicker(followEach)
	defer tick.Stop()
	for offset := int64(0); ; {
		var o jobOutput
		path := fmt.Sprintf("/%s/output?offset=%d&limit=%d", url.PathEscape(id), offset, jobPiece)
		if err := reached(j, client.do(ctx, http.MethodGet, path, nil, &o)); err != nil {
			if wasInterrupted(ctx) {
				return context.Cause(ctx)
			}
			return err
		}
		if err := p.printOutput(id, o); err != nil {
			return err
		}
		more := o.NextOffset > offset
		offset = o.NextOffset
		switch {
		case more:
			continue
		case o.Status != "running":
			p.note("%s %s with code %d", id, o.Status, o.ExitCode)
			return nil
		case !follow:
			p.note("%s is still running; --follow goes on with it", id)
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// printOutput prints a piece of output; with --json as {job_id, output,
// next_offset, status, exit_code}.
func (p *program) printOutput(id string, o jobOutput) error {
	if p.flags.json {
		return p.printJSON(struct {
			ID string `json:"job_id"`
			jobOutput
		}{id, o})
	}
	text := o.Output
	if p.outTTY {
		text = printable(text)
	}
	_, err := io.WriteString(p.stdout, text)
	return err
}

// showEnded prints the output of a job that has ended, from where it is kept.
func (p *program) showEnded(ctx context.Context, j store.Job) error {
	y, err := p.open(ctx, openOptions{keepJobs: true})
	if err != nil {
		return err
	}
	defer y.close()
	for offset := int64(0); ; {
		o, err := y.Jobs().Read(ctx, shell.Caller{}, j.ID, offset, jobPiece, 0)
		if err != nil {
			return err
		}
		piece := jobOutput{Status: j.Status, ExitCode: j.ExitCode, Output: strings.ToValidUTF8(string(o.Text), "�"), NextOffset: o.Next}
		if err := p.printOutput(j.ID, piece); err != nil {
			return err
		}
		if piece.NextOffset <= offset || piece.Output == "" {
			break
		}
		offset = piece.NextOffset
	}
	p.note("%s %s with code %d", j.ID, j.Status, j.ExitCode)
	return nil
}
