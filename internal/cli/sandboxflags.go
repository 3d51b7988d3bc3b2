package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// sandboxFlags are the flags of `sandbox run` and `sandbox explain`, as they
// were typed.
type sandboxFlags struct {
	level                      string
	read, write, deny, protect []string
	net                        []string
	memory, pids, cpu, wall    string
	disk, output, files        string
	env                        []string
	cwd, profile               string

	chain sandbox.Toolchain // this machine's, found when the flags are read
}

// add declares the flags. To add one: a line here and its line in grant.
func (s *sandboxFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.SetInterspersed(false)
	f.StringVar(&s.level, "level", "", "refuse to run with less than this `LEVEL`: L2, L2b, L1 or L0 (default L1); docker runs it in a container of its own, made by the daemon at $DOCKER_HOST")
	f.StringArrayVar(&s.read, "read", nil, "a `DIR` or file that the command may read; repeatable")
	f.StringArrayVar(&s.write, "write", nil, "a `DIR` or file that the command may read and change; repeatable")
	f.StringArrayVar(&s.deny, "deny", nil, "a `PATH` that is absent although something above it is granted; repeatable")
	f.StringArrayVar(&s.protect, "protect", nil, "a `PATH` that cannot be changed below what --write grants, besides .git/hooks, .git/config, .env*, settings of editors and agents, and shell start files; repeatable")
	f.StringArrayVar(&s.net, "net", nil, "`WHERE` the command may connect to: none (default), all (every public address), or entries joined by commas or repeated: HOST[:PORT], *.HOST[:PORT], HOST=ADDRESS[:PORT], ADDRESS:PORT, RANGE; without a port 80 and 443. A private or special address must be named, as ADDRESS or in a RANGE")
	f.StringVar(&s.memory, "memory", "", "the memory of all its processes: a `SIZE` (default 1G)")
	f.StringVar(&s.pids, "pids", "", "how many processes and threads it may have: a `NUMBER` (default 256)")
	f.StringVar(&s.cpu, "cpu", "", "the CPU `TIME` of all its processes (default none)")
	f.StringVar(&s.wall, "wall", "", "the `TIME` that it may take (default none)")
	f.StringVar(&s.disk, "disk", "", "the `SIZE` by which what it may change grows (default none)")
	f.StringVar(&s.output, "output", "", "the `SIZE` of what it prints on stdout and stderr together (default none)")
	f.StringVar(&s.files, "nofile", "", "the `NUMBER` of open files of one process (default 4096)")
	f.StringArrayVar(&s.env, "env", nil, "an environment variable `NAME=VALUE`, or NAME for its value here; repeatable")
	f.StringVar(&s.cwd, "cwd", "", "run in this `DIR`, which may be read in place of the current one")
	f.StringVar(&s.profile, "profile", "", "a `FILE` with a profile as JSON; flags count instead of what it says")
}

// command is what the flags and the rest of the command line ask for.
func (s *sandboxFlags) command(c *cobra.Command, args []string, needed bool) (sandbox.Cmd, error) {
	args, err := sandboxArgs(c, args, needed)
	if err != nil {
		return sandbox.Cmd{}, err
	}
	s.chain = sandbox.Toolchains(os.Getenv("PATH"), userHome())
	cmd := sandbox.Cmd{Args: args}
	if s.profile != "" {
		if cmd.Profile, err = readProfile(s.profile); err != nil {
			return cmd, err
		}
	}
	if cmd.Profile.Kind == "" {
		cmd.Profile.Kind = "run"
	}
	if err := s.grant(&cmd.Profile); err != nil {
		return cmd, err
	}
	if err := s.place(&cmd); err != nil {
		return cmd, err
	}
	err = s.surround(&cmd)
	return cmd, err
}

// readProfile reads a profile's file.
func readProfile(name string) (sandbox.Profile, error) {
	var p sandbox.Profile
	const most = 1 << 20
	f, err := os.Open(name)
	if err != nil {
		return p, usagef("--profile %s: %s", name, reason(err))
	}
	defer f.Close()
	content, err := readAll(f, name)
	switch {
	case err != nil:
		return p, usagef("--profile %s: %s", name, reason(err))
	case len(content) > most:
		return p, usagef("--profile %s is over 1 MiB", name)
	}
	if err := json.Unmarshal(profileOf([]byte(content)), &p); err != nil {
		return p, usagef("--profile %s: %s", name, strings.TrimPrefix(err.Error(), "sandbox profile: ")).
			withHint("`toolyard sandbox explain --json` prints one.")
	}
	if p.Kind != "" && !slices.Contains(sandbox.Kinds(), p.Kind) {
		return p, usagef("--profile %s: there is no kind %q", name, p.Kind).withHint("It takes %s.", strings.Join(sandbox.Kinds(), ", "))
	}
	for _, path := range slices.Concat(p.Read, p.Write) {
		if !filepath.IsAbs(path) {
			return p, usagef("--profile %s: the path %q is not absolute", name, path)
		}
		if _, err := os.Stat(path); err != nil {
			return p, usagef("--profile %s: %s: %s", name, path, reason(err))
		}
	}
	return p, nil
}

// profileOf is the profile in what explain --json prints, and what is a profile
// itself as it is.
func profileOf(content []byte) []byte {
	var explained struct{ Profile json.RawMessage }
	if err := json.Unmarshal(content, &explained); err == nil && len(explained.Profile) > 0 {
		return explained.Profile
	}
	return content
}

