package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// object is a JSON object.
type object = map[string]any

// wire is one client's way to a program that runs: it gives the server's
// messages that answer a request, or ask within it.
type wire interface {
	// exchange sends a request and gives each message to on until one answers it.
	exchange(message object, on func(asked object) (reply object)) object
}

// way is a transport and an era.
type way struct {
	name      string
	serve     bool // over `toolyard serve`, else over stdio
	socket    bool
	stateless bool
}

var ways = []way{
	{name: "stdio session"}, {name: "stdio 2026-07-28", stateless: true},
	{name: "HTTP session", serve: true}, {name: "HTTP 2026-07-28", serve: true, stateless: true},
	{name: "WebSocket session", serve: true, socket: true}, {name: "WebSocket 2026-07-28", serve: true, socket: true, stateless: true},
}

// site is a home, a workspace and the programs that share them.
type site struct {
	t                       *testing.T
	binary, home, workspace string
	url, token              string
	cmd                     *exec.Cmd
}

func newSite(t *testing.T, binary string) *site {
	return &site{t: t, binary: binary, home: t.TempDir(), workspace: t.TempDir()}
}

// run runs a command of the program, which should end with an exit code.
func (s *site) run(want int, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.binary, append([]string{"--home", s.home, "--workspace", s.workspace}, args...)...)
	out, _ := cmd.CombinedOutput() // the exit code is looked at
	if code := cmd.ProcessState.ExitCode(); code != want {
		s.t.Errorf("toolyard %v: exit code %d, want %d: %s", args, code, want, out)
	}
	return string(out)
}

// serve starts `toolyard serve`.
func (s *site) serve() {
	s.t.Helper()
	s.cmd = exec.Command(s.binary, "serve", "--addr", "127.0.0.1:0", "--home", s.home, "--workspace", s.workspace, "--ask", "bash")
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := s.cmd
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	var first struct {
		URL       string `json:"url"`
		TokenFile string `json:"token_file"`
	}
	if err := json.Unmarshal(line, &first); err != nil {
		s.t.Fatal(err)
	}
	token, err := os.ReadFile(first.TokenFile)
	if err != nil {
		s.t.Fatal(err)
	}
	s.url, s.token = first.URL, strings.TrimSpace(string(token))
}

// kill ends the program as a crash does.
func (s *site) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// duplex is a connection that carries a message each way at any time.
type duplex struct {
	t     *testing.T
	write func([]byte) error
	read  func() ([]byte, error)
}

func (d *duplex) exchange(message object, on func(object) object) object {
	d.t.Helper()
	d.send(message)
	for {
		raw, err := d.read()
		if err != nil {
			d.t.Fatal(err)
		}
		var m object
		if err := json.Unmarshal(raw, &m); err != nil {
			d.t.Fatalf("%s: %v", raw, err)
		}
		switch {
		case m["method"] == nil && m["id"] == message["id"]:
			return m
		case m["method"] == "elicitation/create", m["method"] == "notifications/cancelled":
			if reply := on(m); reply != nil {
				d.send(object{"jsonrpc": "2.0", "id": m["id"], "result": reply})
			}
		}
	}
}

func (d *duplex) send(message object) {
	raw, err := json.Marshal(message)
	if err == nil {
		err = d.write(raw)
	}
	if err != nil {
		d.t.Error(err)
	}
}

// stdio starts `toolyard mcp`.
func (s *site) stdio() wire {
	s.t.Helper()
	return s.stdioOf(exec.Command(s.binary, "mcp", "--home", s.home, "--workspace", s.workspace, "--ask", "bash"))
}

func (s *site) stdioOf(cmd *exec.Cmd) wire {
	s.t.Helper()
	s.cmd = cmd
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r := bufio.NewReader(out)
	return &duplex{s.t, func(b []byte) error { _, err := in.Write(append(b, '\n')); return err }, func() ([]byte, error) { return r.ReadBytes('\n') }}
}

func (s *site) webSocket() wire {
	s.t.Helper()
	c, _, err := websocket.Dial(s.t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/ws", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + s.token}}, Subprotocols: []string{"mcp"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	c.SetReadLimit(1 << 24)
	s.t.Cleanup(func() { _ = c.CloseNow() })
	ctx := context.WithoutCancel(s.t.Context())
	return &duplex{s.t, func(b []byte) error { return c.Write(ctx, websocket.MessageText, b) }, func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, b, err := c.Read(ctx)
		return b, err
	}}
}

