package runtimes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/sandbox/sandboxtest"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

func TestMain(m *testing.M) {
	sandboxtest.Main()
	if len(os.Args) == 5 && os.Args[1] == installArg {
		os.Exit(installs(os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(m.Run())
}

// box is the sandbox of a test.
func box(t testing.TB) *sandbox.Sandbox {
	t.Helper()
	s := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { s.Close() })
	if report := s.Probe(t.Context()); !report.Level.AtLeast(sandbox.L2b) {
		t.Skipf("level L2 cannot be had here, only %s: %v", report.Level, report.Missing)
	}
	return s
}

// home is the operator's.
func home(t testing.TB) string {
	t.Helper()
	dir, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// open makes Runtimes over this machine's PATH.
func open(t *testing.T, s sandbox.Runner) *runtimes.Runtimes {
	t.Helper()
	dir := t.TempDir()
	return runtimes.New(runtimes.Config{Dir: dir + "/runtimes", Cache: dir + "/cache", Path: os.Getenv("PATH"), Home: home(t), Runner: s})
}

func openFor(b *testing.B) *runtimes.Runtimes {
	dir := b.TempDir()
	return runtimes.New(runtimes.Config{Dir: dir, Cache: dir, Path: os.Getenv("PATH"), Home: home(b), Runner: box(b)})
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("no %s", program)
	}
}

// run runs a program with those mounts and nothing else of the machine.
func run(t *testing.T, s sandbox.Runner, mounts []sandbox.Mount, path []string, args ...string) sandboxtest.Outcome {
	t.Helper()
	dir := t.TempDir()
	return sandboxtest.Command(t, s, sandbox.Cmd{
		Args: args, Dir: dir, Env: []string{"PATH=" + strings.Join(path, ":"), "HOME=" + dir, "LANG=C.UTF-8"},
		Profile: sandbox.Profile{Kind: "run", Write: []string{dir}, Home: dir, Mounts: mounts, Memory: 2 * sandbox.GiB},
	})
}

// absent fails where a program of the machine can be started that nobody declared.
func absent(t *testing.T, s sandbox.Runner, mounts []sandbox.Mount, programs ...string) {
	t.Helper()
	for _, program := range programs {
		for _, dir := range []string{"/bin", "/usr/bin", "/usr/local/bin"} {
			path := filepath.Join(dir, program)
			if _, err := os.Stat(path); err != nil {
				continue
			}
			p, err := s.Start(t.Context(), sandbox.Cmd{Args: []string{path, "--version"}, Profile: sandbox.Profile{Kind: "run", Mounts: mounts}})
			if err != nil && strings.Contains(err.Error(), "no such file") {
				continue
			}
			t.Errorf("%s is there: %v", path, err)
			if err == nil {
				p.Close()
			}
		}
	}
}

func TestNodeInSandbox(t *testing.T) {
	need(t, "node")
	s := box(t)
	r := open(t, s)
	node, err := r.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if node.Source != runtimes.FromPath || !filepath.IsAbs(node.Program) {
		t.Fatalf("got %+v", node)
	}
	mounts := r.Mounts(node)
	const script = `
		const {createHash} = require("crypto"), dns = require("dns"), fs = require("fs"), os = require("os");
		console.log("v" + process.versions.node, createHash("sha256").update("x").digest("hex").length,
			new Intl.DateTimeFormat("de", {timeZone: "Asia/Shanghai"}).resolvedOptions().timeZone, os.cpus().length > 0, 1n << 70n);
		for (const p of ["/usr/bin/sh", "/bin/sh", "/usr/bin/ls", "/usr/bin/curl", "/etc/shadow", "/root/.ssh"]) if (fs.existsSync(p)) console.log("SEEN", p);
		console.log(fs.readdirSync("/usr/bin").join());`
	got := run(t, s, mounts, nil, node.Program, "-e", script)
	want := "v" + node.Version + " 64 Asia/Shanghai true 1180591620717411303424n\n"
	if got.Ending.Code != 0 || !strings.HasPrefix(got.Output, want) || strings.Contains(got.Output, "SEEN") {
		t.Errorf("ended %+v with\n%s, want\n%s", got.Ending, got.Output, want)
	}
	absent(t, s, mounts, "sh", "ls", "curl", "bash", "git")
}

func TestPythonInSandbox(t *testing.T) {
	need(t, "python3")
	s := box(t)
	for _, path := range []string{os.Getenv("PATH"), "/usr/bin"} {
		if _, err := os.Stat("/usr/bin/python3"); err != nil && path == "/usr/bin" {
			continue
		}
		dir := t.TempDir()
		r := runtimes.New(runtimes.Config{Dir: dir, Cache: dir, Path: path, Home: home(t), Runner: s})
		python, err := r.Python(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(python.Program, "shims") {
			t.Errorf("the program is a shim: %+v", python)
		}
		mounts := r.Mounts(python)
		const script = `
import ctypes, ssl, sqlite3, zlib, lzma, bz2, hashlib, json, asyncio, decimal, multiprocessing, locale, os, sys, datetime
try:
    from zoneinfo import ZoneInfo
except ImportError: # before 3.9
    ZoneInfo = lambda name: datetime.timezone(datetime.timedelta(hours=8))
print(sys.version.split()[0], hashlib.sha256(b"x").hexdigest()[:4], sqlite3.connect(":memory:").execute("select 1").fetchone()[0],
      ZoneInfo("Asia/Shanghai").utcoffset(datetime.datetime(2026, 1, 1)))
for p in ["/bin/sh", "/usr/bin/ls", "/usr/bin/curl", "/etc/shadow"]:
    if os.path.exists(p): print("SEEN", p)
for p in sys.path:
    if p.endswith("-packages") and os.path.isdir(p) and os.listdir(p): print("SEEN", p, os.listdir(p)[:5])
`
		got := run(t, s, mounts, nil, python.Program, "-I", "-c", script)
		want := python.Version + " 2d71 1 8:00:00"
		if got.Ending.Code != 0 || strings.TrimSpace(got.Output) != want {
			t.Errorf("PATH=%s: %s ended %+v with\n%s, want\n%s", path, python.Program, got.Ending, got.Output, want)
		}
		absent(t, s, mounts, "sh", "ls", "curl", "git")
	}
}

func TestCommands(t *testing.T) {
	s := box(t)
	r := open(t, s)
	for _, c := range []struct {
		name   string
		args   []string
		want   string
		absent []string
	}{
		{"git", []string{"git", "init", "-q", "x"}, "", []string{"sh", "ls", "curl", "perl"}},
		{"git", []string{"git", "--version"}, "git version", nil},
		{"python3", []string{"python3", "-c", "import ssl; print(ssl.OPENSSL_VERSION)"}, "SSL", []string{"sh", "ls", "curl"}},
		{"node", []string{"node", "-p", "1+1"}, "2", []string{"sh", "ls", "curl"}},
		{"npm", []string{"npm", "--version"}, ".", []string{"sh", "ls", "curl"}},
		{"chromium", []string{"chromium", "--version"}, "Chromium", []string{"sh", "ls", "curl", "grep"}},
		{"chromium", []string{"chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom", "--timeout=15000", "data:text/html,<script>document.write(6*7)</script>"}, "42", nil},
		{"chromium", []string{"/usr/bin/chromium", "--version"}, "Chromium", nil}, // where its start script is
		{"ffmpeg", []string{"ffmpeg", "-version"}, "ffmpeg version", []string{"sh", "ls"}},
		{"curl", []string{"curl", "--version"}, "libcurl", []string{"sh", "ls"}},
		{"bash", []string{"bash", "-c", "echo $((6*7))"}, "42", []string{"ls", "curl"}},
		{"perl", []string{"perl", "-MPOSIX", "-MJSON::PP", "-e", "print POSIX::floor(42.5)"}, "42", []string{"sh", "ls"}},
	} {
		t.Run(strings.Join(c.args[:2], "_"), func(t *testing.T) {
			if _, err := exec.LookPath(c.name); err != nil {
				t.Logf("not applicable: no %s", c.name)
				return
			}
			cmd, err := r.Command(t.Context(), c.name)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, s, cmd.Mounts, cmd.Dirs, c.args...)
			if got.Ending.Code != 0 || !strings.Contains(got.Output, c.want) {
				t.Errorf("%s ended %+v with\n%s", cmd.Program, got.Ending, got.Output)
			}
			absent(t, s, cmd.Mounts, c.absent...)
		})
	}
}

func TestCommandMissing(t *testing.T) {
	r := runtimes.New(runtimes.Config{Path: t.TempDir() + ":relative"})
	for _, name := range []string{"git", "", "../git", "a/b", "/no/such/program", "\x00"} {
		_, err := r.Command(t.Context(), name)
		if e := tool.AsError(err); e == nil || e.Code != tool.DependencyError || e.Hint == "" {
			t.Errorf("Command(%q): got %v, want DEPENDENCY_ERROR with a hint", name, err)
		}
	}
}

func TestDeclared(t *testing.T) {
	need(t, "git")
	s := box(t)
	r := open(t, s)
	for _, c := range []struct {
		name, within string
		want         string // in the error
	}{
		{"git", "", ""}, {"git", "*", ""}, {"git", ">=2", ""}, {"git", "^2.1", ""}, {"node", ">=20", ""}, {"python3", ">=3.8", ""}, {"bash", ">=3", ""},
		{"git", ">=99", ">=99 is required"}, {"git", "two", "no range"}, {"ls-is-not-this", ">=1", "no command"}, {"true", ">=99999", "required"},
	} {
		got, err := r.Declared(t.Context(), c.name, c.within)
		if c.want == "" && (err != nil || got.Program == "" || len(c.within) > 1 && got.Version == "") {
			t.Errorf("%s %s: got %+v, %v", c.name, c.within, got.Version, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || tool.AsError(err).Code != tool.DependencyError || tool.AsError(err).Hint == "") {
			t.Errorf("%s %s: got %v, want DEPENDENCY_ERROR with %q", c.name, c.within, err, c.want)
		}
	}
}
