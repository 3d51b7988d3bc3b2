package executor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/toolyard/toolyard/tool"
)

// When a session counts as going in circles.
const (
	repeats      = 3  // of one call, or of a cycle
	longestCycle = 3  // calls
	readRefused  = 10 // the round of pure reads that is refused
	errorStreak  = 6  // failures of one tool
)

// Settings of the doom loop stage.
const (
	doomAsk    = "ask"
	doomRefuse = "refuse"
	doomOff    = "off"
)

// doomLoop stops a session that does the same again and again with the same
// result. It keeps the last few calls of a session as hashes.
type doomLoop struct {
	setting  string
	ask      asker
	recorder *recorder

	mu       sync.Mutex
	sessions *lru[string, *history]
}

// step is one call that has ended.
type step struct{ call, result uint64 }

// history is what is known of one session.
type history struct {
	mu       sync.Mutex
	steps    [(readRefused - 1) * longestCycle]step // the newest last
	len      int
	tool     string
	errors   int // failures of tool in a row
	inFlight int
	overlaps uint64 // rises whenever two calls were in flight together
}

func (s *doomLoop) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		if s.setting == doomOff || c.in.Origin == OriginSDK || c.in.Origin == OriginCLI || c.parent != nil || c.spec.Repeatable || c.in.Session == "" {
			return next(ctx, c)
		}
		h := s.session(c.in.Session)
		if !h.begin() || c.in.Concurrent || c.in.Unread && pure(c.spec) {
			defer h.end(false, nil, "", false)
			return next(ctx, c)
		}
		key := xxh3.HashString(c.name)*31 + xxh3.Hash(c.canonicalArguments())
		if reason := h.loop(key, c.name, pure(c.spec)); reason != "" {
			if err := s.stop(ctx, c, reason); err != nil {
				h.end(true, nil, "", false)
				return refuse(err)
			}
			h.forget()
		}
		r := next(ctx, c)
		if again := h.end(true, &step{key, hashResult(r)}, c.name, r.IsError); again != "" && pure(c.spec) {
			say(r, "[Note: "+again+". Use the result you have, or change the arguments; round "+strconv.Itoa(readRefused)+" will be refused.]")
		}
		return r
	}
}

// say adds a block of text for the model.
func say(r *tool.Result, text string) {
	r.Content = append(r.Content[:len(r.Content):len(r.Content)], tool.Content{Kind: tool.KindText, Text: text})
}

// pure tells a call that changes nothing and disturbs nobody.
func pure(s *tool.Spec) bool { return s.Effects&(tool.Write|tool.Execute|tool.Interact) == 0 }

func (s *doomLoop) session(id string) *history {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.sessions.get(id)
	if !ok {
		h = &history{}
		s.sessions.put(id, h)
	}
	return h
}

// stop asks a person whether the call may go on, and says no if nobody does.
func (s *doomLoop) stop(ctx context.Context, c *call, reason string) error {
	if s.recorder.heard(c) {
		s.recorder.publish(c, tool.EventDoomLoop, map[string]any{"tool": c.name, "reason": reason})
	}
	refused := tool.Errorf(tool.DoomLoop, "%s", reason).
		WithHint("Do something else first: read the result again, change the arguments, or tell the person what is in the way.")
	if s.setting == doomRefuse {
		return refused
	}
	answer, err := s.ask.ask(ctx, c, tool.Question{
		Kind: "doom_loop", Title: "Go on?", Text: reason + ". Let it run once more?",
		Options: []tool.Option{{ID: optionOnce, Label: "Run it"}, {ID: optionReject, Label: "Refuse"}},
		Details: map[string]any{"tool": c.name, "arguments": shown(c.args)},
		Binding: c.bindingOf(), Fresh: c.parent == nil,
	})
	switch {
	case ctx.Err() != nil:
		return cancelled(ctx, context.Cause(ctx))
	case err == nil && answer.Option == optionOnce:
		return nil
	case err == nil && answer.Text != "":
		refused.Message += ": " + answer.Text
	case errors.Is(err, tool.ErrNoChannel):
		refused = about(refused.WithDetail("reason", "no_channel"), err)
		if id := questionID(err); id != "" {
			refused.Hint += " Or a person lets it run once more with " + approve(id) + "."
		}
	}
	return refused
}

// begin enters a call and reports whether it is the only one of its session.
func (h *history) begin() (alone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inFlight++
	if h.inFlight > 1 {
		h.overlaps++
	}
	return h.inFlight == 1
}

// end leaves and, if nothing ran beside the call, remembers it. It returns how
// the session goes in circles, "" if it does not.
func (h *history) end(alone bool, s *step, name string, failed bool) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inFlight--
	overlapped := h.overlaps > 0
	if h.inFlight == 0 {
		h.overlaps = 0
	}
	if !alone || overlapped {
		// Who sends calls side by side does not answer one with the next.
		h.len = 0
		return ""
	}
	if s == nil {
		return ""
	}
	copy(h.steps[:], h.steps[1:])
	h.steps[len(h.steps)-1] = *s
	h.len = min(h.len+1, len(h.steps))
	if h.tool != name || !failed {
		h.tool, h.errors = name, 0
	}
	if failed {
		h.errors++
	}
	_, reason := h.circle(repeats)
	return reason
}

// forget starts anew, after a person has said yes.
func (h *history) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.len, h.errors = 0, 0
}

// loop says why a call with this key would go in circles; "" if it would not.
func (h *history) loop(key uint64, name string, pure bool) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	rounds, failures := repeats, errorStreak
	if pure {
		rounds, failures = readRefused-1, readRefused-1
	}
	if h.errors >= failures && h.tool == name {
		return fmt.Sprintf("%s has failed %d times in a row", name, h.errors)
	}
	if next, reason := h.circle(rounds); reason != "" && next == key {
		return reason
	}
	return ""
}

// circle looks for a cycle at the end of the history, rounds times over. next is
// the call that would begin it again.
func (h *history) circle(rounds int) (next uint64, reason string) {
	last := h.steps[len(h.steps)-h.len:]
	for cycle := 1; cycle <= longestCycle; cycle++ {
		if !periodic(last, cycle, rounds) {
			continue
		}
		if cycle == 1 {
			reason = fmt.Sprintf("the same call was made %d times in a row with the same result", rounds)
		} else {
			reason = fmt.Sprintf("the same %d calls were made %d times over with the same results", cycle, rounds)
		}
		return last[len(last)-cycle].call, reason
	}
	return 0, ""
}

// periodic reports whether the steps end in a cycle of that length, rounds
// times over.
func periodic(steps []step, cycle, rounds int) bool {
	n := rounds * cycle
	if len(steps) < n {
		return false
	}
	steps = steps[len(steps)-n:]
	for i := cycle; i < n; i++ {
		if steps[i] != steps[i-cycle] {
			return false
		}
	}
	return true
}

// hashResult is the same for results that look the same to the caller.
func hashResult(r *tool.Result) uint64 {
	sum := xxh3.Hash(r.Structured)
	for i := range r.Content {
		b := &r.Content[i]
		sum = sum*31 + xxh3.HashString(b.Text)
		if len(b.Data) > 0 {
			sum = sum*31 + xxh3.Hash(b.Data)
		}
		sum = sum*31 + xxh3.HashString(b.URI)
	}
	if r.IsError {
		sum++
	}
	return sum
}
