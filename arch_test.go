package toolyard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/toolyard/toolyard"

// layers orders the packages: imports go down only. To add a package, put its
// folder into the row of its kind; a folder stands for all below it unless a
// longer one matches.
var layers = []struct {
	folders []string
	why     string
}{
	{[]string{"tool"}, "the model: what a tool is"},
	{[]string{"internal/store"}, "the record, as plain rows"},
	{[]string{"deploy"}, "files for an operator, as they are"},
	{[]string{"internal/launch"}, "runs before main, so it knows nothing"},
	{[]string{"internal/flock", "internal/process", "internal/workspace", "internal/event", "internal/artifact", "internal/secret", "internal/text", "internal/garbage"}, "one mechanism each"},
	{[]string{"internal/clients"}, "the configuration files of other programs"},
	{[]string{"internal/gateway/upstream"}, "a connection to another MCP server"},
	{[]string{"internal/search"}, "looks through a workspace"},
	{[]string{"internal/netguard"}, "what may be reached"},
	{[]string{"internal/secret/vault"}, "keeps secrets, with a lock among processes"},
	{[]string{"internal/gateway/oauth"}, "gets tokens for other servers"},
	{[]string{"internal/sandbox", "internal/edit"}, "mechanisms made of mechanisms"},
	{[]string{"internal/question"}, "asks people, durably"},
	{[]string{"internal/worker"}, "keeps confined processes warm"},
	{[]string{"internal/validate"}, "arguments against a schema; also a tool's configuration, so below the tools"},
	{[]string{"internal/toolbox/definition"}, "what a tool of the toolbox is, as plain data"},
	{[]string{"internal/toolbox/yamlin"}, "reads a request"},
	{[]string{"internal/toolbox/page"}, "writes the pages that answer it"},
	{[]string{"builtin/artifacts", "builtin/edit", "builtin/files", "builtin/meta", "builtin/shell", "builtin/toolbox"}, "tools"},
	{[]string{"builtin"}, "the list of families"},
	{[]string{"internal/toolindex"}, "finds tools by what they are for"},
	{[]string{"internal/registry", "internal/policy", "internal/scheduler"}, "decisions about tools and calls"},
	{[]string{"internal/profile"}, "which tools a session has"},
	{[]string{"internal/executor"}, "one call from start to end"},
	{[]string{"internal/toolbox/dotenv", "internal/toolbox/runlog", "internal/toolbox/system", "internal/toolbox/pkgs", "internal/toolbox/runtimes", "internal/toolbox/deps", "internal/toolbox/templates", "internal/toolbox/check"}, "the parts of the toolbox, one mechanism each"},
	{[]string{"internal/toolbox/pydeps", "internal/toolbox/host", "internal/toolbox/testkit"}, "parts made of parts"},
	{[]string{"internal/toolbox"}, "folders become tools"},
	{[]string{"internal/gateway"}, "other servers become tools"},
	{[]string{"internal/server"}, "turns a protocol into calls"},
	{[]string{""}, "the root package wires the parts"},
	{[]string{"internal/config"}, "files, environment and flags become a Config"},
	{[]string{"internal/cli"}, "the program"},
	{[]string{"cmd"}, "main"},
}

