package api

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// CallRequest is one call of a tool.
type CallRequest struct {
	Tool      string          `json:"tool" jsonschema:"any spelling of its name; minLength=1"`
	Arguments json.RawMessage `json:"arguments,omitempty" jsonschema:"an object"`
	Session   string          `json:"session,omitempty" jsonschema:"calls of one session know of each other; maxLength=256"`
	Turn      string          `json:"turn,omitempty" jsonschema:"what undo calls a turn; maxLength=256"`
	Workspace string          `json:"workspace,omitempty" jsonschema:"one of the named roots, by default the first"`
	TimeoutMS int64           `json:"timeout_ms,omitempty" jsonschema:"of one attempt, up to the tool's ceiling; min=1"`
}

// batchLine is one result of a batch.
type batchLine struct {
	Index  int          `json:"index" jsonschema:"of the call in the request"`
	Tool   string       `json:"tool" jsonschema:"as named in the request"`
	Result *tool.Result `json:"result" jsonschema:"as MCP's CallToolResult"`
}

type callList struct {
	Calls      []store.Call `json:"calls" jsonschema:"the newest first"`
	NextCursor string       `json:"next_cursor,omitempty" jsonschema:"for the next page"`
}

// call makes the executor's call of a request.
func (a *api) call(r *http.Request, req CallRequest) (executor.Call, error) {
	caller, header := auth.From(r.Context()), r.Header.Get("Authorization")
	c := executor.Call{
		Tool: req.Tool, Arguments: req.Arguments, Session: auth.Session(header, req.Session), Tenant: caller.Tenant, Project: caller.Project, Allowed: caller.Allowed, Turn: req.Turn, Workspace: req.Workspace,
		Mode: a.config.Mode, Rules: a.config.Rules, Timeout: time.Duration(req.TimeoutMS) * time.Millisecond, Origin: executor.OriginAPI,
	}
	switch {
	case req.Tool == "":
		return c, badRequest("tool is missing")
	case req.TimeoutMS < 0:
		return c, badRequest("timeout_ms=%d is negative", req.TimeoutMS)
	case len(req.Session) > 256 || len(req.Turn) > 256:
		return c, badRequest("session and turn have at most 256 bytes")
	}
	if c.Workspace == "" && len(a.config.Workspaces) > 0 {
		c.Workspace = a.config.Workspaces[0]
	} else if c.Workspace != "" && !slices.Contains(a.config.Workspaces, c.Workspace) {
		return c, badRequest("%s is not a workspace of this server", c.Workspace).withHint("Named are: " + strings.Join(a.config.Workspaces, ", "))
	}
	if c.Session == "" {
		sum := sha256.Sum256([]byte(header + "\x00api\x00" + c.Workspace))
		c.Session = "ses_" + hex.EncodeToString(sum[:8])
	}
	if _, known := a.config.Registry.Lookup(req.Tool, c.Tenant, c.Project); !known {
		_, err := a.config.Registry.Acquire(req.Tool)
		if err == nil {
			err = tool.Errorf(tool.ToolNotFound, "there is no tool %q", req.Tool)
		}
		return c, err
	}
	return c, nil
}

func (a *api) postCall(w http.ResponseWriter, r *http.Request) error {
	var req CallRequest
	if err := decode(r, &req); err != nil {
		return err
	}
	c, err := a.call(r, req)
	if err != nil {
		return err
	}
	return answer(w, a.config.Executor.Call(r.Context(), c))
}

