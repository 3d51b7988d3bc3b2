package sqlite

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

func benchCall(i int) store.Call {
	return store.Call{ID: fmt.Sprintf("call_%016d", i), Session: "s1", Workspace: "/srv/app", Tool: "system:read",
		Arguments: json.RawMessage(`{"file_path":"internal/store/store.go"}`), Status: "ok", Verdict: "allow", Started: time.Now(),
		Meta: json.RawMessage(`{"call_id":"x","duration_ms":1.5,"attempts":1}`)}
}

// BenchmarkPutCall is what a call waits for its record: the queue, not the disk,
// though groups are written meanwhile. Every fourth group the queue is emptied.
func BenchmarkPutCall(b *testing.B) {
	d := openTest(b, filepath.Join(b.TempDir(), "x.db"), options{})
	rows := make([]store.Call, 4*groupRows)
	n := 0
	for b.Loop() {
		b.StopTimer()
		if err := d.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		for i := range rows {
			rows[i] = benchCall(n)
			n++
		}
		b.StartTimer()
		for i := range rows {
			if err := d.PutCall(b.Context(), rows[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
}

// BenchmarkPutCallSustained includes the disk: rows a second until all are
// written.
func BenchmarkPutCallSustained(b *testing.B) {
	d := openTest(b, filepath.Join(b.TempDir(), "x.db"), options{})
	n := 0
	for b.Loop() {
		n++
		if err := d.PutCall(b.Context(), benchCall(n)); err != nil {
			b.Fatal(err)
		}
	}
	if err := d.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkPutCallNow(b *testing.B) {
	d := openTest(b, filepath.Join(b.TempDir(), "x.db"), options{})
	n := 0
	for b.Loop() {
		n++
		if err := d.PutCallNow(b.Context(), benchCall(n)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutChange(b *testing.B) {
	d := openTest(b, filepath.Join(b.TempDir(), "x.db"), options{})
	for b.Loop() {
		if _, err := d.PutChange(b.Context(), store.Change{Call: "c", Session: "s", Path: "/a", State: "begun"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPutChangeParallel shows that waiters share a sync.
func BenchmarkPutChangeParallel(b *testing.B) {
	d := openTest(b, filepath.Join(b.TempDir(), "x.db"), options{})
	b.SetParallelism(8)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := d.PutChange(b.Context(), store.Change{Call: "c", Session: "s", Path: "/a", State: "begun"}); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkSetChangeState(b *testing.B) {
	d := openTest(b, filepath.Join(b.TempDir(), "x.db"), options{})
	id, err := d.PutChange(b.Context(), store.Change{State: "begun"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := d.SetChangeState(b.Context(), []store.Change{{ID: id, State: "done"}}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenFresh(b *testing.B) {
	dir, n := b.TempDir(), 0
	for b.Loop() {
		n++
		d, err := Open(filepath.Join(dir, fmt.Sprint(n), "x.db"))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		d.Close()
		b.StartTimer()
	}
}

func BenchmarkOpenExisting(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.db")
	first, err := Open(path)
	if err != nil {
		b.Fatal(err)
	}
	first.Close()
	for b.Loop() {
		d, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		d.Close()
		b.StartTimer()
	}
}

// BenchmarkOpenShared opens what another process (here: another DB) has open.
func BenchmarkOpenShared(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.db")
	openTest(b, path, options{})
	for b.Loop() {
		d, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		d.Close()
		b.StartTimer()
	}
}

func BenchmarkListCalls(b *testing.B) {
	d := openTest(b, filepath.Join(b.TempDir(), "x.db"), options{})
	for i := range 20_000 {
		if err := d.PutCall(b.Context(), benchCall(i)); err != nil {
			b.Fatal(err)
		}
	}
	if err := d.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := d.ListCalls(b.Context(), store.CallFilter{Tool: "system:read", Session: "s1", Limit: 50}); err != nil {
			b.Fatal(err)
		}
	}
}
