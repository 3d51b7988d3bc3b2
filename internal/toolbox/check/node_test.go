package check_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// tools runs the tools of all tests.
var tools *server

func TestMain(m *testing.M) {
	code := 1
	defer func() { os.Exit(code) }()
	files, err := os.MkdirTemp("", "check")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(files)
	if tools, err = serve(files); err != nil {
		panic(err)
	}
	code = m.Run()
	if err := tools.close(); err != nil {
		panic(err)
	}
}

// server is one node that runs tools, each call in a thread of its own.
type server struct {
	adapter string
	cmd     *exec.Cmd
	in      io.WriteCloser
	read    sync.WaitGroup

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
}

type request struct {
	ID      int               `json:"id"`
	Stop    bool              `json:"stop,omitempty"`
	Adapter string            `json:"adapter,omitempty"`
	Module  string            `json:"module,omitempty"`
	Setup   json.RawMessage   `json:"setup,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Params  json.RawMessage   `json:"params,omitempty"`
}

type answer struct {
	ID        int
	Described json.RawMessage
	Value     json.RawMessage
	Undefined bool
	Thrown    *worker.Thrown
	Died      string
	Lines     []string
}

func serve(files string) (*server, error) {
	adapters, err := host.Write(files)
	if err != nil {
		return nil, err
	}
	s := &server{adapter: adapters.JS, waiting: map[int]chan answer{}, cmd: exec.Command("node", "testdata/serve.mjs")}
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.read.Go(func() {
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var a answer
			if err := json.Unmarshal(line, &a); err != nil {
				panic(fmt.Sprintf("%v: %s", err, line))
			}
			s.mu.Lock()
			done := s.waiting[a.ID]
			delete(s.waiting, a.ID)
			s.mu.Unlock()
			done <- a
		}
	})
	return s, nil
}

func (s *server) close() error {
	err := s.in.Close()
	s.read.Wait()
	return errors.Join(err, s.cmd.Wait())
}

func (s *server) send(r request) {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = s.in.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// call runs one call, which ends with ctx.
func (s *server) call(ctx context.Context, r request) answer {
	done := make(chan answer, 1)
	s.mu.Lock()
	s.last++
	r.ID, r.Adapter = s.last, s.adapter
	s.waiting[r.ID] = done
	s.send(r)
	s.mu.Unlock()
	select {
	case a := <-done:
		return a
	case <-ctx.Done():
		s.mu.Lock()
		s.send(request{ID: r.ID, Stop: true})
		s.mu.Unlock()
		return <-done
	}
}

func setupOf(module string) host.Setup {
	dir := filepath.Dir(module)
	return host.Setup{Name: filepath.Base(dir), Dir: dir, Data: filepath.Join(dir, "data")}
}

func describe(t *testing.T, module string) (*definition.Definition, error) {
	t.Helper()
	a := tools.call(t.Context(), request{Module: module, Setup: setupOf(module).JSON()})
	if a.Died != "" {
		return nil, errors.New(a.Died)
	}
	d, err := definition.Decode(a.Described)
	if err != nil {
		t.Fatalf("describe: %v\n%s", err, a.Described)
	}
	d.Language = definition.JavaScript
	return d, nil
}

// node is a trial with bare node: no sandbox, but the tool's own code, and the
// validator that stands in front of every call.
type node struct {
	dir       string
	request   request
	validator *validate.Validator // nil lets everything pass
	escaped   []string
	tests     *check.TestRun
}

func newNode(t *testing.T, d *definition.Definition) *node {
	t.Helper()
	module := filepath.Join(d.Dir, d.File)
	n := &node{dir: d.Dir, request: request{Module: module, Setup: setupOf(module).JSON(),
		Env: host.Environment(check.Variables(d), host.SchemaDefaults(d.Environment))}}
	if schema, err := check.Schema(d.Parameters); err == nil {
		n.validator, _ = validate.Compile(&tool.Spec{Name: d.Name, Input: schema})
	}
	return n
}

func (n *node) Validate(params json.RawMessage) (json.RawMessage, error) {
	if n.validator == nil {
		return params, nil
	}
	args, _, err := n.validator.Arguments(params)
	return args, err
}

func (n *node) Execute(ctx context.Context, params json.RawMessage) (check.Outcome, error) {
	before := state(n.dir)
	r := n.request
	r.Params = params
	a := tools.call(ctx, r)
	o := check.Outcome{Changed: changed(before, state(n.dir)), Value: a.Value, Undefined: a.Undefined, Lines: a.Lines}
	switch {
	case ctx.Err() != nil:
		o.Err = tool.Errorf(tool.TimeoutError, "the tool ran longer than its limit and was ended")
	case a.Died != "":
		o.Err = tool.Errorf(tool.ExecutionError, "%s", a.Died).WithDetail("reason", "exit")
	case a.Thrown != nil:
		failed := tool.Errorf(tool.ExecutionError, "%s", a.Thrown.Error())
		failed.Err = a.Thrown
		o.Err = failed
	}
	return o, nil
}

func (n *node) Escape(context.Context) ([]string, error) { return n.escaped, nil }

func (n *node) Test(context.Context) (check.TestRun, error) {
	if n.tests == nil {
		return check.TestRun{}, errors.New("no tests")
	}
	return *n.tests, nil
}

// state is the content of the files below dir, by name.
func state(dir string) map[string][]byte {
	files := map[string][]byte{}
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files[path], _ = os.ReadFile(path)
		}
		return nil
	})
	return files
}

func changed(before, after map[string][]byte) []string {
	var names []string
	for name, text := range after {
		if old, there := before[name]; !there || !bytes.Equal(old, text) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
