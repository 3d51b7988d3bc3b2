package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/scheduler"
	"github.com/toolyard/toolyard/tool"
)

type (
	task   = scheduler.Task
	limits = scheduler.Limits
)

func read(keys ...string) []tool.Resource  { return resources(tool.ReadAccess, keys) }
func write(keys ...string) []tool.Resource { return resources(tool.WriteAccess, keys) }

func resources(access tool.Access, keys []string) []tool.Resource {
	var list []tool.Resource
	for _, k := range keys {
		list = append(list, tool.Resource{Key: k, Access: access})
	}
	return list
}

func TestConflict(t *testing.T) {
	exclusive := func(workspace string) task { return task{Workspace: workspace, Exclusive: true} }
	in := func(workspace string, r []tool.Resource) task { return task{Workspace: workspace, Resources: r} }
	for _, c := range []struct {
		name string
		a, b task
		want bool
	}{
		{"two reads", in("/w", read("/w/a")), in("/w", read("/w/a")), false},
		{"read and write", in("/w", read("/w/a")), in("/w", write("/w/a")), true},
		{"two writes elsewhere", in("/w", write("/w/a")), in("/w", write("/w/ab")), false},
		{"a file in a directory", in("/w", read("/w")), in("/w", write("/w/a/b")), true},
		{"the root", in("", read("/")), in("", write("/a")), true},
		{"a trailing slash", in("", read("/a/")), in("", write("/a/b")), true},
		{"another workspace, the same file", in("/w", write("/x/a")), in("/v", write("/x/a")), true},
		{"nothing named", in("/w", nil), in("/w", write("/w/a")), false},
		{"exclusive, same workspace", exclusive("/w"), in("/w", nil), true},
		{"exclusive, none at all", exclusive(""), in("", nil), true},
		{"exclusive, other workspace", exclusive("/w"), in("/v", write("/v/a")), false},
		{"exclusive, none and one", exclusive(""), in("/v", nil), false},
		{"exclusive, workspace inside", exclusive("/w"), in("/w/sub", nil), true},
		{"exclusive, reached into", exclusive("/w"), in("/v", read("/w/a")), true},
		{"two exclusive", exclusive("/w"), exclusive("/w"), true},
	} {
		if got := scheduler.Conflict(c.a, c.b); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
		if got := scheduler.Conflict(c.b, c.a); got != c.want {
			t.Errorf("%s, turned round: got %t, want %t", c.name, got, c.want)
		}
	}
}

// log records in which order tasks began and ended.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *log) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := strings.Join(l.lines, " ")
	l.lines = nil
	return s
}

// submit enters a task that notes its name when it begins; end ends it.
func submit(t *testing.T, s *scheduler.Scheduler, l *log, name string, k task) (end func()) {
	t.Helper()
	stop := make(chan struct{})
	go func() {
		release, _, err := s.Acquire(t.Context(), k)
		if err != nil {
			l.add("%s!%s", name, tool.AsError(err).Code)
			return
		}
		l.add("%s", name)
		<-stop
		release()
	}()
	synctest.Wait()
	return func() { close(stop); synctest.Wait() }
}

func expect(t *testing.T, l *log, want string) {
	t.Helper()
	if got := l.take(); got != want {
		t.Errorf("began %q, want %q", got, want)
	}
}

func TestConflictingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := scheduler.New(scheduler.Config{}), &log{}
		endA := submit(t, s, l, "a", task{Resources: read("/f")})
		endB := submit(t, s, l, "b", task{Resources: write("/f")})
		endC := submit(t, s, l, "c", task{Resources: read("/f"), Priority: 9})
		endD := submit(t, s, l, "d", task{Resources: write("/g")})
		expect(t, l, "a d")
		endA()
		expect(t, l, "b") // c came later, for all its priority
		endB()
		expect(t, l, "c")
		endC()
		endD()
	})
}

func TestExclusiveIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := scheduler.New(scheduler.Config{}), &log{}
		endA := submit(t, s, l, "a", task{Workspace: "/w", Resources: read("/w/1")})
		endX := submit(t, s, l, "x", task{Workspace: "/w", Exclusive: true})
		endB := submit(t, s, l, "b", task{Workspace: "/w", Resources: read("/w/2")})
		endC := submit(t, s, l, "c", task{Workspace: "/v"})
		expect(t, l, "a c")
		endA()
		expect(t, l, "x")
		endX()
		expect(t, l, "b")
		endB()
		endC()
	})
}

func TestFairBetweenSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := scheduler.New(scheduler.Config{Limits: func(string) limits { return limits{Max: 1} }}), &log{}
		var ends []func()
		for i := range 3 {
			ends = append(ends, submit(t, s, l, fmt.Sprintf("a%d", i), task{Session: "a"}))
		}
		for i := range 2 {
			ends = append(ends, submit(t, s, l, fmt.Sprintf("b%d", i), task{Session: "b"}))
		}
		endP := submit(t, s, l, "p", task{Session: "a", Priority: 1})
		order := map[string]func(){"a0": ends[0], "a1": ends[1], "a2": ends[2], "b0": ends[3], "b1": ends[4], "p": endP}
		var began []string
		for now := l.take(); now != ""; now = l.take() {
			began = append(began, now)
			order[now]()
		}
		if diff := cmp.Diff([]string{"a0", "p", "b0", "a1", "b1", "a2"}, began); diff != "" {
			t.Errorf("order (-want +got)\n%s", diff)
		}
	})
}

func TestLowPriorityIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := scheduler.New(scheduler.Config{Limits: func(string) limits { return limits{Max: 1} }}), &log{}
		end := submit(t, s, l, "first", task{})
		endLow := submit(t, s, l, "low", task{})
		for i := range 40 {
			next := submit(t, s, l, "high", task{Priority: 1})
			l.take()
			end()
			end = next
			if l.take() == "low" {
				t.Logf("after %d others", i)
				endLow()
				end()
				return
			}
		}
		t.Error("a task of low priority never ran")
		endLow()
		end()
	})
}

func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := scheduler.New(scheduler.Config{Limits: func(string) limits { return limits{Max: 1, Queue: 1} }}), &log{}
		endA := submit(t, s, l, "a", task{Tool: "bash"})
		endB := submit(t, s, l, "b", task{Tool: "bash"})
		_, _, err := s.Acquire(t.Context(), task{Tool: "bash"})
		e := tool.AsError(err)
		if e == nil || e.Code != tool.QueueFull || e.Hint == "" {
			t.Fatalf("got %v", err)
		}
		if want := "the queue of bash is full: 1 running, 1 waiting, at most 1 may wait"; e.Message != want {
			t.Errorf("got %q, want %q", e.Message, want)
		}
		if diff := cmp.Diff(map[string]any{"running": 1, "waiting": 1, "queue": 1, "max": 1}, e.Details); diff != "" {
			t.Errorf("details (-want +got)\n%s", diff)
		}
		endA()
		endC := submit(t, s, l, "c", task{Tool: "bash"})
		endB()
		expect(t, l, "a b c")
		endC()
		if running, waiting := s.Load("bash"); running != 0 || waiting != 0 {
			t.Errorf("left over: %d running, %d waiting", running, waiting)
		}
	})
}

