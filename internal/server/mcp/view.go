package mcp

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/profile"
	"github.com/toolyard/toolyard/tool"
)

// view is what a session has of the tools: which it may call and which it is
// shown. It does not change; the tools behind it do.
type view struct {
	profile *profile.Profile
	allowed func(*tool.Spec) bool // for the executor; nil means all
}

func newView(p *profile.Profile) *view { return &view{profile: p, allowed: p.Allowed()} }

// nothing is the view of a request that lost its own.
var nothing = &view{allowed: func(*tool.Spec) bool { return false }}

func (v *view) allows(s *tool.Spec) bool { return v.allowed == nil || v.allowed(s) }

// shown picks from what is offered what a session is shown.
func (v *view) shown(all []*offered) (list []*offered, searching bool) {
	if v.profile == nil {
		return nil, false
	}
	specs := make([]*tool.Spec, len(all))
	for i, o := range all {
		specs[i] = o.spec
	}
	picked, searching := v.profile.Shown(specs)
	for _, o := range all {
		if len(picked) > 0 && picked[0] == o.spec {
			list, picked = append(list, o), picked[1:]
		}
	}
	return list, searching
}

// headerView names the view of a request to the code behind the SDK's handlers,
// which get nothing else of it. What a client sends under this name is removed.
const headerView = "Toolyard-View"

// viewKey is the key of the own view of an HTTP request, or of that of a
// subscriptions/listen, in its context.
type viewKey struct{}

// ownView is the view that an HTTP request asks for or is given by who calls: a
// profile in the path, ?tools=…, an API key. Nil means that it has none of its own.
func (s *Server) ownView(r *http.Request) (*view, int, error) {
	name, tools := r.PathValue("profile"), []string(nil)
	if r.URL.RawQuery != "" {
		tools = r.URL.Query()["tools"]
	}
	var keyProfile string
	var allowed func(*tool.Spec) bool
	if s.config.Caller != nil {
		keyProfile, allowed = s.config.Caller(r)
	}
	if name == "" && len(tools) == 0 && keyProfile == "" && allowed == nil {
		return nil, 0, nil
	}
	p := s.view.profile
	if first := firstOf(name, keyProfile); first != "" {
		var err error
		if p, err = s.config.Profiles.Find(first); err != nil {
			return nil, http.StatusNotFound, err
		}
	}
	if keyProfile != "" && keyProfile != p.Name() { // the URL narrows what the key has
		bound, err := s.config.Profiles.Find(keyProfile)
		if err != nil {
			return nil, http.StatusForbidden, err
		}
		p = p.And(bound)
	}
	if len(tools) > 0 {
		var patterns []string
		for _, list := range tools {
			patterns = append(patterns, strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' })...)
		}
		var err error
		if p, err = p.Narrow(patterns); err != nil {
			return nil, http.StatusBadRequest, err
		}
	}
	return newView(p.Only(allowed)), 0, nil
}

func firstOf(names ...string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return ""
}

// viewing puts the view of a request into its context, or refuses it. Only a
// request with a view of its own costs anything.
func (s *Server) viewing(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	r.Header.Del(headerView)
	v, status, err := s.ownView(r)
	if err != nil {
		refuse(w, status, nil, &wireError{codeInvalidRequest, tool.AsError(err).Text()})
		return r, false
	}
	if v != nil {
		r = r.WithContext(context.WithValue(r.Context(), viewKey{}, v))
	}
	return r, true
}

// viewOf is the view of an HTTP request's own; nil if it has none.
func viewOf(r *http.Request) *view {
	v, _ := r.Context().Value(viewKey{}).(*view)
	return v
}

// withView lets the code behind one of the SDK's handlers find the view.
func (s *Server) withView(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := viewOf(r)
		if v == nil {
			next.ServeHTTP(w, r)
			return
		}
		id := strconv.FormatUint(s.lastView.Add(1), 10)
		s.views.Store(id, v)
		defer s.views.Delete(id)
		r.Header.Set(headerView, id)
		next.ServeHTTP(w, r)
	})
}

// viewFor is the view of a request through the SDK: its own, else its session's,
// else the server's.
func (s *Server) viewFor(sess *session, extra *sdk.RequestExtra) *view {
	if extra != nil {
		if id := extra.Header.Get(headerView); id != "" {
			if v, there := s.views.Load(id); there {
				return v.(*view)
			}
			return nothing
		}
	}
	return s.viewIn(sess, nil)
}

// viewIn is the view of a call: its own, else its session's, else the server's.
func (s *Server) viewIn(sess *session, own *view) *view {
	if own != nil {
		return own
	}
	if sess != nil {
		if v := sess.view.Load(); v != nil {
			return v
		}
	}
	return s.view
}

// instruct puts the instructions of a view into the answer to initialize or
// server/discover.
func (s *Server) instruct(result sdk.Result, v *view) {
	if s.config.Instructions != "" {
		return
	}
	s.mu.Lock()
	all := s.sorted
	s.mu.Unlock()
	switch answer := result.(type) {
	case *sdk.InitializeResult:
		answer.Instructions = instructions(v, all)
	case *sdk.DiscoverResult:
		answer.Instructions = instructions(v, all)
	}
}

const (
	welcome = "Toolyard: tools that work in a project without damaging it. " +
		"Read a file before you change it. Long output is folded; the result names a handle for the rest. " +
		"A failed call says what was wrong and what to do next.\n"
	searchFirst = "Only some of the tools are listed. Find the others with tool_search (say what you want to do), call them with call_tool. There are:\n"
)

// instructions tells a model what there is, in at most maxInstructions bytes: the
// families with their tools if that fits, else with how many they have.
func instructions(v *view, all []*offered) string {
	shown, searching := v.shown(all)
	families := map[string][]string{}
	for _, o := range all {
		if v.allows(o.spec) {
			name := familyOf(o.spec)
			families[name] = append(families[name], o.name)
		}
	}
	var b strings.Builder
	b.WriteString(welcome)
	if searching {
		b.WriteString(searchFirst)
	} else {
		for _, name := range slices.Sorted(maps.Keys(families)) {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(families[name], ", "))
		}
		if b.Len() <= maxInstructions {
			return b.String()
		}
		b.Reset()
		fmt.Fprintf(&b, "%s%d tools are listed:\n", welcome, len(shown))
	}
	var list []string
	for name, tools := range families {
		list = append(list, fmt.Sprintf("%s (%d)", name, len(tools)))
	}
	slices.Sort(list)
	for i, one := range list {
		rest := fmt.Sprintf(" and %d more families", len(list)-i)
		if b.Len()+len(one)+len(", ")+len(rest) > maxInstructions {
			b.WriteString(rest)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(one)
	}
	return b.String() + ".\n"
}

// familyOf is the family of a tool; of another server's, that server.
func familyOf(s *tool.Spec) string {
	switch {
	case s.Source != "":
		return s.Source
	case s.Category != "":
		return s.Category
	}
	return "other"
}
