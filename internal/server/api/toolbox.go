package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox"
	"github.com/toolyard/toolyard/internal/toolbox/check"
	"github.com/toolyard/toolyard/internal/toolbox/page"
	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/internal/toolbox/runlog"
	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
	"github.com/toolyard/toolyard/tool"
)

// maxUpload is how large an archive may be that is uploaded, in bytes.
const maxUpload = 100 << 20

// toolboxRoutes are those of the user's own tools. To add one: a line here and its
// handler.
func (a *api) toolboxRoutes() []route {
	language := parameter{"language", "of headings: en or zh", "string", ""}
	return []route{
		{method: "GET", path: "/toolbox", summary: "List the user's own tools", answer: schemaOf[boxList](), handle: a.getToolbox},
		{method: "POST", path: "/toolbox", summary: "Install a tool; without confirm say what would be installed", body: schemaOf[boxInstall](), answer: schemaOf[boxInstalled](), handle: a.postToolbox},
		{method: "POST", path: "/toolbox/upload", summary: "Install a tool from an uploaded archive", bodyType: "application/octet-stream", body: binary, maxBody: maxUpload,
			query:  []parameter{{"filename", "its name, which says what kind of archive it is", "string", ""}, {"confirm", "install it; without it say what would be installed", "boolean", ""}},
			answer: schemaOf[boxInstalled](), handle: a.postUpload},
		{method: "POST", path: "/toolbox/new", summary: "Make a tool from a template", status: http.StatusCreated, body: schemaOf[boxNew](), answer: schemaOf[boxCreated](), handle: a.postNew},
		{method: "POST", path: "/toolbox/migrate", summary: "Copy the tools of the Prompt Manager", body: schemaOf[boxMigrate](), answer: schemaOf[pkgs.MigrationReport](), handle: a.postMigrate},
		{method: "POST", path: "/toolbox/validate", summary: "Validate a tool, a folder, or every tool", body: schemaOf[boxValidate](), answer: schemaOf[boxReports](), handle: a.postValidate},
		{method: "GET", path: "/toolbox/runtimes", summary: "List what tools run with", answer: schemaOf[boxRuntimes](), handle: a.getRuntimes},
		{method: "POST", path: "/toolbox/runtimes", summary: "Fetch a Node or a pnpm for tools", body: schemaOf[boxRuntime](), answer: schemaOf[runtimes.Runtime](), handle: a.postRuntime},
		{method: "GET", path: "/toolbox/{name}", summary: "Describe a tool", answer: schemaOf[boxTool](), handle: a.getBoxTool},
		{method: "DELETE", path: "/toolbox/{name}", summary: "Remove a tool; its data stay", query: []parameter{{"purge", "delete its data too", "boolean", ""}}, status: http.StatusNoContent, handle: a.deleteBoxTool},
		{method: "POST", path: "/toolbox/{name}/update", summary: "Replace a tool by a newer version of it", body: schemaOf[boxUpdate](), answer: schemaOf[boxInstalled](), handle: a.postUpdate},
		{method: "POST", path: "/toolbox/{name}/rollback", summary: "Put an earlier version back", body: schemaOf[boxRollback](), answer: schemaOf[boxInstalled](), handle: a.postRollback},
		{method: "GET", path: "/toolbox/{name}/verify", summary: "Compare a tool's files with what was installed", answer: schemaOf[pkgs.Verified](), handle: a.getVerify},
		{method: "GET", path: "/toolbox/{name}/package", summary: "Read a tool as an archive", answer: binary, answerType: "application/gzip", handle: a.getPackage},
		{method: "GET", path: "/toolbox/{name}/manual", summary: "Read a tool's manual", query: []parameter{language}, answer: schemaOf[boxPage](), handle: a.getManual},
		{method: "GET", path: "/toolbox/{name}/environment", summary: "Read a tool's configuration, secrets masked", query: []parameter{language}, answer: schemaOf[boxPage](), handle: a.getEnvironment},
		{method: "PATCH", path: "/toolbox/{name}/environment", summary: "Set variables of a tool; null takes one out", query: []parameter{language}, body: anyObject, answer: schemaOf[boxPage](), handle: a.patchEnvironment},
		{method: "GET", path: "/toolbox/{name}/log", summary: "Read a tool's run.log",
			query: []parameter{{"action", "tail, head, all or grep", "string", ""}, {"lines", "at most 10000; default 50", "integer", ""}, {"level", "that level and above", "string", ""},
				{"since", "a time (RFC 3339) or a duration back from now (1h)", "string", ""}, {"pattern", "a regular expression", "string", ""}},
			answer: schemaOf[runlog.Page](), handle: a.getRunLog},
		{method: "GET", path: "/toolbox/{name}/grants", summary: "Show what a tool was granted, and what it asks for", answer: schemaOf[boxGrants](), handle: a.getGrants},
		{method: "POST", path: "/toolbox/{name}/grants", summary: "Grant a tool more", body: schemaOf[boxGrant](), answer: schemaOf[boxGrants](), handle: a.postGrants},
		{method: "DELETE", path: "/toolbox/{name}/grants", summary: "Take back everything that a tool was granted", answer: schemaOf[boxGrants](), handle: a.deleteGrants},
	}
}

