package registry

import (
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// State is where a tool is in its life.
type State string

const (
	Registered   State = "registered"
	Initializing State = "initializing"
	Ready        State = "ready"
	Disabled     State = "disabled"
	Failed       State = "failed" // could not be started
	Error        State = "error"  // worked once, does not now
	Unregistered State = "unregistered"
)

// transitions says which states may follow which. To allow another, add it here
// and to the table of the documentation.
var transitions = map[State][]State{
	Registered:   {Initializing},
	Initializing: {Ready, Failed},
	Ready:        {Disabled, Error, Unregistered},
	Disabled:     {Ready, Unregistered},
	Failed:       {Unregistered},
	Error:        {Ready, Disabled, Unregistered},
}

// ParseState reads the name of a state; "active" is ready.
func ParseState(name string) (State, error) {
	s := State(strings.ToLower(name))
	if s == "active" {
		return Ready, nil
	}
	if _, ok := transitions[s]; ok || s == Unregistered {
		return s, nil
	}
	return "", tool.Errorf(tool.ParameterError, "there is no state %q", name).
		WithHint("Use registered, initializing, ready (or active), disabled, failed, error or unregistered.")
}

func legal(from, to State, full string) error {
	if slices.Contains(transitions[from], to) {
		return nil
	}
	return tool.Errorf(tool.Conflict, "%s cannot go from %s to %s", full, from, to).
		WithDetail("from", string(from)).WithDetail("to", string(to))
}

// Transition is one change of state.
type Transition struct {
	From    State             `json:"from"`
	To      State             `json:"to"`
	Time    time.Time         `json:"time"`
	Cause   string            `json:"cause"`
	Context map[string]string `json:"context,omitempty"`
}

// historyLength is how many transitions of a tool are kept.
const historyLength = 32

// notice is something to tell the listeners: a transition, or only that the
// list changed.
type notice struct {
	id         string
	transition *Transition
}

// change moves a slot to a state.
func (r *Registry) change(s *slot, to State, cause string, context map[string]string) error {
	r.mu.Lock()
	if r.slots[s.id] != s && to != Unregistered {
		r.mu.Unlock()
		return legal(Unregistered, to, s.full)
	}
	if err := legal(s.state.Load().state, to, s.full); err != nil {
		r.mu.Unlock()
		return err
	}
	r.step(s, to, cause, context)
	r.rebuild()
	r.mu.Unlock()
	r.tell()
	return nil
}

// step records a legal transition. The lock is held.
func (r *Registry) step(s *slot, to State, cause string, context map[string]string) {
	old := s.state.Load()
	t := Transition{From: old.state, To: to, Time: r.config.Now(), Cause: cause, Context: context}
	next := *old
	next.state, next.cause, next.since = to, cause, t.Time
	if to == Ready {
		next.health.Failures = 0
	}
	s.state.Store(&next)
	s.note(t)
	r.pending = append(r.pending, notice{id: s.id, transition: &t})
	if r.config.Bus != nil {
		data := map[string]any{"from": string(t.From), "to": string(to), "cause": cause}
		for k, v := range context {
			data[k] = v
		}
		r.config.Bus.Publish(tool.Event{Time: t.Time, Type: tool.EventToolState, Tool: s.full, Data: data})
	}
}

func (s *slot) note(t Transition) {
	if len(s.history) >= historyLength {
		s.history = slices.Delete(s.history, 0, len(s.history)-historyLength+1)
	}
	s.history = append(s.history, t)
}

// tell hands what is pending to the listeners, in order, outside the lock. If
// somebody else is doing so, that one does it all.
func (r *Registry) tell() {
	r.mu.Lock()
	if r.telling {
		r.mu.Unlock()
		return
	}
	r.telling = true
	for len(r.pending) > 0 {
		pending, listeners, changed := r.pending, r.listeners, r.changed
		r.pending = nil
		r.mu.Unlock()
		for _, n := range pending {
			for _, f := range listeners {
				if n.transition != nil {
					f(n.id, *n.transition)
				}
			}
		}
		for _, f := range changed {
			f()
		}
		r.mu.Lock()
	}
	r.telling = false
	r.mu.Unlock()
}

// History is what happened to a tool, oldest first; at most 32 transitions.
func (r *Registry) History(id string) []Transition {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.slots[id]; s != nil {
		return slices.Clone(s.history)
	}
	return nil
}