// allowed narrows what the layers permit, where a folder has a reason to know
// less than everything below it.
var allowed = []struct {
	folder  string
	imports []string
	why     string
}{
	{"tool", nil, "the model depends on nothing of ours"},
	{"deploy", nil, "files; the program may change without them"},
	{"internal/launch", nil, "it runs before the rest is initialised: syscall only"},
	{"internal/store", []string{"tool", "internal/store"}, "plain rows"},
	{"internal/process", []string{"tool"}, "starts processes, whoever asks"},
	{"internal/workspace", []string{"tool"}, "resolves paths; tool only for the errors that a model reads"},
	{"internal/event", []string{"tool", "internal/store"}, "hands events on, whatever they mean"},
	{"internal/artifact", []string{"tool", "internal/store"}, "keeps bytes"},
	{"internal/question", []string{"tool", "internal/store", "internal/event"}, "knows neither protocols nor screens, nor what an answer permits"},
	{"internal/secret", []string{"tool", "internal/store", "internal/flock"}, "finds secrets in text, keeps them in a file"},
	{"internal/netguard", nil, "knows addresses, not who asks"},
	{"internal/text", []string{"tool"}, "encodings"},
	{"internal/sandbox", []string{"tool", "internal/process", "internal/launch", "internal/netguard", "internal/sandbox"}, "knows commands, mounts and limits, not tools"},
	{"internal/worker", []string{"tool", "internal/process", "internal/sandbox"}, "knows processes, a protocol and limits, not where tools come from"},
	{"internal/flock", nil, "locks files"},
	{"internal/clients", nil, "edits the files of other programs; what a server is, it does not know"},
	{"internal/gateway/upstream", []string{"tool"}, "speaks a protocol, for whom it does not know"},
	{"internal/gateway/oauth", []string{"tool", "internal/netguard", "internal/secret", "internal/flock"}, "gets tokens; neither messages nor people are its business"},
	{"internal/garbage", nil, "the collector of any program"},
	{"internal/edit", []string{"internal/flock", "tool", "internal/workspace", "internal/store", "internal/text", "internal/edit"}, "changes files safely"},
	{"internal/search", []string{"tool", "internal/workspace", "internal/text", "internal/search"}, "finds files and lines"},
	{"internal/validate", []string{"tool"}, "pure"},
	{"internal/toolbox/definition", nil, "plain data"},
	{"internal/toolbox/yamlin", []string{"tool", "internal/validate"}, "pure: a text in, a request out"},
	{"internal/toolbox/page", []string{"tool", "internal/validate", "internal/toolbox/definition", "internal/toolbox/yamlin"}, "pure: plain data in, pages out"},
	{"builtin/toolbox", []string{"tool", "internal/validate", "internal/toolbox/definition", "internal/toolbox/yamlin", "internal/toolbox/page"}, "sees the toolbox as its own Box: no files, no workers"},
	{"internal/toolbox/dotenv", []string{"internal/flock", "tool"}, "a file of settings"},
	{"internal/toolbox/runlog", []string{"internal/flock", "tool"}, "a log file"},
	{"internal/toolbox/system", nil, "files; tools like all others"},
	{"internal/toolbox/pkgs", []string{"internal/flock", "tool", "internal/sandbox"}, "knows files and archives, not what a tool is"},
	{"internal/toolbox/runtimes", []string{"internal/flock", "tool", "internal/sandbox"}, "finds and fetches programs"},
	{"internal/toolbox/deps", []string{"internal/flock", "tool", "internal/sandbox", "internal/toolbox/definition"}, "installs packages, for whom it does not know"},
	{"internal/toolbox/pydeps", []string{"tool", "internal/sandbox", "internal/toolbox/definition", "internal/toolbox/runtimes"}, "installs packages, for whom it does not know"},
	{"internal/toolbox/templates", []string{"tool", "internal/toolbox/definition"}, "files of a new tool"},
	{"internal/toolbox/check", []string{"tool", "internal/validate", "internal/worker", "internal/toolbox/definition"}, "looks at a tool; whoever runs it is behind an interface"},
	{"internal/toolbox/host", []string{"tool", "internal/worker", "internal/toolbox/definition"}, "loads a tool's module, whoever calls it"},
	{"internal/gateway", []string{"internal/flock", "internal/netguard", "tool", "internal/store", "internal/event", "internal/secret", "internal/validate", "internal/registry", "internal/sandbox", "internal/toolbox/deps", "internal/toolbox/pydeps", "internal/toolbox/runtimes", "internal/edit"}, "knows servers and messages, not who calls"},
	{"internal/scheduler", []string{"tool"}, "pure"},
	{"internal/policy", []string{"tool", "internal/workspace", "internal/event"}, "pure but for real paths"},
	{"internal/toolindex", []string{"tool"}, "pure: specs and a query in, specs out"},
	{"internal/profile", []string{"tool", "internal/validate", "internal/registry"}, "pure: patterns and specs"},
	{"internal/registry", []string{"tool", "internal/event", "internal/toolindex", "internal/validate"}, "which tools there are"},
}

