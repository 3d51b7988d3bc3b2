package cli_test

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// block is a fenced block of a page.
type block struct {
	lang, text string
	file       string // what the line above it names, if it ends in a colon
	line       int
}

// blocksOf reads the fenced blocks of a page in which something happens: sh is
// run, text is what it prints, diff is a change of the file that is named above.
func blocksOf(page string) []block {
	var all []block
	var in *block
	above := ""
	for i, line := range strings.Split(page, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && in == nil:
			in = &block{lang: fence, file: named(above), line: i + 1}
		case isFence:
			if slices.Contains([]string{"sh", "text", "diff"}, in.lang) {
				all = append(all, *in)
			}
			in = nil
		case in != nil:
			in.text += line + "\n"
		case strings.TrimSpace(line) != "":
			above = line
		}
	}
	return all
}

// spans finds `code` in a line.
var spans = regexp.MustCompile("`([^`]+)`")

// named is the last `file` of a line that ends in a colon.
func named(line string) string {
	found := spans.FindAllStringSubmatch(line, -1)
	if len(found) == 0 || !strings.HasSuffix(line, ":") && !strings.HasSuffix(line, "：") {
		return ""
	}
	return found[len(found)-1][1]
}

// tutorial is somebody who follows the page in a home of their own.
type tutorial struct {
	t    *testing.T
	home string
	env  []string
}

// TestToolboxTutorial does what docs/toolbox.md says, in an empty home: it runs the
// commands, makes the changes, and compares what is shown. The Chinese page has the
// same of all three.
func TestToolboxTutorial(t *testing.T) {
	blocks := blocksOf(pageText(t, "toolbox.md"))
	chinese := blocksOf(pageText(t, "toolbox.zh.md"))
	for i := range max(len(blocks), len(chinese)) {
		if i >= len(blocks) || i >= len(chinese) {
			t.Fatalf("toolbox.md has %d blocks, toolbox.zh.md %d", len(blocks), len(chinese))
		}
		a, b := blocks[i], chinese[i]
		if a.lang != b.lang || a.text != b.text || a.file != b.file {
			t.Fatalf("toolbox.md:%d and toolbox.zh.md:%d differ", a.line, b.line)
		}
	}
	for _, program := range []string{"bash", "node", "npm", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s, which is not on PATH", program)
		}
	}
	if !namespaces() {
		t.Skip("needs namespaces: tools do not run below L2")
	}
	u := newTutorial(t)
	ran, compared, changed := 0, 0, 0
	for i, b := range blocks {
		switch b.lang {
		case "sh":
			ran++
			shown := ""
			if i+1 < len(blocks) && blocks[i+1].lang == "text" {
				shown = blocks[i+1].text
				compared++
			}
			u.run(b, shown)
		case "diff":
			changed++
			u.change(b)
		}
	}
	if ran < 20 || compared < 15 || changed < 10 {
		t.Errorf("only %d commands, %d outputs and %d changes", ran, compared, changed)
	}
}

func pageText(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func newTutorial(t *testing.T) *tutorial {
	t.Helper()
	home, err := os.MkdirTemp("", "toolyard-tutorial-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	u := &tutorial{t: t, home: home}
	userconfig := os.Getenv("NPM_CONFIG_USERCONFIG")
	if old, err := os.UserHomeDir(); err == nil && userconfig == "" {
		userconfig = filepath.Join(old, ".npmrc")
	}
	registry, addresses := npmRegistry(t)
	u.env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TOOLYARD_") }),
		"HOME="+home, "TOOLYARD_HOME="+filepath.Join(home, ".toolyard"), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"),
		"NPM_CONFIG_USERCONFIG="+userconfig, "npm_config_registry="+registry, "TOOLYARD_SANDBOX__ALLOW_RANGES="+addresses)
	return u
}

// npmRegistry is where this machine has its npm packages from, and its addresses,
// which may be some that the sandbox keeps closed unless they are named.
func npmRegistry(t *testing.T) (address, addresses string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "npm", "config", "get", "registry").Output()
	if err != nil {
		t.Fatalf("npm config get registry: %v", err)
	}
	u, err := url.Parse(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		t.Skipf("needs the npm registry, which this machine does not reach: %v", err)
	}
	var list []string
	for _, a := range found {
		list = append(list, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()).String())
	}
	return u.String(), strings.Join(list, ",")
}

// run runs a block's commands. They may fail only where the page shows that.
func (u *tutorial) run(b block, shown string) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", b.text)
	cmd.Dir, cmd.Env = u.home, u.env
	begun := time.Now()
	raw, err := cmd.CombinedOutput()
	out := strings.ReplaceAll(string(raw), u.home, "/home/you")
	u.t.Logf("toolbox.md:%d %s", b.line, time.Since(begun).Round(time.Millisecond))
	if (err != nil) != strings.HasPrefix(shown, "toolyard: ") {
		u.t.Fatalf("toolbox.md:%d: %v\n%s\nprints\n%s", b.line, err, b.text, out)
	}
	if shown != "" && !pattern(shown).MatchString(out) {
		u.t.Errorf("toolbox.md:%d\n%s\nprints\n%s\nand not\n%s", b.line, b.text, out, shown)
	}
}

// pattern is what a shown output stands for: … is some text of a line, and lines
// where it is alone.
func pattern(shown string) *regexp.Regexp {
	var p strings.Builder
	p.WriteString(`^`)
	for line := range strings.Lines(shown) {
		if line == "…\n" {
			p.WriteString(`(.*\n)*`)
			continue
		}
		p.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*"))
	}
	p.WriteString(`$`)
	return regexp.MustCompile(p.String())
}

// change replaces what a diff has with - and a blank by what it has with + and a
// blank, in the one place where that stands.
func (u *tutorial) change(b block) {
	u.t.Helper()
	rel, ok := strings.CutPrefix(b.file, "~/")
	if !ok {
		u.t.Fatalf("toolbox.md:%d: no file is named above the change", b.line)
	}
	path := filepath.Join(u.home, rel)
	content, err := os.ReadFile(path)
	if err != nil {
		u.t.Fatal(err)
	}
	text := string(content)
	for hunk := range strings.SplitSeq(b.text, " …\n") {
		var before, after strings.Builder
		for line := range strings.Lines(hunk) {
			switch line[0] {
			case '-':
				before.WriteString(line[1:])
			case '+':
				after.WriteString(line[1:])
			default:
				before.WriteString(line[1:])
				after.WriteString(line[1:])
			}
		}
		if n := strings.Count(text, before.String()); n != 1 {
			u.t.Fatalf("toolbox.md:%d: %s has in %d places\n%s", b.line, b.file, n, before.String())
		}
		text = strings.Replace(text, before.String(), after.String(), 1)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		u.t.Fatal(err)
	}
}