func TestNoQueue(t *testing.T) {
	s := scheduler.New(scheduler.Config{Limits: func(string) limits { return limits{Max: 1, Queue: -1} }})
	release, _, err := s.Acquire(t.Context(), task{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Acquire(t.Context(), task{}); tool.AsError(err).Code != tool.QueueFull {
		t.Errorf("got %v", err)
	}
	release()
	release() // twice does nothing
	again, _, err := s.Acquire(t.Context(), task{})
	if err != nil {
		t.Fatal(err)
	}
	if running, _ := s.Load(""); running != 1 {
		t.Errorf("%d running, want 1", running)
	}
	again()
}

func TestCancelledWaiterBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := scheduler.New(scheduler.Config{}), &log{}
		endA := submit(t, s, l, "a", task{Resources: read("/f")})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, tool.ErrTimeout)
		defer cancel()
		go func() {
			_, waited, err := s.Acquire(ctx, task{Tool: "write", Resources: write("/f")})
			l.add("%s after %s", tool.AsError(err).Code, waited)
			if !errors.Is(err, tool.ErrTimeout) {
				t.Errorf("the cause is lost: %v", err)
			}
		}()
		synctest.Wait()
		endC := submit(t, s, l, "c", task{Resources: read("/f")})
		expect(t, l, "a")
		time.Sleep(time.Second) // of the bubble's clock
		synctest.Wait()
		got := l.take()
		if !strings.Contains(got, "TIMEOUT_ERROR after 1s") || !strings.HasSuffix(got, "c") && !strings.HasPrefix(got, "c") {
			t.Errorf("got %q", got)
		}
		endA()
		endC()
		cancelled, stop := context.WithCancel(t.Context())
		stop()
		if _, _, err := s.Acquire(cancelled, task{}); tool.AsError(err).Code != tool.Cancelled {
			t.Errorf("got %v", err)
		}
	})
}

func TestWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(scheduler.Config{MaxRunning: 1})
		release, waited, err := s.Acquire(t.Context(), task{Tool: "a"})
		if err != nil || waited != 0 {
			t.Fatalf("waited %s, %v", waited, err)
		}
		go func() {
			time.Sleep(3 * time.Second)
			release()
		}()
		release2, waited, err := s.Acquire(t.Context(), task{Tool: "b"})
		if err != nil || waited != 3*time.Second {
			t.Errorf("waited %s, %v, want 3s", waited, err)
		}
		release2()
		if got := s.Expected("a"); got != 3*time.Second {
			t.Errorf("a is expected to take %s, want 3s", got)
		}
	})
}

// TestRandom drives random tasks and holds the rules against what happened.
func TestRandom(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) { randomTasks(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

type ran struct {
	task       task
	begin, end int
}

func randomTasks(t *testing.T, g *rand.Rand) {
	maxima := map[string]int{"a": 1, "b": 3, "c": 0}
	s := scheduler.New(scheduler.Config{
		MaxRunning: g.IntN(3) * 5,
		Limits:     func(name string) limits { return limits{Max: maxima[name], Queue: 1000} },
	})
	var mu sync.Mutex
	clock := 0
	running := map[string]int{}
	var done []*ran // in order of submission
	cancelled := 0
	var all sync.WaitGroup
	for range 120 {
		k := task{Tool: string("abc"[g.IntN(3)]), Session: string("xyz"[g.IntN(3)]), Workspace: []string{"/w", "/v", ""}[g.IntN(3)], Exclusive: g.IntN(8) == 0, Priority: g.IntN(2)}
		for range g.IntN(3) {
			k.Resources = append(k.Resources, tool.Resource{Key: []string{"/w", "/w/a", "/w/a/b", "/v/c", "/x"}[g.IntN(5)], Access: tool.Access(1 + g.IntN(2))})
		}
		took := time.Duration(g.IntN(50)) * time.Millisecond
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if g.IntN(5) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(g.IntN(100))*time.Millisecond)
		}
		r := &ran{task: k}
		done = append(done, r)
		all.Go(func() {
			defer cancel()
			release, _, err := s.Acquire(ctx, k)
			mu.Lock()
			if err != nil {
				cancelled++
				mu.Unlock()
				return
			}
			clock++
			r.begin = clock
			running[k.Tool]++
			if m := maxima[k.Tool]; m > 0 && running[k.Tool] > m {
				t.Errorf("%d of %s run at once, at most %d may", running[k.Tool], k.Tool, m)
			}
			mu.Unlock()
			time.Sleep(took)
			mu.Lock()
			clock++
			r.end = clock
			running[k.Tool]--
			mu.Unlock()
			release()
		})
		synctest.Wait() // so that tasks are submitted in this order
		if g.IntN(4) == 0 {
			time.Sleep(time.Duration(g.IntN(20)) * time.Millisecond)
		}
	}
	all.Wait() // everything ends, or the bubble is deadlocked
	for i, a := range done {
		for _, b := range done[i+1:] {
			if a.begin > 0 && b.begin > 0 && scheduler.Conflict(a.task, b.task) && b.begin < a.end {
				t.Errorf("%+v (from %d to %d) and the later %+v (from %d) conflict", a.task, a.begin, a.end, b.task, b.begin)
			}
		}
	}
	for name := range maxima {
		if r, w := s.Load(name); r != 0 || w != 0 {
			t.Errorf("%s: %d running and %d waiting at the end", name, r, w)
		}
	}
	if cancelled == len(done) {
		t.Error("everything was cancelled")
	}
}

