package pkgs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// Git says how repositories are fetched. The zero value works for those that
// anybody may read.
type Git struct {
	// Path is the PATH in which git and ssh are. Empty is /usr/local/bin:/usr/bin:/bin.
	Path string
	// Keys are files with private keys for ssh, KnownHosts one with the keys of
	// servers. Without it no server is believed. Git sees no other file of the
	// user's: no ~/.ssh, no agent, no credential helper.
	Keys       []string
	KnownHosts string
}

// repository is a source that is a git repository.
type repository struct {
	// url is what git is given, source what is remembered: without a password.
	url, source string
	scheme      string
	ref         string // "" is what HEAD is
	host        string // with its port; empty for a file
	path        string // of a file
}

var (
	scpLike = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)@([A-Za-z0-9][A-Za-z0-9.-]*):([^/-].*)$`)
	refName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+@-]{0,199}$`)
	hosts   = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
)

// isGit reports whether a source says itself that it is a repository.
func isGit(source string) bool {
	base, _, _ := strings.Cut(source, "#")
	return strings.HasPrefix(source, "git+") || strings.HasPrefix(source, "git:") || strings.HasPrefix(source, "ssh:") || scpLike.MatchString(base) ||
		strings.Contains(base, "://") && strings.HasSuffix(base, ".git")
}

// parseRepository reads a URL, or what ssh takes for one.
func parseRepository(source string) (*repository, error) {
	base, ref, _ := strings.Cut(source, "#")
	bad := func(format string, args ...any) error {
		return tool.Errorf(tool.ParameterError, "the repository %s %s", redacted(source), fmt.Sprintf(format, args...)).
			WithHint("A repository is https://host/path.git, ssh://host/path, git@host:path or git+file:///path, with #branch, #tag or #commit at its end.")
	}
	if ref != "" && (!refName.MatchString(ref) || strings.Contains(ref, "..") || strings.HasSuffix(ref, ".lock")) {
		return nil, bad("has no branch, tag or commit after its #")
	}
	r := &repository{ref: ref}
	if m := scpLike.FindStringSubmatch(base); m != nil && !strings.Contains(base, "://") {
		base = "ssh://" + m[1] + "@" + m[2] + "/" + m[3]
		if strings.HasPrefix(m[3], "~") {
			base = "ssh://" + m[1] + "@" + m[2] + "/" + m[3]
		}
	}
	u, err := url.Parse(strings.TrimPrefix(base, "git+"))
	if err != nil {
		return nil, bad("is no URL")
	}
	r.scheme = u.Scheme
	switch u.Scheme {
	case "https", "ssh":
		if !hosts.MatchString(u.Host) || len(u.Path) < 2 {
			return nil, bad("names no host and path")
		}
		if u.User != nil && strings.HasPrefix(u.User.Username(), "-") {
			return nil, bad("has a user that begins with a dash")
		}
		r.host = u.Host
		if u.Port() == "" {
			r.host += map[string]string{"https": ":443", "ssh": ":22"}[u.Scheme]
		}
	case "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return nil, bad("is not file:/// and an absolute path")
		}
		if r.path, err = filepath.EvalSymlinks(u.Path); err != nil {
			return nil, tool.Errorf(tool.NotFound, "there is no repository %s", u.Path)
		}
		u.Path = r.path
	default:
		return nil, bad("cannot be fetched by %q", u.Scheme)
	}
	u.RawQuery, u.Fragment = "", ""
	r.url = u.String()
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.User(u.User.Username())
		}
	}
	r.source = "git+" + u.String()
	if ref != "" {
		r.source += "#" + ref
	}
	return r, nil
}

var password = regexp.MustCompile(`://([^/@:]*):[^/@]*@`)

// redacted is a text with no passwords in its URLs.
func redacted(text string) string { return password.ReplaceAllString(text, "://$1:***@") }

