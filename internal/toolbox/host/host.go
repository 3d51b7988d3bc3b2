// Package host runs tools of the toolbox inside of warm workers: it has the
// adapters that make a tool out of a module in JavaScript or Python, and reads
// what they answer. It knows what a module offers and what its code may use, not
// where tools are found, what they are granted or who calls them.
//
// A worker of a tool is a [worker.Pool] with an adapter and a [Setup]:
//
//	files, err := host.Write(dir)
//	pool := worker.New(worker.Config{
//		Host: worker.Node{}, Module: file, Adapter: files.JS, Files: dir,
//		Setup: setup.JSON(), Env: setup.Env(base), Dir: setup.Dir,
//		Profile: sandbox.Profile{Kind: "toolbox", Read: []string{setup.Dir}, Write: []string{setup.Data}},
//	})
//	answer, err := pool.Call(ctx, host.Describe())
//	d, err := definition.Decode(answer.Value)
//
// and is then called with [Execute]. [Result] and [Failure] make of what came back
// what the caller reads.
//
// # What a tool asks of the runtime
//
// It comes to worker.Call.OnRequest: "ask" with the question ({"text": text} where
// the tool gave only a text), whose answer the tool gets as it is; "call"
// with {"name", "args"}, answered by a CallToolResult of MCP, where one with
// isError is thrown inside of the tool; "artifact" with {"path"}, an absolute one.
package host

import (
	"embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

//go:embed js/*.cjs py/*.py
var sources embed.FS

// parts are the files of an adapter that are compiled only when they are needed:
// it has them as texts. To add one: a file and its name here.
var (
	partsJS     = []string{"describe", "helpers", "reach", "storage", "validate"}
	partsPython = []string{"describe", "helpers", "reach", "script", "storage", "validate"}
)

// Files are the absolute paths of the adapters.
type Files struct{ JS, Py string }

// Write puts the adapters into dir, an existing directory that workers may read,
// and tells where they are. Their names have their content in them, so that all
// pools and programs of different versions share a directory; a file is there
// whole or not at all.
func Write(dir string) (Files, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Files{}, tool.Errorf(tool.Internal, "finding the directory of the adapters: %v", err)
	}
	js, err := write(dir, source("js/adapter.cjs")+texts("const parts", "js/", partsJS, ".cjs"), ".cjs")
	if err != nil {
		return Files{}, err
	}
	py, err := write(dir, source("py/adapter.py")+texts("PARTS", "py/", partsPython, ".py"), ".py")
	return Files{JS: js, Py: py}, err
}

func source(name string) string {
	text, err := sources.ReadFile(name)
	if err != nil { // it is in the binary
		panic("host: " + err.Error())
	}
	return string(text)
}

// texts writes files as texts in a table, in what is JavaScript and Python: an
// ASCII file is read faster.
func texts(table, dir string, names []string, suffix string) string {
	text := table + " = {\n"
	for _, name := range names {
		text += strconv.Quote(name) + ": " + strconv.QuoteToASCII(source(dir+name+suffix)) + ",\n"
	}
	return text + "}\n"
}

func write(dir, text, suffix string) (string, error) {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text))
	name := filepath.Join(dir, fmt.Sprintf("adapter-%016x%s", sum.Sum64(), suffix))
	if old, err := os.ReadFile(name); err == nil && string(old) == text {
		return name, nil
	}
	file, err := os.CreateTemp(dir, filepath.Base(name)+".*")
	if err != nil {
		return "", tool.Errorf(tool.Internal, "writing an adapter: %v", err)
	}
	_, err = file.WriteString(text)
	if e := file.Chmod(0o644); err == nil { // a worker may be another user
		err = e
	}
	if e := file.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return "", tool.Errorf(tool.Internal, "writing an adapter: %v", err)
	}
	return name, nil
}

