package sandboxtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// What a body's exit code says. Any other means that it did not get to its
// attempt.
const (
	succeeded = 42
	refused   = 43
)

// mark is what a body prints right before its attempt: an attack that ends
// without it was not blocked but broken.
const mark = "@try"

// shortStep: go test -short runs one attack in so many.
const shortStep = 8

// How long one command of an attack may take.
const attackTimeout = 30 * time.Second

// Corpus runs the attacks. A control, which is the same for all levels, runs
// once. It is safe for concurrent use.
type Corpus struct {
	// User is as whom controls run and to whom targets belong; zero is the user of
	// the test. Only root can name another.
	User int
	// Self is the program of the test, where User can execute it; empty is where it
	// is.
	Self string
	// Readable are further paths that the sandbox must grant for programs to run.
	Readable []string
	// Skip says why an attack makes no sense for what it is run through, or "".
	Skip func(a *Attack) string

	attacks []*Attack
	secret  string // in the environment of the test

	mu       sync.Mutex
	controls map[string]string // attack → why it is not applicable, or ""
}

// NewCorpus reads the attacks and puts a secret into the test's environment.
func NewCorpus(t *testing.T) *Corpus {
	t.Helper()
	list, err := Attacks()
	if err != nil {
		t.Fatal(err)
	}
	c := &Corpus{attacks: list, secret: newToken(), controls: map[string]string{}}
	t.Setenv("SANDBOXTEST_SECRET", c.secret)
	return c
}

// outcome is what became of an attack.
type outcome struct {
	attack *Attack
	result string // blocked, escaped, broken, announced or not applicable
	why    string
}

// Attack runs the whole corpus against a sandbox of a level and prints the
// count. An escape is a failure, and so is an attack that breaks before its
// attempt.
func (c *Corpus) Attack(t *testing.T, s sandbox.Runner, level sandbox.Level) {
	report := s.Probe(t.Context())
	if report.Level != level {
		t.Skipf("level %s cannot be had here, only %s: %v", level, report.Level, report.Missing)
	}
	// A container takes a second, so that all attacks in containers of their own
	// are ten minutes: the gate takes them.
	some := testing.Short() || level == sandbox.Docker && os.Getenv("SANDBOXTEST_ATTACKS") != "all"
	outcomes := make([]outcome, len(c.attacks))
	t.Run("corpus", func(t *testing.T) {
		for i, a := range c.attacks {
			if some && i%shortStep != 0 {
				continue
			}
			t.Run(a.Category+"/"+strings.ReplaceAll(a.Name, " ", "_"), func(t *testing.T) {
				if !a.Alone {
					t.Parallel()
				}
				outcomes[i] = c.one(t, s, a, report)
			})
		}
	})
	t.Log(summary(level, outcomes))
	if level.AtLeast(sandbox.L2b) && level != sandbox.Docker {
		t.Run("granted", func(t *testing.T) { c.granted(t, s) })
	}
}

