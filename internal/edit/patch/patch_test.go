package patch

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/google/go-cmp/cmp"
	"github.com/toolyard/toolyard/tool"
)

// content is a file of a case: text, or bytes in base64.
type content struct {
	Text *string `json:"text"`
	B64  *string `json:"b64"`
}

func (c *content) bytes(t *testing.T) string {
	t.Helper()
	if c.B64 != nil {
		b, err := base64.StdEncoding.DecodeString(*c.B64)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return *c.Text
}

type row struct {
	ID     string              `json:"id"`
	Input  map[string]*content `json:"input"`
	Patch  json.RawMessage     `json:"patch"`
	Expect struct {
		OK    bool                `json:"ok"`
		Files map[string]*content `json:"files"`
		Trans map[string]*content `json:"files_transactional"`
	} `json:"expect"`
	Alt map[string]*content `json:"expect_alt"`
}

// differ lists the rows whose expectation ours does not meet, with the sentence
// of the specification that wins.
var differ = map[string]string{
	"go-gitdiff/file_bin_modify":                     "unified diff as `git apply` takes it: git apply refuses a binary patch without a full index line",
	"codex/crlf_for_new_trailing_newline":            "final newline or none survives",
	"codex/014_update_appends_trailing_newline":      "final newline or none survives",
	"codex/010_move_overwrites_existing_destination": "some V4A rows overwrite silently; ours does not",
	"codex/011_add_overwrites_existing_file":         "some V4A rows overwrite silently; ours does not",
}

// apply runs a patch over files in memory, all or nothing.
func apply(text string, o Options, files map[string]string) (map[string]string, error) {
	parsed, err := Parse(text, o)
	if err != nil {
		return files, err
	}
	out := map[string]string{}
	for name, text := range files {
		out[name] = text
	}
	for _, f := range parsed {
		old, exists := files[f.Old]
		if f.Kind != Create && !exists {
			return files, tool.Errorf(tool.NotFound, "Failed to read file to update %s", f.Old)
		}
		if _, taken := files[f.New]; taken && f.Creates() && (f.v4a || f.Kind != Create || files[f.New] != "") {
			return files, tool.Errorf(tool.Conflict, "%s exists", f.New)
		}
		splices, _, err := f.Splices(old)
		if err != nil {
			return files, err
		}
		if f.Kind == Delete || f.Kind == Rename {
			delete(out, f.Old)
		}
		if f.Kind != Delete {
			out[f.New] = Join(old, splices)
		} else if !f.v4a && Join(old, splices) != "" {
			return files, tool.Errorf(tool.Conflict, "%s is deleted, but content is left", f.Old)
		}
	}
	return out, nil
}

func TestCorpora(t *testing.T) {
	total, asExpected, damaged := 0, 0, 0
	for _, name := range []string{"unified_diff.jsonl", "apply_patch_v4a.jsonl"} {
		file, err := os.Open(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		scanner := bufio.NewScanner(file)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			var r row
			if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			total++
			outcome := runRow(t, r)
			if outcome == "damaged" {
				damaged++
			}
			if outcome == "" {
				asExpected++
			}
			why, listed := differ[r.ID]
			if (outcome == "") == listed {
				t.Errorf("%s: outcome %q, listed as different: %v (%s)", r.ID, outcome, listed, why)
			}
		}
	}
	t.Logf("%d rows: %d as expected, %d damaged", total, asExpected, damaged)
	if damaged > 0 {
		t.Errorf("%d rows damaged", damaged)
	}
}

// runRow returns "" if the row went as expected, else "damaged", "refused" or
// "accepted".
func runRow(t *testing.T, r row) string {
	t.Helper()
	var text string
	if json.Unmarshal(r.Patch, &text) != nil {
		var c content
		if err := json.Unmarshal(r.Patch, &c); err != nil {
			t.Fatal(err)
		}
		text = c.bytes(t)
	}
	files := map[string]string{}
	for name, c := range r.Input {
		files[name] = c.bytes(t)
	}
	single := len(files) == 1 && files["FILE"] != "" || r.Input["FILE"] != nil
	if single {
		// The row's file stands for whatever the patch names.
		if parsed, err := Parse(text, Options{}); err == nil {
			files = map[string]string{parsed[0].Old: r.Input["FILE"].bytes(t)}
		}
	}
	got, err := apply(text, Options{}, files)
	if err != nil && !cmp.Equal(got, files) {
		t.Errorf("%s: refused (%v), but files changed", r.ID, err)
		return "damaged"
	}
	want := r.Expect.Files
	if r.Expect.Trans != nil {
		want = r.Expect.Trans
	}
	if single {
		// One file in, one out; a deleted one is empty.
		all := ""
		for _, text := range got {
			all += text
		}
		got = map[string]string{"FILE": all}
	}
	same := func(want map[string]*content) bool {
		for name, c := range want {
			text, exists := got[name]
			if exists != (c != nil) || exists && text != c.bytes(t) {
				return false
			}
		}
		return true
	}
	switch {
	case (err == nil) == r.Expect.OK && (same(want) || r.Alt != nil && same(r.Alt)):
		return ""
	case err != nil:
		return "refused"
	case differ[r.ID] != "":
		return "accepted"
	}
	t.Logf("%s: %q", r.ID, got)
	return "damaged"
}

// TestAgainstGit makes random edits, a diff of them with 3 lines of context and
// an older base, and applies it with git apply and with ours.
func TestAgainstGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not there")
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	agreed, refused := 0, 0
	for range 150 {
		old := randomLines(random)
		edited := mutate(random, old)
		diff := udiff.Unified("a/f.txt", "b/f.txt", strings.Join(old, ""), strings.Join(edited, ""))
		if diff == "" {
			continue
		}
		// The file has moved on meanwhile: new unique lines at the top.
		var moved []string
		for i := range random.IntN(4) {
			moved = append(moved, fmt.Sprintf("moved %d\n", i))
		}
		before := strings.Join(moved, "") + strings.Join(old, "")
		if err := os.WriteFile(filepath.Join(dir, "f.txt"), []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(git, "apply", "--whitespace=nowarn", "-")
		cmd.Dir = dir
		cmd.Stdin = strings.NewReader(diff)
		out, gitErr := cmd.CombinedOutput()
		after, err := os.ReadFile(filepath.Join(dir, "f.txt"))
		if err != nil {
			t.Fatal(err)
		}
		got, ourErr := apply(diff, Options{}, map[string]string{"f.txt": before})
		switch {
		case ourErr == nil && gitErr == nil:
			if got["f.txt"] != string(after) {
				t.Errorf("differs from git apply:\n%s\nbefore:\n%s\n%s", diff, before, cmp.Diff(string(after), got["f.txt"]))
			}
			agreed++
		case ourErr != nil && gitErr == nil:
			if e, ok := errors.AsType[*tool.Error](ourErr); !ok || !strings.Contains(e.Message, "more than one place") {
				t.Errorf("git applies it, ours does not: %v\n%s\nbefore:\n%s", ourErr, diff, before)
			}
			refused++
		case ourErr == nil:
			// git keeps a hunk that begins at line 1 there; ours looks further if it
			// has context and fits in one place. The outcome is what was meant.
			if !strings.Contains(diff, "@@ -1,") || got["f.txt"] != strings.Join(moved, "")+strings.Join(edited, "") {
				t.Errorf("ours applies what git refuses (%s):\n%s\nbefore:\n%s\nafter:\n%s", out, diff, before, got["f.txt"])
			}
		}
	}
	t.Logf("%d applied alike, %d refused as ambiguous", agreed, refused)
	if agreed < 50 {
		t.Errorf("only %d diffs applied", agreed)
	}
}

func randomLines(random *rand.Rand) []string {
	lines := make([]string, 5+random.IntN(60))
	for i := range lines {
		lines[i] = fmt.Sprintf("line %d of %d\n", random.IntN(30), i)
	}
	return lines
}

func mutate(random *rand.Rand, lines []string) []string {
	var out []string
	for _, line := range lines {
		switch random.IntN(12) {
		case 0:
		case 1:
			out = append(out, "changed "+line)
		case 2:
			out = append(out, line, "new\n")
		default:
			out = append(out, line)
		}
	}
	return out
}

func TestUnifiedNames(t *testing.T) {
	two := 2
	zero := 0
	hunk := "@@ -1 +1 @@\n-a\n+b\n"
	tests := []struct {
		name, patch string
		opts        Options
		old, new    string
		kind        Kind
	}{
		{"git prefixes", "--- a/x.go\n+++ b/x.go\n" + hunk, Options{}, "x.go", "x.go", Modify},
		{"no prefixes", "--- x.go\n+++ x.go\n" + hunk, Options{}, "x.go", "x.go", Modify},
		{"a folder called a", "--- a/x.go\n+++ a/x.go\n" + hunk, Options{}, "a/x.go", "a/x.go", Modify},
		{"timestamps", "--- a/x y.go\t2020-01-01 00:00:00\n+++ b/x y.go\t2020-01-01 00:00:00\n" + hunk, Options{}, "x y.go", "x y.go", Modify},
		{"strip 2", "--- a/src/x.go\n+++ b/src/x.go\n" + hunk, Options{Strip: &two}, "x.go", "x.go", Modify},
		{"strip 0", "diff --git src/x.go src/x.go\n--- src/x.go\n+++ src/x.go\n" + hunk, Options{Strip: &zero}, "src/x.go", "src/x.go", Modify},
		{"created", "--- /dev/null\n+++ b/x.go\n@@ -0,0 +1 @@\n+b\n", Options{}, "x.go", "x.go", Create},
		{"deleted", "--- a/x.go\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", Options{}, "x.go", "x.go", Delete},
		{"renamed", "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", Options{}, "x", "y", Rename},
		{"quoted", "diff --git \"a/na\\303\\257ve\" \"b/na\\303\\257ve\"\n--- \"a/na\\303\\257ve\"\n+++ \"b/na\\303\\257ve\"\n" + hunk, Options{}, "naïve", "naïve", Modify},
		{"mode only, blanks in the name", "diff --git a/my file b/my file\nold mode 100644\nnew mode 100755\n", Options{}, "my file", "my file", Modify},
		{"mnemonic prefixes", "diff --git i/x w/x\n--- i/x\n+++ w/x\n" + hunk, Options{}, "x", "x", Modify},
		{"named by the caller", hunk, Options{Name: "n.go"}, "n.go", "n.go", Modify},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files, err := Parse(tt.patch, tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			f := files[0]
			if f.Old != tt.old || f.New != tt.new || f.Kind != tt.kind {
				t.Errorf("got %s %q → %q, want %s %q → %q", f.Kind, f.Old, f.New, tt.kind, tt.old, tt.new)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name, patch, file string
		code              tool.Code
		says              string
	}{
		{"no patch", "hello", "", tool.ParameterError, "no patch found"},
		{"cut off", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n", "a\nb\nc\n", tool.ParameterError, "cut off"},
		{"too many lines", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n+C\n", "a\nb\n", tool.ParameterError, "goes on"},
		{"wrong header", "--- a/f\n+++ b/f\n@@ -1,x +1 @@\n-a\n+b\n", "a\n", tool.ParameterError, "not a hunk header"},
		{"symlink", "diff --git a/f b/f\nnew file mode 120000\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+/etc\n", "", tool.ParameterError, "symlinks"},
		{"twice", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-b\n+c\n", "a\n", tool.ParameterError, "twice"},
		{"ambiguous", "--- a/f\n+++ b/f\n@@ -9,3 +9,3 @@\n x\n-y\n+z\n x\n", "x\ny\nx\ny\nx\n", tool.Conflict, "more than one place"},
		{"differs", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nd\nc\n", tool.Conflict, `line 2: expected "b", found "d"`},
		{"insertion with no context", "--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+new\n", "a\nb\nc\n", tool.Conflict, "no context"},
		{"V4A cut off", "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n", "a\n", tool.ParameterError, "cut off"},
		{"V4A ambiguous", "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch", "a\nx\na\n", tool.Conflict, "more than one place"},
		{"V4A anchor missing", "*** Begin Patch\n*** Update File: f\n@@ func x\n-a\n+b\n*** End Patch", "a\n", tool.Conflict, `no line "func x"`},
		{"V4A twice", "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** Delete File: f\n*** End Patch", "a\n", tool.ParameterError, "twice"},
		{"V4A end of file", "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End of File\n*** End Patch", "a\nb\n", tool.Conflict, "end of the file"},
		{"binary without content", "diff --git a/f b/f\nindex 1..2 100644\nBinary files a/f and b/f differ\n", "a", tool.ParameterError, "does not hold"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := apply(tt.patch, Options{}, map[string]string{"f": tt.file})
			e, ok := errors.AsType[*tool.Error](err)
			if !ok || e.Code != tt.code || !strings.Contains(e.Message, tt.says) || e.Hint == "" {
				t.Errorf("got %#v, want %s with %q and a hint", err, tt.code, tt.says)
			}
		})
	}
}

func TestApplied(t *testing.T) {
	tests := []struct {
		name, patch, file, want, with string
		offset                        int
	}{
		{"offset said", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "x\ny\na\nb\nc\n", "x\ny\na\nB\nc\n", "", 2},
		{"CRLF file, LF patch", "--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n a\n-b\n+B\n+C\n c\n", "a\r\nb\r\nc\r\n", "a\r\nB\r\nC\r\nc\r\n", withEndings, 0},
		{"CRLF patch, LF file", "--- a/f\r\n+++ b/f\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+B\r\n", "a\nb\n", "a\nB\n", withEndings, 0},
		{"lost blank of an empty context line", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", "a\n\nb\n", "a\n\nB\n", "", 0},
		{"last line without newline stays so", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "a\nb", "a\nB", withEndings, 0},
		{"anchor picks the place", "*** Begin Patch\n*** Update File: f\n@@ two\n-a\n+b\n*** End Patch", "one\na\ntwo\na\n", "one\na\ntwo\nb\n", "", 0},
		{"nested anchors", "*** Begin Patch\n*** Update File: f\n@@ class B\n@@ def run\n-a\n+b\n*** End Patch", "class A\n def run\n a\nclass B\n def run\n a\n", "class A\n def run\n a\nclass B\n def run\n b\n", withIndentation, 0},
		{"smart quotes", "*** Begin Patch\n*** Update File: f\n@@\n-say \"x\"\n+say \"y\"\n*** End Patch", "say “x”\n", "say \"y\"\n", withPunctuation, 0},
		{"append behind a bare last line", "*** Begin Patch\n*** Update File: f\n@@\n+b\n*** End Patch", "a", "a\nb", "", 0},
		{"text that looks like a marker", "*** Begin Patch\n*** Update File: f\n@@\n *** End Patch\n-a\n+b\n*** End Patch", "*** End Patch\na\n", "*** End Patch\nb\n", "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files, err := Parse(tt.patch, Options{})
			if err != nil {
				t.Fatal(err)
			}
			splices, applied, err := files[0].Splices(tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, Join(tt.file, splices)); diff != "" {
				t.Error(diff)
			}
			if applied[0].With != tt.with || applied[0].Offset != tt.offset {
				t.Errorf("got %+v, want with %q, offset %d", applied[0], tt.with, tt.offset)
			}
		})
	}
}

func TestBinary(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not there")
	}
	dir := t.TempDir()
	run := func(args ...string) []byte {
		t.Helper()
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return out
	}
	run("init", "-q")
	old, changed := []byte("\x00\x01old"+strings.Repeat("abc\x00", 200)), []byte("\x00\x02new"+strings.Repeat("abc\x00", 201))
	name := filepath.Join(dir, "f.bin")
	if err := os.WriteFile(name, old, 0o600); err != nil {
		t.Fatal(err)
	}
	run("add", ".")
	if err := os.WriteFile(name, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := Parse(string(run("diff", "--binary", "--full-index")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := files[0].ApplyBinary(old)
	if err != nil || string(got) != string(changed) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := files[0].ApplyBinary(append(old, 'x')); tool.AsError(err).Code != tool.Conflict {
		t.Errorf("other content: got %v, want a conflict", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
		"*** Begin Patch\n*** Update File: f\n@@ x\n-a\n+b\n*** End of File\n*** End Patch",
		"diff --git a/x b/y\nrename from x\nrename to y\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n",
		"diff --git a/f b/f\nindex 0000000000000000000000000000000000000000..1111111111111111111111111111111111111111\nGIT binary patch\nliteral 1\nIcmZ\n",
	} {
		f.Add(seed, "a\nb\nc\n")
	}
	f.Fuzz(func(t *testing.T, text, content string) {
		files, err := Parse(text, Options{Name: "f"})
		if err != nil {
			return
		}
		for i := range files {
			splices, _, err := files[i].Splices(content)
			if err != nil {
				continue
			}
			last := 0
			for _, s := range splices {
				if s.Start < last || s.End < s.Start || s.End > len(content) {
					t.Fatalf("splices overlap or leave the file: %+v of %d bytes", splices, len(content))
				}
				last = s.End
			}
			// What no hunk removes stays.
			removed := 0
			for _, h := range files[i].Hunks {
				for _, line := range h.Lines {
					if line.Op == '-' {
						removed++
					}
				}
			}
			if removed == 0 && len(Join(content, splices)) < len(content) {
				t.Fatalf("nothing is removed, but the content shrinks: %q to %q", content, Join(content, splices))
			}
		}
	})
}
