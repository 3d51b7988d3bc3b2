package event_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/tool"
)

// The bus's bounds, as its users know them.
const (
	recent  = 4096
	backlog = 1024
)

// received gives the IDs that wait in s.
func received(s *event.Subscription) []uint64 {
	ids := []uint64{}
	for {
		select {
		case e, open := <-s.C():
			if !open {
				return ids
			}
			ids = append(ids, e.ID)
		default:
			return ids
		}
	}
}

// span is from, from+1, … to.
func span(from, to uint64) []uint64 {
	ids := []uint64{}
	for ; from <= to; from++ {
		ids = append(ids, from)
	}
	return ids
}

func publish(b *event.Bus, n int) {
	for range n {
		b.Publish(tool.Event{Type: "t"})
	}
}

func TestPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := event.New(41)
		if got := b.Last(); got != 41 {
			t.Errorf("Last of a new bus = %d, want 41", got)
		}
		now := time.Now().UTC()
		got := b.Publish(tool.Event{Type: tool.EventCallStarted, Session: "s", Data: map[string]any{"a": 1}})
		want := tool.Event{ID: 42, Time: now, Type: tool.EventCallStarted, Session: "s", Data: map[string]any{"a": 1}}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("Publish (-want +got):\n%s", d)
		}
		old := now.Add(-time.Hour)
		if got := b.Publish(tool.Event{ID: 7, Time: old}); got.ID != 43 || !got.Time.Equal(old) {
			t.Errorf("Publish gave ID %d and time %v, want 43 and the event's own time %v", got.ID, got.Time, old)
		}
		if got := b.Last(); got != 43 {
			t.Errorf("Last = %d, want 43", got)
		}
	})
}

func TestSubscribe(t *testing.T) {
	for _, c := range []struct {
		name      string
		first     uint64 // of New
		published int
		after     uint64
		want      []uint64
		complete  bool
	}{
		{"nothing yet", 0, 0, 0, span(1, 0), true},
		{"nothing since the store's last", 100, 0, 100, span(1, 0), true},
		{"from the beginning", 0, 5, 0, span(1, 5), true},
		{"in the middle", 0, 5, 3, span(4, 5), true},
		{"only what is new", 0, 5, 5, span(1, 0), true},
		{"an ID of the future", 0, 5, 99, span(1, 0), true},
		{"older ones are in the store", 100, 5, 50, span(101, 105), false},
		{"exactly those since the start", 100, 5, 100, span(101, 105), true},
		{"more than a backlog", 0, 3 * backlog, 0, span(1, 3*backlog), true},
		{"all that are kept", 0, recent, 0, span(1, recent), true},
		{"one too many", 0, recent + 1, 0, span(2, recent+1), false},
		{"the oldest kept after a turn of the ring", 0, recent + 7, 7, span(8, recent+7), true},
		{"one before it", 0, recent + 7, 6, span(8, recent+7), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := event.New(c.first)
			publish(b, c.published)
			s, complete := b.Subscribe(c.after, nil)
			defer s.Close()
			if complete != c.complete {
				t.Errorf("complete = %v, want %v", complete, c.complete)
			}
			if d := cmp.Diff(c.want, received(s)); d != "" {
				t.Errorf("kept events (-want +got):\n%s", d)
			}
			if s.Lost() != 0 {
				t.Errorf("%d events lost", s.Lost())
			}
			next := b.Publish(tool.Event{})
			if d := cmp.Diff([]uint64{next.ID}, received(s)); d != "" {
				t.Errorf("the next event (-want +got):\n%s", d)
			}
		})
	}
}

func TestSubscriberWants(t *testing.T) {
	b := event.New(0)
	b.Publish(tool.Event{Session: "a"})
	b.Publish(tool.Event{Session: "b"})
	mine, complete := b.Subscribe(0, func(e tool.Event) bool { return e.Session == "b" })
	defer mine.Close()
	if !complete {
		t.Error("not complete, though both events are kept")
	}
	b.Publish(tool.Event{Session: "a"})
	b.Publish(tool.Event{Session: "b"})
	if d := cmp.Diff([]uint64{2, 4}, received(mine)); d != "" {
		t.Errorf("events of b (-want +got):\n%s", d)
	}
	if mine.Lost() != 0 {
		t.Errorf("%d events counted as lost that were not wanted", mine.Lost())
	}
}