// granted does what the attacks on a granted network do, but with the name that
// is granted: that must succeed, or being refused would prove nothing.
func (c *Corpus) granted(t *testing.T, s sandbox.Runner) {
	const net = "net: ok.test=127.0.0.1:$TCP\npython:\n  "
	visits, err := parseAttacks("granted", "-- TLS --\nevidence: received\n"+net+`send(to("ok.test", 443), hello(b"ok.test"))
-- TLS in pieces --
evidence: received
`+net+`send(to("ok.test", 443), records(hello(b"ok.test")[5:], 7))
-- TLS in a tunnel --
evidence: leak
`+net+`s = to("127.0.0.1", 3128)
  s.sendall(b"CONNECT ok.test:443 HTTP/1.1\r\nHost: ok.test:443\r\n\r\n"); print(s.recv(300))
  send(s, hello(b"ok.test"))
-- TLS by SOCKS --
evidence: leak
`+net+`s = to("127.0.0.1", 3128)
  s.sendall(b"\5\1\0\5\1\0\3\7ok.test\1\xbb"); print(s.recv(300))
  send(s, hello(b"ok.test"))
-- HTTP --
evidence: received
`+net+`send(to("ok.test", 80), b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n")
-- HTTP by another name that is granted --
evidence: says
net: ok.test:$WEB=127.0.0.1:$WEB
net: evil.test:$WEB=127.0.0.1:$WEB
python:
  attempt()
  ask(b"GET / HTTP/1.1\r\nHost: evil.test:WEB\r\n\r\n", via=("evil.test", int(env["WEB"])), name=b"evil.test:WEB")
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range visits {
		if c.Skip != nil && c.Skip(a) != "" {
			continue
		}
		t.Run(strings.ReplaceAll(a.Name, " ", "_"), func(t *testing.T) {
			aim := c.aim(t, a)
			seen, run := c.attempt(t, aim, a, func(step Step) *running { return c.confined(t, s, aim, a, step) })
			if seen == "" {
				t.Errorf("it was refused: %+v\n%s", run.Result, run.output)
			}
		})
	}
}

// one runs one attack: without a sandbox, where it must succeed, then with it.
func (c *Corpus) one(t *testing.T, s sandbox.Runner, a *Attack, report sandbox.Report) outcome {
	level := string(report.Level)
	if len(a.Net) > 0 && (!report.Level.AtLeast(sandbox.L2b) || report.Level == sandbox.Docker) {
		return outcome{a, "not applicable", "level " + level + " gives no network"}
	}
	if c.Skip != nil {
		if why := c.Skip(a); why != "" {
			return outcome{a, "not applicable", why}
		}
	}
	if why := c.control(t, a); why != "" {
		return outcome{a, "not applicable", why}
	}
	aim := c.aim(t, a)
	seen, run := c.attempt(t, aim, a, func(step Step) *running { return c.confined(t, s, aim, a, step) })
	layer, known := a.uncoveredAt(level)
	switch {
	case seen != "" && known && announced(report, layer):
		return outcome{a, "announced", "doctor announces " + layer}
	case seen != "":
		t.Errorf("%s: escaped at %s: %s\n%s", a.Name, level, seen, run.output)
		return outcome{a, "escaped", seen}
	case !strings.Contains(run.output, mark) && !run.stopped():
		t.Errorf("%s: broken at %s: it did not get to its attempt (%+v)\n%s", a.Name, level, run.Ending, run.output)
		return outcome{a, "broken", run.output}
	}
	return outcome{a, "blocked", lastLine(run.output)}
}

// control runs an attack without a sandbox and says why it proves nothing here,
// or "" if it succeeded.
func (c *Corpus) control(t *testing.T, a *Attack) string {
	key := a.Category + "/" + a.Name
	c.mu.Lock()
	why, done := c.controls[key]
	c.mu.Unlock()
	if done {
		return why
	}
	if a.Needs != "" && a.Needs != "terminal" {
		why = "the sandbox gives no " + a.Needs + " here"
	} else {
		aim := c.aim(t, a)
		seen, run := c.attempt(t, aim, a, func(step Step) *running { return c.bare(t, aim, a, step) })
		if seen == "" {
			why = "it does not succeed without a sandbox either: " + lastLine(run.output)
		}
		aim.tidy()
	}
	c.mu.Lock()
	c.controls[key] = why
	c.mu.Unlock()
	return why
}

// attempt runs the bodies of an attack and looks for its success. Start begins
// one and returns what waits for its end.
func (c *Corpus) attempt(t *testing.T, aim *aim, a *Attack, start func(Step) *running) (string, ran) {
	before := aim.before(a)
	var rivals []*running
	for _, r := range a.Rivals {
		begin := start
		if r.host {
			begin = func(s Step) *running { return c.bare(t, aim, a, s) }
		}
		rivals = append(rivals, begin(r))
	}
	var all ran
	// A rival may keep every round from its attempt for a while: what it has put in
	// the way is refused. Then there are more rounds.
	patience := time.Now().Add(attackTimeout / 2)
	more := func() bool {
		return len(rivals) > 0 && !strings.Contains(all.output, mark) && !all.stopped() && time.Now().Before(patience)
	}
	for round := 0; round < max(a.Rounds, 1) || more(); round++ {
		for _, step := range a.Steps {
			body := start(step)
			aim.during(a)
			r := body.wait()
			r.output = all.output + r.output
			all = r
		}
		if strings.HasPrefix(a.Evidence, "leak") && c.look(t, aim, a, before, all) != "" {
			break
		}
	}
	for _, r := range rivals {
		r.kill()
		r.wait()
	}
	return c.look(t, aim, a, before, all), all
}

// running is a body that runs.
type running struct {
	kill func()
	wait func() ran
}

func failed(err error) *running {
	return &running{kill: func() {}, wait: func() ran { return ran{output: "cannot start: " + err.Error() + "\n"} }}
}

// ran is how a command of an attack ended.
type ran struct {
	sandbox.Result
	output string
}

// stopped reports whether the sandbox ended the command.
func (r ran) stopped() bool {
	return !slices.Contains([]string{sandbox.EndExit, ""}, r.Ending.Reason)
}

// args is the command line of a step.
func (s Step) args(vars map[string]string) []string {
	switch s.Language {
	case "bash":
		return []string{"/bin/bash", "-c", bashPrelude + "body() {\n" + s.Text + "\n}\n" + bashEnd}
	case "python":
		return []string{"/usr/bin/python3", "-I", "-S", "-c", s.imports() + pythonPrelude, s.Text}
	}
	words := strings.Fields(s.Text)
	for i, w := range words {
		words[i] = os.Expand(w, func(name string) string { return vars[name] })
	}
	return append([]string{vars["SELF"], HelperArg}, words...)
}

// imports are the modules that a python body uses: most of its time goes into
// loading them.
func (s Step) imports() string {
	text := "import os, sys\n"
	for _, module := range []string{"socket", "struct", "fcntl", "time", "signal", "stat", "mmap"} {
		if strings.Contains(s.Text, module+".") {
			text += "import " + module + "\n"
		}
	}
	if strings.Contains(s.Text, "ctypes.") || strings.Contains(s.Text, "libc.") || strings.Contains(s.Text, "call(") {
		text += "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
	}
	if strings.Contains(s.Text, `to("`) || strings.Contains(s.Text, "ask(b") {
		text += strings.TrimPrefix(networkPrelude, "\n")
	}
	return text
}

// networkPrelude is for attacks on the granted network. Outside of the sandbox,
// where nothing has to be got around, they do the plain thing.
const networkPrelude = `
import socket, struct
def hello(*names, more=b"", extensions=1):
    "a TLS client's first message, which names servers"
    n = b"".join(b"\0" + struct.pack(">H", len(x)) + x for x in names)
    sni = struct.pack(">HHH", 0, len(n) + 2, len(n)) + n if names else b""
    e = sni * extensions + b"\0\x2b\0\x03\x02\x03\x04" + b"\0\x0a\0\4\0\2\0\x1d" + b"\0\x0d\0\4\0\2\4\3" + b"\0\x33\0\x26\0\x24\0\x1d\0\x20" + b"k" * 32 + more
    b = b"\3\3" + b"r" * 32 + b"\0" + b"\0\2\x13\x01" + b"\1\0" + struct.pack(">H", len(e)) + e
    return records(b"\1" + struct.pack(">I", len(b))[1:] + b)
def records(m, size=16384):
    return b"".join(b"\x16\3\1" + struct.pack(">H", len(m[i:i+size])) + m[i:i+size] for i in range(0, len(m), size))
def to(host, port):
    where = (host, port) if "CONFINED" in os.environ else ("127.0.0.1", int(os.environ["TCP"]))
    s = socket.create_connection(where, 3)
    s.settimeout(1)
    return s
def send(s, *parts):
    "sends and prints the answer"
    got = b""
    try:
        for p in parts: s.sendall(p)
        while True:
            p = s.recv(4096)
            if not p: break
            got += p
    except OSError: pass
    print(got[:300])
    return got
def ask(*parts, via=None, name=b"evil.test"):
    "has the granted server been asked as evil.test?"
    web = int(os.environ["WEB"])
    if "CONFINED" not in os.environ:
        s, parts = socket.create_connection(("127.0.0.1", web), 3), [b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"]
    else:
        s = socket.create_connection(via or ("ok.test", web), 3)
    s.settimeout(1)
    name, *parts = [p.replace(b"WEB", b"%d" % web) for p in (name, *parts)]
    if b"\n" + name + b"\n" not in send(s, *parts): raise OSError("it was not")
`

const bashPrelude = `exec 9>&1
try() { echo ` + mark + ` >&9; "$@"; }
put() { echo evil > "$1"; }
add() { echo evil >> "$1"; }
`

const bashEnd = `body; s=$?
case $s in 0) exit 42;; 126|127) exit $s;; esac
echo "refused: $s"; exit 43`

const pythonPrelude = `
env = os.environ
def attempt():
    sys.stdout.write("` + mark + `\n"); sys.stdout.flush()
def call(name, *args):
    if getattr(libc, name)(*args) == -1:
        e = ctypes.get_errno()
        raise OSError(e, name + ": " + os.strerror(e))
try:
    exec(compile(sys.argv[1], "attack", "exec"))
except OSError as e:
    print("refused:", e); sys.stdout.flush(); os._exit(43)
sys.stdout.flush()
os._exit(42)
`

// confined starts a body in the sandbox.
func (c *Corpus) confined(t *testing.T, s sandbox.Runner, aim *aim, a *Attack, step Step) *running {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile := aim.profile(t, a)
	profile.Read = append(append(profile.Read, System()...), c.Readable...)
	cmd := sandbox.Cmd{
		Args: step.args(aim.vars), Env: append(aim.env(a), "CONFINED=1"), Dir: aim.vars["WS"], Stdout: w, Stderr: w, Profile: profile,
	}
	if a.Stdin != "" {
		if cmd.Stdin, err = os.Open(aim.vars[a.Stdin]); err != nil {
			t.Fatal(err)
		}
		defer cmd.Stdin.Close()
	}
	if a.Needs == "terminal" {
		cmd.TTY, cmd.Stdout, cmd.Stderr = &sandbox.TTY{}, nil, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), attackTimeout)
	p, err := s.Start(ctx, cmd)
	w.Close()
	if err != nil {
		r.Close()
		cancel()
		return failed(err)
	}
	from := r
	if p.PTY() != nil {
		from = p.PTY()
	}
	output := collect(from)
	return &running{
		kill: func() { p.Kill(sandbox.EndKilled) },
		wait: func() ran {
			defer cancel()
			defer r.Close()
			p.Wait(ctx)
			closed := make(chan error, 1)
			go func() { closed <- p.Close() }()
			select {
			case err := <-closed:
				if err != nil {
					t.Errorf("%s: closing: %v", a.Name, err)
				}
			case <-time.After(attackTimeout):
				t.Errorf("%s: the runtime hangs while it closes the sandbox", a.Name)
			}
			return ran{p.Wait(ctx), <-output}
		},
	}
}

// bare starts a body without a sandbox, in a session of its own.
func (c *Corpus) bare(t *testing.T, aim *aim, a *Attack, step Step) *running {
	args := step.args(aim.vars)
	ctx, cancel := context.WithTimeout(t.Context(), attackTimeout)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = aim.vars["WS"], append(os.Environ(), aim.env(a)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.User != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.User), Gid: uint32(c.User)}
	}
	from, err := c.connect(cmd, aim, a)
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range []any{cmd.Stdin, cmd.Stdout} {
		if file, ok := f.(*os.File); ok && file != nil {
			file.Close()
		}
	}
	if err != nil {
		cancel()
		return failed(err)
	}
	output := collect(from)
	return &running{
		kill: cancel,
		wait: func() ran {
			defer cancel()
			defer from.Close()
			_ = cmd.Wait()
			if ctx.Err() != nil {
				aim.killAll() // only the shell is killed by its context
			}
			if strings.HasPrefix(a.Evidence, "survivor") {
				from.Close() // they hold the pipe, and are the evidence
			} else {
				aim.killCarriers()
			}
			result := ran{output: <-output}
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			result.Ending.Reason, result.Ending.Code = sandbox.EndExit, status.ExitStatus()
			if status.Signaled() {
				// What a careless reader makes of it.
				result.Ending.Reason = map[syscall.Signal]string{
					syscall.SIGXCPU: sandbox.EndCPU, syscall.SIGXFSZ: sandbox.EndDisk, syscall.SIGKILL: sandbox.EndKilled,
				}[status.Signal()]
			}
			return result
		},
	}
}