type boxList struct {
	Tools []toolbox.Summary `json:"tools"`
}

type boxInstall struct {
	Source  string `json:"source" jsonschema:"a folder, an archive or its URL, an npm package, or the URL of a git repository"`
	Confirm bool   `json:"confirm,omitempty" jsonschema:"install it, without it say what would be installed"`
}

type boxUpdate struct {
	Source  string `json:"source,omitempty" jsonschema:"where from, by default where it was installed from"`
	Confirm bool   `json:"confirm,omitempty" jsonschema:"update it, without it say what would be installed"`
	Force   bool   `json:"force,omitempty" jsonschema:"replace the tool although it was changed since"`
}

type boxRollback struct {
	To int `json:"to,omitempty" jsonschema:"number of the version, 0 is the one before"`
}

// boxInstalled is what was installed, or what would be.
type boxInstalled struct {
	Installed *pkgs.Installed `json:"installed,omitempty"`
	Proposal  []string        `json:"proposal,omitempty" jsonschema:"what would be installed, a line each: send confirm to do it"`
}

type boxNew struct {
	Name   string `json:"name" jsonschema:"letters, digits, _ and -"`
	Lang   string `json:"lang,omitempty" jsonschema:"default js; enum=js|py"`
	Author string `json:"author,omitempty" jsonschema:"who stands in the tool"`
}

type boxCreated struct {
	Dir   string   `json:"dir"`
	Files []string `json:"files"`
}

type boxMigrate struct {
	Dir       string `json:"dir,omitempty" jsonschema:"default ~/.prompt-manager"`
	Overwrite bool   `json:"overwrite,omitempty" jsonschema:"replace tools of the same name"`
}

type boxValidate struct {
	Tool    string `json:"tool,omitempty" jsonschema:"a name or a folder, without it every tool"`
	Release bool   `json:"release,omitempty" jsonschema:"the checklist of a release as well"`
	Strict  bool   `json:"strict,omitempty" jsonschema:"a method that is missing is an error"`
}

type boxReports struct {
	Reports []*check.Report `json:"reports"`
	Summary string          `json:"summary"`
}

type boxRuntimes struct {
	Runtimes []runtimes.Runtime `json:"runtimes"`
}

type boxRuntime struct {
	Name    string `json:"name" jsonschema:"enum=node|pnpm"`
	Version string `json:"version,omitempty" jsonschema:"default the one that was tried"`
}

type boxTool struct {
	Tool     toolbox.Summary `json:"tool"`
	Versions []pkgs.Release  `json:"versions"`
}

type boxPage struct {
	Markdown string          `json:"markdown"`
	Page     json.RawMessage `json:"page" jsonschema:"the same as data"`
}

type boxGrant struct {
	Read    []string `json:"read,omitempty" jsonschema:"directories that it may read"`
	Write   []string `json:"write,omitempty" jsonschema:"directories that it may read and write"`
	Network []string `json:"network,omitempty" jsonschema:"hosts, or all"`
	Memory  int64    `json:"memory,omitempty" jsonschema:"bytes; min=0"`
	TimeMS  int64    `json:"time_ms,omitempty" jsonschema:"of one call; min=0"`
	Scripts []string `json:"scripts,omitempty" jsonschema:"packages whose install scripts may run"`
}

type boxGrants struct {
	Granted boxGrant `json:"granted"`
	Asks    boxGrant `json:"asks"`
}

func grantOf(g toolbox.Grant) boxGrant {
	return boxGrant{Read: g.Read, Write: g.Write, Network: g.Network, Memory: g.Memory, TimeMS: g.Time.Milliseconds(), Scripts: g.Scripts}
}

func (a *api) getToolbox(w http.ResponseWriter, r *http.Request) error {
	list, err := a.config.Toolbox.Summaries(r.Context())
	if list == nil {
		list = []toolbox.Summary{}
	}
	return answerOr(w, boxList{list}, err)
}

func answerOr(w http.ResponseWriter, v any, err error) error {
	if err != nil {
		return err
	}
	return answer(w, v)
}

// errProposed ends an installation that is not to be done yet.
var errProposed = errors.New("not confirmed")