// posts is a client over HTTP.
type posts struct {
	site      *site
	stateless bool
	session   string
}

func (p *posts) exchange(message object, on func(object) object) object {
	t := p.site.t
	t.Helper()
	resp := p.post(message)
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		p.session = id
	}
	var last object
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var m object
		if json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &m) != nil {
			continue
		}
		switch {
		case m["method"] == "elicitation/create", m["method"] == "notifications/cancelled":
			if reply := on(m); reply != nil {
				p.post(object{"jsonrpc": "2.0", "id": m["id"], "result": reply}).Body.Close()
			}
		case m["method"] == nil:
			last = m
		}
	}
	return last
}

func (p *posts) post(message object) *http.Response {
	t := p.site.t
	raw, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, p.site.url+"/mcp", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.site.token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if p.session != "" {
		r.Header.Set("Mcp-Session-Id", p.session)
	}
	if p.stateless {
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", fmt.Sprint(message["method"]))
		r.Header.Set("Mcp-Name", fmt.Sprint(message["params"].(object)["name"]))
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// agent is a client of one way that can be asked, or not.
type agent struct {
	t       *testing.T
	way     way
	wire    wire
	able    object
	last    int
	carried object // the params of the last retry
}

// agent connects another client.
func (s *site) agent(w way, able object) *agent {
	a := &agent{t: s.t, way: w, able: able}
	switch {
	case !w.serve:
		a.wire = s.stdio()
	case w.socket:
		a.wire = s.webSocket()
	default:
		a.wire = &posts{site: s, stateless: w.stateless}
	}
	if !w.stateless {
		a.exchange("initialize", object{"protocolVersion": "2025-11-25", "capabilities": able, "clientInfo": object{"name": "c", "version": "1"}}, nil)
		done := object{"jsonrpc": "2.0", "method": "notifications/initialized"}
		switch c := a.wire.(type) {
		case *duplex:
			c.send(done)
		case *posts:
			c.post(done).Body.Close()
		}
	}
	return a
}

func (a *agent) exchange(method string, params object, on func(object) object) object {
	a.t.Helper()
	a.last++
	if a.way.stateless {
		params["_meta"] = object{
			"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": object{"name": "c", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": a.able,
		}
	}
	return a.wire.exchange(object{"jsonrpc": "2.0", "id": float64(a.last), "method": method, "params": params}, on)
}

// answering is what a person does with a form; nil leaves it open.
type answering func(message string) object

func option(id string) answering {
	return func(string) object {
		return object{"action": "accept", "content": object{"answer": id, "text": "not on a Friday"}}
	}
}

// unasked fails the test if a person is asked.
func unasked(t *testing.T) answering {
	return func(message string) object {
		t.Errorf("a person was asked: %s", message)
		return object{"action": "cancel"}
	}
}

// call makes a call and sees it through.
func (a *agent) call(name string, arguments object, say answering) object {
	a.t.Helper()
	m := a.begin(name, arguments, say)
	for at(m, "result", "resultType") == "input_required" {
		m = a.exchange("tools/call", a.retry(name, arguments, m, say), nil)
	}
	return m
}

// begin makes a call; of a stateless client it ends with the first question.
func (a *agent) begin(name string, arguments object, say answering) object {
	a.t.Helper()
	return a.exchange("tools/call", object{"name": name, "arguments": arguments}, func(m object) object {
		if m["method"] != "elicitation/create" {
			return nil
		}
		return say(fmt.Sprint(at(m, "params", "message")))
	})
}

// retry answers what a stateless client was asked.
func (a *agent) retry(name string, arguments, m object, say answering) object {
	responses := object{}
	asked, _ := at(m, "result", "inputRequests").(object)
	for key, one := range asked {
		if reply := say(fmt.Sprint(at(one, "params", "message"))); reply != nil {
			responses[key] = reply
		}
	}
	a.carried = object{"name": name, "arguments": arguments, "requestState": at(m, "result", "requestState"), "inputResponses": responses}
	return a.carried
}

func at(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(object)
		v = m[key]
	}
	return v
}

// code is the code of what a call failed with; "" if it did not.
func code(m object) string {
	for _, path := range [][]string{{"result", "structuredContent", "error"}, {"result", "_meta", "toolyard/error"}} {
		if c, ok := at(m, append(path, "code")...).(string); ok {
			return c
		}
	}
	if e := at(m, "error", "code"); e != nil {
		return fmt.Sprint(e)
	}
	return ""
}

// effect is a command that leaves a line each time it runs.
func effect(name string) object { return object{"command": "echo ran | tee -a " + name} }

// ran wants the number of times that a command did run.
func (s *site) ran(name string, want int) {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.workspace, name))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	if got := strings.Count(string(b), "ran\n"); got != want {
		s.t.Errorf("%s has run %d times, want %d", name, got, want)
	}
}