// connect gives a command its standard files and returns where its output
// comes.
func (c *Corpus) connect(cmd *exec.Cmd, aim *aim, a *Attack) (*os.File, error) {
	if a.Needs == "terminal" {
		master, peer, err := openTerminal()
		if err != nil {
			return nil, err
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = peer, peer, peer
		cmd.SysProcAttr.Setctty = true
		return master, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	if a.Stdin != "" {
		stdin, err := os.Open(aim.vars[a.Stdin])
		if err != nil {
			return nil, err
		}
		cmd.Stdin = stdin
	}
	return r, nil
}

// collect reads all that comes, and keeps the first MiB of it.
func collect(r io.Reader) <-chan string {
	done := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, io.LimitReader(r, 1<<20))
		_, _ = io.Copy(io.Discard, r)
		done <- b.String()
	}()
	return done
}

func announced(r sandbox.Report, layer string) bool {
	return slices.ContainsFunc(r.Missing, func(m sandbox.Missing) bool { return m.Layer == layer })
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	return strconv.QuoteToASCII(last[max(len(last)-200, 0):])
}

// summary is what a run comes to: one line, the whys, and a line for each
// category.
func summary(level sandbox.Level, outcomes []outcome) string {
	var b strings.Builder
	total, lines := map[string]int{}, map[string]map[string]int{}
	var categories []string
	whys := map[string][]string{}
	for _, o := range outcomes {
		if o.attack == nil {
			continue
		}
		result := o.result
		if result == "announced" {
			result = "not applicable"
		}
		total[result]++
		total["all"]++
		if lines[o.attack.Category] == nil {
			lines[o.attack.Category] = map[string]int{}
			categories = append(categories, o.attack.Category)
		}
		lines[o.attack.Category][result]++
		lines[o.attack.Category]["all"]++
		if result == "not applicable" {
			whys[o.why] = append(whys[o.why], o.attack.Category+"/"+o.attack.Name)
		}
	}
	line := func(name string, n map[string]int) {
		fmt.Fprintf(&b, "%s: %d attacks, %d blocked, %d escaped, %d not applicable", name, n["all"], n["blocked"], n["escaped"], n["not applicable"])
		if n["broken"] > 0 {
			fmt.Fprintf(&b, ", %d broken", n["broken"])
		}
		b.WriteByte('\n')
	}
	line(fmt.Sprintf("level %s as user %d", level, os.Getuid()), total)
	for _, c := range categories {
		line("  "+c, lines[c])
	}
	reasons := make([]string, 0, len(whys))
	for why := range whys {
		reasons = append(reasons, why)
	}
	slices.Sort(reasons)
	for _, why := range reasons {
		fmt.Fprintf(&b, "  not applicable: %s: %s\n", strings.Join(whys[why], ", "), why)
	}
	return b.String()
}
