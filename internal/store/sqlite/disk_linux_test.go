package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/tool"
)

// disk mounts a small file system.
func disk(t *testing.T, size string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("toolyard-test", dir, "tmpfs", 0, "size="+size); err != nil {
		if errors.Is(err, unix.EPERM) {
			t.Skip("mounting a small disk needs root with CAP_SYS_ADMIN")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillUp leaves no space and returns how to give it back.
func fillUp(t *testing.T, dir string) (empty func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	f.Close()
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	dir := disk(t, "4m")
	path := filepath.Join(dir, "x.db")
	d := openTest(t, path, options{busy: time.Second})
	if err := d.PutSetting(t.Context(), "before", "1"); err != nil {
		t.Fatal(err)
	}
	empty := fillUp(t, dir)

	// The log may have some room left; then the disk is full.
	big := json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)
	var err error
	written := 0
	for i := 0; err == nil && i < 1000; i++ {
		if err = d.PutCallNow(t.Context(), store.Call{ID: fmt.Sprint("now ", i), Arguments: big}); err == nil {
			written++
		}
	}
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), path) {
		t.Fatalf("PutCallNow on a full disk: got %v, want ErrFull with the path", err)
	}
	if _, err := d.PutChanges(t.Context(), make([]store.Change, 5000)); !errors.Is(err, store.ErrFull) {
		t.Errorf("PutChanges on a full disk: got %v, want ErrFull", err)
	}

	// Queued rows wait, and the failure is said.
	reported := false
	eventually(t, "the full disk is reported", func() bool {
		err := d.PutCall(t.Context(), store.Call{ID: "queued", Arguments: big})
		if err != nil && !errors.Is(err, store.ErrFull) {
			t.Fatal(err)
		}
		reported = reported || err != nil
		return reported
	})
	if err := d.Flush(t.Context()); !errors.Is(err, store.ErrFull) {
		t.Errorf("Flush on a full disk: got %v, want ErrFull", err)
	}

	// Reading goes on, and nothing is corrupt.
	if v, err := d.Setting(t.Context(), "before"); err != nil || v != "1" {
		t.Errorf("Setting on a full disk: %q, %v", v, err)
	}
	if n := count(t, d, "calls"); n != written {
		t.Errorf("%d calls, want the %d that were confirmed", n, written)
	}
	intact(t, d)

	empty()
	eventually(t, "the queued row is written when there is space", func() bool {
		_, err := d.Call(t.Context(), "queued")
		return err == nil
	})
	if _, err := d.PutChange(t.Context(), store.Change{}); err != nil {
		t.Errorf("PutChange when there is space again: %v", err)
	}
	intact(t, d)
}

func TestCloseOnFullDisk(t *testing.T) {
	dir := disk(t, "2m")
	d, err := open(filepath.Join(dir, "x.db"), options{busy: 100 * time.Millisecond, delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	empty := fillUp(t, dir)
	for i := range 3 {
		err := d.PutCall(t.Context(), store.Call{ID: fmt.Sprint(i), Message: strings.Repeat("x", 1<<20)})
		if err != nil {
			t.Fatal(err)
		}
	}
	err = d.Close()
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "the record of 3 calls and events is lost") {
		t.Errorf("Close: got %v, want ErrFull and how many rows are lost", err)
	}
	empty()
	d = openTest(t, filepath.Join(dir, "x.db"), options{})
	intact(t, d)
}

func TestOpenOnFullDisk(t *testing.T) {
	for _, left := range []int{0, 1, 5, 20} { // pages
		t.Run(fmt.Sprint(left, " pages left"), func(t *testing.T) {
			dir := disk(t, "1m")
			spare := filepath.Join(dir, "spare")
			if err := os.WriteFile(spare, make([]byte, left*4096), 0o600); err != nil {
				t.Fatal(err)
			}
			empty := fillUp(t, dir)
			if err := os.Remove(spare); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "x.db")
			_, err := Open(path)
			refused(t, err, tool.ResourceExhausted, "no space left for the store "+path, "Free some space on the disk or quota of "+dir)
			if !errors.Is(err, store.ErrFull) {
				t.Errorf("got %v, want ErrFull", err)
			}
			empty()
			intact(t, openTest(t, path, options{}))
		})
	}
}

func TestReadOnly(t *testing.T) {
	dir := disk(t, "4m")
	path := filepath.Join(dir, "x.db")
	d := openTest(t, path, options{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x.db", "new.db", "folder/new.db"} {
		_, err := Open(filepath.Join(dir, name))
		refused(t, err, tool.DependencyError, name+" cannot be written", "Toolyard must be able to write the file and its folder")
	}
}

// A killed flush must not leave the writer's lock taken: the context of a Flush
// that gives up does not matter to others.
func TestFlushGivesUp(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "x.db"), options{delay: time.Hour})
	if err := d.PutCall(t.Context(), benchCall(1)); err != nil {
		t.Fatal(err)
	}
	if err := d.enter(t.Context(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Flush: got %v, want the context's error", err)
	}
	d.leave()
	if err := d.Flush(t.Context()); err != nil {
		t.Errorf("Flush: %v", err)
	}
	if n := count(t, d, "calls"); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}
