package api

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/registry"
	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// toolRow is a tool in the list.
type toolRow struct {
	Name        string    `json:"name" jsonschema:"full name"`
	WireName    string    `json:"wire_name" jsonschema:"the name that MCP clients see"`
	Title       string    `json:"title" jsonschema:"for a person"`
	Description string    `json:"description" jsonschema:"for the model"`
	Category    string    `json:"category" jsonschema:"family"`
	Version     string    `json:"version" jsonschema:"semantic version"`
	Source      string    `json:"source" jsonschema:"empty for a built-in"`
	Effects     []string  `json:"effects" jsonschema:"read, write, execute, network, interact, state"`
	Permission  string    `json:"permission" jsonschema:"where no rule matches"`
	State       string    `json:"state" jsonschema:"such as ready"`
	Cause       string    `json:"cause,omitempty" jsonschema:"of the state"`
	Since       time.Time `json:"since" jsonschema:"when it came into the state"`
	Health      string    `json:"health,omitempty" jsonschema:"healthy, unhealthy, error or not_found"`
	InFlight    int       `json:"in_flight" jsonschema:"calls that run now"`
}

type toolList struct {
	Tools []toolRow `json:"tools" jsonschema:"by name, or the best match first"`
}

// toolDetail is all about one tool.
type toolDetail struct {
	toolRow
	Input       json.RawMessage `json:"input" jsonschema:"JSON Schema of the arguments"`
	Output      json.RawMessage `json:"output,omitempty" jsonschema:"JSON Schema of the structured result"`
	Manual      string          `json:"manual" jsonschema:"Markdown"`
	Aliases     []string        `json:"aliases" jsonschema:"other names"`
	TimeoutMS   int64           `json:"timeout_ms" jsonschema:"of one attempt"`
	Destructive bool            `json:"destructive" jsonschema:"may remove or overwrite"`
	Idempotent  bool            `json:"idempotent" jsonschema:"a second identical call changes nothing more"`
	Stats       []tool.Stats    `json:"stats" jsonschema:"since the start"`
}

// toolPatch is what can be changed about a tool.
type toolPatch struct {
	Enabled *bool   `json:"enabled,omitempty" jsonschema:"false takes it away from all clients"`
	Limits  *Limits `json:"limits,omitempty" jsonschema:"until the program ends"`
}

type statsList struct {
	Stats []tool.Stats `json:"stats" jsonschema:"one row a tool"`
}

type sessionList struct {
	Sessions []store.Session `json:"sessions" jsonschema:"the newest first"`
}

func rowOf(e registry.Entry) toolRow {
	s := e.Spec
	row := toolRow{
		Name: s.FullName(), WireName: registry.WireName(s.FullName()), Title: s.Title, Description: s.Description,
		Category: s.Category, Version: s.Version, Source: s.Source, Effects: s.Effects.Names(),
		Permission: s.Default.String(), State: string(e.State), Cause: e.Cause, Since: e.Since,
		Health: string(e.Health.Status), InFlight: e.InFlight,
	}
	if row.Title == "" {
		row.Title = s.Name
	}
	if row.Version == "" {
		row.Version = "1.0.0"
	}
	if s.Default == 0 {
		row.Permission = tool.Ask.String()
	}
	if row.Effects == nil {
		row.Effects = []string{}
	}
	return row
}

func (a *api) getTools(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f := registry.Filter{Category: q.Get("category"), Text: q.Get("q")}
	if text := q.Get("state"); text != "" {
		state, err := registry.ParseState(text)
		if err != nil {
			return badRequest("%v", err)
		}
		f.State = state
	}
	list := toolList{Tools: []toolRow{}}
	allowed := auth.From(r.Context()).Allowed
	for _, e := range a.config.Registry.Find(f) {
		if allowed != nil && !allowed(e.Spec) {
			continue
		}
		list.Tools = append(list.Tools, rowOf(e))
	}
	return answer(w, list)
}

// entry finds the tool that a path names.
func (a *api) entry(r *http.Request) (registry.Entry, error) {
	name := r.PathValue("name")
	caller := auth.From(r.Context())
	if e, ok := a.config.Registry.Lookup(name, caller.Tenant, caller.Project); ok {
		if caller.Allowed != nil && !caller.Allowed(e.Spec) {
			return registry.Entry{}, tool.Errorf(tool.ToolNotFound, "there is no tool %q", name)
		}
		return e, nil
	}
	h, err := a.config.Registry.Acquire(name)
	if err == nil {
		h.Release()
		err = tool.Errorf(tool.ToolNotFound, "there is no tool %q", name)
	}
	return registry.Entry{}, err
}