func (a *api) postBatch(w http.ResponseWriter, r *http.Request) error {
	if err := wantType(r, "application/x-ndjson", "application/jsonl", "application/json"); err != nil {
		return err
	}
	requests, err := readBatch(r.Body)
	if err != nil {
		return err
	}
	parallel, err := intQuery(r, "max_parallel", 0, 1, maxBatch)
	if err != nil {
		return err
	}
	opts := tool.BatchOptions{MaxParallel: parallel}
	if opts.StopOnError, err = boolQuery(r, "stop_on_error"); err != nil {
		return err
	}
	calls := make([]executor.Call, len(requests))
	for i, req := range requests {
		c, err := a.call(r, req)
		if e := asStatusOrNil(err); e != nil && e.code != string(tool.ToolNotFound) {
			e.message = "call " + strconv.Itoa(i) + ": " + e.message
			return e
		}
		calls[i] = c // an unknown tool fails by itself
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	_ = control.Flush()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i, result := range a.config.Executor.ExecuteBatch(r.Context(), calls, opts) {
		if err := enc.Encode(batchLine{i, requests[i].Tool, result}); err != nil {
			return nil // the client has gone; its context ends the rest
		}
		_ = control.Flush()
	}
	return nil
}

func asStatusOrNil(err error) *statusError {
	if err == nil {
		return nil
	}
	return asStatus(err)
}

// readBatch reads calls, one a line or as one JSON array.
func readBatch(body io.Reader) ([]CallRequest, error) {
	r := bufio.NewReader(body)
	first, err := firstByte(r)
	if err != nil {
		return nil, bodyError(err)
	}
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var list []CallRequest
	if first == '[' {
		if err := dec.Decode(&list); err != nil {
			return nil, bodyError(err)
		}
	} else {
		for {
			var one CallRequest
			err := dec.Decode(&one)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, bodyError(err)
			}
			if list = append(list, one); len(list) > maxBatch {
				break
			}
		}
	}
	if len(list) == 0 || len(list) > maxBatch {
		return nil, badRequest("a batch has 1 to %d calls", maxBatch)
	}
	return list, nil
}

// firstByte looks at the first byte that is not blank.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) {
			return b, r.UnreadByte()
		}
	}
}

// callStatuses are those of a call, as log --status takes them.
var callStatuses = []string{"ok", "error", "refused", "cancelled", "running", "lost"}

func (a *api) getCalls(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	n, err := limit(r)
	if err != nil {
		return err
	}
	from, err := since(r)
	if err != nil {
		return err
	}
	f := store.CallFilter{Tool: q.Get("tool"), Session: q.Get("session"), Status: q.Get("status"), Since: from, Before: q.Get("cursor"), Limit: n + 1}
	if e, ok := a.config.Registry.Lookup(f.Tool, "", ""); ok && f.Tool != "" {
		f.Tool = e.Spec.FullName()
	}
	if f.Status != "" && !slices.Contains(callStatuses, f.Status) {
		return badRequest("status=%q is none of %s", f.Status, strings.Join(callStatuses, ", "))
	}
	rows, err := a.config.Store.ListCalls(r.Context(), f)
	if errors.Is(err, store.ErrNotFound) {
		return badRequest("cursor=%q is not that of a list", f.Before).withHint("Take next_cursor of the page before.")
	}
	if err != nil {
		return err
	}
	list := callList{Calls: rows}
	if len(rows) > n {
		list.Calls = rows[:n]
		list.NextCursor = rows[n-1].ID
	}
	if list.Calls == nil {
		list.Calls = []store.Call{}
	}
	return answer(w, list)
}

func (a *api) getCall(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	for _, c := range a.config.Executor.Running() {
		if c.ID == id {
			return answer(w, c)
		}
	}
	if a.config.Store == nil {
		return notFound("no call %s is running", id)
	}
	c, err := a.config.Store.Call(r.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return notFound("there is no call %s", id)
	}
	if err != nil {
		return err
	}
	return answer(w, c)
}

func (a *api) deleteCall(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if a.config.Executor.Cancel(id) {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if a.config.Store != nil {
		if c, err := a.config.Store.Call(r.Context(), id); err == nil {
			return &statusError{http.StatusConflict, string(tool.Conflict), "the call " + id + " has ended: " + c.Status, ""}
		}
	}
	return notFound("there is no call %s", id)
}
