package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Toolchain is what a command needs to run the programs that the operator has:
// what must be visible, and the search path for it.
type Toolchain struct {
	Mounts []Mount
	// Path are the directories of the operator's PATH that are visible, in order.
	Path []string
}

// systemPaths are the parts of the machine that hold programs and what they
// load, and nothing that is anybody's secret. To add one: a line here.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates",
	"/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/magic", "/etc/services", "/etc/protocols",
	"/etc/os-release", "/etc/lsb-release", "/etc/debian_version", "/etc/inputrc", "/etc/terminfo", "/etc/fonts",
	"/etc/chromium", "/etc/chromium.d", "/etc/java", "/etc/python3", "/etc/perl", "/etc/vim", "/etc/gai.conf", "/etc/host.conf", "/etc/locale.alias",
	"/sys/devices/system/cpu", // how many there are; several runtimes ask
}

// certificatePaths are the machine's public certificates and where they are
// linked to: what a command needs to know whom it talks to. Every network grants
// them.
var certificatePaths = []string{
	"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem",
	"/etc/pki/ca-trust/extracted", "/etc/ca-certificates", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
}

// homePaths are toolchains in the operator's home: programs and packages, never
// the directories around them, where credentials lie (~/.cargo/credentials.toml,
// ~/.npmrc). Of pyenv not pyenv.d: its hooks write to the shims, and fail pip for
// it.
var homePaths = []string{
	"go/bin", "go/pkg/mod", ".local/bin", ".local/lib", ".local/share/pnpm", ".local/share/uv", ".local/share/mise/installs",
	".cargo/bin", ".cargo/registry", ".cargo/git", ".cargo/env", ".rustup", ".nvm/versions", ".nvm/alias", ".nvm/nvm.sh",
	".pyenv/bin", ".pyenv/libexec", ".pyenv/shims", ".pyenv/versions", ".pyenv/version", ".pyenv/plugins",
	".rbenv/bin", ".rbenv/libexec", ".rbenv/shims", ".rbenv/versions", ".rbenv/version",
	".bun/bin", ".deno/bin", ".volta/bin", ".volta/tools", ".sdkman/candidates", ".asdf/installs", ".asdf/shims",
	".m2/repository", ".gradle/wrapper", "sdk",
}

// Toolchains lists what of the operator's tools a command may read: the machine's
// programs, the directories of path (a PATH), and known places below home. A
// directory of path is granted only if it is no home, holds no home, and is not
// hidden in one outside of the known places.
func Toolchains(path, home string) Toolchain {
	var t Toolchain
	seen := map[string]bool{}
	add := func(dir string) bool {
		if seen[dir] {
			return true
		}
		if _, err := os.Stat(dir); err != nil {
			return false
		}
		seen[dir] = true
		t.Mounts = append(t.Mounts, Mount{Source: dir})
		return true
	}
	for _, dir := range systemPaths {
		add(dir)
	}
	if home != "" {
		for _, dir := range homePaths {
			add(filepath.Join(home, dir))
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) || !programs(dir, home) {
			continue
		}
		if dir = filepath.Clean(dir); add(dir) {
			if !slices.Contains(t.Path, dir) {
				t.Path = append(t.Path, dir)
			}
			add(toolchainRoot(dir, home))
		}
	}
	return t
}

// toolchainRoot is the directory around a bin directory that its programs need:
// GOROOT, a Node or a Java installation. "" where there is none.
func toolchainRoot(dir, home string) string {
	root := filepath.Dir(dir)
	if filepath.Base(dir) != "bin" || root == "/" || root == home || root == filepath.Join(home, ".local") {
		return ""
	}
	for _, sign := range []string{"pkg/tool", "lib/node_modules", "lib/modules", "lib/rustlib", "conf/security", "pyvenv.cfg"} {
		if _, err := os.Stat(filepath.Join(root, sign)); err == nil {
			return root
		}
	}
	return ""
}

// secretDirs below a home are never shown, whatever PATH says.
var secretDirs = []string{".ssh", ".gnupg", ".aws", ".azure", ".config", ".kube", ".docker", ".toolyard", ".password-store", ".mozilla"}