func TestSlowSubscriberLoses(t *testing.T) {
	b := event.New(0)
	slow, _ := b.Subscribe(0, nil)
	defer slow.Close()
	quick, _ := b.Subscribe(0, nil)
	defer quick.Close()
	for i := range backlog + 10 {
		e := b.Publish(tool.Event{})
		if got := received(quick); len(got) != 1 || got[0] != e.ID {
			t.Fatalf("event %d: the quick subscriber got %v", i, got)
		}
	}
	if slow.Lost() != 10 || quick.Lost() != 0 {
		t.Errorf("lost %d (slow) and %d (quick), want 10 and 0", slow.Lost(), quick.Lost())
	}
	if d := cmp.Diff(span(1, backlog), received(slow)); d != "" {
		t.Errorf("what the slow one got (-want +got):\n%s", d)
	}
	// It goes on with what comes now, and finds what it missed by subscribing again.
	b.Publish(tool.Event{})
	if d := cmp.Diff([]uint64{backlog + 11}, received(slow)); d != "" {
		t.Errorf("after the loss (-want +got):\n%s", d)
	}
	again, complete := b.Subscribe(backlog, nil)
	defer again.Close()
	if d := cmp.Diff(span(backlog+1, backlog+11), received(again)); d != "" || !complete {
		t.Errorf("subscribed again, complete %v (-want +got):\n%s", complete, d)
	}
}

func TestClose(t *testing.T) {
	b := event.New(0)
	s, _ := b.Subscribe(0, nil)
	other, _ := b.Subscribe(0, nil)
	defer other.Close()
	b.Publish(tool.Event{})
	s.Close()
	s.Close()
	b.Publish(tool.Event{})
	if d := cmp.Diff([]uint64{1}, received(s)); d != "" {
		t.Errorf("what waited before Close (-want +got):\n%s", d)
	}
	if _, open := <-s.C(); open {
		t.Error("the channel is open after Close")
	}
	if d := cmp.Diff([]uint64{1, 2}, received(other)); d != "" {
		t.Errorf("the other subscriber (-want +got):\n%s", d)
	}
}

// TestConcurrently has every subscriber see one order without holes, whoever
// publishes, and closes some in between.
func TestConcurrently(t *testing.T) {
	const publishers, each = 4, 200
	b := event.New(0)
	var readers, writers sync.WaitGroup
	for i := range 6 {
		s, complete := b.Subscribe(0, nil)
		if !complete {
			t.Fatal("not complete")
		}
		readers.Go(func() {
			defer s.Close()
			last := uint64(0)
			for e := range s.C() {
				if e.ID != last+1 {
					t.Errorf("subscriber %d: event %d after %d", i, e.ID, last)
					return
				}
				last = e.ID
				if last == publishers*each || i%2 == 1 && last == 100 {
					return
				}
			}
		})
	}
	for w := range publishers {
		writers.Go(func() {
			for i := range each {
				b.Publish(tool.Event{Type: fmt.Sprintf("%d-%d", w, i)})
			}
		})
	}
	writers.Wait()
	readers.Wait()
	if got := b.Last(); got != publishers*each {
		t.Errorf("Last = %d, want %d", got, publishers*each)
	}
}

func BenchmarkPublish(b *testing.B) {
	bus := event.New(0)
	s, _ := bus.Subscribe(0, nil)
	defer s.Close()
	for b.Loop() {
		bus.Publish(tool.Event{Type: "t"})
		<-s.C()
	}
}

// TestResume: the numbering goes on where a record ends that was read late, and a
// subscriber is told that what lies before is only there.
func TestResume(t *testing.T) {
	b := event.New(0)
	b.Publish(tool.Event{Type: "early"})
	b.Resume(41)
	if got := b.Publish(tool.Event{Type: "next"}).ID; got != 42 {
		t.Errorf("the first event after Resume has ID %d, want 42", got)
	}
	b.Resume(7)
	if got := b.Last(); got != 42 {
		t.Errorf("Resume went back to %d", got)
	}
	for after, want := range map[uint64]bool{0: false, 1: false, 40: false, 41: true, 42: true} {
		s, complete := b.Subscribe(after, nil)
		s.Close()
		if complete != want {
			t.Errorf("Subscribe(%d) says complete %v, want %v", after, complete, want)
		}
	}
}