func wants(t *testing.T, what string, m object, want string) {
	t.Helper()
	if got := code(m); got != want {
		t.Errorf("%s: got %q, want %q: %v", what, got, want, m)
	}
}

var elicits = object{"elicitation": object{}}

const denied = "PERMISSION_DENIED"

var questionID = regexp.MustCompile(`perm_[0-9a-f]{8}`)

// TestApproval is what an approval is good for, over every transport of both
// eras, with the built program. Effects are counted on the disk.
func TestApproval(t *testing.T) {
	binary := program(t)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			s := newSite(t, binary)
			if w.serve {
				s.serve()
			}
			a := s.agent(w, elicits)
			for _, c := range approvals {
				t.Run(c.name, func(t *testing.T) {
					s.t, a.t = t, t
					c.run(t, s, a, strings.ReplaceAll(c.name, " ", "_"))
				})
			}
			s.t, a.t = t, t
		})
	}
}

var approvals = []struct {
	name string
	run  func(t *testing.T, s *site, a *agent, name string)
}{
	{"once", func(t *testing.T, s *site, a *agent, name string) {
		wants(t, "allowed", a.call("bash", effect(name), option("once")), "")
		s.ran(name, 1)
		wants(t, "asked anew", a.call("bash", effect(name), option("reject")), denied)
		s.ran(name, 1)
	}},
	{"reject", func(t *testing.T, s *site, a *agent, name string) {
		m := a.call("bash", effect(name), option("reject"))
		wants(t, "refused", m, denied)
		if raw, _ := json.Marshal(m); !strings.Contains(string(raw), "not on a Friday") {
			t.Errorf("the reason does not reach the model: %s", raw)
		}
		s.ran(name, 0)
	}},
	{"replay", func(t *testing.T, s *site, a *agent, name string) {
		if !a.way.stateless {
			return // there is nothing to replay
		}
		wants(t, "allowed", a.call("bash", effect(name), option("once")), "")
		wants(t, "replayed", a.exchange("tools/call", a.carried, nil), "-32602")
		s.ran(name, 1)
	}},
	{"altered", func(t *testing.T, s *site, a *agent, name string) {
		if !a.way.stateless {
			return
		}
		m := a.begin("bash", effect(name), nil)
		other := a.retry("bash", effect(name+"2"), m, option("once"))
		wants(t, "other arguments", a.exchange("tools/call", other, nil), "-32602")
		s.ran(name, 0)
		s.ran(name+"2", 0)
		wants(t, "as it was", a.exchange("tools/call", a.retry("bash", effect(name), m, option("once")), nil), "")
		s.ran(name, 1)
	}},
	{"denied meanwhile", func(t *testing.T, s *site, a *agent, name string) {
		m := a.call("bash", effect(name), func(m string) object {
			s.run(0, "policy", "deny", "bash(tee -a "+name+")")
			return option("once")(m)
		})
		wants(t, "denied meanwhile", m, denied)
		s.ran(name, 0)
	}},
	{"denied meanwhile and always", func(t *testing.T, s *site, a *agent, name string) {
		m := a.call("bash", effect(name), func(m string) object {
			s.run(0, "policy", "deny", "bash(tee -a "+name+")")
			return option("always")(m)
		})
		wants(t, "denied meanwhile", m, denied)
		s.ran(name, 0)
	}},
	{"allowed meanwhile", func(t *testing.T, s *site, a *agent, name string) {
		m := a.call("bash", effect(name), func(m string) object {
			s.run(0, "policy", "allow", "bash(tee -a "+name+")")
			return option("once")(m)
		})
		wants(t, "allowed meanwhile", m, "")
		s.ran(name, 1)
	}},
	{"form open and approve", func(t *testing.T, s *site, a *agent, name string) {
		elsewhere(t, s, a, name, func(id string) { s.run(0, "approve", id, "--once") })
	}},
	{"form open and HTTP", func(t *testing.T, s *site, a *agent, name string) {
		if !a.way.serve {
			return // nothing listens
		}
		elsewhere(t, s, a, name, func(id string) {
			r, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/questions/"+id+"/answer", strings.NewReader(`{"option":"once"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+s.token)
			r.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if body, _ := io.ReadAll(resp.Body); resp.StatusCode/100 != 2 {
				t.Errorf("answering over HTTP: %s: %s", resp.Status, body)
			}
		})
	}},
	{"always", func(t *testing.T, s *site, a *agent, name string) {
		wants(t, "allowed", a.call("bash", effect(name), option("always")), "")
		wants(t, "by the rule", a.call("bash", effect(name), unasked(t)), "")
		s.ran(name, 2)
		other := s.agent(a.way, elicits)
		wants(t, "another session", other.call("bash", effect(name), unasked(t)), "")
		s.ran(name, 3)
		wants(t, "another command", a.call("bash", object{"command": "touch " + name + "2"}, option("reject")), denied)
	}},
	{"no channel", func(t *testing.T, s *site, _ *agent, name string) {
		w := ways[0]
		for _, one := range ways {
			if one.name == strings.Split(t.Name(), "/")[1] || strings.ReplaceAll(one.name, " ", "_") == strings.Split(t.Name(), "/")[1] {
				w = one
			}
		}
		a := s.agent(w, object{})
		call := func() object { return a.call("bash", object{"command": "printf 'ran\\n' >> " + name}, unasked(t)) }
		m := call()
		wants(t, "nobody can be asked", m, denied)
		raw, _ := json.Marshal(m)
		id := questionID.FindString(string(raw))
		if !strings.Contains(string(raw), "no_channel") || id == "" {
			t.Fatalf("the refusal does not name its question: %s", raw)
		}
		s.ran(name, 0)
		s.run(0, "approve", id, "--once")
		wants(t, "approved", call(), "")
		wants(t, "once", call(), denied)
		s.ran(name, 1)
	}},
}

