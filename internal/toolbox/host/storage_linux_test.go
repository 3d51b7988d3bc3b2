package host_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/worker"
	"github.com/toolyard/toolyard/tool"
)

// lines collects the texts of lines.
func lines(to *[]string) func(worker.Line) {
	return func(l worker.Line) { *to = append(*to, l.Text) }
}

func TestStorageFile(t *testing.T) {
	each(t, nil, func(t *testing.T, b *bench) {
		file := filepath.Join(b.setup.Data, "storage.json")
		stored := func(want string) {
			t.Helper()
			text, err := os.ReadFile(file)
			if err != nil || !sameJSON(string(text), want) {
				t.Errorf("the file has %s (%v), want %s", text, err, want)
			}
		}
		b.text(`{"method":"set","key":"a","value":{"ü":[1,null,"x"]}}`)
		stored(`{"a":{"ü":[1,null,"x"]}}`)
		// Somebody else writes it: the console, another worker, the older program.
		if err := os.WriteFile(file, []byte(`{"a":1,"b":"two"}`), 0o666); err != nil {
			t.Fatal(err)
		}
		if got := b.text(`{"method":"get","key":"b"}`); !sameJSON(got, `{"value":"two","none":false}`) {
			t.Errorf("got %s", got)
		}
		b.text(`{"method":"remove","key":"a"}`)
		stored(`{"b":"two"}`)

		for _, broken := range []string{`{"a":1`, `[1]`, "\x00\xff", `"text"`} {
			b.log()
			if err := os.WriteFile(file, []byte(broken), 0o666); err != nil {
				t.Fatal(err)
			}
			if got := b.text(`{"method":"get","key":"b"}`); !sameJSON(got, `{"none":true}`) {
				t.Errorf("of a broken file: %s", got)
			}
			kept, err := filepath.Glob(file + ".corrupt-*")
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept aside are %q, %v", kept, err)
			}
			if text, err := os.ReadFile(kept[0]); err != nil || string(text) != broken {
				t.Errorf("kept aside is %q, %v", text, err)
			}
			if said := strings.Join(b.log(), "\n"); !strings.Contains(said, "WARN storage: data/storage.json could not be read") || !strings.Contains(said, filepath.Base(kept[0])) {
				t.Errorf("logged %q", said)
			}
			if err := os.Remove(kept[0]); err != nil {
				t.Fatal(err)
			}
			b.text(`{"method":"set","key":"b","value":1}`)
			stored(`{"b":1}`)
		}
		names, err := filepath.Glob(b.setup.Data + "/.storage*")
		if err != nil || len(names) != 0 {
			t.Errorf("left are %q, %v", names, err)
		}
	})
}

func TestStorageQuota(t *testing.T) {
	each(t, nil, func(t *testing.T, b *bench) {
		b.text(`{"method":"set","key":"a","value":1}`)
		b.text(`{"method":"fill","n":10000000}`)
		_, err := b.call(`{"method":"fill","n":10485760}`)
		if err == nil || err.Code != tool.ResourceExhausted || !strings.Contains(err.Message, "over its quota of 10485760 bytes") {
			t.Errorf("got %+v, want %s", err, tool.ResourceExhausted)
		}
		if got := b.text(`{"method":"get","key":"a"}`); !sameJSON(got, `{"value":1,"none":false}`) {
			t.Errorf("after it: %s", got)
		}
		small := contract(t, b.runner, filepath.Base(b.config.Module), func(b *bench) { b.setup.Quota = 100 })
		if _, err := small.call(`{"method":"fill","n":100}`); err == nil || !strings.Contains(err.Message, "quota of 100 bytes") {
			t.Errorf("a small quota: %+v", err)
		}
	})
}

// TestStorageTogether: workers of both languages lose no update of each other, nor
// to one that was killed while it held the lock.
func TestStorageTogether(t *testing.T) {
	s := box(t)
	first := contract(t, s, "contract.tool.js", nil)
	share := func(b *bench) {
		b.setup.Dir, b.setup.Data, b.config.Dir = first.setup.Dir, first.setup.Data, first.setup.Dir
	}
	all := []*bench{first}
	for _, l := range languages {
		b := contract(t, s, l.file, func(b *bench) {
			share(b)
			b.config.Profile.Read = append(b.config.Profile.Read, first.setup.Dir)
			b.config.Profile.Write = []string{first.setup.Data}
		})
		all = append(all, b)
	}
	for i, b := range all {
		b.text(fmt.Sprintf(`{"method":"set","key":"own%d","value":%d}`, i, i))
	}
	lock := filepath.Join(first.setup.Data, ".storage.lock")
	if err := os.WriteFile(lock, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(lock, old, old); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for i, b := range all {
		calls.Go(func() {
			if _, err := b.pool.Call(t.Context(), host.Execute(json.RawMessage(fmt.Sprintf(`{"method":"add","key":"k%d-","n":20}`, i)), "")); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	text, err := os.ReadFile(filepath.Join(first.setup.Data, "storage.json"))
	if err != nil {
		t.Fatal(err)
	}
	var items map[string]int
	if err := json.Unmarshal(text, &items); err != nil {
		t.Fatal(err)
	}
	if len(items) != 3+3*20 {
		t.Errorf("%d items, want %d", len(items), 3+3*20)
	}
}
