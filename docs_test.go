package toolyard_test

import (
	"encoding/json"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/docgen"
	"github.com/toolyard/toolyard/tool"
)

// TestGenerated says which page no longer is what its sources say.
func TestGenerated(t *testing.T) {
	pages, err := docgen.Generate(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		if got, err := os.ReadFile(name); err != nil || string(got) != string(want) {
			t.Errorf("%s is stale (%v): run `make generate`", name, err)
		}
	}
}

// codeSpans finds `code` in a table's cell.
var codeSpans = regexp.MustCompile("`([^`]+)`")

// tableRows gives the cells of every row below a heading row.
func tableRows(page, heading string) [][]string {
	var rows [][]string
	in := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case line == heading:
			in = true
		case !strings.HasPrefix(line, "|"):
			in = false
		case in && !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
			for i := range cells {
				cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "\x00", "|")
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// TestPermissionExamples judges every example of docs/permissions.md.
func TestPermissionExamples(t *testing.T) {
	page, err := os.ReadFile("docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := tableRows(string(page), "| rules | call | verdict |")
	if len(rows) < 40 {
		t.Fatalf("only %d examples", len(rows))
	}
	for _, row := range rows {
		t.Run(row[0]+" "+row[1], func(t *testing.T) {
			c := toolyard.Config{Home: t.TempDir(), Workspaces: []string{t.TempDir()}}
			for _, span := range codeSpans.FindAllStringSubmatch(row[0], -1) {
				addRule(t, &c, span[1])
			}
			yard, err := toolyard.New(c)
			if err != nil {
				t.Fatal(err)
			}
			defer yard.Close()
			v, err := yard.Explain(t.Context(), codeSpans.FindStringSubmatch(row[1])[1], "")
			if err != nil {
				t.Fatal(err)
			}
			if v.Action.String() != row[2] {
				t.Errorf("%s, because %s", v.Action, v.Reason)
			}
		})
	}
}

// addRule reads "mode plan", "deny bash(curl *)" and "project allow edit".
func addRule(t *testing.T, c *toolyard.Config, text string) {
	t.Helper()
	first, rest, _ := strings.Cut(text, " ")
	scope := ""
	switch first {
	case "mode":
		c.Mode = rest
		return
	case "project", "session", "managed":
		scope = first
		first, rest, _ = strings.Cut(rest, " ")
	}
	rule := toolyard.Rule{Text: rest, Scope: scope}
	switch first {
	case "allow":
		c.Permissions.Allow = append(c.Permissions.Allow, rule)
	case "ask":
		c.Permissions.Ask = append(c.Permissions.Ask, rule)
	case "deny":
		c.Permissions.Deny = append(c.Permissions.Deny, rule)
	default:
		t.Fatalf("the example %q is no rule", text)
	}
}

// fileBlocks finds the files that a page shows: a line that ends in `path`: and
// a fenced block below it.
var fileBlocks = regexp.MustCompile("(?s)`([^`\n]+)`:\n\n```[a-z]+\n(.*?)```")

// TestAddATool does what CONTRIBUTING.md says, over the files as they are, and
// runs the test of the new tool.
func TestAddATool(t *testing.T) {
	page, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, root := t.TempDir(), mustAbs(t, ".")
	replace := map[string]string{}
	put := func(name, content string) {
		path := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, name)] = path
	}
	for _, block := range fileBlocks.FindAllStringSubmatch(string(page), -1) {
		if strings.HasPrefix(block[1], "builtin/") {
			put(block[1], block[2])
			if formatted, err := format.Source([]byte(block[2])); strings.HasSuffix(block[1], ".go") && (err != nil || string(formatted) != block[2]) {
				t.Errorf("%s is not formatted (%v)", block[1], err)
			}
			continue
		}
		if block[1] != "listTool(d)," {
			t.Fatalf("nothing is done with %s", block[1])
		}
		list, err := os.ReadFile("builtin/files/files.go")
		if err != nil {
			t.Fatal(err)
		}
		const before = "\t\tlistTool(d),\n"
		if strings.Count(string(list), before) != 1 {
			t.Fatalf("builtin/files/files.go has no line %q", before)
		}
		put("builtin/files/files.go", strings.Replace(string(list), before, before+block[2], 1))
	}
	if len(replace) != 4 {
		t.Fatalf("%d files of 4", len(replace))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "test", "-overlay", overlayFile, "-run", "TestWordCount", "-v", "./builtin/files").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestWordCount/words") {
		t.Errorf("%v\n%s", err, out)
	}
}