func (a *api) getTool(w http.ResponseWriter, r *http.Request) error {
	e, err := a.entry(r)
	if err != nil {
		return err
	}
	detail, err := a.detail(e)
	if err != nil {
		return err
	}
	return answer(w, detail)
}

func (a *api) detail(e registry.Entry) (toolDetail, error) {
	s := e.Spec
	d := toolDetail{
		toolRow: rowOf(e), Manual: s.Manual, Aliases: s.Aliases, Destructive: s.Destructive, Idempotent: s.Idempotent,
		TimeoutMS: s.Timeout.Milliseconds(), Stats: a.config.Executor.Stats(s.FullName(), 0),
	}
	if s.Timeout == 0 {
		d.TimeoutMS = tool.DefaultTimeout.Milliseconds()
	}
	if d.Aliases == nil {
		d.Aliases = []string{}
	}
	if d.Stats == nil {
		d.Stats = []tool.Stats{}
	}
	for _, part := range []struct {
		from *jsonschema.Schema
		to   *json.RawMessage
	}{{s.Input, &d.Input}, {s.Output, &d.Output}} {
		if part.from == nil {
			continue
		}
		raw, err := json.Marshal(part.from)
		if err != nil {
			return d, err
		}
		*part.to = raw
	}
	return d, nil
}

func (a *api) patchTool(w http.ResponseWriter, r *http.Request) error {
	e, err := a.entry(r)
	if err != nil {
		return err
	}
	var patch toolPatch
	if err := decode(r, &patch); err != nil {
		return err
	}
	if err := patch.Limits.check(); err != nil {
		return err
	}
	if patch.Limits != nil {
		if a.config.SetLimits == nil {
			return &statusError{http.StatusNotImplemented, string(tool.ParameterError), "limits cannot be changed here", "Change tools." + e.Spec.FullName() + " in the configuration."}
		}
		if err := a.config.SetLimits(r.Context(), e.Spec.FullName(), *patch.Limits); err != nil {
			return err
		}
	}
	if patch.Enabled != nil && *patch.Enabled != (e.State == registry.Ready) {
		if err := a.config.Registry.SetEnabled(e.ID, *patch.Enabled, "by the API"); err != nil {
			return &statusError{http.StatusConflict, string(tool.Conflict), err.Error(), ""}
		}
	}
	if e, err = a.entry(r); err != nil {
		return err
	}
	detail, err := a.detail(e)
	if err != nil {
		return err
	}
	return answer(w, detail)
}

func (l *Limits) check() error {
	if l == nil {
		return nil
	}
	switch {
	case l.TimeoutMS != nil && *l.TimeoutMS < 1:
		return badRequest("limits.timeout_ms is below 1")
	case l.Attempts != nil && (*l.Attempts < 1 || *l.Attempts > 10):
		return badRequest("limits.attempts is not from 1 to 10")
	case l.MaxOutput != nil && *l.MaxOutput < 1024:
		return badRequest("limits.max_output is below 1024")
	case l.MaxParallel != nil && *l.MaxParallel < 1:
		return badRequest("limits.max_parallel is below 1")
	case l.Queue != nil && *l.Queue < 0:
		return badRequest("limits.queue is negative")
	}
	return nil
}

func (a *api) getStats(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var window time.Duration
	if text := q.Get("window"); text != "" {
		var err error
		if window, err = time.ParseDuration(text); err != nil || window <= 0 {
			return badRequest("window=%q is not a duration such as 5m", text)
		}
	}
	name := q.Get("tool")
	if e, ok := a.config.Registry.Lookup(name, "", ""); ok && name != "" {
		name = e.Spec.FullName()
	}
	list := statsList{Stats: a.config.Executor.Stats(name, window)}
	if list.Stats == nil {
		list.Stats = []tool.Stats{}
	}
	return answer(w, list)
}

func (a *api) getSessions(w http.ResponseWriter, r *http.Request) error {
	n, err := limit(r)
	if err != nil {
		return err
	}
	rows, err := a.config.Store.ListSessions(r.Context(), n)
	if err != nil {
		return err
	}
	if rows == nil {
		rows = []store.Session{}
	}
	return answer(w, sessionList{rows})
}
