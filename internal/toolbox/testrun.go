package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/testkit"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

const (
	// testTime is how long a tool's own tests may take.
	testTime = 5 * time.Minute
	// maxTestOutput is how much they may print, in bytes.
	maxTestOutput = 8 << 20
)

// Tested says how a tool's own tests ended.
type Tested struct {
	Passed bool     `json:"passed"`
	Runner string   `json:"runner"` // node, jest, vitest, unittest or pytest
	Files  []string `json:"files"`
	// Ending is why they ended where they did not run to their end: "wall", "memory".
	Ending string        `json:"ending,omitempty"`
	Took   time.Duration `json:"took"`
}

// Test runs the tests that a tool has of its own, in a copy of it with scratch
// data, no network, and nothing that it was granted. What they print goes to out
// as it comes. The tool is one of the toolbox, or a folder; files are its tests,
// none is all.
func (b *Box) Test(ctx context.Context, where string, out io.Writer, files ...string) (*Tested, error) {
	dir, name, _, err := b.place(ctx, where)
	if err != nil {
		return nil, err
	}
	f, err := look(dir, name)
	if err != nil {
		if errors.Is(err, ErrNoTool) {
			err = tool.Errorf(tool.NotFound, "%s holds none of %s", dir, strings.Join(moduleNames(name), ", "))
		}
		return nil, err
	}
	t, err := b.tryOut(f)
	if err != nil {
		return nil, err
	}
	done, err := t.test(ctx, out, files)
	return done, errors.Join(err, t.close(context.WithoutCancel(ctx)))
}

// Test runs the tests for the checklist of a release.
func (t *trial) Test(ctx context.Context) (check.TestRun, error) {
	done, err := t.test(ctx, io.Discard, nil)
	if err != nil {
		return check.TestRun{}, err
	}
	run := check.TestRun{Passed: done.Passed, Summary: fmt.Sprintf("%d files by %s", len(done.Files), done.Runner)}
	if done.Ending != "" {
		run.Summary += ", ended by " + done.Ending
	}
	return run, nil
}

func (t *trial) test(ctx context.Context, out io.Writer, files []string) (*Tested, error) {
	hosts, err := t.b.files()
	if err != nil {
		return nil, err
	}
	kit, err := testkit.Write(hosts.dir, testkit.Adapters{JS: hosts.JS, Python: hosts.Py})
	if err != nil {
		return nil, err
	}
	p, err := t.b.planOf(ctx, t.def, t.at, Grant{}, maps.Clone(t.env))
	if err != nil {
		return nil, err
	}
	c := testkit.Config{Dir: t.def.Dir, Language: t.def.Language, Kit: kit, Files: files}
	if len(files) == 0 {
		c.Files = check.TestFiles(t.kept)
	}
	switch h := p.host.(type) {
	case worker.Node:
		c.Node = h.Program
	case worker.Python:
		c.Python = h.Program
	}
	run, err := testkit.Command(c)
	if err != nil {
		return nil, err
	}
	p.profile.Wall, p.profile.CPU = testTime, testTime
	p.profile.PIDs = morePIDs // a test runner is several processes
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	proc, err := t.b.config.Runner.Start(ctx, sandbox.Cmd{
		Args: run.Args, Env: append(slices.Clone(p.environ), run.Env...), Dir: t.def.Dir, Stdout: w, Stderr: w, Profile: p.profile,
	})
	_ = w.Close()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	var copied sync.WaitGroup
	copied.Go(func() {
		n, _ := io.Copy(out, io.LimitReader(r, maxTestOutput))
		if n == maxTestOutput {
			proc.Kill(sandbox.EndOutput)
		}
		_, _ = io.Copy(io.Discard, r)
	})
	ended := proc.Wait(ctx)
	err = proc.Close()
	copied.Wait()
	err = errors.Join(err, r.Close())
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	done := &Tested{Passed: ended.Ending.Reason == sandbox.EndExit && ended.Ending.Code == 0, Runner: run.Runner, Files: run.Files, Took: time.Since(begun)}
	if ended.Ending.Reason != sandbox.EndExit {
		done.Ending = ended.Ending.Reason
	}
	return done, err
}