func mustAbs(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMessagesExist looks for each message of docs/troubleshooting.md in the
// source: its fixed parts must stand in the strings of one file.
func TestMessagesExist(t *testing.T) {
	page, err := os.ReadFile("docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := stringsOfSource(t)
	messages := 0
	for line := range strings.Lines(string(page)) {
		message, isMessage := strings.CutPrefix(line, "### `")
		if !isMessage {
			continue
		}
		messages++
		message = strings.TrimSuffix(strings.TrimSpace(message), "`")
		found := slices.ContainsFunc(sources, func(source string) bool {
			for part := range strings.SplitSeq(message, "…") {
				if !strings.Contains(source, part) {
					return false
				}
			}
			return true
		})
		if !found {
			t.Errorf("no source file says %q", message)
		}
	}
	if messages < 20 {
		t.Errorf("only %d messages", messages)
	}
}

// stringsOfSource gives, for each file of the product, its string literals.
func stringsOfSource(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, dir := range []string{".", "tool", "builtin", "internal", "sqlite"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && path != dir && dir == "." {
				return fs.SkipDir
			}
			if d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "docgen") {
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			var b strings.Builder
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						b.WriteString(text + "\n")
					}
				}
				return true
			})
			all = append(all, b.String())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// yamlBlocks finds configuration in a page.
var yamlBlocks = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestConfigurationExamples loads the configuration that the pages show.
func TestConfigurationExamples(t *testing.T) {
	found := 0
	for _, name := range []string{"docs/configuration.md", "docs/permissions.md"} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range yamlBlocks.FindAllStringSubmatch(string(page), -1) {
			found++
			home := t.TempDir()
			file := filepath.Join(home, "config.yaml")
			if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			loaded, err := config.Load(config.Options{Flags: config.Flags{Home: home}, Environ: []string{"HOME=" + home}, Dir: home, Managed: "-"})
			if err != nil {
				t.Errorf("%s: %v", name, tool.AsError(err).Faults)
				continue
			}
			c := loaded.Config
			c.Directories = toolyard.Directories{} // that are not on this machine
			yard, err := toolyard.New(c)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := yard.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if found < 2 {
		t.Errorf("only %d examples", found)
	}
}

// TestWireSize keeps what every model reads at the start of every conversation
// small: names, descriptions and input schemas of all tools.
func TestWireSize(t *testing.T) {
	const most = 20 << 10 // bytes
	yard, err := toolyard.New(toolyard.Config{KeepJobs: true})
	if err != nil {
		t.Fatal(err)
	}
	defer yard.Close()
	size := 0
	for _, spec := range yard.Tools() {
		schema, err := json.Marshal(spec.Input)
		if err != nil {
			t.Fatal(err)
		}
		size += len(spec.Name) + len(spec.Description) + len(schema)
	}
	t.Logf("%d tools, %d bytes", len(yard.Tools()), size)
	if size > most {
		t.Errorf("%d bytes, at most %d", size, most)
	}
}

var (
	// links finds [text](target) in Markdown.
	links = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// fences finds what is no prose.
	fences = regexp.MustCompile("(?s)```.*?```")
	// marks are the characters that a heading's anchor leaves out.
	marks = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinks follows every link of the pages that stays in the repository, to the
// heading too.
func TestLinks(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, name := range pages {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links.FindAllStringSubmatch(fences.ReplaceAllString(string(page), ""), -1) {
			path, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			content, err := os.ReadFile(target)
			if err != nil {
				if info, statErr := os.Stat(target); statErr != nil || !info.IsDir() {
					t.Errorf("%s: %s: %v", name, link[1], err)
				}
				continue
			}
			if anchor != "" && !slices.Contains(anchors(string(content)), anchor) {
				t.Errorf("%s: %s has no heading for #%s", name, target, anchor)
			}
		}
	}
	if len(pages) < 12 {
		t.Errorf("only %d pages", len(pages))
	}
}

// anchors are the headings of a page as links name them.
func anchors(page string) []string {
	var list []string
	for line := range strings.Lines(page) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			heading = strings.ToLower(strings.TrimSpace(heading))
			list = append(list, strings.ReplaceAll(marks.ReplaceAllString(heading, ""), " ", "-"))
		}
	}
	return list
}