// elsewhere lets somebody answer while the client's form is open.
func elsewhere(t *testing.T, s *site, a *agent, name string, answer func(id string)) {
	t.Helper()
	pending := func() string {
		var list []struct{ ID, State string }
		if err := json.Unmarshal([]byte(s.run(0, "approve", "--list", "--json")), &list); err != nil || len(list) == 0 {
			return ""
		}
		return list[len(list)-1].ID
	}
	id := ""
	open := func(string) object {
		if id == "" {
			waitFor(t, "the question to be listed", func() bool { id = pending(); return id != "" })
			answer(id)
		}
		return nil
	}
	wants(t, "allowed elsewhere", a.call("bash", effect(name), open), "")
	s.ran(name, 1)
	if out := s.run(1, "approve", id, "--reject"); !strings.Contains(out, "CONFLICT") && !strings.Contains(out, "was answered by") {
		t.Errorf("a second answer: %s", out)
	}
	s.ran(name, 1)
}

// asks is a tool that asks twice, with an effect before, between and after. What
// it has done is in what it says.
const asks = `export default {
  getMetadata () { return { id: 'halfway', name: 'Halfway', description: 'Asks between its effects.', version: '1.0.0' } },
  getSchema () { return { parameters: { type: 'object', properties: {} } } },
  async execute () {
    const seen = []
    let effects = 0
    for (let i = 1; i <= 2; i++) {
      effects++
      seen.push((await this.api.ask({ text: 'go on? ' + i, options: [{ id: 'yes', label: 'Yes' }, { id: 'no', label: 'No' }] })).option)
    }
    effects++
    return seen.join(' ') + ' ' + effects
  }
}
`

