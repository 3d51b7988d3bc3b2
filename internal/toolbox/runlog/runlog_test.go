package runlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/flock"
	"github.com/toolyard/toolyard/tool"
)

var start = time.Date(2026, 11, 18, 2, 0, 8, 104e6, time.UTC)

// clock is set by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func open(t *testing.T, c Config) (*Log, *clock) {
	t.Helper()
	k := &clock{at: start}
	if c.Path == "" {
		c.Path = filepath.Join(t.TempDir(), "run.log")
	}
	c.Now = k.now
	l := Open(c)
	t.Cleanup(func() { l.Close() })
	return l, k
}

func text(t *testing.T, l *Log) string {
	t.Helper()
	data, err := os.ReadFile(l.c.Path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func flush(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func messages(t *testing.T, l *Log, q Query) []string {
	t.Helper()
	page, err := l.Query(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range page.Entries {
		if e.Parsed {
			list = append(list, e.Message)
		} else {
			list = append(list, e.Raw)
		}
	}
	return list
}

func TestFormat(t *testing.T) {
	l, _ := open(t, Config{})
	l.Append("info", "message", json.RawMessage(`{ "key": "value" }`))
	l.Append("fatal", "", nil)
	flush(t, l)
	want := "[2026-11-18T02:00:08.104Z] [INFO] message {\"key\":\"value\"}\n[2026-11-18T02:00:08.104Z] [INFO] \n"
	if d := cmp.Diff(want, text(t, l)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if info, err := os.Stat(l.c.Path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info.Mode(), err)
	}
}

// Whatever a tool logs, it is one entry, and comes back as it was.
func TestNothingCanBeForged(t *testing.T) {
	for _, c := range []struct{ name, message, meta, want string }{
		{"line feed", "a\n[2026-11-18T02:00:08.104Z] [ERROR] forged", "", ""},
		{"carriage return", "a\r\n\r[x]", "", ""},
		{"unicode line ends", "a\u2028b\u2029c\u0085d\vx\f", "", ""},
		{"terminal", "\x1b[2J\x07\u202e\u2066", "", ""},
		{"backslashes", `C:\new\r\\n \u000a \{ \x`, "", ""},
		{"looks like meta data", `got {"a":1}`, "", ""},
		{"looks like meta data, with some", `got {"a":1} {"b":`, `{"c":{"d":" {}"}}`, `{"c":{"d":" {}"}}`},
		{"begins with a brace", `{"a":1}`, `{"b":2}`, `{"b":2}`},
		{"blanks", "  a  ", "", ""},
		{"empty with meta", "", `{"a":1}`, `{"a":1}`},
		{"line feeds in meta", "m", "{\n\"a\":\n\"x\\ny\u2028\u007f\"}", `{"a":"x\ny\u2028\u007f"}`},
		{"meta is a list", "m", `[1,"x"]`, `{"value":[1,"x"]}`},
		{"meta is no json", "m", "{\nx", `{"value":"{\nx"}`},
		{"meta is null", "m", "null", ""},
		{"no utf-8", "a\xffb", "{\"a\":\"\xff\"}", "{\"a\":\"\ufffd\"}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, _ := open(t, Config{})
			l.Append("WARN", c.message, json.RawMessage(c.meta))
			flush(t, l)
			out := text(t, l)
			if strings.Count(out, "\n") != 1 || strings.ContainsAny(out, "\r\v\f\x1b\u2028\u2029\u0085\u202e") {
				t.Fatalf("written as %q", out)
			}
			e, ok := Parse([]byte(strings.TrimSuffix(out, "\n")))
			if !ok || !e.Time.Equal(start) || e.Level != "WARN" {
				t.Fatalf("read as %+v", e)
			}
			if want := strings.ToValidUTF8(c.message, "\ufffd"); e.Message != want {
				t.Errorf("message %q, want %q, in %s", e.Message, want, out)
			}
			if !sameJSON(e.Meta, []byte(c.want)) {
				t.Errorf("meta %s, want %s", e.Meta, c.want)
			}
		})
	}
}

func sameJSON(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func TestParseForeign(t *testing.T) {
	for _, c := range []struct {
		line string
		ok   bool
		want Entry
	}{
		{"[2026-11-18T02:00:08Z] [info] hello", true, Entry{Level: "INFO", Message: "hello"}},
		{`[2026-11-18T03:00:08.1234+01:00] [ERROR] a {b} {"c":1}`, true, Entry{Level: "ERROR", Message: "a {b}", Meta: json.RawMessage(`{"c":1}`)}},
		{`[2026-11-18T02:00:08Z] [INFO]`, true, Entry{Level: "INFO"}},
		{`[2026-11-18T02:00:08Z] [INFO] C:\x`, true, Entry{Level: "INFO", Message: `C:\x`}},
		{"", false, Entry{}},
		{"plain", false, Entry{}},
		{"[yesterday] [INFO] x", false, Entry{}},
		{"[2026-11-18T02:00:08Z] INFO x", false, Entry{}},
		{"[2026-11-18T02:00:08Z] [] x", false, Entry{}},
		{"[2026-11-18T02:00:08Z] [IN FO] x", false, Entry{}},
		{"[2026-11-18T02:00:08Z", false, Entry{}},
	} {
		e, ok := Parse([]byte(c.line))
		if ok != c.ok || e.Parsed != c.ok || e.Raw != c.line || e.Level != c.want.Level || e.Message != c.want.Message || !bytes.Equal(e.Meta, c.want.Meta) {
			t.Errorf("Parse(%q) = %+v, %v", c.line, e, ok)
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	l, _ := open(t, Config{})
	long := strings.Repeat("é", MaxText)
	l.Append("INFO", long, json.RawMessage(quoted(long)))
	page, err := l.Query(context.Background(), Query{})
	if err != nil || len(page.Entries) != 1 {
		t.Fatal(page, err)
	}
	e := page.Entries[0]
	if !strings.HasSuffix(e.Message, "bytes more)") || len(e.Message) > MaxText+64 || len(e.Meta) > MaxText {
		t.Errorf("message of %d, meta of %d bytes", len(e.Message), len(e.Meta))
	}
}

func TestRedacts(t *testing.T) {
	l, _ := open(t, Config{Redact: func(s string) string { return strings.ReplaceAll(s, `hunter"2`, "[redacted:KEY]") }})
	l.Append("INFO", `key hunter"2`, json.RawMessage(`{"a":1,hunter"2}`))
	flush(t, l)
	if out := text(t, l); strings.Contains(out, "hunter") || strings.Count(out, "[redacted:KEY]") != 2 {
		t.Errorf("written: %s", out)
	}
}

// Entries reach the file with no Flush: when many wait, when one has waited
// long, and when the queue is full.
func TestAppendWrites(t *testing.T) {
	l, k := open(t, Config{})
	l.Append("INFO", "one", nil)
	if got := text(t, l); got != "" {
		t.Errorf("written at once: %q", got)
	}
	k.add(2 * time.Second)
	l.Append("INFO", "two", nil)
	if got := strings.Count(text(t, l), "\n"); got != 2 {
		t.Errorf("after 2 s %d lines are written, want 2", got)
	}
	for range batchEntries {
		l.Append("INFO", "more", nil)
	}
	if got := strings.Count(text(t, l), "\n"); got != 2+batchEntries {
		t.Errorf("%d lines are written, want %d", got, 2+batchEntries)
	}
	small, _ := open(t, Config{Queue: 3})
	for range 4 {
		small.Append("INFO", "x", nil)
	}
	if got := strings.Count(text(t, small), "\n"); got != 3 {
		t.Errorf("with a full queue %d lines are written, want 3", got)
	}
}

func TestUnwritableFileKeepsTheNewest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	l, k := open(t, Config{Path: filepath.Join(dir, "run.log"), Queue: 10})
	for i := range 25 {
		l.Append("INFO", strconv.Itoa(i), nil)
		k.add(time.Second)
	}
	if err := l.Flush(context.Background()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Flush: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	flush(t, l)
	want := []string{"15 entries before this one were lost"}
	for i := 15; i < 25; i++ {
		want = append(want, strconv.Itoa(i))
	}
	if d := cmp.Diff(want, messages(t, l, Query{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestHalfALineIsEnded(t *testing.T) {
	l, _ := open(t, Config{})
	if err := os.WriteFile(l.c.Path, []byte("[2026-11-18T02:00:08.104Z] [INFO] cut o"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Append("INFO", "next", nil)
	if d := cmp.Diff([]string{"cut o", "next"}, messages(t, l, Query{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRetention(t *testing.T) {
	l, k := open(t, Config{})
	l.Append("INFO", "old", nil)
	flush(t, l)
	if err := os.WriteFile(l.c.Path, []byte(text(t, l)+"no entry\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.add(2 * time.Hour)
	l.Append("INFO", "young", nil)
	if d := cmp.Diff([]string{"old", "no entry", "young"}, messages(t, l, Query{})); d != "" {
		t.Errorf("after 2 h (-want +got):\n%s", d)
	}
	k.add(61 * time.Minute)
	l.Append("INFO", "new", nil)
	if d := cmp.Diff([]string{"no entry", "young", "new"}, messages(t, l, Query{})); d != "" {
		t.Errorf("after 3 h (-want +got):\n%s", d)
	}
	if left, _ := os.ReadDir(filepath.Dir(l.c.Path)); len(left) != 1 {
		t.Errorf("files were left: %v", left)
	}
}

// A log that nobody writes to does not show what is too old.
func TestRetentionWhenReading(t *testing.T) {
	l, k := open(t, Config{})
	if err := l.Clean(); err != nil || text(t, l) != "" {
		t.Errorf("cleaning no file: %v", err)
	}
	if _, err := os.Stat(l.c.Path); err == nil {
		t.Error("cleaning made a file")
	}
	l.Append("INFO", "old", nil)
	if d := cmp.Diff([]string{"old"}, messages(t, l, Query{})); d != "" {
		t.Errorf("at once (-want +got):\n%s", d)
	}
	k.add(3*time.Hour + time.Second)
	if got := messages(t, l, Query{}); len(got) != 0 {
		t.Errorf("after 3 h: %q", got)
	}
}

func TestRotation(t *testing.T) {
	l, k := open(t, Config{MaxBytes: 20_000, Keep: 100})
	for i := range 1000 {
		l.Append("INFO", strconv.Itoa(i), nil)
		k.add(time.Millisecond)
	}
	flush(t, l)
	got := messages(t, l, Query{Action: All})
	if len(got) < 100 || len(got) > 600 || got[len(got)-1] != "999" {
		t.Fatalf("%d entries, the last %q", len(got), got[len(got)-1])
	}
	for i, m := range got {
		if m != strconv.Itoa(1000-len(got)+i) {
			t.Fatalf("entry %d of %d is %q: one is missing", i, len(got), m)
		}
	}
	if size := len(text(t, l)); size > 20_000 {
		t.Errorf("the file has %d bytes", size)
	}
}

// Many long lines by other hands do not make the file grow.
func TestRotationIsBoundedInBytes(t *testing.T) {
	l, _ := open(t, Config{MaxBytes: 50_000})
	if err := os.WriteFile(l.c.Path, bytes.Repeat([]byte(strings.Repeat("x", 999)+"\n"), 200), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Append("INFO", "last", nil)
	flush(t, l)
	if out := text(t, l); len(out) > 25_000 || !strings.HasSuffix(out, "last\n") {
		t.Errorf("%d bytes, ending %q", len(out), out[len(out)-50:])
	}
}

func TestLinkIsNotFollowed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need rights on windows")
	}
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, _ := open(t, Config{Path: filepath.Join(dir, "run.log")})
	if err := os.Symlink(victim, l.c.Path); err != nil {
		t.Fatal(err)
	}
	l.Append("INFO", "evil", nil)
	if err := l.Flush(context.Background()); err == nil {
		t.Error("Flush wrote through a link")
	}
	if _, err := Read(context.Background(), l.c.Path, Query{}); err == nil {
		t.Error("Read read through a link")
	}
	if got, _ := os.ReadFile(victim); string(got) != "x\n" {
		t.Errorf("the target became %q", got)
	}
}

// A tool that locks its log forever delays a write a little and stops none.
func TestForeignLock(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no lock on windows")
	}
	l, k := open(t, Config{MaxBytes: 2000, Keep: 5})
	l.Append("INFO", "first", nil)
	flush(t, l)
	f, err := os.Open(l.c.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if held, err := flock.Try(f); !held || err != nil {
		t.Fatal("not locked")
	}
	for i := range 200 {
		l.Append("INFO", strconv.Itoa(i), nil)
		k.add(time.Millisecond)
		if i%10 == 0 {
			flush(t, l)
		}
	}
	flush(t, l)
	got := messages(t, l, Query{})
	if size := len(text(t, l)); got[len(got)-1] != "199" || size > 6000 {
		t.Errorf("%d bytes, last %q", size, got[len(got)-1])
	}
}

// Several Logs, in this process and in others, write one small file at once:
// each writer's entries are whole and in order, and the newest are there.
func TestManyWriters(t *testing.T) {
	if path := os.Getenv("RUNLOG_TEST_WRITER"); path != "" {
		writer(path, "child", 2000, 40_000)
		return
	}
	if runtime.GOOS == "windows" {
		t.Skip("no lock on windows")
	}
	path := filepath.Join(t.TempDir(), "run.log")
	child := exec.Command(os.Args[0], "-test.run=^TestManyWriters$")
	child.Env = append(os.Environ(), "RUNLOG_TEST_WRITER="+path)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { writer(path, fmt.Sprintf("own%d", i), 2000, 40_000) })
	}
	wg.Wait()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	checkOrder(t, path)
}

// Without rotation not one entry may be missing.
func TestManyWritersLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.log")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { writer(path, fmt.Sprintf("own%d", i), 500, 10_000_000) })
	}
	wg.Wait()
	if n := checkOrder(t, path); n != 2000 {
		t.Errorf("%d entries, want 2000", n)
	}
}

func writer(path, name string, n int, size int64) {
	l := Open(Config{Path: path, MaxBytes: size, Keep: 100})
	for i := range n {
		l.Append("INFO", fmt.Sprintf("%s %d", name, i), nil)
		if i%7 == 0 {
			l.Flush(context.Background())
		}
	}
	l.Close()
}

func checkOrder(t *testing.T, path string) int {
	t.Helper()
	page, err := Read(context.Background(), path, Query{Action: All})
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	for _, e := range page.Entries {
		name, number, _ := strings.Cut(e.Message, " ")
		n, err := strconv.Atoi(number)
		if !e.Parsed || err != nil {
			t.Fatalf("line %q", e.Raw)
		}
		if want, seen := next[name]; seen && n != want {
			t.Fatalf("%s: %d after %d", name, n, want-1)
		}
		next[name] = n + 1
	}
	return len(page.Entries)
}

func TestAppendAndQueryAtOnce(t *testing.T) {
	l, _ := open(t, Config{MaxBytes: 5000, Keep: 20})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				l.Append("INFO", strconv.Itoa(i), nil)
			}
		})
		wg.Go(func() {
			for range 20 {
				if _, err := l.Query(context.Background(), Query{Action: Grep, Pattern: "1"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.Append("INFO", "after", nil)
	if err := l.Flush(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Flush after Close: %v", err)
	}
	if strings.Contains(text(t, l), "after") {
		t.Error("written after Close")
	}
}

func TestQuery(t *testing.T) {
	l, k := open(t, Config{})
	for i, lv := range []string{"debug", "info", "warn", "error", "info"} {
		l.Append(lv, fmt.Sprintf("m%d", i), json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)))
		k.add(10 * time.Minute)
	}
	flush(t, l)
	if err := os.WriteFile(l.c.Path, []byte(text(t, l)+"junk\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		q       Query
		want    []string
		matched int
		more    bool
	}{
		{"default", Query{}, []string{"m0", "m1", "m2", "m3", "m4", "junk"}, 6, false},
		{"tail", Query{Lines: 2}, []string{"m4", "junk"}, 3, true},
		{"head", Query{Action: Head, Lines: 2}, []string{"m0", "m1"}, 3, true},
		{"all", Query{Action: All}, []string{"m0", "m1", "m2", "m3", "m4", "junk"}, 6, false},
		{"level", Query{Level: "warn"}, []string{"m2", "m3"}, 2, false},
		{"debug is all levels", Query{Level: "DEBUG", Action: Head}, []string{"m0", "m1", "m2", "m3", "m4"}, 5, false},
		{"since", Query{Since: start.Add(25 * time.Minute)}, []string{"m3", "m4"}, 2, false},
		{"since, from the head", Query{Action: Head, Since: start.Add(25 * time.Minute)}, []string{"m3", "m4"}, 2, false},
		{"grep", Query{Action: Grep, Pattern: `"n":[13]`}, []string{"m1", "m3"}, 2, false},
		{"grep counts all", Query{Action: Grep, Pattern: "m", Lines: 1}, []string{"m4"}, 5, true},
		{"nothing", Query{Action: Grep, Pattern: "absent"}, nil, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, messages(t, l, c.q)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			page, err := l.Query(context.Background(), c.q)
			if err != nil || page.Matched != c.matched || page.More != c.more || page.Size == 0 || page.Scanned < c.matched {
				t.Errorf("%v, matched %d, more %v, want %d, %v", err, page.Matched, page.More, c.matched, c.more)
			}
		})
	}
}

func TestWrongQueries(t *testing.T) {
	l, _ := open(t, Config{})
	for field, q := range map[string]Query{
		"action": {Action: "delete"}, "lines": {Lines: -1}, "level": {Level: "loud"}, "pattern": {Pattern: "("},
	} {
		_, err := l.Query(context.Background(), q)
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != tool.ValidationError || e.Field != field || e.Hint == "" {
			t.Errorf("%+v: %v, want a fault of %s", q, err, field)
		}
	}
	if _, err := l.Query(context.Background(), Query{Action: Grep}); err == nil {
		t.Error("grep without a pattern is accepted")
	}
	page, err := l.Query(context.Background(), Query{})
	if err != nil || len(page.Entries) != 0 {
		t.Errorf("no file: %v, %v", page, err)
	}
}

// A tail of a large file reads only its end, and lines that lie across blocks,
// or are longer than some, come whole.
func TestTailReadsOnlyTheEnd(t *testing.T) {
	l, _ := open(t, Config{})
	var b bytes.Buffer
	for i := range 100_000 {
		b.Write(appendLine(nil, start, "INFO", fmt.Sprintf("%d %s", i, strings.Repeat("y", i%300)), nil))
	}
	long := strings.Repeat("z", 3*block+17)
	b.WriteString(long + "\n" + string(appendLine(nil, start, "INFO", "end", nil)))
	if err := os.WriteFile(l.c.Path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	page, err := Read(context.Background(), l.c.Path, Query{Lines: 1000})
	if err != nil || len(page.Entries) != 1000 || page.Scanned > 1001 {
		t.Fatalf("%v, %d entries, %d scanned", err, len(page.Entries), page.Scanned)
	}
	if page.Entries[998].Raw != long || page.Entries[999].Message != "end" {
		t.Error("the long line is not whole")
	}
	for i, e := range page.Entries[:998] {
		n := 100_000 - 998 + i
		if want := fmt.Sprintf("%d %s", n, strings.Repeat("y", n%300)); e.Message != want {
			t.Fatalf("entry %d is %q, want %q", i, e.Message, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`[2026-11-18T02:00:08.104Z] [INFO] message {"key":"value"}`))
	f.Add([]byte(`[2026-11-18T02:00:08.104Z] [WARN] a\nb \{x} \u001b\ `))
	f.Add([]byte("[2026-11-18T02:00:08.104Z] [ "))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, ok := Parse(line)
		if e.Parsed != ok || len(e.Meta) > 0 && !json.Valid(e.Meta) {
			t.Fatalf("%+v, %v", e, ok)
		}
		if !ok {
			return
		}
		again, ok := Parse(bytes.TrimSuffix(appendLine(nil, e.Time, e.Level, e.Message, e.Meta), []byte("\n")))
		if len(e.Message) > MaxText || len(e.Meta) > MaxText {
			return
		}
		if !ok || again.Message != e.Message || !sameJSON(e.Meta, []byte("{}")) && !sameJSON(again.Meta, e.Meta) {
			t.Fatalf("%+v became %+v", e, again)
		}
	})
}

func FuzzEntry(f *testing.F) {
	f.Add("a\nb {\"x\":1}", `{"y":" {"}`)
	f.Add(`\{ {`, `[{}]`)
	f.Fuzz(func(t *testing.T, message, meta string) {
		if len(message)+len(meta) > MaxText/8 {
			return
		}
		line := appendLine(nil, start, "INFO", message, json.RawMessage(meta))
		if bytes.IndexByte(line, '\n') != len(line)-1 || bytes.IndexByte(line, '\r') >= 0 {
			t.Fatalf("written as %q", line)
		}
		e, ok := Parse(line[:len(line)-1])
		if want := strings.ToValidUTF8(message, "\ufffd"); !ok || e.Message != want {
			t.Fatalf("%q became %q, in %s", want, e.Message, line)
		}
	})
}

func BenchmarkAppendFlush(b *testing.B) {
	l := Open(Config{Path: filepath.Join(b.TempDir(), "run.log")})
	defer l.Close()
	for b.Loop() {
		l.Append("INFO", "start", json.RawMessage(`{"params":{"a":1}}`))
		l.Append("INFO", "end", json.RawMessage(`{"ms":1}`))
		if err := l.Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
