package worker

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// Host is a program that loads a module and speaks the protocol: [Node] or
// [Python].
type Host interface {
	// command starts the host from its file, for a process with a profile.
	command(file string, p *sandbox.Profile) []string
	// source is the text of the host and the end of its file's name.
	source() (text, suffix string)
	// concurrent says whether it runs several calls at the same time.
	concurrent() bool
	// fresh says whether each call gets a process that has run no other.
	fresh() bool
}

//go:embed host.cjs
var nodeHost string

//go:embed host.py
var pythonHost string

// Node runs JavaScript: an ES module or CommonJS, with Node 20 or later.
type Node struct {
	// Program is the executable. Empty is node, looked for in the environment's
	// PATH.
	Program string
	// Flags go to node.
	Flags []string
}

var _ Host = Node{}

func (n Node) command(file string, p *sandbox.Profile) []string {
	program := n.Program
	if program == "" {
		program = "node"
	}
	// No threads for compiling and collecting: each worker of many would have four,
	// and starting them costs 2 ms of 25.
	args := []string{program, "--v8-pool-size=0"}
	if p.Memory > 0 {
		// Else node sizes its heap by the machine's memory and collects only when
		// the sandbox has killed it.
		args = append(args, "--max-old-space-size="+strconv.FormatInt(max(p.Memory/sandbox.MiB*3/4, 16), 10))
	}
	return append(append(args, n.Flags...), file)
}

func (Node) source() (text, suffix string) { return nodeHost, ".cjs" }
func (Node) concurrent() bool              { return true }
func (Node) fresh() bool                   { return false }

// Python runs Python 3.8 or later. A process in the sandbox loads the module
// once and forks; calls run in the fork, so that one that dies is replaced
// without loading anything again.
type Python struct {
	// Program is the executable. Empty is python3, looked for in the environment's
	// PATH.
	Program string
	// Flags go to python, after -I.
	Flags []string
	// Fresh gives each call a fork of its own: nothing that a call does to the
	// module's state is there for the next one.
	Fresh bool
}

var _ Host = Python{}

func (p Python) command(file string, _ *sandbox.Profile) []string {
	program := p.Program
	if program == "" {
		program = "python3"
	}
	return append(append([]string{program, "-I"}, p.Flags...), file)
}

func (Python) source() (text, suffix string) { return pythonHost, ".py" }
func (Python) concurrent() bool              { return false }
func (p Python) fresh() bool                 { return p.Fresh }

// installed writes the host's file, once.
func (p *Pool) installed() error {
	p.install.Do(func() { p.broken = p.write() })
	return p.broken
}

// write makes the host's file, named by its content, so that programs of
// different versions do not take each other's.
func (p *Pool) write() error {
	text, suffix := p.config.Host.source()
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text))
	name := fmt.Sprintf("host-%016x%s", sum.Sum64(), suffix)
	dir := p.config.Files
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "toolyard-worker-"); err != nil {
			return tool.Errorf(tool.Internal, "making a directory for a worker's program: %v", err)
		}
		p.dir = dir
		if err := os.Chmod(dir, 0o755); err != nil { // a worker may be another user
			return tool.Errorf(tool.Internal, "opening a directory for a worker's program: %v", err)
		}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return tool.Errorf(tool.Internal, "finding a worker's program: %v", err)
	}
	p.program = filepath.Join(dir, name)
	if old, err := os.ReadFile(p.program); err == nil && string(old) == text {
		return nil
	}
	file, err := os.CreateTemp(dir, name+".*")
	if err == nil {
		_, err = file.WriteString(text)
		if e := file.Chmod(0o644); err == nil {
			err = e
		}
		if e := file.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = os.Rename(file.Name(), p.program)
		}
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}
	if err != nil {
		return tool.Errorf(tool.Internal, "writing a worker's program: %v", err)
	}
	return nil
}
