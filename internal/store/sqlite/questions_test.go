package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// askEndlessly puts, settles and takes questions, and puts tasks, and says each
// time what it believes to be kept: "answered ID", "taken ID".
func askEndlessly(path string) error {
	d, err := Open(path)
	if err != nil {
		return err
	}
	ctx := context.Background()
	now := time.Now()
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		q := store.Question{ID: id, Binding: id, State: "pending", Created: now, Deadline: now.Add(time.Hour)}
		if err := d.PutQuestion(ctx, q); err != nil {
			return err
		}
		fmt.Println("asked", id)
		if err := d.SettleQuestion(ctx, store.Question{ID: id, State: "answered", Option: "once", Answered: now}); err != nil {
			return err
		}
		if err := d.PutTask(ctx, store.Task{ID: id, Status: "working"}); err != nil {
			return err
		}
		fmt.Println("answered", id)
		if i%2 == 0 {
			if _, err := d.TakeAnswer(ctx, id, now); err != nil {
				return err
			}
			fmt.Println("taken", id)
		}
	}
}

// What a killed process has asked, answered and taken stays so: an answer that
// was used is not used again.
func TestQuestionsOfAKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	cmd := child(t.Context(), "questions", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == 60 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if what, id, whole := strings.Cut(lines.Text(), " "); whole {
			said[id] = what
		}
	}
	_ = cmd.Wait() // killed
	if len(said) < 10 {
		t.Fatalf("only %d questions before the end", len(said))
	}
	d := openTest(t, path, options{})
	intact(t, d)
	for id, what := range said {
		q, err := d.Question(t.Context(), id)
		if err != nil {
			t.Errorf("%s was %s: %v", id, what, err)
			continue
		}
		if what == "answered" && q.State != "answered" || what == "taken" && !q.Used {
			t.Errorf("%s was %s and is %+v", id, what, q)
		}
		if what == "taken" {
			if _, err := d.TakeAnswer(t.Context(), id, time.Now()); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the answer to %s is taken a second time: %v", id, err)
			}
		}
		if what != "asked" {
			if _, err := d.Task(t.Context(), id); err != nil {
				t.Errorf("the task %s: %v", id, err)
			}
		}
	}
}

// Two that have the same file open: one settles, one takes.
func TestQuestionsOfTwo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	both := []*DB{openTest(t, path, options{}), openTest(t, path, options{})}
	for i := range 20 {
		id := fmt.Sprint(i)
		q := store.Question{ID: id, Binding: id, State: "pending", Deadline: time.Now().Add(time.Hour)}
		if err := both[i%2].PutQuestion(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		var settled, taken atomic.Int64
		each := func(count *atomic.Int64, lost error, f func(d *DB) error) {
			var wg sync.WaitGroup
			for n := range 6 {
				wg.Go(func() {
					switch err := f(both[n%2]); {
					case err == nil:
						count.Add(1)
					case !errors.Is(err, lost):
						t.Errorf("%v, want %v", err, lost)
					}
				})
			}
			wg.Wait()
		}
		each(&settled, store.ErrSettled, func(d *DB) error {
			return d.SettleQuestion(t.Context(), store.Question{ID: id, State: "answered"})
		})
		each(&taken, store.ErrNotFound, func(d *DB) error { _, err := d.TakeAnswer(t.Context(), id, time.Now()); return err })
		if settled.Load() != 1 || taken.Load() != 1 {
			t.Errorf("%d settled it and %d took it, want one each", settled.Load(), taken.Load())
		}
	}
}

// A reopened store has what was put.
func TestQuestionsReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	d := openTest(t, path, options{})
	if err := d.PutQuestion(t.Context(), store.Question{ID: "q", State: "pending", Binding: "b", Fresh: true}); err != nil {
		t.Fatal(err)
	}
	if err := d.PutTask(t.Context(), store.Task{ID: "t", Status: "working", Runtime: "1:1"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openTest(t, path, options{})
	if q, err := d.Question(t.Context(), "q"); err != nil || q.Binding != "b" || !q.Fresh {
		t.Errorf("the question: %+v, %v", q, err)
	}
	if n, err := d.LoseTasks(t.Context(), func(string) bool { return false }, "gone"); err != nil || n != 1 {
		t.Errorf("LoseTasks: %d, %v", n, err)
	}
}