// TestApprovalAndRestart: the program dies between a question and its answer. What
// had not run is asked about once more at most and runs once; what had run in part
// is lost, and not repeated.
func TestApprovalAndRestart(t *testing.T) {
	binary := program(t)
	for _, w := range ways {
		if !w.stateless {
			continue // the client is gone with the connection
		}
		t.Run(w.name, func(t *testing.T) {
			s := newSite(t, binary)
			path := filepath.Join(s.home, "toolbox", "halfway", "halfway.tool.js")
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(asks), 0o644); err != nil {
				t.Fatal(err)
			}
			begin := func() *agent {
				if w.serve {
					s.serve()
				}
				return s.agent(w, elicits)
			}
			a := begin()
			whole := a.call("toolbox__halfway", object{}, option("yes"))
			if raw, _ := json.Marshal(whole); !strings.Contains(string(raw), "yes yes 3") {
				t.Errorf("a tool that asks twice: %s", raw)
			}
			asked := a.begin("bash", effect("fresh"), nil)
			halfway := a.begin("toolbox__halfway", object{}, nil)
			s.kill()
			a = begin()
			answer := a.retry("bash", effect("fresh"), asked, option("once"))
			m := a.exchange("tools/call", answer, nil)
			if !w.serve || w.socket { // its session was the connection
				wants(t, "of another connection", m, "-32602")
				s.ran("fresh", 0)
				wants(t, "made again", a.call("bash", effect("fresh"), option("once")), "")
				s.ran("fresh", 1)
				wants(t, "of another connection", a.exchange("tools/call", a.retry("toolbox__halfway", object{}, halfway, option("yes")), nil), "-32602")
				return
			}
			for at(m, "result", "resultType") == "input_required" {
				m = a.exchange("tools/call", a.retry("bash", effect("fresh"), m, option("once")), nil)
			}
			wants(t, "what had not run", m, "")
			s.ran("fresh", 1)
			wants(t, "replayed", a.exchange("tools/call", answer, nil), "-32602")
			s.ran("fresh", 1)
			lost := a.exchange("tools/call", a.retry("toolbox__halfway", object{}, halfway, option("yes")), nil)
			if raw, _ := json.Marshal(lost); code(lost) != "EXECUTION_ERROR" || !strings.Contains(string(raw), `"lost"`) {
				t.Errorf("what had run in part: %s", raw)
			}
		})
	}
}

// TestApprovalExpires: who answers too late has not allowed anything.
func TestApprovalExpires(t *testing.T) {
	binary := program(t)
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			s := newSite(t, binary)
			if err := os.WriteFile(filepath.Join(s.home, "config.yaml"), []byte("questions:\n  timeout: 1s\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if w.serve {
				s.serve()
			}
			a := s.agent(w, elicits)
			m := a.call("bash", effect("late"), func(string) object { return nil })
			wants(t, "not answered", m, "PERMISSION_TIMEOUT")
			raw, _ := json.Marshal(m)
			id := questionID.FindString(string(raw))
			if out := s.run(1, "approve", id, "--once"); !strings.Contains(out, "expired") {
				t.Errorf("an answer after the end of %q: %s", id, out)
			}
			if w.stateless {
				a.carried["inputResponses"] = object{id: option("once")("")}
				wants(t, "an answer after the end", a.exchange("tools/call", a.carried, nil), "-32602")
			}
			s.ran("late", 0)
		})
	}
}

// TestModelCannotApprove: a command that the model runs reaches neither the home,
// nor the socket, nor the program's record of questions.
func TestModelCannotApprove(t *testing.T) {
	user, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, program(t))
	if s.home, err = os.MkdirTemp(user, ".toolyard-test-"); err != nil { // commands have a /tmp of their own
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(s.home) })
	a := s.agent(ways[0], object{})
	run := func(command string) string {
		raw, _ := json.Marshal(a.call("bash", object{"command": command}, unasked(t)))
		return string(raw)
	}
	refused, _ := json.Marshal(a.call("bash", effect("model"), unasked(t)))
	id := questionID.FindString(string(refused))
	if id == "" {
		t.Fatalf("nothing was asked: %s", refused)
	}
	s.kill()
	a.wire = s.stdioOf(exec.Command(s.binary, "mcp", "--home", s.home, "--workspace", s.workspace, "--allow", "bash"))
	a.exchange("initialize", object{"protocolVersion": "2025-11-25", "capabilities": object{}, "clientInfo": object{"name": "c", "version": "1"}}, nil)
	for _, command := range []string{
		s.binary + " --home " + s.home + " approve " + id + " --once",
		"test -S " + s.home + "/run/*.sock && echo REACHED",
		"cat " + s.home + "/toolyard.db | head -c 1 | grep -q . && echo REACHED",
		"touch " + s.home + "/x " + s.home + "/toolbox/x",
		"mkdir -p " + s.home + "/run && echo > " + s.home + "/config.yaml",
	} {
		if got := run(command); strings.Contains(got, "REACHED\\n") || strings.Contains(got, `"text":"REACHED`) {
			t.Errorf("%s: %s", command, got)
		}
	}
	for _, name := range []string{"x", "toolbox/x", "config.yaml"} {
		if _, err := os.Stat(filepath.Join(s.home, name)); err == nil {
			t.Errorf("a command has made %s in the home", name)
		}
	}
	list := s.run(0, "approve", "--list", "--json")
	if !strings.Contains(list, id) {
		t.Errorf("the question is not pending any more: %s", list)
	}
	s.ran("model", 0)
}
