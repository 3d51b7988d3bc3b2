package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// writeLimit is how long a client may take to read an event.
const writeLimit = 30 * time.Second

// replayPage is how many events are read from the store at a time.
const replayPage = 500

// getEvents streams events. A client that comes back with the ID of the last
// one it saw gets what it missed: from the bus, or from the store if that is
// longer ago. A client that is too slow for the bus gets it the same way.
func (a *api) getEvents(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	after := a.config.Bus.Last()
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = q.Get("after")
	}
	if text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return badRequest("%q is not the ID of an event", text)
		}
		after = min(n, after)
	}
	var types []string
	if text := q.Get("type"); text != "" {
		types = strings.Split(text, ",")
	}
	session := q.Get("session")
	s := &eventStream{api: a, w: w, r: r, last: after, control: http.NewResponseController(w), want: func(e tool.Event) bool {
		return (session == "" || e.Session == session) && (types == nil || slices.Contains(types, e.Type))
	}}
	watches, err := boolQuery(r, "questions")
	if err != nil {
		return err
	}
	if watches && a.config.Questions != nil {
		defer a.config.Questions.Watch()()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	_ = s.comment("ok")
	for r.Context().Err() == nil {
		if err := s.follow(); err != nil {
			return nil // the client has gone
		}
	}
	return nil
}

// eventStream is one client of the events.
type eventStream struct {
	api     *api
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	want    func(tool.Event) bool
	last    uint64 // the highest ID that was sent or passed over
}

// follow subscribes and sends until events were lost, and then returns nil, so
// that the next round reads them from the store.
func (s *eventStream) follow() error {
	sub, complete := s.api.config.Bus.Subscribe(s.last, nil)
	defer sub.Close()
	if !complete {
		if err := s.replay(); err != nil {
			return err
		}
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case e := <-sub.C():
			if sub.Lost() > 0 && e.ID > s.last+1 {
				return nil
			}
			if err := s.send(e); err != nil {
				return err
			}
		case <-beat.C:
			if sub.Lost() > 0 {
				return nil
			}
			if err := s.comment("still here"); err != nil {
				return err
			}
		case <-s.r.Context().Done():
			return s.r.Context().Err()
		}
	}
}

// replay sends what the store has after the last event.
func (s *eventStream) replay() error {
	if s.api.config.Store == nil {
		return nil
	}
	for {
		rows, err := s.api.config.Store.EventsAfter(s.r.Context(), s.last, replayPage)
		if err != nil {
			s.api.config.Log.Warn("events cannot be replayed", "err", err)
			return nil // the newer ones are still worth sending
		}
		for _, row := range rows {
			var e tool.Event
			if json.Unmarshal(row.Body, &e) != nil {
				continue
			}
			e.ID = row.ID
			if err := s.send(e); err != nil {
				return err
			}
		}
		if len(rows) < replayPage {
			return nil
		}
	}
}

// send writes an event that is new and wanted.
func (s *eventStream) send(e tool.Event) error {
	if e.ID <= s.last {
		return nil
	}
	s.last = e.ID
	if !s.want(e) {
		return nil
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil // nobody could read it
	}
	return s.write(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Type, body))
}

func (s *eventStream) comment(text string) error { return s.write(": " + text + "\n\n") }

// write sends text. A client that reads nothing for long is cut off; it can
// come back and resume.
func (s *eventStream) write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeLimit))
	defer func() { _ = s.control.SetWriteDeadline(time.Time{}) }()
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.control.Flush()
}
