package shell

import (
	"path"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
	"mvdan.cc/sh/v3/syntax"
)

// finish turns how a command ended into the result of its call.
func finish(in bashIn, cmd *command, summary tool.OutputSummary, notes []string, limit time.Duration) (*tool.Result, bashOut, error) {
	ending := cmd.result.Ending
	_, counts := cmd.spool.total()
	out := bashOut{Status: "exited", StdoutBytes: counts["stdout"], StderrBytes: counts["stderr"]}
	failure := endingError(in.Command, ending, limit)
	rules := refusals(cmd.result.Violations)
	explain(failure, rules)
	if ending.Reason != "exit" {
		out.Status = "killed"
	}
	code := ending.Code
	out.ExitCode = &code
	parts := []string{summary.Text}
	if cmd.outputErr != nil {
		parts = append(parts, "[some of the output is lost: "+cmd.outputErr.Error()+"]")
	}
	if failure != nil {
		parts = append(parts, "["+strings.TrimSuffix(failure.Text(), ".")+"]")
	} else if summary.Text == "" {
		parts = append(parts, "(no output)")
	}
	parts = append(parts, violationLines(cmd.result.Violations)...)
	for _, note := range notes {
		parts = append(parts, "["+note+"]")
	}
	result := withSummary(tool.Text(joinText(parts...)), summary)
	result.Meta.Notes = append(result.Meta.Notes, rules...)
	if failure != nil {
		result.IsError, result.Err = true, failure
	}
	return result, out, nil
}

// endingError is the failure of a command that did not end well; nil if it did.
func endingError(command string, e tool.Ending, limit time.Duration) *tool.Error {
	switch e.Reason {
	case "exit":
		switch {
		case e.Code == 0 || e.Code == 1 && oneIsAnswer(command):
			return nil
		case e.Code == 127:
			return tool.Errorf(tool.ExecutionError, "exit code 127").
				WithHint("A command was not found: check its name, or look for it with: command -v NAME.")
		case e.Code == 126:
			return tool.Errorf(tool.ExecutionError, "exit code 126").WithHint("A command could not be executed: check its permissions.")
		}
		return tool.Errorf(tool.ExecutionError, "exit code %d", e.Code)
	case "signal":
		return tool.Errorf(tool.ExecutionError, "ended by signal %s", e.Signal)
	case "wall":
		return tool.Errorf(tool.TimeoutError, "killed after %s: the time limit", limit).
			WithHint("Give a longer timeout, or run it in the background.")
	case "killed":
		return tool.Errorf(tool.Cancelled, "killed on request")
	case "memory":
		return tool.Errorf(tool.ResourceExhausted, "killed: it used more memory than the sandbox allows").
			WithHint("Process less at once, or ask the operator for more (sandbox.memory).")
	case "output":
		return tool.Errorf(tool.ResourceExhausted, "killed: it printed more than may be stored").
			WithHint("Print less, or send the output to a file in the workspace.")
	}
	return tool.Errorf(tool.ResourceExhausted, "killed: it reached the sandbox's limit of %s", e.Reason).
		WithHint("Use less of it, or ask the operator for a higher limit.")
}

// answers are commands whose exit code 1 is an answer and not a failure.
var answers = map[string]bool{"grep": true, "egrep": true, "fgrep": true, "rg": true, "diff": true, "test": true, "[": true, "[[": true, "cmp": true}

// oneIsAnswer reports whether the exit code of command is that of a program for
// which 1 means "no" or "different".
func oneIsAnswer(command string) bool {
	file, err := syntax.NewParser().Parse(strings.NewReader(command), "")
	if err != nil || len(file.Stmts) == 0 {
		return false
	}
	return lastAnswers(file.Stmts[len(file.Stmts)-1])
}

func lastAnswers(s *syntax.Stmt) bool {
	if s == nil || s.Negated || s.Background {
		return false
	}
	switch cmd := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		// In "a && grep x" a 1 may be a's; it is an answer only if both answer.
		if cmd.Op == syntax.Pipe || cmd.Op == syntax.PipeAll {
			return lastAnswers(cmd.Y)
		}
		if cmd.Op == syntax.AndStmt {
			return lastAnswers(cmd.Y) && (lastAnswers(cmd.X) || neverOne(cmd.X))
		}
		return lastAnswers(cmd.Y)
	case *syntax.TestClause:
		return true
	case *syntax.Subshell:
		return len(cmd.Stmts) > 0 && lastAnswers(cmd.Stmts[len(cmd.Stmts)-1])
	case *syntax.Block:
		return len(cmd.Stmts) > 0 && lastAnswers(cmd.Stmts[len(cmd.Stmts)-1])
	case *syntax.CallExpr:
		if len(cmd.Args) == 0 {
			return false
		}
		name := path.Base(cmd.Args[0].Lit())
		if name == "git" {
			return gitDiffAnswers(cmd.Args[1:])
		}
		return answers[name]
	}
	return false
}

// neverOne reports whether a command fails only in ways other than 1: going to a
// directory that the test before it would not change.
func neverOne(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && (call.Args[0].Lit() == "echo" || call.Args[0].Lit() == "true" || call.Args[0].Lit() == ":")
}

func gitDiffAnswers(args []*syntax.Word) bool {
	diff, exitCode := false, false
	for _, arg := range args {
		switch arg.Lit() {
		case "diff", "grep":
			diff = true
			exitCode = exitCode || arg.Lit() == "grep"
		case "--exit-code", "--quiet", "--no-index":
			exitCode = true
		}
	}
	return diff && exitCode
}

// reportUsage tells the executor what the command's processes used and were
// refused.
func reportUsage(req *tool.Request, r sandbox.Result) {
	ending, confined := r.Ending, r.Sandbox
	reportRefusals(req, r.Violations)
	req.Report(tool.Usage{Peaks: r.Peaks, Ending: &ending, Sandbox: &confined})
}
