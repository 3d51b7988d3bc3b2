package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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

// guest is the process of a stdio server, confined, with all that descends from
// it.
type guest struct {
	process sandbox.Process
	in      *os.File // its stdin
	out     *os.File // its stdout
	reading sync.WaitGroup
	errOut  *os.File
	once    sync.Once
}

// kindness is how long a server may take to end once its stdin is closed.
const kindness = 2 * time.Second

// launch starts the process of a stdio server; s has no references left.
func (p *peer) launch(ctx context.Context, s Server) (*guest, error) {
	c := p.g.config
	if c.Runner == nil {
		return nil, tool.Errorf(tool.SandboxUnavailable, "there is no sandbox to run the MCP server %s in", p.name).WithHint("Use a server that is reached by its URL.")
	}
	home, err := p.g.homeOf(p.name)
	if err != nil {
		return nil, err
	}
	cmd, err := p.command(ctx, s, home)
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close(), outR.Close(), outW.Close())
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	// The process outlives the start: only end ends it.
	process, err := c.Runner.Start(context.WithoutCancel(ctx), cmd)
	inR.Close()
	outW.Close()
	errW.Close()
	if err != nil {
		return nil, errors.Join(err, inW.Close(), outR.Close(), errR.Close())
	}
	g := &guest{process: process, in: inW, out: outR, errOut: errR}
	p.log.add("started: " + strings.Join(cmd.Args, " "))
	g.reading.Go(func() { p.log.copy(errR) })
	return g, nil
}

// end closes the server's stdin, waits a little and then ends the whole tree.
func (g *guest) end() {
	g.once.Do(func() {
		g.in.Close()
		select {
		case <-g.process.Done():
		case <-time.After(kindness):
		}
		g.process.Kill(sandbox.EndKilled)
		_ = g.process.Close()
		g.out.Close()
		g.errOut.Close()
		g.reading.Wait()
	})
}

// ending says how the process ended, if it has.
func (g *guest) ending() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	switch e := g.process.Wait(ctx).Ending; e.Reason {
	case "":
		return ""
	case sandbox.EndExit:
		return fmt.Sprintf("exit code %d", e.Code)
	case sandbox.EndSignal:
		return "signal " + e.Signal
	default:
		return "ended by its limit of " + e.Reason
	}
}

// confinement is the sandbox that the process is in. It does not wait.
func (g *guest) confinement() *tool.SandboxMeta {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	meta := g.process.Wait(now).Sandbox
	return &meta
}

// command is what is run, and what it may touch.
func (p *peer) command(ctx context.Context, s Server, home string) (sandbox.Cmd, error) {
	c := p.g.config
	profile, err := p.profile(s, home)
	if err != nil {
		return sandbox.Cmd{}, err
	}
	chain := sandbox.Toolchains(c.Path, c.UserHome)
	profile.Mounts = append(profile.Mounts, chain.Mounts...)
	env := chain.Env(home)
	args := append([]string{s.Command}, s.Args...)
	if packaged, err := p.packaged(ctx, s, home); err != nil {
		return sandbox.Cmd{}, err
	} else if packaged != nil {
		args = packaged.args
		profile.Mounts = append(profile.Mounts, packaged.mounts...)
		profile.Read = append(profile.Read, packaged.read...)
		profile.Write = append(profile.Write, packaged.write...)
		env = withPath(env, packaged.path)
	}
	if program := args[0]; strings.HasPrefix(program, "~/") {
		args[0] = filepath.Join(c.UserHome, program[2:])
	}
	if program := args[0]; filepath.IsAbs(program) && p.entry.Workspace == "" {
		if real, err := filepath.EvalSymlinks(program); err == nil {
			profile.Read = append(profile.Read, filepath.Dir(real))
		}
	}
	env = append(env, "HOME="+home, "TMPDIR=/tmp", "LANG=C.UTF-8", "TERM=dumb", "npm_config_update_notifier=false", "NO_UPDATE_NOTIFIER=1")
	for name, value := range s.Env {
		if sandbox.Loads(name) && p.entry.Workspace != "" {
			continue
		}
		if name == "PATH" {
			env = withPath(env, filepath.SplitList(value))
			continue
		}
		env = append(env, name+"="+value)
	}
	dir, err := p.directory(s, home)
	if err != nil {
		return sandbox.Cmd{}, err
	}
	return sandbox.Cmd{Args: args, Env: env, Dir: dir, Profile: profile}, nil
}

