package cli

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
)

func newDemo(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See it work: a guided run on a small real repository, offline",
		Long: "Starts `toolyard mcp` on a copy of a small repository, as an agent's client would, and\n" +
			"makes the calls an agent makes: find, read, break, test, undo, test. It needs no\n" +
			"network and leaves nothing behind. It fails if any step does not do what it should.",
		Args: args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error { return p.demo(c.Context()) },
	}
}

// A scene is a repository that the demo can play in. To add one: a line in
// scenes.
type scene struct {
	name string
	// files find and copy the repository.
	copy func(dir string) error
	file string // the file that is looked at
	find string // what grep looks for
	old  string // what is changed in it
	new  string // what breaks the tests
	// other is a file that is never read.
	other string
	test  string // the command that tests it
	fails string // what it says when the tests fail
	slow  string // said before the first run
}

//go:embed demo
var demoFiles embed.FS

// scenes lists what the demo can play in on this machine, the best first.
func scenes() []scene {
	var list []scene
	if dir := semverDir(); dir != "" && lookPath("go") != "" {
		list = append(list, scene{
			name: "github.com/Masterminds/semver/v3, from your module cache",
			copy: func(to string) error { return copyTree(to, os.DirFS(dir)) },
			file: "version.go", find: `func \(v \*Version\) LessThan`,
			old:   "func (v *Version) LessThan(o *Version) bool {\n\treturn v.Compare(o) < 0",
			new:   "func (v *Version) LessThan(o *Version) bool {\n\treturn v.Compare(o) > 0",
			other: "constraints.go", test: "go test -run 'LessThan|Compare|Collection' .", fails: "FAIL",
			slow: " (the first run compiles, up to a minute)",
		})
	}
	return append(list, scene{
		name: "a small script with tests, which comes with toolyard",
		copy: func(to string) error {
			sub, err := fs.Sub(demoFiles, "demo")
			if err != nil {
				return err
			}
			return copyTree(to, sub)
		},
		file: "slug.sh", find: "^slug", old: "tr '[:upper:]' '[:lower:]'", new: "tr '[:lower:]' '[:upper:]'",
		other: "README.md", test: "sh test.sh", fails: "FAIL",
	})
}

