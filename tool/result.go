package tool

import "encoding/json"

// Result is what one call gives back. The zero value is an empty success.
type Result struct {
	Content []Content
	// Structured is JSON that fits Spec.Output; nil if there is none.
	Structured json.RawMessage
	IsError    bool
	// Err is the failure behind IsError, if it is known in detail.
	Err  *Error
	Meta Meta
	// ErrorInMeta says that Spec.Output leaves no room for an error, so that on
	// the wire Err stands in _meta. The executor sets it.
	ErrorInMeta bool
	// Foreign says that the result is another MCP server's: Structured is passed on
	// as it is, and Err stands in _meta.
	Foreign *Foreign
}

// Foreign is what another MCP server sent beside the parts that Result has:
// members of the result and of its _meta, as `"key":value` joined by commas.
type Foreign struct {
	Members, Meta []byte
}

// ContentKind says which fields of a Content count.
type ContentKind string

const (
	KindText         ContentKind = "text"          // Text
	KindImage        ContentKind = "image"         // Data, MIME
	KindAudio        ContentKind = "audio"         // Data, MIME
	KindResourceLink ContentKind = "resource_link" // URI, Name, MIME, Size
	KindResource     ContentKind = "resource"      // URI, MIME, Text or Data
)

// Content is one block of a result.
type Content struct {
	Kind ContentKind
	Text string
	Data []byte
	MIME string
	URI  string
	Name string
	Size int64
	// Raw is the block as another MCP server sent it; if set it is passed on
	// unchanged and Text is only for folding and logs.
	Raw json.RawMessage
}

// Text is a result of one block of text.
func Text(text string) *Result {
	return &Result{Content: []Content{{Kind: KindText, Text: text}}}
}

// ErrorResult is the failed result of err: its text, and err itself.
func ErrorResult(err error) *Result {
	e := AsError(err)
	return &Result{Content: []Content{{Kind: KindText, Text: e.Text()}}, IsError: true, Err: e}
}

// TextContent joins the text blocks, one a line.
func (r *Result) TextContent() string {
	var text string
	for _, c := range r.Content {
		if c.Kind != KindText {
			continue
		}
		if text != "" {
			text += "\n"
		}
		text += c.Text
	}
	return text
}

// Meta says how a call went. It is on the wire as _meta["toolyard/call"], with
// only the fields that apply.
type Meta struct {
	CallID       string       `json:"call_id,omitempty"`
	DurationMS   float64      `json:"duration_ms"`
	Attempts     int          `json:"attempts,omitempty"`
	Cached       bool         `json:"cached,omitempty"`
	Repaired     bool         `json:"repaired,omitempty"`
	MatchedWith  string       `json:"matched_with,omitempty"`
	Truncated    bool         `json:"truncated,omitempty"`
	OutputHandle string       `json:"output_handle,omitempty"`
	Sandbox      *SandboxMeta `json:"sandbox,omitempty"`
	Ending       *Ending      `json:"ending,omitempty"`
	Peaks        *Peaks       `json:"peaks,omitempty"`
	Artifacts    []string     `json:"artifacts,omitempty"`
	// Retried lists the codes of the attempts that failed before the last one.
	Retried []Code `json:"retried,omitempty"`
	// Notes are sentences for the model that did not fit elsewhere.
	Notes []string `json:"notes,omitempty"`
}

// SandboxMeta is what protected the call, as measured.
type SandboxMeta struct {
	Level   string   `json:"level"`
	Layers  []string `json:"layers"`
	Missing []string `json:"missing"`
}

// Ending says why a process ended: exit, signal, wall, cpu, memory, pids, disk,
// output or killed.
type Ending struct {
	Reason string `json:"reason"`
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
}

// Peaks is what a call's processes used at most.
type Peaks struct {
	MemoryBytes int64   `json:"memory_bytes"`
	CPUMS       float64 `json:"cpu_ms"`
	PIDs        int     `json:"pids"`
	WallMS      float64 `json:"wall_ms"`
}
