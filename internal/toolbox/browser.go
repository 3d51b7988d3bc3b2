package toolbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// What a tool asks for that drives a browser and says nothing itself: one with an
// empty page takes about 400 MiB.
const browserMemory = 1536 << 20 // bytes

// drivers are the packages that start a browser. A tool that depends on one sees
// the machine's.
var drivers = []string{"playwright", "playwright-core", "@playwright/test", "puppeteer", "puppeteer-core", "chrome-launcher"}

func drivesBrowser(def *definition.Definition) bool {
	return slices.ContainsFunc(def.Dependencies, func(d definition.Dependency) bool {
		return d.Kind == definition.Package && slices.Contains(drivers, d.Name)
	})
}

// browsers are the names of the machine's browsers that the drivers speak to.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// browser shows a tool that drives one the machine's browser, and tells each
// driver in its own way where it is. A machine without a browser is no error: the
// driver says so.
func (b *Box) browser(ctx context.Context, def *definition.Definition, at site, p *plan) (map[string]string, error) {
	if !drivesBrowser(def) {
		return nil, nil
	}
	for _, name := range browsers {
		command, err := b.config.Runtimes.Command(ctx, name)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			continue
		}
		p.profile.Mounts = append(p.profile.Mounts, command.Mounts...)
		env := map[string]string{"CHROME_PATH": command.Program, "PUPPETEER_EXECUTABLE_PATH": command.Program}
		dir, err := b.playwrightBrowsers(at.modules, command.Program)
		if err != nil {
			return nil, err
		}
		if dir != "" {
			p.profile.Read = append(p.profile.Read, dir)
			env["PLAYWRIGHT_BROWSERS_PATH"] = dir
		}
		return env, nil
	}
	return nil, nil
}

// playwrightBrowsers is a directory in which the Playwright of a tool finds the
// program as the browser that it would have downloaded; "" if the tool has no
// Playwright.
func (b *Box) playwrightBrowsers(modules, program string) (string, error) {
	links := playwrightPaths(modules)
	if len(links) == 0 {
		return "", nil
	}
	sum := sha256.New()
	for _, s := range append(slices.Clone(links), program) {
		_, _ = io.WriteString(sum, s+"\x00")
	}
	dir := filepath.Join(b.config.Home, "cache", "browsers", hex.EncodeToString(sum.Sum(nil)[:8]))
	if exists(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), ".new-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(made)
	if err := os.Chmod(made, 0o755); err != nil {
		return "", err
	}
	for _, link := range links {
		path := filepath.Join(made, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.Symlink(program, path); err != nil {
			return "", err
		}
		// Playwright's sign that a download was finished.
		done := filepath.Join(filepath.Dir(filepath.Dir(path)), "INSTALLATION_COMPLETE")
		if err := os.WriteFile(done, nil, 0o644); err != nil {
			return "", err
		}
	}
	if err := os.Rename(made, dir); err != nil && !exists(dir) { // another process was first
		return "", err
	}
	return dir, nil
}

// playwrightPrograms are where the versions of Playwright look for a browser, by
// the name that browsers.json gives it.
var playwrightPrograms = map[string][]string{
	"chromium": {"chrome-linux/chrome", "chrome-linux64/chrome", "chrome-linux-arm64/chrome"},
	"chromium-headless-shell": {
		"chrome-linux/headless_shell", "chrome-headless-shell-linux64/chrome-headless-shell", "chrome-headless-shell-linux-arm64/chrome-headless-shell",
	},
}

// Bounds of what is read of a tool's modules.
const (
	maxBrowsersFile = 1 << 20 // bytes
	maxPlaywrights  = 8
)

// playwrightPaths are the paths, below the directory of its browsers, at which the
// Playwrights in a node_modules look for Chromium.
func playwrightPaths(modules string) []string {
	if modules == "" {
		return nil
	}
	var files, paths []string
	for _, pattern := range []string{"playwright-core", "*/node_modules/playwright-core", ".pnpm/*/node_modules/playwright-core"} {
		found, _ := filepath.Glob(filepath.Join(modules, pattern, "browsers.json"))
		files = append(files, found...)
	}
	for _, file := range files[:min(len(files), maxPlaywrights)] {
		paths = append(paths, chromiumIn(file)...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// revision is what may stand in the name of a browser's directory.
var revision = lazy(`^[0-9]{1,12}$`)

// chromiumIn reads a browsers.json. One that cannot be understood has no browsers.
func chromiumIn(file string) []string {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Size() > maxBrowsersFile {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var list struct {
		Browsers []struct {
			Name     string `json:"name"`
			Revision any    `json:"revision"`
		} `json:"browsers"`
	}
	if json.Unmarshal(text, &list) != nil {
		return nil
	}
	var paths []string
	for _, one := range list.Browsers {
		r, _ := one.Revision.(string)
		if n, ok := one.Revision.(float64); ok {
			r = strconv.FormatInt(int64(n), 10)
		}
		if !revision().MatchString(r) {
			continue
		}
		for _, program := range playwrightPrograms[one.Name] {
			paths = append(paths, filepath.Join(strings.ReplaceAll(one.Name, "-", "_")+"-"+r, program))
		}
	}
	return paths
}
