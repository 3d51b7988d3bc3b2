package api

import (
	"errors"
	"mime"
	"net/http"

	"github.com/toolyard/toolyard/internal/store"
)

type ruleList struct {
	Rules []Rule `json:"rules" jsonschema:"the weakest scope first"`
}

func (a *api) getPolicy(w http.ResponseWriter, r *http.Request) error {
	rules, err := a.config.Policy.Rules(r.Context())
	if err != nil {
		return err
	}
	if rules == nil {
		rules = []Rule{}
	}
	return answer(w, ruleList{rules})
}

func (a *api) postPolicy(w http.ResponseWriter, r *http.Request) error {
	var rule Rule
	if err := decode(r, &rule); err != nil {
		return err
	}
	switch {
	case rule.Action != "allow" && rule.Action != "ask" && rule.Action != "deny":
		return badRequest("action %q is neither allow, ask nor deny", rule.Action)
	case rule.Rule == "":
		return badRequest("rule is missing")
	case rule.Scope == "":
		rule.Scope = "user"
	case rule.Scope != "user" && rule.Scope != "project":
		return badRequest("a rule of scope %q cannot be saved", rule.Scope).withHint("Save it with scope user or project.")
	}
	saved, err := a.config.Policy.AddRule(r.Context(), rule)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, saved)
	return nil
}

func (a *api) explain(w http.ResponseWriter, r *http.Request) error {
	var q Explain
	if err := decode(r, &q); err != nil {
		return err
	}
	if (q.Call == "") == (q.Tool == "") {
		return badRequest("give either call or tool")
	}
	e, err := a.config.Policy.Explain(r.Context(), q)
	if err != nil {
		return err
	}
	if e.Parts == nil {
		e.Parts = []Part{}
	}
	return answer(w, e)
}

type jobList struct {
	Jobs []store.Job `json:"jobs" jsonschema:"the newest first"`
}

type jobInput struct {
	Input string `json:"input" jsonschema:"what to write;; end it with a newline to send a line"`
}

func (a *api) getJobs(w http.ResponseWriter, r *http.Request) error {
	n, err := limit(r)
	if err != nil {
		return err
	}
	jobs, err := a.config.Jobs.List(r.Context(), r.URL.Query().Get("session"), n)
	if err != nil {
		return err
	}
	if jobs == nil {
		jobs = []store.Job{}
	}
	return answer(w, jobList{jobs})
}

func (a *api) getJobOutput(w http.ResponseWriter, r *http.Request) error {
	offset, err := intQuery(r, "offset", 0, 0, 1<<62)
	if err != nil {
		return err
	}
	n, err := intQuery(r, "limit", maxOutput, 1, maxOutput)
	if err != nil {
		return err
	}
	out, err := a.config.Jobs.Output(r.Context(), r.PathValue("id"), int64(offset), n)
	if err != nil {
		return err
	}
	return answer(w, out)
}

func (a *api) postJobInput(w http.ResponseWriter, r *http.Request) error {
	var in jobInput
	if err := decode(r, &in); err != nil {
		return err
	}
	if err := a.config.Jobs.Input(r.Context(), r.PathValue("id"), in.Input); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) deleteJob(w http.ResponseWriter, r *http.Request) error {
	job, err := a.config.Jobs.Kill(detached(r.Context()), r.PathValue("id"))
	if err != nil {
		return err
	}
	return answer(w, job)
}

// getArtifact serves bytes that some tool made: a browser must not run them.
func (a *api) getArtifact(w http.ResponseWriter, r *http.Request) error {
	data, row, err := a.config.OpenArtifact(r.Context(), r.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) {
		return notFound("there is no artifact %s", r.PathValue("id"))
	}
	if err != nil {
		return err
	}
	defer data.Close()
	h := w.Header()
	h.Set("Content-Type", row.MIME)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	if disposition := mime.FormatMediaType("attachment", map[string]string{"filename": row.Name}); disposition != "" {
		h.Set("Content-Disposition", disposition)
	}
	h.Set("ETag", `"`+row.SHA256+`"`)
	h.Set("Cache-Control", "private, immutable, max-age=86400")
	http.ServeContent(w, r, "", row.Created, data)
	return nil
}
