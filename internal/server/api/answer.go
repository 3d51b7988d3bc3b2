package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// statusError is an API error.
type statusError struct {
	status              int
	code, message, hint string
}

func (e *statusError) Error() string { return e.message }

func badRequest(format string, args ...any) *statusError {
	return &statusError{http.StatusBadRequest, string(tool.ParameterError), fmt.Sprintf(format, args...), ""}
}

func (e *statusError) withHint(hint string) *statusError {
	e.hint = hint
	return e
}

func notFound(format string, args ...any) *statusError {
	return &statusError{http.StatusNotFound, string(tool.NotFound), fmt.Sprintf(format, args...), ""}
}

// statuses of the codes that are not 500.
var statuses = map[tool.Code]int{
	tool.NotFound: 404, tool.ToolNotFound: 404, tool.SandboxNotFound: 404,
	tool.ValidationError: 400, tool.ParameterError: 400,
	tool.PermissionDenied: 403, tool.ModeDenied: 403, tool.HookDenied: 403, tool.PermissionTimeout: 403,
	tool.Conflict: 409, tool.ToolDisabled: 409,
	tool.ResourceExhausted: 413, tool.RateLimited: 429, tool.QueueFull: 429,
	tool.ConnectionError: 502, tool.TimeoutError: 504,
}

// serve wraps a handler: bounded body, and errors as the API writes them.
func (a *api) serve(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		limit := r.maxBody
		if limit == 0 {
			limit = maxBody
		}
		req.Body = http.MaxBytesReader(w, req.Body, limit)
		w.Header().Set("Cache-Control", "no-store")
		if err := r.handle(w, req); err != nil {
			a.fail(w, req, err)
		}
	}
}

// unknown answers what no route matches: another method of a path that is
// there, or nothing at all.
func (a *api) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := a.mux.Handler(other); pattern != elsewhere {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		a.fail(w, r, &statusError{http.StatusMethodNotAllowed, string(tool.ParameterError), r.URL.Path + " does not take " + r.Method, "It takes " + strings.Join(allowed, ", ") + "."})
		return
	}
	a.fail(w, r, notFound("nothing is served at %s %s", r.Method, r.URL.Path).withHint("See "+prefix+"/openapi.json."))
}

// fail answers with an error.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := asStatus(err)
	if r.Context().Err() != nil {
		return // nobody reads it
	}
	if e.status >= http.StatusInternalServerError {
		a.config.Log.Error("API request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	writeJSON(w, e.status, map[string]any{"error": map[string]string{"code": e.code, "message": e.message, "hint": e.hint}})
}

func asStatus(err error) *statusError {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &statusError{http.StatusRequestEntityTooLarge, string(tool.ResourceExhausted), fmt.Sprintf("the body is longer than %d bytes", e.Limit), ""}
	}
	if errors.Is(err, store.ErrNotFound) {
		return &statusError{http.StatusNotFound, string(tool.NotFound), "there is no such row", ""}
	}
	e := tool.AsError(err)
	status := statuses[e.Code]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	return &statusError{status, string(e.Code), e.Message, e.Hint}
}

// answer writes a success.
func answer(w http.ResponseWriter, v any) error {
	writeJSON(w, http.StatusOK, v)
	return nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client is gone, or has all but the end
}

// decode reads a JSON body.
func decode(r *http.Request, to any) error {
	if err := wantType(r, "application/json"); err != nil {
		return err
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return bodyError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the body holds more than one value")
	}
	return nil
}

func bodyError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	return badRequest("the body does not fit: %v", err).withHint("See " + prefix + "/openapi.json.")
}

// wantType refuses another content type than kinds: it is how pages of other
// origins would send a body without being asked first. With a token, which they
// cannot send that way, the type does not matter.
func wantType(r *http.Request, kinds ...string) error {
	if r.Header.Get("Authorization") != "" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	for _, k := range kinds {
		if err == nil && kind == k {
			return nil
		}
	}
	return &statusError{http.StatusUnsupportedMediaType, string(tool.ParameterError), fmt.Sprintf("the content type %q is not taken", r.Header.Get("Content-Type")), "Send " + kinds[0] + "."}
}

// limit reads the query parameter limit.
func limit(r *http.Request) (int, error) { return intQuery(r, "limit", defaultPage, 1, maxPage) }

// intQuery reads a whole number; fallback if it is not there.
func intQuery(r *http.Request, name string, fallback, low, high int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, badRequest("%s=%q is not a number from %d to %d", name, text, low, high)
	}
	return n, nil
}

// boolQuery reads true or false; false if it is not there.
func boolQuery(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	yes, err := strconv.ParseBool(text)
	if err != nil {
		return false, badRequest("%s=%q is neither true nor false", name, text)
	}
	return yes, nil
}

// since reads a time, or a duration back from now.
func since(r *http.Request) (time.Time, error) {
	text := r.URL.Query().Get("since")
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, badRequest("since=%q is neither a time such as 2026-01-31T12:00:00Z nor a duration such as 1h", text)
	}
	return t, nil
}

// detached is ctx without its end: what has been started is finished even if
// the client has gone.
func detached(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }
