package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/sqlite"
)

// about is what a tool of the benchmark says of itself.
const about = `{ id: '%[1]s', name: '%[1]s', description: 'Adds two numbers. Use it where a sum is needed, as number %[1]s of many.', version: '1.0.0',
    tags: ['arithmetic', 'example'], scenarios: ['adding two numbers', 'measuring how long a call takes'], limitations: ['numbers only'] }`

// jsTool adds, and says which edit of it ran.
const jsTool = `export default {
  getMetadata () { return ` + about + ` },
  getSchema () {
    return { parameters: { type: 'object', required: ['a', 'b'], properties: {
      a: { type: 'number', description: 'the first number' }, b: { type: 'number', description: 'the second number' } } } }
  },
  async execute (params) { return { sum: params.a + params.b, edit: %[2]d } }
}
`

const pyTool = `def getMetadata():
    return {'id': '%[1]s', 'name': '%[1]s', 'description': 'Adds two numbers.', 'version': '1.0.0'}

def getSchema():
    return {'parameters': {'type': 'object', 'required': ['a', 'b'], 'properties': {'a': {'type': 'number'}, 'b': {'type': 'number'}}}}

def execute(params):
    return {'sum': params['a'] + params['b'], 'edit': %[2]d}
`

// place is a home with a toolbox.
type place struct{ dir string }

// home makes a home with tools that are known: the index is there, and the tools
// that come with the program are not, which a user can remove as well.
func (b *bench) home(ctx context.Context, name string, tools map[string]string) (place, error) {
	p := place{filepath.Join(b.dir, name)}
	if err := p.empty(ctx); err != nil {
		return p, err
	}
	for tool, text := range tools {
		if err := p.save(tool, text, 1); err != nil {
			return p, err
		}
	}
	y, err := p.open("off", nil)
	if err != nil {
		return p, err
	}
	y.AwaitTools(ctx)
	return p, y.close()
}

// empty makes a home without any tool.
func (p place) empty(ctx context.Context) error {
	y, err := p.open("off", nil)
	if err != nil {
		return err
	}
	list, err := y.Toolbox().Summaries(ctx)
	for _, s := range list {
		err = errors.Join(err, y.Toolbox().Remove(ctx, s.Name, false))
	}
	return errors.Join(err, y.close())
}

// save writes one tool, as an editor does.
func (p place) save(name, text string, edit int) error {
	dir := filepath.Join(p.dir, "toolbox", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := "tool.js"
	if text == pyTool {
		file = "tool.py"
	}
	temp := filepath.Join(dir, "."+file+".tmp")
	if err := os.WriteFile(temp, fmt.Appendf(nil, text, name, edit), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, file))
}

// yard is a Toolyard as the program makes it, with its record in a database.
type yard struct {
	*toolyard.Toolyard
	store *sqlite.DB
	calls int
}

// open makes one over a home. Log gets what it has to say; nil leaves that to
// standard error.
func (p place) open(preload string, log slog.Handler) (*yard, error) {
	if log == nil {
		log = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	db := sqlite.OpenInBackground(filepath.Join(p.dir, "toolyard.db"))
	user, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	y, err := toolyard.New(toolyard.Config{
		Home: p.dir, UserHome: user, Path: os.Getenv("PATH"), Store: db, Opened: db.Opened, KeepJobs: true, DoomLoop: "off", Log: slog.New(log),
		Toolbox: toolyard.Toolbox{On: true, Preload: preload, Environ: os.Environ()},
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &yard{Toolyard: y, store: db}, nil
}

func (y *yard) close() error { return errors.Join(y.Toolyard.Close(), y.store.Close()) }

// arguments are other ones for each call, or it would be the same call again and
// again.
func (y *yard) arguments() (json.RawMessage, int) {
	y.calls++
	return fmt.Appendf(nil, `{"a":%d,"b":2}`, y.calls), y.calls + 2
}

// add calls a tool through the whole pipeline, and gives the edit that answered.
func (y *yard) add(ctx context.Context, name string) (edit int, err error) {
	args, sum := y.arguments()
	r := y.Call(ctx, toolyard.Call{Tool: "toolbox:" + name, Arguments: args, Session: "bench"})
	if r.IsError {
		return 0, errors.New(r.TextContent())
	}
	return check(r.Structured, sum)
}

// check reads an answer.
func check(raw json.RawMessage, sum int) (edit int, err error) {
	var out struct{ Sum, Edit int }
	if err := json.Unmarshal(raw, &out); err != nil || out.Sum != sum {
		return 0, fmt.Errorf("got %s, want the sum %d", raw, sum)
	}
	return out.Edit, nil
}

// timed is how long f took.
func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}
