// Package definition says what a tool of the toolbox is: what its module told
// about itself when it was asked. It is plain data and knows neither how the
// module was asked nor what becomes of it.
package definition

import (
	"encoding/json"
	"time"
)

// Definition is one tool as it describes itself. It is constant once made.
type Definition struct {
	// Name is the folder's name, and the tool's.
	Name string `json:"name"`
	// Dir is the absolute path of the folder, File the module's path in it.
	Dir      string   `json:"dir"`
	File     string   `json:"file"`
	Language Language `json:"language"`
	// Hash is that of the files that define the tool, in hexadecimal.
	Hash string `json:"hash,omitempty"`

	Metadata Metadata `json:"metadata"`
	// Parameters and Environment are JSON Schemas; nil where there are none.
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	Environment    json.RawMessage `json:"environment,omitempty"`
	Dependencies   []Dependency    `json:"dependencies,omitempty"`
	BusinessErrors []BusinessError `json:"business_errors,omitempty"`
	Runtime        Runtime         `json:"runtime"`
	// Manual is Markdown that the tool wrote itself; empty means that one is made.
	Manual string `json:"manual,omitempty"`

	// Methods are the functions that the module has, in JavaScript's spelling.
	Methods []string `json:"methods,omitempty"`
	// Script is a Python file without execute: it runs as a program.
	Script bool `json:"script,omitempty"`
	// Raw is what each method returned, as JSON; a method that returned nothing or
	// something that is no JSON is not in it, but in Problems.
	Raw map[string]json.RawMessage `json:"raw,omitempty"`
	// Problems are what went wrong with each method, and what in its answer could
	// not be understood and was left out.
	Problems []Problem `json:"problems,omitempty"`
}

// Language of a tool's module.
type Language string

const (
	JavaScript Language = "js"
	Python     Language = "py"
)

// Metadata is what a tool says of itself.
type Metadata struct {
	ID          string   `json:"id,omitempty"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Version     string   `json:"version,omitempty"`
	Category    string   `json:"category,omitempty"`
	Author      string   `json:"author,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Scenarios   []string `json:"scenarios,omitempty"`
	Limitations []string `json:"limitations,omitempty"`
}

// Dependency is something that a tool needs.
type Dependency struct {
	Kind DependencyKind `json:"kind"`
	// Name of the package or command, or the path of a local file ("./local.js").
	Name string `json:"name"`
	// Range of versions, as npm, pip or the command's own; empty is any.
	Range string `json:"range,omitempty"`
}

// DependencyKind says where a dependency comes from.
type DependencyKind string

const (
	Package DependencyKind = "package" // npm or PyPI
	Local   DependencyKind = "local"   // a file of the tool's own
	Command DependencyKind = "command" // a program of the machine
)

// BusinessError is a failure that the tool's author foresaw.
type BusinessError struct {
	Code        string `json:"code"`
	Description string `json:"description,omitempty"`
	// Match is the source of a regular expression that a message of this error
	// matches, with JavaScript's or Python's flags.
	Match     string `json:"match,omitempty"`
	Flags     string `json:"flags,omitempty"`
	Solution  string `json:"solution,omitempty"`
	Retryable bool   `json:"retryable,omitempty"`
}

// Runtime is what a tool asks for. Zero values take the defaults of [Defaults].
type Runtime struct {
	SandboxType      string            `json:"sandbox_type,omitempty"` // nodejs, python or docker
	Image            string            `json:"image,omitempty"`        // of docker
	MaxMemory        int64             `json:"max_memory,omitempty"`   // bytes
	MaxExecutionTime time.Duration     `json:"max_execution_time,omitempty"`
	Directories      []string          `json:"directories,omitempty"` // as written, with placeholders
	Network          Network           `json:"network,omitzero"`
	Environment      map[string]string `json:"environment,omitempty"`
	Shared           bool              `json:"shared,omitempty"`           // module state is common to all sessions
	ConcurrencySafe  bool              `json:"concurrency_safe,omitempty"` // calls may run side by side in one worker
}

// Network is which hosts a tool asks to reach. The zero value is none.
type Network struct {
	All     bool     `json:"all,omitempty"`
	Domains []string `json:"domains,omitempty"`
}

// Problem is one fault of a method.
type Problem struct {
	Method  string `json:"method"`
	Message string `json:"message"`
	// Threw says that the method itself failed; else its answer is at fault.
	Threw bool `json:"threw,omitempty"`
}