// semverDir finds a published module in the module cache; "" if there is none.
func semverDir() string {
	var caches []string
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		caches = append(caches, dir)
	}
	for _, dir := range filepath.SplitList(os.Getenv("GOPATH")) {
		caches = append(caches, filepath.Join(dir, "pkg", "mod"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		caches = append(caches, filepath.Join(home, "go", "pkg", "mod"))
	}
	for _, cache := range caches {
		found, _ := filepath.Glob(filepath.Join(cache, "github.com", "!masterminds", "semver", "v3@*")) // fails only on a bad pattern
		for _, dir := range slices.Backward(found) {
			if raw, err := os.ReadFile(filepath.Join(dir, "version.go")); err == nil && bytes.Contains(raw, []byte("return v.Compare(o) < 0")) {
				return dir
			}
		}
	}
	return ""
}

// copyTree copies files into a new directory, writable.
func copyTree(to string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}

// demo plays the scene.
func (p *program) demo(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "toolyard-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := scenes()[0]
	d := &demo{p: p, scene: s, repo: filepath.Join(dir, "repo"), home: filepath.Join(dir, "home")}
	if err := s.copy(d.repo); err != nil {
		return fmt.Errorf("copying the repository: %w", err)
	}
	d.gitInit(ctx)
	d.say("%s\n\nThe repository: %s.\nBelow is what an agent's client sends over MCP, and what it gets back.\n", p.out.bold("Toolyard, in a dozen calls."), s.name)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	d.client, err = startMCP(ctx, self, "mcp", "--home", d.home, "--workspace", d.repo, "--allow", "undo")
	if err != nil {
		return err
	}
	err = d.play(ctx)
	if e := d.client.close(); err == nil {
		err = e
	}
	if wasInterrupted(ctx) {
		return context.Cause(ctx)
	}
	if err != nil {
		return &hinted{fmt.Errorf("the demo stopped at step %d: %w", d.step, err), "`toolyard doctor` says what is missing on this machine."}
	}
	d.farewell(self)
	return nil
}

// demo is one run.
type demo struct {
	p          *program
	scene      scene
	repo, home string
	client     *mcpClient
	step       int
}

func (d *demo) say(format string, args ...any) {
	if !d.p.flags.json {
		fmt.Fprintf(d.p.stdout, format+"\n", args...)
	}
}

// gitInit makes a git repository of the copy, if git is there. Without it the
// demo is the same.
func (d *demo) gitInit(ctx context.Context) {
	git := lookPath("git")
	if git == "" {
		return
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "-A"},
		{"-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "start"},
	} {
		cmd := exec.CommandContext(ctx, git, args...)
		cmd.Dir = d.repo
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
		if cmd.Run() != nil {
			return
		}
	}
}

// play makes the calls and checks each answer.
func (d *demo) play(ctx context.Context) error {
	s := d.scene
	before, err := os.ReadFile(filepath.Join(d.repo, s.file))
	if err != nil {
		return err
	}
	steps := []struct {
		title     string
		tool      string
		arguments []any  // name, value, name, value, …
		failing   bool   // the call should fail
		says      string // and the answer have this
	}{
		{"Find something", "grep", []any{"pattern", s.find, "-n", true}, false, s.file},
		{"Read it", "read", []any{"file_path", s.file, "limit", 12, "offset", lineOf(before, s.old)}, false, ""},
		{"A file that was not read cannot be edited blindly", "edit", []any{"file_path", s.other, "old_str", "a", "new_str", "b"}, true, "File has not been read yet"},
		{"Nothing outside the workspace is in reach", "read", []any{"file_path", "../../../../../../etc/passwd"}, true, ""},
		{"Obvious self-harm is refused from the parsed command", "bash", []any{"command", "rm  -r -f  \"/\""}, true, ""},
		{"Edit it, so that it breaks", "edit", []any{"file_path", s.file, "old_str", s.old, "new_str", s.new}, false, ""},
		{"Run the tests in the sandbox: they fail" + s.slow, "bash", []any{"command", s.test, "timeout", 300}, true, s.fails},
		{"Take the edit back", "undo", []any{"scope", "file", "file_path", s.file}, false, s.file},
		{"Run the tests again: they pass", "bash", []any{"command", s.test, "timeout", 300}, false, "ok"},
	}
	for i, step := range steps {
		d.step = i + 1
		if err := d.call(ctx, step.title, step.tool, step.arguments, step.failing, step.says); err != nil {
			return err
		}
	}
	after, err := os.ReadFile(filepath.Join(d.repo, s.file))
	if err != nil {
		return err
	}
	if !bytes.Equal(before, after) {
		return fmt.Errorf("%s is not as it was before the edit", s.file)
	}
	d.say("%s %s has the same %d bytes as at the start.\n", d.p.out.green("✓"), s.file, len(before))
	return d.here(ctx)
}

// here makes one harmless call on the repository that the person stands in, if
// there is one.
func (d *demo) here(ctx context.Context) error {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			dir = d.repo
			break
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	client, err := startMCP(ctx, self, "mcp", "--home", d.home, "--workspace", dir, "--mode", "explore")
	if err != nil {
		return err
	}
	demoClient := d.client
	defer func() { d.client = demoClient }()
	d.client = client
	d.step++
	err = d.call(ctx, "And a look at "+dir, "glob", []any{"pattern", "**/*", "max_results", 5}, false, "")
	if e := client.close(); err == nil {
		err = e
	}
	return err
}

// lineOf is how many lines to skip to see what is about to change.
func lineOf(content []byte, text string) int {
	at := bytes.Index(content, []byte(text))
	return max(0, bytes.Count(content[:max(0, at)], []byte("\n"))-2)
}

// call makes one call, shows it and checks the answer.
func (d *demo) call(ctx context.Context, title, name string, arguments []any, failing bool, says string) error {
	l := d.p.out
	raw, err := object(arguments)
	if err != nil {
		return err
	}
	d.say("%s\n  %s %s", l.bold(fmt.Sprintf("%d. %s", d.step, title)), l.cyan(name), argumentsText(raw, 100))
	g := d.p.progress(name)
	start := time.Now()
	text, isError, err := d.client.call(ctx, name, raw)
	g.end()
	if err != nil {
		return err
	}
	fine := isError == failing && strings.Contains(text, says)
	if d.p.flags.json {
		if err := d.p.printJSON(map[string]any{"step": d.step, "title": title, "tool": name, "arguments": raw, "is_error": isError, "text": text, "as_expected": fine}); err != nil {
			return err
		}
	}
	d.say("%s", excerpt(l.diff(printable(text)), 12, l))
	mark := l.green("✓")
	if !fine {
		mark = l.red("✗")
	}
	d.say("  %s %s\n", mark, l.dim(durationText(time.Since(start))))
	if !fine {
		return fmt.Errorf("%s should have %s, and said: %s", name, map[bool]string{true: "been refused or failed", false: "worked"}[failing], oneLine(text, 200))
	}
	return nil
}

// object writes names and values as a JSON object, in their order.
func object(members []any) (json.RawMessage, error) {
	raw := []byte("{")
	for i := 0; i < len(members); i += 2 {
		name, err := json.Marshal(members[i])
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(members[i+1])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(append(append(raw, name...), ':'), value...)
	}
	return append(raw, '}'), nil
}

// excerpt is the beginning and the end of a text, indented.
func excerpt(text string, limit int, l look) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > limit {
		cut := len(lines) - limit + 1
		head := limit / 2
		lines = slices.Concat(lines[:head], []string{l.dim(fmt.Sprintf("… %d lines …", cut))}, lines[head+cut:])
	}
	for i, line := range lines {
		lines[i] = "  " + l.dim("│") + " " + line
	}
	return strings.Join(lines, "\n")
}