// propose makes the options of an installation that is done only if confirmed,
// and where its proposal is put.
func propose(confirm bool) (toolbox.InstallOptions, *[]string) {
	var lines []string
	return toolbox.InstallOptions{Confirm: func(_ context.Context, p toolbox.Proposal) error {
		lines = p.Lines()
		if !confirm {
			return errProposed
		}
		return nil
	}}, &lines
}

func installed(w http.ResponseWriter, in *pkgs.Installed, lines []string, err error) error {
	if errors.Is(err, errProposed) {
		return answer(w, boxInstalled{Proposal: lines})
	}
	return answerOr(w, boxInstalled{Installed: in}, err)
}

func (a *api) postToolbox(w http.ResponseWriter, r *http.Request) error {
	var in boxInstall
	if err := decode(r, &in); err != nil {
		return err
	}
	if in.Source == "" {
		return badRequest("source is empty")
	}
	o, lines := propose(in.Confirm)
	done, err := a.config.Toolbox.Install(r.Context(), in.Source, o)
	return installed(w, done, *lines, err)
}

// postUpload keeps the archive for as long as it takes.
func (a *api) postUpload(w http.ResponseWriter, r *http.Request) error {
	if err := wantType(r, "application/octet-stream", "application/gzip", "application/zip", "application/x-tar"); err != nil {
		return err
	}
	name := filepath.Base(filepath.Clean("/" + r.URL.Query().Get("filename")))
	if name == "/" || name == "." || strings.ContainsAny(name, "/\\\x00") {
		return badRequest("filename is missing").withHint("Add ?filename=tool.tgz: its end says what kind of archive it is.")
	}
	dir, err := os.MkdirTemp("", "toolyard-upload-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return badRequest("filename=%q is no name of a file", name)
	}
	_, err = io.Copy(f, r.Body)
	if err = errors.Join(err, f.Close()); err != nil {
		return bodyError(err)
	}
	o, lines := propose(r.URL.Query().Get("confirm") == "true")
	done, err := a.config.Toolbox.Install(r.Context(), path, o)
	return installed(w, done, *lines, err)
}

func (a *api) postUpdate(w http.ResponseWriter, r *http.Request) error {
	var in boxUpdate
	if err := decode(r, &in); err != nil {
		return err
	}
	o, lines := propose(in.Confirm)
	o.Force = in.Force
	done, err := a.config.Toolbox.Update(r.Context(), r.PathValue("name"), in.Source, o)
	return installed(w, done, *lines, err)
}

func (a *api) postRollback(w http.ResponseWriter, r *http.Request) error {
	var in boxRollback
	if err := decode(r, &in); err != nil {
		return err
	}
	done, err := a.config.Toolbox.Rollback(detached(r.Context()), r.PathValue("name"), in.To)
	return installed(w, done, nil, err)
}

func (a *api) postNew(w http.ResponseWriter, r *http.Request) error {
	in := boxNew{Lang: "js"}
	if err := decode(r, &in); err != nil {
		return err
	}
	dir, files, err := a.config.Toolbox.Create(r.Context(), in.Name, in.Lang, in.Author)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, boxCreated{dir, files})
	return nil
}

func (a *api) postMigrate(w http.ResponseWriter, r *http.Request) error {
	var in boxMigrate
	if err := decode(r, &in); err != nil {
		return err
	}
	report, err := a.config.Toolbox.Migrate(r.Context(), in.Dir, in.Overwrite)
	return answerOr(w, report, err)
}

func (a *api) postValidate(w http.ResponseWriter, r *http.Request) error {
	var in boxValidate
	if err := decode(r, &in); err != nil {
		return err
	}
	o := check.Options{Release: in.Release, Strict: in.Strict}
	var reports []*check.Report
	var err error
	if in.Tool == "" {
		reports, err = a.config.Toolbox.ValidateAll(r.Context(), o)
	} else {
		var one *check.Report
		one, err = a.config.Toolbox.Validate(r.Context(), in.Tool, o)
		reports = []*check.Report{one}
	}
	if err != nil {
		return err
	}
	return answer(w, boxReports{reports, check.Sum(reports...)})
}

func (a *api) getRuntimes(w http.ResponseWriter, r *http.Request) error {
	return answer(w, boxRuntimes{a.config.Toolbox.Runtimes(r.Context())})
}

func (a *api) postRuntime(w http.ResponseWriter, r *http.Request) error {
	var in boxRuntime
	if err := decode(r, &in); err != nil {
		return err
	}
	rt, err := a.config.Toolbox.InstallRuntime(r.Context(), in.Name, in.Version, nil)
	return answerOr(w, rt, err)
}