// grant puts what the flags say into a profile.
func (s *sandboxFlags) grant(p *sandbox.Profile) error {
	if s.level != "" {
		level, err := sandbox.ParseLevel(s.level)
		if err != nil {
			return usagef("--level does not take %q", oneLine(s.level, 40)).withHint("It takes L0, L1, L2b, L2, L3 and docker.")
		}
		p.MinLevel = level
	}
	for _, set := range []struct {
		flag string
		from []string
		to   *[]string
		glob bool
	}{{"--read", s.read, &p.Read, false}, {"--write", s.write, &p.Write, false}, {"--deny", s.deny, &p.Deny, true}} {
		for _, name := range set.from {
			paths, err := existing(set.flag, name, set.glob)
			if err != nil {
				return err
			}
			*set.to = append(*set.to, paths...)
		}
	}
	for _, name := range s.protect {
		path, err := absolute("--protect", name)
		if err != nil {
			return err
		}
		if p.Protected == nil {
			p.Protected = sandbox.DefaultProtected()
		}
		p.Protected = append(p.Protected, path)
	}
	if err := s.grantNetwork(p); err != nil {
		return err
	}
	return s.limit(p)
}

func (s *sandboxFlags) grantNetwork(p *sandbox.Profile) error {
	var entries []string
	for _, text := range s.net {
		for entry := range strings.SplitSeq(text, ",") {
			if entry = strings.TrimSpace(entry); entry == "" {
				return usagef("--net does not take %q", oneLine(text, 80)).withHint("It takes none, all, or entries such as registry.npmjs.org,git.test=127.0.0.1:8080.")
			}
			entries = append(entries, entry)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	for _, entry := range entries {
		if len(entries) > 1 && (entry == sandbox.NetworkNone || entry == sandbox.NetworkAll) {
			return usagef("--net %s stands alone", entry).withHint("Leave out %s, or the other entries.", entry)
		}
	}
	p.Network = sandbox.Network{Mode: sandbox.NetworkNone}
	if entries[0] != sandbox.NetworkNone {
		p.Network = sandbox.NetworkOf(entries)
	}
	if _, err := p.Network.Entries(); err != nil {
		e := tool.AsError(err)
		return usagef("--net: %s", e.Message).withHint("%s", e.Hint)
	}
	return nil
}

// limit puts the limits into a profile.
func (s *sandboxFlags) limit(p *sandbox.Profile) error {
	for _, set := range []struct {
		flag, text string
		to         *int64
	}{{"memory", s.memory, &p.Memory}, {"disk", s.disk, &p.Disk}, {"output", s.output, &p.Output}} {
		n, ok := sandbox.ParseSize(set.text)
		if !ok {
			return usagef("--%s does not take %q", set.flag, oneLine(set.text, 40)).withHint("It takes a size such as 256M, 1GiB or 1048576, or none.")
		}
		replace(set.to, n)
	}
	for _, set := range []struct {
		flag, text string
		to         *int
	}{{"pids", s.pids, &p.PIDs}, {"nofile", s.files, &p.Files}} {
		n, ok := parseCount(set.text)
		if !ok {
			return usagef("--%s does not take %q", set.flag, oneLine(set.text, 40)).withHint("It takes a number from 1, or none.")
		}
		replace(set.to, n)
	}
	for _, set := range []struct {
		flag, text string
		to         *time.Duration
	}{{"cpu", s.cpu, &p.CPU}, {"wall", s.wall, &p.Wall}} {
		d, ok := parseTime(set.text)
		if !ok {
			return usagef("--%s does not take %q", set.flag, oneLine(set.text, 40)).withHint("It takes a time such as 500ms, 30s, 5m or 90 (seconds), or none.")
		}
		replace(set.to, d)
	}
	return nil
}

func replace[T comparable](to *T, value T) {
	var zero T
	if value != zero {
		*to = value
	}
}

// noLimit is what a profile takes for "no limit".
const noLimit = -1

// plainNumber refuses what ParseFloat takes besides digits: 1e3, 0x1p4, inf, _.
func plainNumber(text string) bool {
	return strings.Trim(strings.TrimSpace(text), "0123456789.") == ""
}

// parseCount reads "64". Nothing is zero, "none" is no limit.
func parseCount(text string) (int, bool) {
	switch text {
	case "":
		return 0, true
	case "none":
		return noLimit, true
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil && n > 0
}

// parseTime reads "5s" or a number of seconds. Nothing is zero, "none" is no
// limit.
func parseTime(text string) (time.Duration, bool) {
	switch text {
	case "":
		return 0, true
	case "none":
		return noLimit, true
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if !plainNumber(text) || n*float64(time.Second) < 1 || n*float64(time.Second) > math.MaxInt64/2 {
			return 0, false
		}
		return time.Duration(n * float64(time.Second)), true
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d > 0
}

// absolute is a path as typed, from here; ~/ is the home, which shells leave
// alone behind "=".
func absolute(flag, name string) (string, error) {
	if name == "" {
		return "", usagef("%s needs a path", flag)
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			name = filepath.Join(home, rest)
		}
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", usagef("%s %s: %s", flag, name, reason(err))
	}
	return path, nil
}

// existing is a path as typed that must be there: a misspelt --deny would hide
// nothing. A pattern may meet nothing.
func existing(flag, name string, glob bool) ([]string, error) {
	path, err := absolute(flag, name)
	if err != nil {
		return nil, err
	}
	_, err = os.Lstat(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err == nil {
		return []string{path}, nil
	}
	if glob && strings.ContainsAny(name, "*?[") {
		found, err := filepath.Glob(path)
		if err != nil {
			return nil, usagef("%s does not take %q: %v", flag, oneLine(name, 80), err)
		}
		return found, nil
	}
	e := usagef("%s %s: %s", flag, name, reason(err))
	if flag == "--write" && errors.Is(err, fs.ErrNotExist) {
		return nil, e.withHint("Make it first: mkdir -p %s", name)
	}
	return nil, e
}

// reason is an error of the file system without the call and the path.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}
