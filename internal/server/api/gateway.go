package api

import (
	"encoding/json"
	"net/http"

	"github.com/toolyard/toolyard/internal/gateway"
)

// gatewayRoutes are those of other MCP servers. To add one: a line here and its
// handler below.
func (a *api) gatewayRoutes() []route {
	return []route{
		{method: "GET", path: "/gateway", summary: "List other MCP servers", answer: schemaOf[serverList](), handle: a.getServers},
		{method: "POST", path: "/gateway", summary: "Add an MCP server", status: http.StatusCreated, body: schemaOf[serverAdd](), answer: schemaOf[serverAdded](), handle: a.postServer},
		{method: "POST", path: "/gateway/reload", summary: "Read the servers that were added again, after another process has changed them", answer: schemaOf[serverList](), handle: a.postReload},
		{method: "GET", path: "/gateway/{name}", summary: "Inspect an MCP server", answer: schemaOf[gateway.Detail](), handle: a.getServer},
		{method: "DELETE", path: "/gateway/{name}", summary: "Remove an MCP server that was added", status: http.StatusNoContent, handle: a.deleteServer},
		{method: "POST", path: "/gateway/{name}/start", summary: "Start an MCP server", answer: schemaOf[gateway.Detail](), handle: a.postStart},
		{method: "POST", path: "/gateway/{name}/stop", summary: "Stop an MCP server and all that it started", answer: schemaOf[gateway.Detail](), handle: a.postStop},
		{method: "POST", path: "/gateway/{name}/restart", summary: "Stop an MCP server and start it", answer: schemaOf[gateway.Detail](), handle: a.postRestart},
		{method: "POST", path: "/gateway/{name}/approve", summary: "Approve tools whose definitions changed", body: schemaOf[gateway.Approval](), answer: schemaOf[serverApproved](), handle: a.postApprove},
		{method: "GET", path: "/gateway/{name}/logs", summary: "Read what an MCP server wrote",
			query: []parameter{{"lines", "at most 1000, the default", "integer", ""}}, answer: schemaOf[serverLog](), handle: a.getServerLog},
	}
}

type serverList struct {
	Servers []gateway.Status `json:"servers"`
}

type serverAdd struct {
	Name  string          `json:"name" jsonschema:"letters, digits, '.', '_' and '-'"`
	Entry json.RawMessage `json:"entry" jsonschema:"as in mcpServers"`
}

type serverAdded struct {
	Server gateway.Detail `json:"server"`
	Notes  []string       `json:"notes" jsonschema:"about keys that have no effect"`
}

type serverApproved struct {
	Tools []gateway.Approved `json:"tools"`
}

type serverLog struct {
	Lines []string `json:"lines"`
}

func (a *api) getServers(w http.ResponseWriter, r *http.Request) error {
	list, err := a.config.Gateway.List(r.Context())
	return answerOr(w, serverList{list}, err)
}

func (a *api) postServer(w http.ResponseWriter, r *http.Request) error {
	var in serverAdd
	if err := decode(r, &in); err != nil {
		return err
	}
	notes, err := a.config.Gateway.Add(detached(r.Context()), in.Name, in.Entry)
	if err != nil {
		return err
	}
	if notes == nil {
		notes = []string{}
	}
	d, err := a.config.Gateway.Inspect(r.Context(), in.Name)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, serverAdded{d, notes})
	return nil
}

func (a *api) postReload(w http.ResponseWriter, r *http.Request) error {
	if err := a.config.Gateway.Renew(detached(r.Context())); err != nil {
		return err
	}
	return a.getServers(w, r)
}

func (a *api) getServer(w http.ResponseWriter, r *http.Request) error {
	d, err := a.config.Gateway.Inspect(r.Context(), r.PathValue("name"))
	return answerOr(w, d, err)
}

func (a *api) deleteServer(w http.ResponseWriter, r *http.Request) error {
	if err := a.config.Gateway.Remove(detached(r.Context()), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) postStart(w http.ResponseWriter, r *http.Request) error {
	if err := a.config.Gateway.Start(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	return a.getServer(w, r)
}

func (a *api) postStop(w http.ResponseWriter, r *http.Request) error {
	if err := a.config.Gateway.Stop(detached(r.Context()), r.PathValue("name")); err != nil {
		return err
	}
	return a.getServer(w, r)
}

func (a *api) postRestart(w http.ResponseWriter, r *http.Request) error {
	if err := a.config.Gateway.Restart(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	return a.getServer(w, r)
}

func (a *api) postApprove(w http.ResponseWriter, r *http.Request) error {
	var in gateway.Approval
	if err := decode(r, &in); err != nil {
		return err
	}
	done, err := a.config.Gateway.Approve(detached(r.Context()), r.PathValue("name"), in)
	return answerOr(w, serverApproved{done}, err)
}

func (a *api) getServerLog(w http.ResponseWriter, r *http.Request) error {
	n, err := intQuery(r, "lines", 0, 1, maxPage)
	if err != nil {
		return err
	}
	lines, err := a.config.Gateway.Logs(r.Context(), r.PathValue("name"), n)
	return answerOr(w, serverLog{lines}, err)
}
