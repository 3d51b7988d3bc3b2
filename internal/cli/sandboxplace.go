package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// privateTmp is the sandbox's own directory for temporary files; otherTmp stands
// for it where the machine's /tmp was granted.
const (
	privateTmp = "/tmp"
	otherTmp   = "/dev/shm"
)

// place says where the command runs: the current directory, which it may read,
// and among which programs.
func (s *sandboxFlags) place(cmd *sandbox.Cmd) error {
	p := &cmd.Profile
	if p.Mounts == nil {
		p.Mounts = s.chain.Mounts
	}
	dir, err := s.directory()
	if err != nil {
		return err
	}
	cmd.Dir = dir
	if within(dir, p.Read) || within(dir, p.Write) {
		return nil
	}
	switch {
	case dir == "/" || dir == privateTmp || dir == otherTmp:
		// The sandbox has its own, and a root cannot be granted as a whole.
		return nil
	case strings.HasPrefix(dir+"/", "/proc/") || strings.HasPrefix(dir+"/", "/dev/"):
		cmd.Dir = "/"
		return nil
	}
	p.Read = append(p.Read, dir)
	// What stands in for itself by being here must not open what nobody meant.
	for _, secret := range sandbox.Secrets(userHome()) {
		if within(secret, []string{dir}) && !within(secret, slices.Concat(p.Read[:len(p.Read)-1], p.Write)) {
			p.Deny = append(p.Deny, secret)
		}
	}
	return nil
}

// directory is where the command runs, with no symlink in it: that is what its
// own getcwd says.
func (s *sandboxFlags) directory() (string, error) {
	name := s.cwd
	if name == "" {
		name = "."
	}
	path, err := absolute("--cwd", name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		if s.cwd == "" {
			return "", usagef("the current directory cannot be found: %s", reason(err)).withHint("Go to another, or name one with --cwd.")
		}
		return "", usagef("--cwd %s: %s", s.cwd, reason(err))
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return "", usagef("--cwd %s is not a directory", name)
	}
	return path, nil
}

// within reports whether path is one of dirs or below it, as the file system
// has them.
func within(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return false
		}
		rel, err := filepath.Rel(real, path)
		return err == nil && filepath.IsLocal(rel)
	})
}

// surround makes the environment: nothing of this one but what names the
// terminal, the language and the programs.
func (s *sandboxFlags) surround(cmd *sandbox.Cmd) error {
	p := &cmd.Profile
	home := p.Home
	if home == "" {
		home = privateTmp
		if within(privateTmp, p.Read) || within(privateTmp, p.Write) {
			home = otherTmp
		}
	}
	terminal := os.Getenv("TERM")
	if terminal == "" {
		terminal = "dumb"
	}
	cmd.Env = append(s.programs(p, home), "HOME="+home, "TERM="+terminal, "LANG="+language())
	if home == otherTmp {
		cmd.Env = append(cmd.Env, "TMPDIR="+otherTmp)
	}
	for _, variable := range s.env {
		name, _, given := strings.Cut(variable, "=")
		switch {
		case name == "" || strings.ContainsRune(variable, 0):
			return usagef("--env does not take %q", oneLine(variable, 40)).withHint("It takes NAME=VALUE, or NAME for its value here.")
		case sandbox.Loads(name):
			return usagef("--env %s is never passed into a sandbox", name).withHint("It changes what programs load or run. Set it in the command: -- env %s=… COMMAND", name)
		case !given:
			value, set := os.LookupEnv(name)
			if !set {
				return usagef("--env %s: there is no such variable here", name).withHint("Give its value: --env %s=VALUE", name)
			}
			variable += "=" + value
		}
		cmd.Env = append(slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") }), variable)
	}
	return nil
}

// programs are the variables by which the language runtimes find themselves.
// Those that only name caches in the home are left to their defaults.
func (s *sandboxFlags) programs(p *sandbox.Profile, home string) []string {
	env := s.chain.Env(home)
	if p.Network.Mode != "" && p.Network.Mode != sandbox.NetworkNone {
		env = s.chain.Online(env, home)
	}
	return slices.DeleteFunc(env, func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return name != "GOMODCACHE" && strings.HasPrefix(value, home+"/")
	})
}

// language is the caller's if it is one of UTF-8.
func language() string {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		value := os.Getenv(name)
		if upper := strings.ToUpper(value); strings.HasSuffix(upper, "UTF-8") || strings.HasSuffix(upper, "UTF8") {
			return value
		}
	}
	return "C.UTF-8"
}

// userHome is the caller's home directory; "" if there is none.
func userHome() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}
