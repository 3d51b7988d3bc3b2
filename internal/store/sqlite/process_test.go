package sqlite

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// TestMain is also the other process: the test binary runs itself with
// STORE_CHILD=what:path.
func TestMain(m *testing.M) {
	what, path, child := strings.Cut(os.Getenv("STORE_CHILD"), ":")
	if !child {
		os.Exit(m.Run())
	}
	var err error
	switch what {
	case "endless":
		err = writeEndlessly(path)
	case "questions":
		err = askEndlessly(path)
	case "some":
		err = writeSome(path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(ctx context.Context, what, path string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_CHILD="+what+":"+path)
	cmd.Stderr = os.Stderr
	return cmd
}

// writeEndlessly says what it has written as soon as it believes so: "queued
// ID TIME" or "durable ID TIME".
func writeEndlessly(path string) error {
	d, err := Open(path)
	if err != nil {
		return err
	}
	ctx := context.Background()
	last, err := d.LastEventID(ctx)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		last++
		err := errors.Join(
			d.PutCall(ctx, store.Call{ID: id, Tool: "queued", Status: "running", Started: time.Now(), Arguments: json.RawMessage(`{"a":1}`)}),
			d.PutEvents(ctx, []store.Event{{ID: last, Time: time.Now(), Body: json.RawMessage(`{"type":"x"}`)}}))
		if err != nil {
			return err
		}
		fmt.Println("queued", id, time.Now().UnixMicro())
		if i%50 != 0 {
			continue
		}
		if _, err := d.PutChange(ctx, store.Change{Call: id, State: "begun"}); err != nil {
			return err
		}
		if err := d.PutCallNow(ctx, store.Call{ID: id, Tool: "durable", Status: "ok", Started: time.Now()}); err != nil {
			return err
		}
		fmt.Println("durable", id, time.Now().UnixMicro())
	}
}

// someRows is what writeSome writes of calls and of changes.
const someRows = 200

func writeSome(path string) error {
	d, err := Open(path)
	if err != nil {
		return err
	}
	for i := range someRows {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		if err := d.PutCall(context.Background(), store.Call{ID: id}); err != nil {
			return err
		}
		if _, err := d.PutChange(context.Background(), store.Change{Call: id}); err != nil {
			return err
		}
	}
	return d.Close()
}

// TestKilled kills a writing process at random moments. What it said to be
// durable is there, what it queued is there but for the last moments, and the
// database is whole.
func TestKilled(t *testing.T) {
	// The promise is 10 ms; a machine that runs other tests at the same time may
	// let the writing goroutine wait longer, and the race detector slows it tenfold.
	const promised, crowded = 10 * time.Millisecond, 250 * time.Millisecond
	path := filepath.Join(t.TempDir(), "x.db")
	const rounds = 6
	var worst time.Duration
	total := 0
	for range rounds {
		cmd := child(t.Context(), "endless", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var killed time.Time
		queued, durable := map[string]time.Time{}, map[string]bool{}
		lines := bufio.NewScanner(out)
		stop := 100 + rand.IntN(1500)
		for n := 0; lines.Scan(); n++ {
			if n == stop {
				killed = time.Now()
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			var what, id string
			var at int64
			if k, _ := fmt.Sscan(lines.Text(), &what, &id, &at); k != 3 {
				continue // cut off
			}
			queued[id] = time.UnixMicro(at)
			if what == "durable" {
				durable[id] = true
			}
		}
		_ = cmd.Wait() // killed
		if killed.IsZero() {
			t.Fatal("the process ended by itself")
		}

		d := openTest(t, path, options{})
		intact(t, d)
		for id, at := range queued {
			c, err := d.Call(t.Context(), id)
			switch {
			case err == nil && durable[id] && c.Status != "ok":
				t.Errorf("call %s was durable as ok and is %s", id, c.Status)
			case errors.Is(err, store.ErrNotFound) && durable[id]:
				t.Errorf("the durable call %s is lost", id)
			case errors.Is(err, store.ErrNotFound):
				worst = max(worst, killed.Sub(at))
			case err != nil:
				t.Fatal(err)
			}
			if durable[id] {
				if made, err := d.ListChanges(t.Context(), store.ChangeFilter{Call: id}); err != nil || len(made) != 1 {
					t.Errorf("the change of %s: %v, %v", id, made, err)
				}
			}
		}
		total += len(queued)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rows in %d killed processes; the oldest lost one was queued %v before the kill", total, rounds, worst)
	if worst > crowded {
		t.Errorf("a row queued %v before the kill is lost; promised are %v", worst, promised)
	}
}

// Several processes open an empty home at the same time and write to it.
func TestProcessesShare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", "x.db")
	const n = 4
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := child(t.Context(), "some", path).Run(); err != nil {
				t.Errorf("a process: %v", err)
			}
		})
	}
	wg.Wait()
	d := openTest(t, path, options{})
	intact(t, d)
	if calls, changes := count(t, d, "calls"), count(t, d, "changes"); calls != n*someRows || changes != n*someRows {
		t.Errorf("%d calls and %d changes, want %d of each", calls, changes, n*someRows)
	}
}

// The same within one process.
func TestOpenAtOnce(t *testing.T) {
	for range 5 {
		path := filepath.Join(t.TempDir(), "home", "x.db")
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				d, err := Open(path)
				if err != nil {
					t.Error(err)
					return
				}
				if err := d.PutSetting(t.Context(), fmt.Sprint(i), ""); err != nil {
					t.Error(err)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		d := openTest(t, path, options{})
		if n := count(t, d, "settings"); n != 6 {
			t.Errorf("%d settings, want 6", n)
		}
		intact(t, d)
	}
}

// A process killed while it makes the database leaves an empty file or a whole
// database, and the next one goes on from there.
func TestKilledWhileOpening(t *testing.T) {
	for i := range 12 {
		path := filepath.Join(t.TempDir(), "home", "x.db")
		cmd := child(t.Context(), "some", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 { // at the first sign of the file, or a little later
			eventually(t, "the file is there", func() bool { _, err := os.Stat(path); return err == nil })
		} else {
			eventually(t, "the log is there", func() bool { _, err := os.Stat(path + "-wal"); return err == nil })
		}
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		d := openTest(t, path, options{})
		if err := d.PutSetting(t.Context(), "a", "b"); err != nil {
			t.Error(err)
		}
		intact(t, d)
	}
}