func (a *api) getBoxTool(w http.ResponseWriter, r *http.Request) error {
	one, err := a.config.Toolbox.Summary(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	versions, err := a.config.Toolbox.Versions(one.Name)
	if versions == nil {
		versions = []pkgs.Release{}
	}
	return answerOr(w, boxTool{one, versions}, err)
}

func (a *api) deleteBoxTool(w http.ResponseWriter, r *http.Request) error {
	if err := a.config.Toolbox.Remove(detached(r.Context()), r.PathValue("name"), r.URL.Query().Get("purge") == "true"); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) getVerify(w http.ResponseWriter, r *http.Request) error {
	v, err := a.config.Toolbox.Verify(r.Context(), r.PathValue("name"))
	return answerOr(w, v, err)
}

func (a *api) getPackage(w http.ResponseWriter, r *http.Request) error {
	dir, err := os.MkdirTemp("", "toolyard-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	packed, err := a.config.Toolbox.Pack(r.Context(), r.PathValue("name"), dir)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Disposition", `attachment; filename="`+filepath.Base(packed.Path)+`"`)
	http.ServeFile(w, r, packed.Path)
	return nil
}

func pageAnswer(w http.ResponseWriter, p page.Page) error {
	return answer(w, boxPage{p.Markdown, p.JSON})
}

func (a *api) getManual(w http.ResponseWriter, r *http.Request) error {
	def, failure, _, err := a.config.Toolbox.Entry(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	limits, err := a.config.Toolbox.Limits(def)
	if err != nil {
		return err
	}
	o := page.ManualOptions{Lang: page.Language(r.URL.Query().Get("language")), Granted: limits}
	if failure != nil {
		o.Failure = tool.AsError(failure).Text()
	}
	return pageAnswer(w, page.Manual(def, o))
}

func (a *api) getEnvironment(w http.ResponseWriter, r *http.Request) error {
	return a.environment(w, r, nil)
}

func (a *api) patchEnvironment(w http.ResponseWriter, r *http.Request) error {
	var params json.RawMessage
	if err := decode(r, &params); err != nil {
		return err
	}
	return a.environment(w, r, params)
}

// environment answers with a tool's configuration, changed before if there are
// parameters.
func (a *api) environment(w http.ResponseWriter, r *http.Request, params json.RawMessage) error {
	name := r.PathValue("name")
	def, _, _, err := a.config.Toolbox.Entry(r.Context(), name)
	if err != nil {
		return err
	}
	c := page.Configuration{Definition: def, Path: a.config.Toolbox.EnvPath(name), Lang: page.Language(r.URL.Query().Get("language"))}
	if c.Values, err = a.config.Toolbox.Environment(r.Context(), name); err != nil {
		return err
	}
	if params != nil {
		before := c.Values
		c.Values, err = a.config.Toolbox.Configure(detached(r.Context()), name, func(current map[string]string) (map[string]string, error) {
			merged, faults := page.MergeConfig(def, current, params)
			if len(faults) > 0 {
				return nil, badRequest("the configuration does not fit: %s", faults[0])
			}
			return merged, nil
		})
		if err != nil {
			return err
		}
		c.Changed, c.Removed = page.Changes(before, c.Values)
	}
	return pageAnswer(w, page.Configure(c))
}

func (a *api) getRunLog(w http.ResponseWriter, r *http.Request) error {
	lines, err := intQuery(r, "lines", 0, 1, runlog.MaxLines)
	if err != nil {
		return err
	}
	from, err := since(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	_, p, err := a.config.Toolbox.Log(r.Context(), r.PathValue("name"), runlog.Query{
		Action: runlog.Action(q.Get("action")), Lines: lines, Level: q.Get("level"), Since: from, Pattern: q.Get("pattern"),
	})
	return answerOr(w, p, err)
}

func (a *api) getGrants(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if _, _, _, err := a.config.Toolbox.Entry(r.Context(), name); err != nil {
		return err
	}
	given, asked, err := a.config.Toolbox.Grants(name)
	return answerOr(w, boxGrants{grantOf(given), grantOf(asked)}, err)
}

func (a *api) postGrants(w http.ResponseWriter, r *http.Request) error {
	var in boxGrant
	if err := decode(r, &in); err != nil {
		return err
	}
	g := toolbox.Grant{
		Read: in.Read, Write: in.Write, Network: in.Network, Memory: in.Memory, Time: time.Duration(in.TimeMS) * time.Millisecond, Scripts: in.Scripts,
	}
	if g.IsZero() {
		return badRequest("nothing is named that could be granted")
	}
	if _, _, _, err := a.config.Toolbox.Entry(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	if err := a.config.Toolbox.Grant(r.PathValue("name"), g); err != nil {
		return err
	}
	return a.getGrants(w, r)
}

func (a *api) deleteGrants(w http.ResponseWriter, r *http.Request) error {
	if _, _, _, err := a.config.Toolbox.Entry(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	if err := a.config.Toolbox.Revoke(r.PathValue("name"), toolbox.Grant{}); err != nil {
		return err
	}
	return a.getGrants(w, r)
}