func (d *demo) farewell(self string) {
	l := d.p.out
	build := ""
	switch {
	case lookPath("toolyard") != "":
		self = "toolyard"
	case strings.Contains(self, "go-build"): // of go run: gone when this ends
		self = "toolyard"
		build = "\n\nBuild the program where your PATH finds it:\n\n  " + l.cyan("go build -o ~/.local/bin/toolyard ./cmd/toolyard")
	}
	d.say("%s"+build+"\n\nNow your own agent, in your own project:\n\n  %s\n\nor for any other client:\n\n  %s\n\n%s",
		l.green("Every step did what it should."),
		l.cyan("claude mcp add toolyard -- "+self+" mcp --workspace ."),
		l.cyan(`{"mcpServers": {"toolyard": {"command": "`+self+`", "args": ["mcp", "--workspace", "/path/to/project"]}}}`),
		"`toolyard log --follow` shows what it does; `toolyard undo` takes it back.")
}

// mcpClient speaks just enough MCP over the stdio of a child process.
type mcpClient struct {
	cmd    *exec.Cmd
	stdin  *json.Encoder
	stdout *json.Decoder
	end    func() error
	id     int
	stderr bytes.Buffer
}

// startMCP starts a server and shakes hands. The caller closes the client.
func startMCP(ctx context.Context, name string, args ...string) (*mcpClient, error) {
	c := &mcpClient{cmd: exec.CommandContext(ctx, name, args...)}
	c.cmd.Stderr = &c.stderr
	c.cmd.WaitDelay = 5 * time.Second
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.stdin, c.stdout, c.end = json.NewEncoder(in), json.NewDecoder(out), in.Close
	if err := c.request("initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "toolyard-demo", "version": toolyard.Version},
	}, nil); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, c.stdin.Encode(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
}

// request sends a request and waits for its answer.
func (c *mcpClient) request(method string, params, result any) error {
	c.id++
	if err := c.stdin.Encode(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": method, "params": params}); err != nil {
		return fmt.Errorf("%s: %w%s", method, err, c.said())
	}
	for {
		var m struct {
			ID     *int            `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := c.stdout.Decode(&m); err != nil {
			return fmt.Errorf("%s: %w%s", method, err, c.said())
		}
		switch {
		case m.ID == nil || *m.ID != c.id:
			continue // a notification
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(m.Result, result)
	}
}

// said is what the server wrote to stderr.
func (c *mcpClient) said() string {
	if text := strings.TrimSpace(c.stderr.String()); text != "" {
		return ": " + text
	}
	return ""
}

// call calls a tool and gives its text.
func (c *mcpClient) call(_ context.Context, name string, arguments json.RawMessage) (text string, isError bool, err error) {
	var result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	err = c.request("tools/call", map[string]any{"name": name, "arguments": arguments}, &result)
	for _, b := range result.Content {
		text += b.Text + "\n"
	}
	return strings.TrimRight(text, "\n"), result.IsError, err
}

// close ends the server by the end of its input, and waits for it.
func (c *mcpClient) close() error {
	_ = c.end() // Wait says how it ended
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("the server ended badly: %w%s", err, c.said())
	}
	return nil
}
