package toolyard

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/internal/store"
)

// Turns of sessions whose calls name none.
const (
	turnPause  = 10 * time.Minute // a longer pause begins a new turn
	seenEvery  = time.Minute      // how exact the last activity of a session is kept
	maxTracked = 1024             // sessions held in memory; others come back from the record
)

// sessions keeps the rows of sessions that come through the Go API and the
// command line, and finds their turns. It is safe for concurrent use.
type sessions struct {
	rows store.Sessions
	mode policy.Mode
	own  string // of calls that name no session

	mu      sync.Mutex
	tracked map[string]*tracked
}

type tracked struct {
	row   store.Session
	turns int
	last  time.Time // last call
	saved time.Time
	undo  bool // the last call was an undo
}

func newSessions(rows store.Sessions, mode policy.Mode) *sessions {
	return &sessions{rows: rows, mode: mode, own: randomID("ses"), tracked: map[string]*tracked{}}
}

// enter notes a call and gives its session and turn. A new turn begins where the
// caller says so, after a pause, and after an undo.
func (s *sessions) enter(ctx context.Context, id, turn, client, workspace string, undo bool) (session, itsTurn string) {
	if id == "" {
		id = s.own
	}
	now := time.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.tracked[id]
	if known == nil {
		known = s.find(ctx, id, client, workspace, now)
	}
	before := known.row.Turn
	switch {
	case turn != "":
		known.row.Turn = turn
	case known.row.Turn == "" || !undo && (known.undo || now.Sub(known.last) > turnPause):
		known.turns++
		known.row.Turn = "turn_" + strconv.FormatInt(now.UnixMicro(), 36) + "_" + strconv.Itoa(known.turns)
	}
	known.last, known.undo, known.row.Seen = now, undo, now
	if known.row.Turn != before || undo || now.Sub(known.saved) > seenEvery {
		row := known.row
		if undo {
			row.Turn = "" // another process begins a new one too
		}
		// A session that is not recorded still works; its calls are.
		if s.rows.PutSession(ctx, row) == nil {
			known.saved = now
		}
	}
	return id, known.row.Turn
}

// find takes up a session of the record or begins one; s is locked.
func (s *sessions) find(ctx context.Context, id, client, workspace string, now time.Time) *tracked {
	if len(s.tracked) >= maxTracked {
		clear(s.tracked)
	}
	known := &tracked{row: store.Session{ID: id, Client: client, Workspace: workspace, Mode: string(s.mode), Started: now}}
	if row, err := s.rows.Session(ctx, id); err == nil {
		known.row, known.last = row, row.Seen
	}
	s.tracked[id] = known
	return known
}
