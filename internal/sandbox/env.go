package sandbox

import (
	"slices"
	"strings"
)

// loaders are variables that make a program load or run something that its user
// did not name, by exact name, or by prefix with a trailing *. To add one: a
// line here.
var loaders = []string{
	"LD_*", "DYLD_*", "GCONV_PATH", "GETCONF_DIR", "HOSTALIASES", "LOCALDOMAIN", "LOCPATH",
	"MALLOC_TRACE", "NIS_PATH", "NLSPATH", "RESOLV_HOST_CONF", "RES_OPTIONS", "TZDIR", "GLIBC_TUNABLES",
	"BASH_ENV", "ENV", "BASH_FUNC_*", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE", "IFS",
	"NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "NODE_REPL_EXTERNAL_MODULE", "NODE_V8_COVERAGE",
	"PYTHON*", "PERL5*", "PERLLIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS",
	"CLASSPATH", "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*", "PHP_INI_SCAN_DIR", "PHPRC",
	"GIT_EXEC_PATH", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF",
	"GIT_CONFIG*", "GIT_TEMPLATE_DIR", "SSH_ASKPASS", "SSH_AUTH_SOCK", "GOTOOLDIR", "TOOLYARD_*",
}

// cleanEnv is env without loaders and without what is not NAME=value.
func cleanEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		name, _, ok := strings.Cut(variable, "=")
		if !ok || name == "" || strings.ContainsRune(variable, 0) {
			return true
		}
		return Loads(name)
	})
}

// Loads reports whether a variable changes what a program loads or runs: it never
// passes into a sandbox.
func Loads(name string) bool {
	return slices.ContainsFunc(loaders, func(l string) bool {
		prefix, wild := strings.CutSuffix(l, "*")
		return name == l || wild && strings.HasPrefix(name, prefix)
	})
}

func lookupEnv(env []string, name string) string {
	for _, variable := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}