// fetchGit gets what a repository has at one commit. Git runs in the sandbox,
// with an environment and a configuration that are made from nothing.
func (p *Packages) fetchGit(ctx context.Context, f *Fetched, dir string, progress func(Progress)) (string, error) {
	r, err := parseRepository(f.Source)
	if err != nil {
		return "", err
	}
	f.Source = r.source
	if p.c.Runner == nil {
		return "", tool.Errorf(tool.SandboxUnavailable, "repositories are fetched in the sandbox, and there is none").
			WithHint("Download the repository as an archive and install that.")
	}
	g := &gitRun{p: p, r: r, work: filepath.Join(f.stage.dir, "git"), home: filepath.Join(f.stage.dir, "home")}
	for _, d := range []string{g.work, g.home} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return "", err
		}
	}
	if err := g.ssh(); err != nil {
		return "", err
	}
	report(progress, Progress{Stage: "clone"})
	ref := r.ref
	if ref == "" {
		ref = "HEAD"
	}
	for _, step := range []struct {
		args   []string
		online bool
	}{
		{[]string{"init", "--quiet", "--template=", "--", "."}, false},
		{[]string{"fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", r.url, ref}, true},
		{[]string{"checkout", "--quiet", "--detach", "--no-recurse-submodules", "FETCH_HEAD", "--"}, false},
	} {
		if _, err := g.git(ctx, step.online, step.args...); err != nil {
			return "", err
		}
	}
	commit, err := g.git(ctx, false, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return "", err
	}
	f.Resolved = strings.TrimSpace(commit)
	err = p.copyChecked(ctx, f, g.work, dir, progress)
	f.Left = slices.DeleteFunc(f.Left, func(name string) bool { return name == ".git" }) // which nobody put there
	for _, d := range []string{g.work, g.home} {
		err = errors.Join(err, removeAll(d))
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(r.url, "/"), nil
}

// gitRun runs git for one repository.
type gitRun struct {
	p          *Packages
	r          *repository
	work, home string
	mounts     []sandbox.Mount
}

// ssh makes what ssh reads of the machine: a configuration, and a user with a
// home where nothing is. Git could be told another command, but would run that by
// a shell.
func (g *gitRun) ssh() error {
	if g.r.scheme != "ssh" {
		return nil
	}
	var b strings.Builder
	b.WriteString("BatchMode yes\nStrictHostKeyChecking yes\nGlobalKnownHostsFile none\nIdentitiesOnly yes\nIdentityAgent none\nForwardAgent no\nConnectTimeout 30\n")
	known := "none"
	if g.p.c.Git.KnownHosts != "" {
		known = g.p.c.Git.KnownHosts
	}
	for i, file := range append([]string{known}, g.p.c.Git.Keys...) {
		if strings.ContainsAny(file, "\"\n") || i > 0 && !filepath.IsAbs(file) {
			return tool.Errorf(tool.ParameterError, "%q cannot be named to ssh", file)
		}
		if i == 0 {
			fmt.Fprintf(&b, "UserKnownHostsFile \"%s\"\n", file)
		} else {
			fmt.Fprintf(&b, "IdentityFile \"%s\"\n", file)
		}
		if file != "none" {
			g.mounts = append(g.mounts, sandbox.Mount{Source: file})
		}
	}
	config, users := filepath.Join(g.home, "ssh_config"), filepath.Join(g.home, "passwd")
	user := fmt.Sprintf("user:x:%d:%d::%s:/bin/false\n", os.Getuid(), os.Getgid(), g.home)
	if os.Getuid() != 0 {
		user += "root:x:0:0::" + g.home + ":/bin/false\n" // whom the sandbox may make of us
	}
	g.mounts = append(g.mounts, sandbox.Mount{Source: config, Target: "/etc/ssh/ssh_config"}, sandbox.Mount{Source: users, Target: "/etc/passwd"})
	return errors.Join(os.WriteFile(config, []byte(b.String()), 0o644), os.WriteFile(users, []byte(user), 0o644))
}

// config is the whole of git's configuration.
func (g *gitRun) config() []string {
	var args []string
	for _, c := range []string{
		"protocol.allow=never", "protocol.ext.allow=never", "protocol." + g.r.scheme + ".allow=always",
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.excludesFile=/dev/null",
		"core.autocrlf=false", "core.protectHFS=true", "core.protectNTFS=true", "core.askPass=",
		"credential.helper=", "safe.directory=*", "submodule.recurse=false", "fetch.recurseSubmodules=false",
		"http.followRedirects=initial", "gc.auto=0", "maintenance.auto=false", "advice.detachedHead=false", "init.defaultBranch=main",
	} {
		args = append(args, "-c", c)
	}
	return args
}

const maxGitOutput = 64 << 10 // bytes of each output that are looked at