func TestBatchOrder(t *testing.T) {
	s := scheduler.New(scheduler.Config{})
	b := s.Batch([]task{
		{Resources: write("/f"), Expected: 1},
		{Resources: write("/f"), Expected: 100}, // after 0
		{Resources: read("/g"), Expected: 5},
		{Resources: read("/h"), Expected: 50},
		{Resources: read("/h"), Expected: 50},
	}, 3)
	next := func() int {
		i, ok := b.Next()
		if !ok {
			return -1
		}
		return i
	}
	got := []int{next(), next(), next(), next()}
	b.Done(2)
	got = append(got, next())
	b.Done(0)
	got = append(got, next(), next())
	if diff := cmp.Diff([]int{3, 4, 2, -1, 0, 1, -1}, got); diff != "" {
		t.Errorf("order (-want +got)\n%s", diff)
	}
	b.Stop()
	if left := b.Unstarted(); left != nil {
		t.Errorf("left %v", left)
	}
}

func TestBatchRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := scheduler.New(scheduler.Config{MaxParallel: 2}), &log{}
		var tasks []task
		for i := range 5 {
			tasks = append(tasks, task{Tool: "t", Expected: time.Duration(i)})
		}
		b := s.Batch(tasks, 0)
		b.Run(t.Context(), func(i int) {
			l.add("%d", i)
			time.Sleep(time.Duration(i) * time.Second)
			if i == 3 {
				b.Stop()
			}
		})
		if got := strings.Split(l.take(), " "); len(got) != 2 || !slices.Contains(got, "4") || !slices.Contains(got, "3") {
			t.Errorf("ran %v, want 4 and 3", got)
		}
		if diff := cmp.Diff([]int{0, 1, 2}, b.Unstarted()); diff != "" {
			t.Errorf("unstarted (-want +got)\n%s", diff)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		s.Batch(tasks, 0).Run(cancelled, func(i int) { t.Errorf("%d ran after the end", i) })
	})
}

func BenchmarkAcquire(b *testing.B) {
	for _, others := range []int{0, 10, 100} {
		b.Run(fmt.Sprintf("beside-%d", others), func(b *testing.B) {
			s := scheduler.New(scheduler.Config{})
			for i := range others {
				if _, _, err := s.Acquire(b.Context(), task{Tool: "other", Session: "o", Workspace: "/w", Resources: read(fmt.Sprintf("/w/other/%d", i))}); err != nil {
					b.Fatal(err)
				}
			}
			k := task{Tool: "edit", Session: "s", Workspace: "/w", Resources: write("/w/a/b.go")}
			b.ReportAllocs()
			for b.Loop() {
				release, _, err := s.Acquire(b.Context(), k)
				if err != nil {
					b.Fatal(err)
				}
				release()
			}
		})
	}
}