// withPath puts directories in front of the PATH of env.
func withPath(env []string, dirs []string) []string {
	if len(dirs) == 0 {
		return env
	}
	path := slices.Concat(dirs, filepath.SplitList(sandbox.LookupEnv(env, "PATH")))
	return append(slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "PATH=") }),
		"PATH="+strings.Join(path, string(filepath.ListSeparator)))
}

// directory is where a server starts.
func (p *peer) directory(s Server, home string) (string, error) {
	base := home
	sees := s.Sandbox.Workspaces != "none" && len(p.g.workspaces(p.entry)) > 0
	if sees {
		base = p.g.workspaces(p.entry)[0]
	}
	dir := p.g.expandHome(s.Cwd)
	switch {
	case dir == "":
		dir = base
	case !filepath.IsAbs(dir):
		dir = filepath.Join(base, dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", tool.Errorf(tool.ParameterError, "the directory %s of the MCP server %s cannot be had: %v", dir, p.name, err).WithHint("Correct cwd, or make the directory.")
	}
	return real, nil
}

// What a server may leave in its home and in what it may write, together.
const (
	defaultDisk   = 1 << 30
	defaultInodes = 100_000
)

// profile is what the server is granted.
func (p *peer) profile(s Server, home string) (sandbox.Profile, error) {
	c, b := p.g.config, s.Sandbox
	profile := sandbox.Profile{
		Kind: "gateway", Home: home, Network: sandbox.NetworkOf(b.Network), Memory: int64(b.Memory), PIDs: b.PIDs,
		Disk: int64(b.Disk), Inodes: defaultInodes, Wall: -1, MinLevel: c.MinLevel,
	}
	if profile.Disk == 0 {
		profile.Disk = defaultDisk
	}
	if b.Level != "" {
		level, err := sandbox.ParseLevel(b.Level)
		if err != nil {
			return profile, err
		}
		profile.MinLevel = level
	}
	for _, dir := range p.g.workspaces(p.entry) {
		switch b.Workspaces {
		case "none":
			continue
		case "write":
			profile.Write = append(profile.Write, dir)
		default:
			profile.Read = append(profile.Read, dir)
		}
		if c.Deny != nil {
			denied, err := c.Deny(dir)
			if err != nil {
				return profile, err
			}
			profile.Deny = append(profile.Deny, denied...)
		}
	}
	for _, grant := range []struct {
		key  string
		dirs []string
		to   *[]string
	}{{"sandbox.read", b.Read, &profile.Read}, {"sandbox.write", b.Write, &profile.Write}} {
		for _, dir := range grant.dirs {
			path, err := p.grant(dir)
			if err != nil {
				return profile, tool.Errorf(tool.ParameterError, "%s of the MCP server %s: %v", grant.key, p.name, err).WithHint("Name a directory that is there, as a whole path.")
			}
			*grant.to = append(*grant.to, path)
		}
	}
	// What the operator's own entry names on the command line, the server may read.
	if p.entry.Workspace == "" {
		for _, arg := range s.Args {
			if path, err := p.grant(arg); err == nil && filepath.IsAbs(p.g.expandHome(arg)) && path != "/" && !inside(c.UserHome, path) {
				profile.Read = append(profile.Read, path)
			}
		}
	}
	if c.Protected != nil {
		profile.Protected = []string{}
		for _, dir := range profile.Write {
			profile.Protected = append(profile.Protected, c.Protected(dir)...)
		}
	}
	return profile, nil
}

// grant makes a directory or file of the configuration absolute and real, and
// refuses what belongs to the runtime.
func (p *peer) grant(dir string) (string, error) {
	path := p.g.expandHome(dir)
	if !filepath.IsAbs(path) {
		spaces := p.g.workspaces(p.entry)
		if len(spaces) == 0 {
			return "", fmt.Errorf("%q is no whole path", dir)
		}
		path = filepath.Join(spaces[0], path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if own := p.g.config.Home; inside(real, own) || inside(own, real) {
		if home := filepath.Join(own, "gateway", p.name); !inside(real, home) {
			return "", fmt.Errorf("%q belongs to the runtime itself", dir)
		}
	}
	return real, nil
}

// inside reports whether path is dir or below it.
func inside(path, dir string) bool {
	if path == "" || dir == "" {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// lines reads lines of at most most bytes; what is longer is cut.
func lines(r io.Reader, most int, each func(string)) {
	in := bufio.NewReaderSize(r, most)
	cut := false
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 && !cut {
			each(strings.TrimRight(strings.ToValidUTF8(string(line), "\uFFFD"), "\r\n"))
		}
		cut = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !cut {
			return
		}
	}
}
