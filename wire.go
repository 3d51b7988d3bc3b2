package toolyard

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/builtin/artifacts"
	editfamily "github.com/toolyard/toolyard/builtin/edit"
	"github.com/toolyard/toolyard/builtin/files"
	"github.com/toolyard/toolyard/builtin/shell"
	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/edit/observe"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/docker"
	"github.com/toolyard/toolyard/tool"
)

// What each family needs, filled from the parts.

func (t *Toolyard) filesDeps() files.Deps {
	return files.Deps{Workspace: t.workspaces.get, Edit: t.edit, ExcludesFile: t.config.GitExcludes, Closed: t.closed}
}

// closed is what the rules in force for a request keep a search from showing.
func (t *Toolyard) closed(req *tool.Request, name string) func(path string) bool {
	rules := t.rules.policy().With(t.rules.of(t.background, req.Session, req.Workspace)...)
	byRule := rules.Closed(name, req.Workspace, t.config.UserHome, t.mode)
	if !t.workspaces.around(req.Workspace) {
		return byRule
	}
	return func(path string) bool { return t.workspaces.ours(path) || byRule != nil && byRule(path) }
}

func (t *Toolyard) editDeps() editfamily.Deps {
	return editfamily.Deps{Workspace: t.workspaces.get, Edit: t.edit}
}

// newSandbox is what commands run in.
func newSandbox(c Sandbox, ranges []netip.Prefix, log *slog.Logger) (sandbox.Runner, error) {
	switch {
	case c.Driver == "docker":
		return docker.New(docker.Config{Host: c.DockerHost, Image: c.Image, Log: log}), nil
	case c.Driver != "" && c.Driver != "local":
		return nil, tool.Errorf(tool.ParameterError, "sandbox driver %q: expected local or docker", c.Driver)
	case c.Image != "":
		return nil, tool.Errorf(tool.ParameterError, "sandbox image %q is set and commands run in no container", c.Image).
			WithHint("Set sandbox.driver to docker, or leave sandbox.image empty.")
	}
	return sandbox.New(sandbox.Config{Log: log, AllowRanges: ranges}), nil
}

func (t *Toolyard) artifactsDeps() artifacts.Deps { return artifacts.Deps{Artifacts: t.artifacts} }

func (t *Toolyard) shellDeps() shell.Deps {
	watcher := observe.New(observe.Config{Blobs: t.edit, GitBlobs: t.gitBlobs})
	return shell.Deps{
		Workspace: t.workspaces.get, Start: t.sandbox.Start, Confine: t.confine.of, Jobs: t.jobs, Harm: policy.SelfHarm, Carry: t.config.Shell.Carry,
		Network: t.config.Sandbox.Network,
		Observe: func(ctx context.Context, _ *tool.Request, dir string) (shell.Observation, error) {
			o, err := watcher.Begin(context.WithoutCancel(ctx), dir)
			if err != nil {
				return nil, tool.Errorf(tool.ExecutionError, "the workspace cannot be looked at: %v", err)
			}
			return &observation{seen: o, edit: t.edit}, nil
		},
		Ask: func(ctx context.Context) bool {
			return t.confine.level == sandbox.L0 && t.sandbox.Probe(ctx).Level == sandbox.L0
		},
	}
}

// observation keeps in the journal what a command changed.
type observation struct {
	seen *observe.Observation
	edit *edit.Engine
}

func (o *observation) End(ctx context.Context, req *tool.Request) []string {
	changes, uncovered, err := o.seen.End(ctx)
	if err == nil && len(changes) > 0 {
		observed := make([]edit.Observed, len(changes))
		for i, c := range changes {
			observed[i] = edit.Observed(c)
		}
		err = o.edit.Record(ctx, edit.From(req), observed)
	}
	if err != nil {
		uncovered = append(uncovered, "undo does not cover this command: "+err.Error())
	}
	return uncovered
}

// gitBlobs reads blobs of the repository in dir with git itself, confined as any
// command is: a repository's configuration can name programs.
func (t *Toolyard) gitBlobs(ctx context.Context, dir string, hashes []string, most int64, found func(hash string, content []byte)) error {
	conf, err := t.confine.of(ctx, &tool.Request{Workspace: dir})
	if err != nil {
		return err
	}
	conf.Profile.Read, conf.Profile.Write, conf.Profile.Network = []string{dir}, nil, sandbox.Network{}
	input, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	output, theirs, err := os.Pipe()
	if err != nil {
		input.Close()
		ours.Close()
		return err
	}
	defer output.Close()
	process, err := t.sandbox.Start(ctx, sandbox.Cmd{
		Args: []string{"git", "-c", "safe.directory=*", "cat-file", "--batch"}, Env: append(conf.Env, "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0"),
		Dir: dir, Stdin: input, Stdout: theirs, Profile: conf.Profile,
	})
	input.Close()
	theirs.Close()
	if err != nil {
		ours.Close()
		return err
	}
	defer process.Close()
	go func() { // ends when git has read all or is gone
		defer ours.Close()
		for _, hash := range hashes {
			if _, err := io.WriteString(ours, hash+"\n"); err != nil {
				return
			}
		}
	}()
	return readBatch(bufio.NewReader(output), len(hashes), most, found)
}

// readBatch reads the answers of git cat-file --batch: "<hash> blob <size>", the
// content, a newline; or "<hash> missing".
func readBatch(r *bufio.Reader, count int, most int64, found func(hash string, content []byte)) error {
	for range count {
		line, err := r.ReadString('\n')
		if err != nil {
			return fmt.Errorf("git cat-file: %w", err)
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue // missing
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || size < 0 {
			return fmt.Errorf("git cat-file: odd answer %q", line)
		}
		if fields[1] != "blob" || size > most {
			if _, err := io.CopyN(io.Discard, r, size+1); err != nil {
				return fmt.Errorf("git cat-file: %w", err)
			}
			continue
		}
		content := make([]byte, size+1)
		if _, err := io.ReadFull(r, content); err != nil {
			return fmt.Errorf("git cat-file: %w", err)
		}
		found(fields[0], content[:size])
	}
	return nil
}