// secretFiles below a home hold credentials, or tell what was typed.
var secretFiles = []string{
	".netrc", ".npmrc", ".pypirc", ".yarnrc.yml", ".git-credentials", ".pgpass", ".my.cnf", ".vault-token", ".cargo/credentials.toml",
	".cargo/credentials", ".gem/credentials", ".m2/settings.xml", ".terraform.d/credentials.tfrc.json", ".claude", ".claude.json", ".codex", ".gemini",
	".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".lesshst", ".viminfo",
	".local/share/keyrings", ".thunderbird",
}

// Secrets lists what exists below home that no command should see unless it was
// named: credentials, keys, histories, settings that hold them.
func Secrets(home string) []string {
	if home == "" {
		return nil
	}
	var found []string
	for _, name := range slices.Concat(secretDirs, secretFiles) {
		path := filepath.Join(home, name)
		if _, err := os.Stat(path); err == nil {
			found = append(found, path)
		}
	}
	return found
}

// programs reports whether a directory of PATH may be shown: not the root, no
// home, nothing that a home lies in, no place for secrets.
func programs(dir, home string) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || real == "/" || inside(real, "/proc") || inside(real, "/dev") || inside(real, "/sys") ||
		inside(real, "/etc") || inside(real, "/tmp") || inside(real, "/var") || inside(real, "/run") {
		return false
	}
	for _, h := range []string{home, "/root"} {
		if h == "" {
			continue
		}
		if inside(h, real) {
			return false
		}
		for _, secret := range secretDirs {
			if inside(real, filepath.Join(h, secret)) {
				return false
			}
		}
	}
	return filepath.Dir(real) != "/home" && real != "/home"
}

// Env is the environment that goes with the toolchain: PATH, and caches in the
// private home, because the operator's are not for writing. The module cache is
// the operator's, read-only, so the network is not needed for what is in it.
func (t Toolchain) Env(privateHome string) []string {
	cache := filepath.Join(privateHome, ".cache")
	env := []string{
		"PATH=" + strings.Join(t.Path, ":"),
		"GOCACHE=" + filepath.Join(cache, "go-build"),
		"GOTELEMETRY=off",
		"GOTOOLCHAIN=local",
		"CARGO_HOME=" + filepath.Join(privateHome, ".cargo"),
		"npm_config_cache=" + filepath.Join(cache, "npm"),
		"npm_config_update_notifier=false",
		"PIP_CACHE_DIR=" + filepath.Join(cache, "pip"),
		"PIP_DISABLE_PIP_VERSION_CHECK=1",
		// To try again what no network can do takes npm more than a minute.
		"npm_config_fetch_retries=0",
		"PIP_RETRIES=0",
		"XDG_CACHE_HOME=" + cache,
	}
	for _, m := range t.Mounts {
		dir := m.target()
		switch {
		case strings.HasSuffix(dir, "/go/pkg/mod"):
			env = append(env, "GOMODCACHE="+dir, "GOPROXY=off", "GOSUMDB=off")
		case strings.HasSuffix(dir, "/.rustup"):
			env = append(env, "RUSTUP_HOME="+dir)
		case strings.HasSuffix(dir, "/.pyenv/versions"):
			env = append(env, "PYENV_ROOT="+filepath.Dir(dir))
		case strings.HasSuffix(dir, "/.nvm/versions"):
			env = append(env, "NVM_DIR="+filepath.Dir(dir))
		}
	}
	return env
}

// Online is env, from Env, for commands with a network: modules that the
// operator's cache lacks go to one in the private home, and what it has is taken
// from there first.
func (t Toolchain) Online(env []string, privateHome string) []string {
	env = slices.DeleteFunc(env, func(variable string) bool {
		return strings.HasPrefix(variable, "npm_config_fetch_retries=") || strings.HasPrefix(variable, "PIP_RETRIES=")
	})
	for i := range t.Mounts {
		dir := t.Mounts[i].target()
		if !strings.HasSuffix(dir, "/go/pkg/mod") {
			continue
		}
		env = slices.DeleteFunc(env, func(variable string) bool {
			name, _, _ := strings.Cut(variable, "=")
			return name == "GOMODCACHE" || name == "GOPROXY" || name == "GOSUMDB"
		})
		return append(env,
			"GOMODCACHE="+filepath.Join(privateHome, ".cache", "go-mod"),
			"GOPROXY=file://"+filepath.Join(dir, "cache", "download")+",https://proxy.golang.org,direct",
		)
	}
	return env
}