// never lists imports that the layers would permit and that must not come.
var never = []struct {
	from, to string
	why      string
}{
	{"internal/executor", "builtin", "the core runs tools without knowing them"},
	{"internal/registry", "builtin", "the core runs tools without knowing them"},
	{"internal/policy", "builtin", "the core runs tools without knowing them"},
	{"internal/scheduler", "builtin", "the core runs tools without knowing them"},
	{"internal/validate", "builtin", "the core runs tools without knowing them"},
	{"internal/server", "builtin", "a front door offers what the registry holds"},
	{"", "internal/store/sqlite", "an embedder gets no database driver; the program passes one in"},
	{"internal/server", "internal/store/sqlite", "only the interface"},
}

// owners: a heavy dependency belongs to one folder.
var owners = []struct {
	module string
	folder []string
	why    string
}{
	{"modernc.org/sqlite", []string{"internal/store/sqlite"}, "the only place with SQL"},
	{"github.com/pressly/goose", []string{"internal/store/sqlite"}, "the only place with SQL"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"internal/server", "testdata"}, "protocol types stay at the front door"},
	{"github.com/coder/websocket", []string{"internal/server", "internal/gateway", "bench", "testdata"}, "frames stay at the front door and at the gateway"},
	{"github.com/spf13/cobra", []string{"internal/cli", "internal/docgen"}, "the only place that prints"},
	{"github.com/lmittmann/tint", []string{"internal/cli"}, "the only place that prints"},
	{"golang.org/x/term", []string{"internal/cli"}, "the only place that prints"},
	{"github.com/goccy/go-yaml", []string{"internal/config"}, "settings are read in one place"},
	{"mvdan.cc/sh", []string{"internal/policy", "builtin/shell"}, "who reads commands: what they may do, what their exit code means"},
	{"github.com/zeebo/xxh3", []string{"internal/edit", "internal/text", "internal/executor"}, "one content hash for all"},
	{"github.com/klauspost/compress", []string{"internal/edit"}, "the journal's old contents"},
	{"github.com/aymanbagabas/go-udiff", []string{"internal/edit"}, "diffs are made in one place"},
	{"github.com/bluekeyes/go-gitdiff", []string{"internal/edit/patch"}, "binary patches"},
	{"github.com/gogs/chardet", []string{"internal/text"}, "encodings are found in one place"},
	{"github.com/bmatcuk/doublestar", []string{"internal/search"}, "patterns of names"},
	{"github.com/ledongthuc/pdf", []string{"builtin/files"}, "only read needs it"},
	{"golang.org/x/image", []string{"builtin/files"}, "only read needs it"},
	{"github.com/BurntSushi/toml", []string{"internal/clients", "internal/toolbox/pydeps"}, "Codex's configuration and pyproject.toml are TOML"},
	{"github.com/fsnotify/fsnotify", []string{"internal/toolbox"}, "only the toolbox watches folders"},
}

// execAllowed are the only folders that may start processes.
var execAllowed = []string{"internal/process", "internal/sandbox", "internal/cli"}

// longestChain bounds how many packages lie between cmd and tool.
const longestChain = 10

type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	GoFiles      []string
	Dir          string
	Module       *struct{ Path string }
}

// packages lists the module's own packages by folder.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles,Dir,Module", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := map[string]listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		if folder, ours := folderOf(p.ImportPath); ours {
			found[folder] = p
		}
	}
}

