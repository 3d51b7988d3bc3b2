package artifact_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/internal/artifact"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// rows is store.Artifacts in memory.
type rows struct {
	mu   sync.Mutex
	rows map[string]store.Artifact
	fail error
}

func (r *rows) PutArtifact(_ context.Context, a store.Artifact) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.rows[a.ID] = a
	return nil
}

func (r *rows) Artifact(_ context.Context, id string) (store.Artifact, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.rows[id]
	if !ok {
		return a, store.ErrNotFound
	}
	return a, nil
}

func (r *rows) ListArtifacts(context.Context, string, int) ([]store.Artifact, error) { return nil, nil }

func (r *rows) DeleteArtifact(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.rows, id)
	return nil
}

func (r *rows) ArtifactsWithHash(_ context.Context, sum string) (n int64, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.rows {
		if a.SHA256 == sum {
			n++
		}
	}
	return n, nil
}

func open(t *testing.T) (*artifact.Dir, *rows, string) {
	t.Helper()
	dir := t.TempDir()
	r := &rows{rows: map[string]store.Artifact{}}
	d, err := artifact.Open(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	return d, r, dir
}

// files lists what lies in the folder, below its two levels.
func files(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSameContentIsOneFileUntilNothingRefersToIt(t *testing.T) {
	d, _, dir := open(t)
	ctx := t.Context()
	var ids []string
	for range 2 {
		a, err := d.Put(ctx, artifact.Meta{Session: "s", Name: "a.txt"}, strings.NewReader("hello"), 0)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.ID)
	}
	if ids[0] == ids[1] || len(files(t, dir)) != 1 || d.Used() != 5 {
		t.Fatalf("ids %v, files %v, used %d; want two IDs, one file, 5 bytes", ids, files(t, dir), d.Used())
	}
	if err := d.Delete(ctx, ids[0]); err != nil {
		t.Fatal(err)
	}
	r, err := d.OpenIn(ctx, "s", artifact.Scheme+ids[1])
	if err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(r)
	r.Close()
	if string(got) != "hello" {
		t.Errorf("content = %q", got)
	}
	if err := d.Delete(ctx, ids[1]); err != nil {
		t.Fatal(err)
	}
	if left := files(t, dir); len(left) != 0 || d.Used() != 0 {
		t.Errorf("left %v, used %d", left, d.Used())
	}
}

func TestForeignAndAbsentLookTheSame(t *testing.T) {
	d, _, _ := open(t)
	a, err := d.Put(t.Context(), artifact.Meta{Session: "mine"}, strings.NewReader("x"), 0)
	if err != nil {
		t.Fatal(err)
	}
	_, foreign := d.OpenIn(t.Context(), "yours", a.ID)
	_, missing := d.OpenIn(t.Context(), "yours", "art_0000000000000000")
	for _, err := range []error{foreign, missing} {
		if e := tool.AsError(err); e == nil || e.Code != tool.NotFound {
			t.Errorf("err = %v, want NOT_FOUND", err)
		}
	}
	if f, m := strings.ReplaceAll(foreign.Error(), a.ID, "ID"), strings.ReplaceAll(missing.Error(), "art_0000000000000000", "ID"); f != m {
		t.Errorf("foreign %q differs from missing %q", f, m)
	}
}

func TestQuotaAndFailuresLeaveNothing(t *testing.T) {
	d, r, dir := open(t)
	d.SetQuota(10)
	_, err := d.Put(t.Context(), artifact.Meta{}, strings.NewReader("12345678901"), 0)
	if e := tool.AsError(err); e == nil || e.Code != tool.ResourceExhausted {
		t.Errorf("over the quota: err = %v, want RESOURCE_EXHAUSTED", err)
	}
	_, err = d.Put(t.Context(), artifact.Meta{}, strings.NewReader("12345"), 3)
	if e := tool.AsError(err); e == nil || e.Code != tool.ResourceExhausted {
		t.Errorf("over the limit: err = %v, want RESOURCE_EXHAUSTED", err)
	}
	r.fail = errors.New("no store")
	if _, err = d.Put(t.Context(), artifact.Meta{}, strings.NewReader("1234"), 0); !errors.Is(err, r.fail) {
		t.Errorf("err = %v, want the store's", err)
	}
	if left := files(t, dir); len(left) != 0 || d.Used() != 0 {
		t.Errorf("left %v, used %d", left, d.Used())
	}
	r.fail = nil
	w, err := d.Create(artifact.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("1234")); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	w.Abort()
	if _, err := w.Write(nil); err == nil {
		t.Error("Write after Abort succeeds")
	}
	if left := files(t, dir); len(left) != 0 || d.Used() != 0 {
		t.Errorf("after Abort: left %v, used %d", left, d.Used())
	}
}

func TestConcurrentPutAndDelete(t *testing.T) {
	d, _, dir := open(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 10 {
				a, err := d.Put(t.Context(), artifact.Meta{Session: "s"}, strings.NewReader("content "+string(rune('a'+i%3))), 0)
				if err != nil {
					t.Error(err)
					return
				}
				r, err := d.OpenIn(t.Context(), "s", a.ID)
				if err != nil {
					t.Error(err)
					return
				}
				r.Close()
				if err := d.Delete(t.Context(), a.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if left := files(t, dir); len(left) != 0 || d.Used() != 0 {
		t.Errorf("left %v, used %d", left, d.Used())
	}
}

func TestKind(t *testing.T) {
	tests := []struct {
		name     string
		data     string
		mime     string
		category string
	}{
		{"a.png", "\x89PNG\r\n\x1a\n0000", "image/png", "image"},
		{"lies.png", "just text", "text/plain;charset=utf-8", "text"},
		{"a.go", "package a\n", "text/x-go", "code"},
		{"a.go", "\x00\x01\x02\x03", "application/octet-stream", "file"},
		{"a.pdf", "%PDF-1.7\n", "application/pdf", "document"},
		{"a.docx", "PK\x03\x04aaaa", "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "document"},
		{"a.zip", "PK\x03\x04aaaa", "application/zip", "archive"},
		{"a", "\x1f\x8b\x08aaaa", "application/x-gzip", "archive"},
		{"a.csv", "a,b\n1,2\n", "text/csv", "data"},
		{"out", `{"a": 1}`, "application/json", "data"},
		{"run", "#!/bin/sh\n", "text/x-shellscript", "code"},
		{"v", "\x1aE\xdf\xa3aaaa", "video/webm", "video"},
		{"a.svg", "<svg></svg>", "image/svg+xml", "image"},
	}
	d, _, _ := open(t)
	for _, test := range tests {
		t.Run(test.name+" "+test.mime, func(t *testing.T) {
			a, err := d.Put(t.Context(), artifact.Meta{Name: test.name}, bytes.NewReader([]byte(test.data)), 0)
			if err != nil {
				t.Fatal(err)
			}
			if a.MIME != test.mime || a.Category != test.category {
				t.Errorf("%s: %s, %s; want %s, %s", test.name, a.MIME, a.Category, test.mime, test.category)
			}
		})
	}
}

func TestSweepTakesOldUnreferredData(t *testing.T) {
	d, r, dir := open(t)
	a, err := d.Put(t.Context(), artifact.Meta{}, strings.NewReader("old"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteArtifact(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep of young data = %d, %v; want 0", n, err)
	}
	past := a.Created.AddDate(0, 0, -1)
	if err := os.Chtimes(files(t, dir)[0], past, past); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Sweep(t.Context()); n != 3 || err != nil || len(files(t, dir)) != 0 {
		t.Errorf("Sweep = %d, %v, left %v; want 3 and nothing", n, err, files(t, dir))
	}
}
