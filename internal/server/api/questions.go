package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// maxWait is how long a list of questions may be waited for.
const maxWait = time.Minute

// Questions are what people are asked.
type Questions interface {
	Question(ctx context.Context, id string) (store.Question, error)
	Answer(ctx context.Context, id string, a tool.Answer) error
	// Await gives the list as soon as it is another than version names, or after
	// wait, with the name of what it is then. Who waits watches.
	Await(ctx context.Context, f store.QuestionFilter, version string, wait time.Duration) ([]store.Question, string, error)
	// Watch says that somebody looks at the questions until release.
	Watch() (release func())
}

type questionList struct {
	Questions []store.Question `json:"questions" jsonschema:"the newest first"`
	Version   string           `json:"version" jsonschema:"names the state of the list, for a request that waits for a change"`
}

type questionAnswer struct {
	Option string `json:"option,omitempty" jsonschema:"the id of the chosen option"`
	Text   string `json:"text,omitempty" jsonschema:"a reason or a free answer"`
}

var questionStates = []string{"pending", "answered", "cancelled", "expired"}

func (a *api) questionRoutes() []route {
	return []route{
		{method: "GET", path: "/questions", summary: "List what people are asked, the newest first",
			query: []parameter{{"state", "pending, answered, cancelled or expired", "string", ""}, {"session", "only of this session", "string", ""},
				{"wait", "wait at most that long (30s; at most 1m) until the list is not empty, or with version until it is another; calls wait for an answer meanwhile", "string", ""},
				{"version", "that of an earlier list", "string", ""}, {"limit", "at most 1000; default 100", "integer", ""}},
			answer: schemaOf[questionList](), handle: a.getQuestions},
		{method: "GET", path: "/questions/{id}", summary: "Describe a question", answer: schemaOf[store.Question](), handle: a.getQuestion},
		{method: "POST", path: "/questions/{id}/answer", summary: "Answer a question, in the name of a person", body: schemaOf[questionAnswer](),
			answer: schemaOf[store.Question](), handle: a.postAnswer},
	}
}

func (a *api) getQuestions(w http.ResponseWriter, r *http.Request) error {
	n, err := limit(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	f := store.QuestionFilter{State: q.Get("state"), Session: q.Get("session"), Limit: n}
	if f.State != "" && !slices.Contains(questionStates, f.State) {
		return badRequest("state=%q is none of %s", f.State, strings.Join(questionStates, ", "))
	}
	wait := time.Duration(0)
	if text := q.Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
			return badRequest("wait=%q is no time up to %s", text, maxWait).withHint("Write it as 30s.")
		}
	}
	rows, version, err := a.config.Questions.Await(r.Context(), f, q.Get("version"), wait)
	if err != nil {
		return err
	}
	if rows == nil {
		rows = []store.Question{}
	}
	return answer(w, questionList{rows, version})
}

func (a *api) getQuestion(w http.ResponseWriter, r *http.Request) error {
	q, err := a.config.Questions.Question(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return answer(w, q)
}

// postAnswer answers for whoever has the token: a person, or a program in the
// name of one.
func (a *api) postAnswer(w http.ResponseWriter, r *http.Request) error {
	var in questionAnswer
	if err := decode(r, &in); err != nil {
		return err
	}
	ctx, id := detached(r.Context()), r.PathValue("id")
	if err := a.config.Questions.Answer(ctx, id, tool.Answer{Option: in.Option, Text: in.Text, By: "api"}); err != nil {
		return err
	}
	q, err := a.config.Questions.Question(ctx, id)
	if err != nil {
		return err
	}
	return answer(w, q)
}
