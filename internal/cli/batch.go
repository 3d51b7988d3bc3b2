package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/tool"
)

func newBatch(p *program) *cobra.Command {
	var session string
	c := &cobra.Command{
		Use:   "batch FILE|- [--session ID]",
		Short: "Run many tools at once, side by side where they do not conflict",
		Long: "Reads calls {\"tool\": …, \"arguments\": {…}}, as a JSON array or one a line, and runs\n" +
			"them together. Each result is printed as it ends, as a line {\"index\", \"tool\",\n" +
			"\"result\"}. Calls that touch the same file keep their order. One failure does not\n" +
			"stop the others; the exit code is 1 if any failed.",
		Example: "toolyard batch calls.jsonl\n" +
			"printf '%s\\n' '{\"tool\":\"read\",\"arguments\":{\"file_path\":\"go.mod\"}}' | toolyard batch -",
		Args: args(1, 1, "a file of calls, or - for stdin"),
		RunE: func(c *cobra.Command, args []string) error { return p.batch(c.Context(), args[0], session) },
	}
	c.Flags().StringVar(&session, "session", "", "the session `ID` to call in (default: yours in this workspace)")
	return c
}

// batchCall is one line of a batch. The names of execute_batch are taken as well.
type batchCall struct {
	Tool       string          `json:"tool"`
	ToolName   string          `json:"tool_name"`
	Arguments  json.RawMessage `json:"arguments"`
	Parameters json.RawMessage `json:"parameters"`
	Timeout    float64         `json:"timeout"` // seconds
}

func (p *program) batch(ctx context.Context, file, session string) error {
	calls, err := p.readBatch(file)
	if err != nil {
		return err
	}
	y, err := p.open(ctx, openOptions{})
	if err != nil {
		return err
	}
	defer y.close()
	g := p.progress(fmt.Sprintf("%d calls", len(calls)))
	defer g.end()
	asker := p.asker(g, nil) // one for all, so that questions come one at a time
	for i := range calls {
		c := &calls[i]
		c.Session, c.Workspace, c.Origin, c.OnEvent = y.session(session), y.workspace, "cli", g.event
		c.Asker = asker
	}
	failed := 0
	for i, r := range y.ExecuteBatch(ctx, calls, tool.BatchOptions{}) {
		if r.IsError {
			failed++
		}
		g.pause()
		err := p.printJSON(struct {
			Index  int          `json:"index"`
			Tool   string       `json:"tool"`
			Result *tool.Result `json:"result"`
		}{i, calls[i].Tool, r})
		g.resume()
		if err != nil {
			return err
		}
	}
	if wasInterrupted(ctx) {
		return context.Cause(ctx)
	}
	if failed > 0 {
		g.pause()
		p.note("%d of %d calls failed", failed, len(calls))
		return &ended{exitFailed}
	}
	return nil
}

func (p *program) readBatch(file string) ([]toolyard.Call, error) {
	var r io.Reader = p.stdin
	if file == "-" {
		file = "stdin"
	} else {
		f, err := os.Open(file)
		if err != nil {
			return nil, usagef("%v", err)
		}
		defer f.Close()
		r = f
	}
	text, err := readAll(r, file)
	if err != nil {
		return nil, err
	}
	return parseBatch(file, []byte(text))
}

// parseBatch reads a JSON array of calls, or a call a line.
func parseBatch(file string, text []byte) ([]toolyard.Call, error) {
	var rows []batchCall
	if trimmed := bytes.TrimSpace(text); bytes.HasPrefix(trimmed, []byte("[")) {
		if err := json.Unmarshal(trimmed, &rows); err != nil {
			return nil, usagef("%s: %v", file, err).withHint("It should be a JSON array of {\"tool\", \"arguments\"}.")
		}
	} else {
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, maxInput+1)
		for n := 1; lines.Scan(); n++ {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 {
				continue
			}
			var row batchCall
			if err := json.Unmarshal(line, &row); err != nil {
				return nil, usagef("%s:%d: %v", file, n, err).withHint("Each line should be {\"tool\": …, \"arguments\": {…}}.")
			}
			rows = append(rows, row)
		}
		if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	calls := make([]toolyard.Call, len(rows))
	for i, row := range rows {
		name, arguments := row.Tool, row.Arguments
		if name == "" {
			name = row.ToolName
		}
		if arguments == nil {
			arguments = row.Parameters
		}
		if name == "" {
			return nil, usagef("%s: call %d names no tool", file, i).withHint("Each call should be {\"tool\": …, \"arguments\": {…}}.")
		}
		calls[i] = toolyard.Call{Tool: name, Arguments: arguments, Timeout: time.Duration(row.Timeout * float64(time.Second))}
	}
	if len(calls) == 0 {
		return nil, usagef("%s has no calls", file).withHint("Each line should be {\"tool\": …, \"arguments\": {…}}.")
	}
	return calls, nil
}