// Setup is what an adapter knows of its tool. Paths are absolute, as the worker
// sees them.
type Setup struct {
	Name string `json:"name"` // this.__toolName
	Dir  string `json:"dir"`  // this.__toolDir: the tool's folder
	// Code is where the module is, if that is not the folder itself: what
	// requireToolModule looks in first.
	Code string `json:"code,omitempty"`
	// Data is the folder of data/storage.json. It need not exist, if it can be
	// made.
	Data string `json:"data"`
	// Home is that of toolyard, to which ~/.prompt-manager leads, Shared the folder
	// shared/ in it, UserHome what ~ stands for.
	Home     string `json:"home,omitempty"`
	Shared   string `json:"shared,omitempty"`
	UserHome string `json:"userHome,omitempty"`
	// Directories are those that were granted: getAllowedDirectories. The first one
	// is where relative paths begin, so it had better be one for writing.
	Directories []string `json:"directories"`
	// Environment are the tool's own variables, as [Environment] merges them. They
	// reach the worker through [Setup.Env] only.
	Environment map[string]string `json:"-"`
	// Quota is the most that data/storage.json may hold, in bytes. Zero is 10 MiB.
	Quota int64 `json:"quota,omitempty"`
}

// JSON is the Setup of a worker.Config.
func (s Setup) JSON() json.RawMessage {
	if s.Directories == nil {
		s.Directories = []string{}
	}
	out, err := json.Marshal(s)
	if err != nil { // it holds only texts
		panic("host: a setup that cannot be written: " + err.Error())
	}
	return out
}

// allowedDirectories is the variable by which tools of the Prompt Manager are
// told their directories.
const allowedDirectories = "ALLOWED_DIRECTORIES"

// Env is the whole environment of the worker, sorted: base, such as PATH and HOME,
// and over it the tool's own. Where the tool has ALLOWED_DIRECTORIES, it is what
// was granted, as a list in JSON, and not what was asked for.
func (s Setup) Env(base map[string]string) []string {
	all := Environment(s.Environment, base)
	if _, ok := all[allowedDirectories]; ok && len(s.Directories) > 0 {
		list, err := json.Marshal(s.Directories)
		if err == nil {
			all[allowedDirectories] = string(list)
		}
	}
	env := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// Environment merges layers of variables; of a name in several the first one
// counts: what .env says, Runtime.Environment, [SchemaDefaults], and what the
// operator passes on of the variables that the tool declares. Names that no
// environment can hold, and values with a NUL, are left out.
func Environment(layers ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, layer := range slices.Backward(layers) {
		for name, value := range layer {
			if name != "" && !strings.ContainsAny(name, "=\x00") && !strings.Contains(value, "\x00") {
				all[name] = value
			}
		}
	}
	return all
}

// SchemaDefaults are the default values of a schema's properties, as an
// environment holds them: texts as they are, everything else as JSON.
func SchemaDefaults(schema json.RawMessage) map[string]string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(schema, &s) // what is no schema has no defaults
	defaults := map[string]string{}
	for name, property := range s.Properties {
		var p struct {
			Default json.RawMessage `json:"default"`
		}
		if json.Unmarshal(property, &p) != nil || len(p.Default) == 0 || string(p.Default) == "null" {
			continue
		}
		var text string
		if json.Unmarshal(p.Default, &text) != nil {
			text = string(p.Default)
		}
		defaults[name] = text
	}
	return defaults
}

// Describe is the call that asks a tool what it is. Its answer is for
// definition.Decode. It runs code of the tool, so it needs limits.
func Describe() worker.Call { return worker.Call{Name: "describe"} }

// Execute is the call of a tool with its parameters, an object; nil is {}. The
// session is whose call it is, as api.context.sessionId; "" is not told.
func Execute(params json.RawMessage, session string) worker.Call {
	return worker.Call{Name: "execute", Args: Arguments(params, session)}
}

// Arguments are those of the function execute of an adapter.
func Arguments(params json.RawMessage, session string) json.RawMessage {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	args := make([]byte, 0, len(params)+len(session)+48)
	args = append(args, `{"mode":"execute","params":`...)
	args = append(args, params...)
	if session != "" {
		name, err := json.Marshal(session)
		if err == nil {
			args = append(append(args, `,"session":`...), name...)
		}
	}
	return append(args, '}')
}

// Level is that of a line in run.log: what a tool logged has its own, what it
// printed to stdout is INFO and to stderr WARN.
func Level(l worker.Line) string {
	switch l.Level {
	case "debug", "warn", "error":
		return strings.ToUpper(l.Level)
	case "warning":
		return "WARN"
	case "critical", "fatal":
		return "ERROR"
	}
	if l.Stream == "stderr" {
		return "WARN"
	}
	return "INFO"
}