func folderOf(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// under reports whether folder is parent or lies below it; only the root
// package itself is under "".
func under(folder, parent string) bool {
	return folder == parent || parent != "" && strings.HasPrefix(folder, parent+"/")
}

// free are folders outside the layers: drivers hang beside, the rest only uses
// the product.
func free(folder string) bool {
	for _, f := range []string{"examples", "bench", "testdata", "sqlite", "internal/docgen", "internal/store/sqlite", "tool/tooltest", "internal/store/storetest", "internal/sandbox/sandboxtest"} {
		if under(folder, f) {
			return true
		}
	}
	return false
}

func layerOf(folder string) int {
	best, length := -1, -1
	for i, layer := range layers {
		for _, f := range layer.folders {
			if under(folder, f) && len(f) > length {
				best, length = i, len(f)
			}
		}
	}
	return best
}

func TestImportsGoDown(t *testing.T) {
	for folder, p := range packages(t) {
		if free(folder) {
			continue
		}
		at := layerOf(folder)
		if at < 0 {
			t.Errorf("%s is in no row of layers: add it to the row of its kind", folder)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := folderOf(imported)
			if !ours {
				continue
			}
			below := layerOf(to)
			sameFamily := under(to, folder) || under(folder, to) || path.Dir(to) == path.Dir(folder) && below == at && !strings.HasPrefix(to, "builtin/")
			if below > at || below == at && !sameFamily {
				t.Errorf("%s (%s) imports %s (%s): imports go down", folder, layers[at].why, to, layers[max(below, 0)].why)
			}
		}
	}
}

func TestAllowedImports(t *testing.T) {
	all := packages(t)
	for _, row := range allowed {
		for folder, p := range all {
			if !under(folder, row.folder) || free(folder) {
				continue
			}
			for _, imported := range p.Imports {
				to, ours := folderOf(imported)
				if !ours || under(to, row.folder) {
					continue
				}
				if !slices.ContainsFunc(row.imports, func(ok string) bool { return under(to, ok) }) {
					t.Errorf("%s imports %s, but %s: %s", folder, to, row.folder, row.why)
				}
			}
		}
	}
	for _, row := range never {
		for folder, p := range all {
			if folder != row.from {
				continue
			}
			for _, imported := range p.Imports {
				if to, ours := folderOf(imported); ours && under(to, row.to) {
					t.Errorf("%s imports %s: %s", folder, to, row.why)
				}
			}
		}
	}
	for folder, p := range all {
		family, isFamily := strings.CutPrefix(folder, "builtin/")
		for _, imported := range p.Imports {
			if to, ours := folderOf(imported); ours && isFamily {
				if other, is := strings.CutPrefix(to, "builtin/"); is && !under(other, family) {
					t.Errorf("family %s imports family %s: families do not know each other", family, other)
				}
			}
		}
	}
}

func TestOwners(t *testing.T) {
	for folder, p := range packages(t) {
		if under(folder, "bench") {
			continue
		}
		for _, imported := range p.Imports {
			for _, row := range owners {
				if (imported == row.module || strings.HasPrefix(imported, row.module+"/")) &&
					!slices.ContainsFunc(row.folder, func(f string) bool { return under(folder, f) }) {
					t.Errorf("%s imports %s, which belongs to %v: %s", folder, imported, row.folder, row.why)
				}
			}
			if imported == "os/exec" && !free(folder) && !slices.ContainsFunc(execAllowed, func(f string) bool { return under(folder, f) }) {
				t.Errorf("%s imports os/exec: processes are started in internal/process", folder)
			}
		}
	}
	p := packages(t)["internal/launch"]
	for _, imported := range p.Imports {
		if imported != "syscall" && imported != "unsafe" {
			t.Errorf("internal/launch imports %s: only syscall and unsafe, or a launch costs what the whole program costs", imported)
		}
	}
}

// TestPlaces finds what belongs to one package in the text of the others.
func TestPlaces(t *testing.T) {
	rules := []struct {
		text  string
		only  []string
		where string
	}{
		{"os.Getenv(", []string{"internal/config", "internal/cli"}, "internal/config reads the environment"},
		{"os.LookupEnv(", []string{"internal/config", "internal/cli"}, "internal/config reads the environment"},
		{"os.Exit(", []string{"internal/cli", "cmd", "internal/sandbox"}, "internal/cli ends the program"},
		{"fmt.Print", []string{"internal/cli", "cmd"}, "internal/cli prints"},
		{"func init()", []string{"internal/launch"}, "lists are explicit"},
	}
	for folder, p := range packages(t) {
		if free(folder) {
			continue
		}
		for _, name := range p.GoFiles {
			content, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, rule := range rules {
				if bytes.Contains(content, []byte(rule.text)) && !slices.ContainsFunc(rule.only, func(f string) bool { return under(folder, f) }) {
					t.Errorf("%s/%s has %q: %s", folder, name, rule.text, rule.where)
				}
			}
		}
	}
}

func TestLongestChain(t *testing.T) {
	all := packages(t)
	memo := map[string][]string{}
	var chain func(folder string) []string
	chain = func(folder string) []string {
		if folder == "tool" {
			return []string{folder}
		}
		if known, ok := memo[folder]; ok {
			return known
		}
		var longest []string
		for _, imported := range all[folder].Imports {
			if to, ours := folderOf(imported); ours {
				if c := chain(to); len(c) > len(longest) {
					longest = c
				}
			}
		}
		if longest != nil {
			longest = append([]string{folder}, longest...)
		}
		memo[folder] = longest
		return longest
	}
	if c := chain("cmd/toolyard"); len(c) > longestChain {
		t.Errorf("%d packages from cmd to tool, at most %d: %s", len(c), longestChain, strings.Join(c, " → "))
	}
}

// TestStartUp is the start-up gate: what the packages do before main.
func TestStartUp(t *testing.T) {
	const maxMS, maxBytes = 5.0, 4 << 20
	binary := filepath.Join(t.TempDir(), "toolyard")
	if out, err := exec.Command("go", "build", "-o", binary, "./cmd/toolyard").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	// Each package counts with its best of many starts: on a busy machine no
	// single start is undisturbed from beginning to end.
	const starts = 25
	rows, bestBytes := map[string]float64{}, 0
	for range starts {
		cmd := exec.Command(binary, "version")
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("toolyard version: %v\n%s", err, stderr.Bytes())
		}
		perPackage, allocated := parseInitTrace(t, stderr.String())
		bestBytes = allocated
		for name, ms := range perPackage {
			if least, known := rows[name]; !known || ms < least {
				rows[name] = ms
			}
		}
	}
	best := 0.0
	for _, ms := range rows {
		best += ms
	}
	t.Logf("package initialisation: %.2f ms, %d bytes", best, bestBytes)
	if best > maxMS || bestBytes > maxBytes {
		names := slices.SortedFunc(maps.Keys(rows), func(a, b string) int { return int((rows[b] - rows[a]) * 1e6) })
		for _, name := range names[:min(8, len(names))] {
			t.Logf("%.3f ms %s", rows[name], name)
		}
		t.Errorf("package initialisation takes %.2f ms and %d bytes, at most %.0f ms and %d", best, bestBytes, maxMS, maxBytes)
	}
}

// parseInitTrace reads lines such as
// "init os @0.1 ms, 0.02 ms clock, 1234 bytes, 5 allocs".
func parseInitTrace(t *testing.T, trace string) (rows map[string]float64, allocated int) {
	t.Helper()
	rows = map[string]float64{}
	for line := range strings.SplitSeq(trace, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[0] != "init" {
			continue
		}
		clock, err := strconv.ParseFloat(fields[4], 64)
		if err != nil {
			t.Fatal(fmt.Errorf("line %q: %w", line, err))
		}
		n, err := strconv.Atoi(fields[7])
		if err != nil {
			t.Fatal(fmt.Errorf("line %q: %w", line, err))
		}
		rows[fields[1]] = clock
		allocated += n
	}
	if len(rows) == 0 {
		t.Fatalf("no init lines in %q", trace)
	}
	return rows, allocated
}
