package files

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/store/memory"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// patchYard is the patch tool over a workspace with files, none of which had to
// be read.
func patchYard(t *testing.T, files map[string]string) (dir string, call func(args map[string]any) (*tool.Result, error)) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ws, err := workspace.Open(workspace.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	rows := memory.New()
	engine := edit.New(edit.Config{Sessions: rows, Journal: rows, Blobs: t.TempDir(), Strictness: edit.Anchored})
	p := newPatch(Deps{Workspace: func(string) (*workspace.Workspace, error) { return ws, nil }, Edit: engine})
	return dir, func(args map[string]any) (*tool.Result, error) {
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return p.Call(t.Context(), &tool.Request{Arguments: raw, Session: "s", CallID: "c", Workspace: dir})
	}
}

// tree is every file below dir with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, relErr := filepath.Rel(dir, path)
		if relErr != nil {
			return relErr
		}
		files[filepath.ToSlash(rel)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestPatch(t *testing.T) {
	gbk := "\xc4\xe3\xba\xc3\xca\xc0\xbd\xe7\xa3\xac\xbb\xb6\xd3\xad\xb9\xe2\xc1\xd9\xd5\xe2\xb8\xf6\xce\xc4\xbc\xfe\xa1\xa3\n" +
		"\xb5\xda\xb6\xfe\xd0\xd0\xb5\xc4\xc4\xda\xc8\xdd\xd4\xda\xd5\xe2\xc0\xef\xa1\xa3\n" + "plain\n"
	tests := []struct {
		name  string
		files map[string]string
		args  map[string]any
		want  map[string]string // nil: as before, and an error
		code  tool.Code
		says  string
	}{
		{
			name:  "many files",
			files: map[string]string{"a.txt": "a\n", "b.txt": "b\n", "sub/c.txt": "c\n"},
			args: map[string]any{"patch_content": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+A\n--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n" +
				"--- /dev/null\n+++ b/new/d.txt\n@@ -0,0 +1 @@\n+d\ndiff --git a/sub/c.txt b/moved.txt\nrename from sub/c.txt\nrename to moved.txt\n"},
			want: map[string]string{"a.txt": "A\n", "new/d.txt": "d\n", "moved.txt": "c\n"},
			says: "renamed moved.txt from sub/c.txt",
		},
		{
			name:  "all or nothing",
			files: map[string]string{"a.txt": "a\n", "b.txt": "b\n"},
			args:  map[string]any{"patch_content": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+A\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-x\n+B\n"},
			code:  tool.Conflict, says: `line 1: expected "x", found "b"`,
		},
		{
			name:  "dry run",
			files: map[string]string{"a.txt": "x\na\n"},
			args:  map[string]any{"patch_content": "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** End Patch", "dry_run": true},
			want:  map[string]string{"a.txt": "x\na\n"}, says: "dry run",
		},
		{
			name:  "another encoding",
			files: map[string]string{"g.txt": gbk},
			args:  map[string]any{"patch_content": "*** Begin Patch\n*** Update File: g.txt\n@@\n-plain\n+世界\n*** End Patch"},
			want:  map[string]string{"g.txt": strings.Replace(gbk, "plain", "\xca\xc0\xbd\xe7", 1)},
		},
		{
			name:  "a character that the encoding lacks",
			files: map[string]string{"g.txt": gbk},
			args:  map[string]any{"patch_content": "*** Begin Patch\n*** Update File: g.txt\n@@\n-plain\n+\U0001F600\n*** End Patch"},
			// GB18030 holds all of Unicode; a file that is detected as it takes this.
			want: map[string]string{"g.txt": strings.Replace(gbk, "plain", "\x94\x39\xfc\x36", 1)},
		},
		{
			name:  "outside",
			files: map[string]string{"a.txt": "a\n"},
			args:  map[string]any{"patch_content": "--- /dev/null\n+++ b/../../evil\n@@ -0,0 +1 @@\n+x\n"},
			code:  tool.PermissionDenied, says: "outside",
		},
		{
			name:  "for another file",
			files: map[string]string{"real.txt": "old\n"},
			args:  map[string]any{"file_path": "real.txt", "patch_content": "--- a/other.txt\n+++ b/other.txt\n@@ -1,1 +1,1 @@\n-old\n+new\n"},
			code:  tool.ParameterError, says: "other.txt",
		},
		{
			name:  "named by the end of its path",
			files: map[string]string{"sub/t.txt": "old\n"},
			args:  map[string]any{"file_path": "sub/t.txt", "patch_content": "--- a/t.txt\n+++ b/t.txt\n@@ -1,1 +1,1 @@\n-old\n+new\n"},
			want:  map[string]string{"sub/t.txt": "new\n"},
		},
		{
			name:  "no overwriting",
			files: map[string]string{"a.txt": "a\n"},
			args:  map[string]any{"patch_content": "*** Begin Patch\n*** Add File: a.txt\n+b\n*** End Patch"},
			code:  tool.Conflict, says: "exists",
		},
		{
			name:  "missing",
			files: map[string]string{"a.txt": "a\n"},
			args:  map[string]any{"patch_content": "*** Begin Patch\n*** Delete File: b.txt\n*** End Patch"},
			code:  tool.NotFound, says: "b.txt",
		},
		{
			name:  "binary",
			files: map[string]string{"a.bin": "a\x00\x01\x02\x00b\n"},
			args:  map[string]any{"patch_content": "--- a/a.bin\n+++ b/a.bin\n@@ -1 +1 @@\n-a\n+b\n"},
			code:  tool.ParameterError, says: "binary",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, call := patchYard(t, tt.files)
			result, err := call(tt.args)
			want, said := tt.want, ""
			if tt.want == nil {
				want = tt.files
				e := tool.AsError(err)
				if e == nil || e.Code != tt.code {
					t.Fatalf("got %v, want %s", err, tt.code)
				}
				said = e.Message
			} else if err != nil {
				t.Fatal(err)
			} else {
				said = result.TextContent()
			}
			if !strings.Contains(said, tt.says) {
				t.Errorf("said %q, want %q", said, tt.says)
			}
			if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPatchMode(t *testing.T) {
	dir, call := patchYard(t, map[string]string{"x.sh": "#!/bin/sh\n"})
	if _, err := call(map[string]any{"patch_content": "diff --git a/x.sh b/x.sh\nold mode 100644\nnew mode 100755\n"}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "x.sh"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v; want 0755", info.Mode(), err)
	}
}

func TestPatchSubjects(t *testing.T) {
	_, _ = patchYard(t, nil)
	p := newPatch(Deps{})
	raw, err := json.Marshal(map[string]any{"patch_content": "diff --git a/x b/y\nrename from x\nrename to y\n--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-a\n+b\n"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range p.(tool.PermissionSubject).Subjects(&tool.Request{Arguments: raw}) {
		if s.Kind != tool.SubjectPath || !s.Write {
			t.Errorf("subject %+v is no written path", s)
		}
		got = append(got, s.Value)
	}
	if diff := cmp.Diff([]string{"x", "y", ".env"}, got); diff != "" {
		t.Error(diff)
	}
}
