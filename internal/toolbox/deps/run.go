package deps

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// command is something to run in the sandbox.
type command struct {
	args    []string
	env     []string
	dir     string
	profile sandbox.Profile
	// line hears each line of output, from two goroutines, one at a time.
	line func(string)
}

// outcome is how a command ended, with the end of what it printed.
type outcome struct {
	sandbox.Result
	output string
}

func (o outcome) ok() bool { return o.Ending.Reason == sandbox.EndExit && o.Ending.Code == 0 }

// Bounds of what a command prints: a line, and what is kept of all.
const (
	maxLine   = 256 << 10
	maxOutput = 64 << 10
)

// run runs a command and waits for it and all that it started. The error is that
// the command could not be started.
func (i *Installer) run(ctx context.Context, c command) (outcome, error) {
	var out outcome
	r, w, err := os.Pipe()
	if err != nil {
		return out, err
	}
	defer r.Close()
	p, err := i.c.Runner.Start(ctx, sandbox.Cmd{Args: c.args, Env: c.env, Dir: c.dir, Stdout: w, Stderr: w, Profile: c.profile})
	w.Close()
	if err != nil {
		return out, err
	}
	var kept tail
	var reading sync.WaitGroup
	reading.Go(func() { kept.read(r, c.line) })
	// What it left running may hold the pipe, so it is closed before the output
	// has been read to its end.
	out.Result = p.Wait(ctx)
	if out.Ending.Reason == "" {
		p.Kill(sandbox.EndKilled)
	}
	_ = p.Close()
	if out.Ending.Reason == "" {
		out.Result = p.Wait(context.WithoutCancel(ctx))
	}
	reading.Wait()
	out.output = kept.String()
	i.c.Log.Debug("ran", "program", filepath.Base(c.args[0]), "ending", out.Ending.Reason, "code", out.Ending.Code, "wall", out.Peaks.WallMS)
	return out, nil
}

// tail keeps the end of an output.
type tail struct{ lines []string }

func (t *tail) read(r io.Reader, hear func(string)) {
	in := bufio.NewReaderSize(r, maxLine)
	size := 0
	for {
		line, err := in.ReadSlice('\n')
		text := strings.TrimRight(string(line), "\r\n")
		if text != "" {
			if hear != nil {
				hear(text)
			}
			t.lines = append(t.lines, text)
			for size += len(text) + 1; size > maxOutput && len(t.lines) > 1; t.lines = t.lines[1:] {
				size -= len(t.lines[0]) + 1
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

func (t *tail) String() string { return strings.Join(t.lines, "\n") }

// program finds a program: the operator's choice, else that of the PATH.
func (i *Installer) program(ctx context.Context, name string) (string, error) {
	var cause error
	if i.c.Program != nil {
		path, err := i.c.Program(ctx, name)
		if err == nil && path != "" {
			return path, nil
		}
		cause = err
	}
	if path := i.look(name); path != "" {
		return path, nil
	}
	e := tool.Errorf(tool.DependencyError, "%s is not on this machine", name).WithHint("Install %s, or let toolyard fetch it with: toolyard runtime install %s.", name, name)
	if cause != nil {
		e = tool.Errorf(tool.DependencyError, "%s is not on this machine and could not be fetched: %v", name, cause).
			WithHint("Install %s, or correct what kept it from being fetched.", name)
		e.Err = cause
	}
	return "", e
}

// look finds a program in the operator's PATH; "" if it is not there.
func (i *Installer) look(name string) string {
	if strings.ContainsAny(name, `/\`) {
		return ""
	}
	for _, dir := range filepath.SplitList(sandbox.LookupEnv(i.c.Env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, suffix := range programSuffixes() {
			path := filepath.Join(dir, name+suffix)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && executable(info) {
				return path
			}
		}
	}
	return ""
}

// toolchain is what installers and scripts may read, with the places of some
// programs that lie elsewhere.
func (i *Installer) toolchain(programs ...string) (sandbox.Toolchain, []string) {
	chain := sandbox.Toolchains(sandbox.LookupEnv(i.c.Env, "PATH"), sandbox.LookupEnv(i.c.Env, "HOME"))
	var first []string
	for _, program := range programs {
		if program == "" {
			continue
		}
		real, err := filepath.EvalSymlinks(program)
		if err != nil {
			continue
		}
		for _, file := range []string{program, real} {
			place := filepath.Dir(file)
			// What npm's program loads lies beside its bin directory.
			if home := filepath.Dir(place); filepath.Base(place) == "bin" && len(strings.Split(home, string(filepath.Separator))) > 3 {
				place = home
			}
			if !covered(chain.Mounts, place) {
				chain.Mounts = append(chain.Mounts, sandbox.Mount{Source: place})
			}
		}
		if dir := filepath.Dir(program); !slices.Contains(first, dir) {
			first = append(first, dir)
		}
	}
	return chain, append(first, slices.DeleteFunc(slices.Clone(chain.Path), func(dir string) bool { return slices.Contains(first, dir) })...)
}

func covered(mounts []sandbox.Mount, path string) bool {
	return slices.ContainsFunc(mounts, func(m sandbox.Mount) bool {
		return m.Target == "" && (path == m.Source || strings.HasPrefix(path, m.Source+string(filepath.Separator)))
	})
}

// maxDisk and maxInodes are how much one install may add to the disk, in bytes and
// in files: packages are archives, and archives can be bombs.
const (
	maxDisk   = 4 * sandbox.GiB
	maxInodes = 1_000_000
)

// profile is that of the installer and of all else that is run: the programs, and
// what it may write.
func (i *Installer) profile(ctx context.Context, chain sandbox.Toolchain, home string, write ...string) sandbox.Profile {
	p := sandbox.Profile{
		Kind: "service", Mounts: chain.Mounts, Home: home, Write: write,
		Protected: []string{}, // all that it may write is ours
		Wall:      i.c.Limit, Memory: 3 * sandbox.GiB, PIDs: 512, Tmp: 1 * sandbox.GiB, Disk: maxDisk, Inodes: maxInodes,
	}
	if end, ok := ctx.Deadline(); ok {
		p.Wall = max(time.Second, time.Until(end))
	}
	return p
}