// git runs one command and returns what it printed.
func (g *gitRun) git(ctx context.Context, online bool, args ...string) (string, error) {
	path := g.p.c.Git.Path
	if path == "" {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	l := g.p.c.Limits
	cmd := sandbox.Cmd{
		Args: append(append([]string{"git"}, g.config()...), args...),
		Dir:  g.work,
		Env: []string{
			"PATH=" + path, "HOME=" + g.home, "LC_ALL=C", "TMPDIR=/tmp",
			"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
			"GIT_ALLOW_PROTOCOL=" + g.r.scheme, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false",
			"GIT_SSH=ssh", "GIT_SSH_VARIANT=ssh", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(g.work), "GIT_DISCOVERY_ACROSS_FILESYSTEM=0",
		},
		Profile: sandbox.Profile{
			Kind: "git", Write: []string{g.work, g.home}, Protected: []string{},
			Mounts: append(sandbox.Toolchains(path, "").Mounts, g.mounts...),
			Memory: sandbox.GiB, PIDs: 64, Wall: l.Time, CPU: l.Time,
			Disk: l.Unpacked + 2*l.Archive, Inodes: 2*l.Entries + 10_000,
		},
	}
	if online {
		if g.r.path != "" {
			cmd.Profile.Read = []string{g.r.path}
		} else {
			cmd.Profile.Network = sandbox.NetworkOf([]string{g.r.host})
		}
	}
	out, messages, result, err := g.run(ctx, cmd)
	if err != nil {
		return "", err
	}
	if e := context.Cause(ctx); e != nil {
		return "", cancelled(e)
	}
	if result.Ending.Reason != sandbox.EndExit || result.Ending.Code != 0 {
		return "", g.failed(args[0], messages, result)
	}
	return out, nil
}

// failed is the error of a command, with the last lines that it printed.
func (g *gitRun) failed(command, messages string, result sandbox.Result) error {
	var lines []string
	for line := range strings.Lines(redacted(strings.ReplaceAll(messages, g.r.url, g.r.source))) {
		line = strings.TrimSpace(line)
		if line == "" || line == "Please make sure you have the correct access rights" || line == "and the repository exists." {
			continue
		}
		lines = append(lines, line)
	}
	text := strings.ToValidUTF8(strings.Join(lines[max(0, len(lines)-4):], "; "), "�")
	if len(text) > 600 {
		text = strings.ToValidUTF8(text[:600], "") + "…"
	}
	e := tool.Errorf(tool.DependencyError, "git %s %s: %s", command, g.r.source, text)
	switch {
	case strings.Contains(messages, "couldn't find remote ref"), strings.Contains(messages, "not our ref"):
		e.Code = tool.NotFound
		return e.WithHint("Look at what stands after the #; without one it is the default branch.")
	case result.Ending.Reason == sandbox.EndDisk:
		e.Code = tool.ResourceExhausted
		return e.WithHint("The repository is larger than a tool may be.")
	case result.Ending.Reason != sandbox.EndExit:
		e.Message = fmt.Sprintf("git %s %s was ended: %s", command, g.r.source, result.Ending.Reason)
		return e
	case g.r.scheme == "ssh":
		return e.WithHint("Name the key and the file with known hosts in the configuration: git sees neither ~/.ssh nor an agent.")
	}
	return e.WithHint("Look at the address and whether anybody may read it.")
}

// run runs a command and collects what it prints, up to a limit.
func (g *gitRun) run(ctx context.Context, cmd sandbox.Cmd) (out, messages string, r sandbox.Result, err error) {
	var ends [2]*os.File
	texts := [2]chan string{make(chan string, 1), make(chan string, 1)}
	for i := range ends {
		read, write, err := os.Pipe()
		if err != nil {
			return "", "", r, errors.Join(err, closeAll(ends[:]))
		}
		ends[i] = write
		go func() { // ends with the last process that holds the pipe: Close ends them all
			defer read.Close()
			text, _ := io.ReadAll(io.LimitReader(read, maxGitOutput))
			io.Copy(io.Discard, read)
			texts[i] <- string(text)
		}()
	}
	cmd.Stdout, cmd.Stderr = ends[0], ends[1]
	process, err := g.p.c.Runner.Start(ctx, cmd)
	closeAll(ends[:])
	if err == nil {
		r = process.Wait(ctx)
		err = process.Close()
	}
	out, messages = <-texts[0], <-texts[1]
	return out, messages, r, err
}

func closeAll(files []*os.File) error {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
	return nil
}
