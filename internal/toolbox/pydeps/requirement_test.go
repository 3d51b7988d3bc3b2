package pydeps_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/pydeps"
)

const someHash = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestRequirementsFile(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("more/base.txt", "b==2\n-r ../requirements.txt\n-r deeper.txt\n")
	put("more/deeper.txt", "c\n")
	put("limits.txt", "b<3\n")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		want       []string
		fails      string
	}{
		{"comments and blanks", "\ufeff# one\n\n  a >= 1  # why\r\nb#not-a-comment\n", nil, "requirements.txt:4"},
		{"lines that go on", "a>=1, \\\n  <2 \\\n  --hash=" + someHash + " \\\n  --hash " + someHash + "\n", []string{"a>=1,<2 --hash=" + someHash + " --hash=" + someHash}, ""},
		{"goes on to the end", "a \\", []string{"a"}, ""},
		{"other files", "a\n-r more/base.txt\n-c limits.txt\n--requirement=more/deeper.txt", []string{"a", "b==2", "c"}, ""},
		{"without a blank", "-rmore/deeper.txt", []string{"c"}, ""},
		{"what is so anyway", "--pre\n--only-binary :all:\n--require-hashes\n--prefer-binary\na", []string{"a"}, ""},
		{"a file that is not there", "a\n-r nothing.txt", nil, "requirements.txt:2"},
		{"a file outside", "-r ../x.txt", nil, "requirements.txt:1"},
		{"a link outside", "-r link.txt", nil, "requirements.txt:1"},
		{"a file elsewhere", "-r https://example.com/r.txt", nil, "requirements.txt:1"},
		{"an absolute file", "-c /etc/passwd", nil, "requirements.txt:1"},
		{"an index", "-i https://example.com/", nil, "-i"},
		{"an index at the end", "a --index-url=https://example.com/", nil, "--index-url"},
		{"links", "-fhttps://example.com/", nil, "-f"},
		{"editable", "-e .", nil, "-e"},
		{"a path", "./lib", nil, "no package"}, {"another path", "/tmp/x.whl", nil, "no package"}, {"an address", "https://example.com/x.whl", nil, "no package"},
		{"a bad hash", "a --hash=md5:00", nil, "no hash"},
		{"no name", "===1", nil, "no package"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			put("requirements.txt", c.text)
			got, _, err := pydeps.Requirements(dir, nil)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %v, want an error with %q", err, c.fails)
				}
				return
			}
			var text []string
			for _, q := range got {
				text = append(text, q.String())
			}
			if err != nil || !slices.Equal(text, c.want) {
				t.Errorf("got %q, %v, want %q", text, err, c.want)
			}
		})
	}
	put("requirements.txt", "")
	for text, want := range map[string]string{
		"[project]\ndependencies = ['a>=1', 'b[x]']\n": "", "[project]\ndependencies = 'a'\n": "pyproject.toml", "[project\n": "pyproject.toml:",
		"[project]\ndependencies = ['a @ file:///x']\n": "address", "[project]\nrequires-python = 'three'\n": "requires-python", "[tool.x]\ny = 1\n": "", "": "",
	} {
		put("pyproject.toml", text)
		if _, _, err := pydeps.Requirements(dir, nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}

// FuzzRequirements: whatever a file says, what comes to pip is one package a line.
func FuzzRequirements(f *testing.F) {
	for _, text := range []string{"a>=1\n", "a[b] ; python_version < '3'\n", "-r x\n", "a \\\n --hash=" + someHash, "--index-url x", "a @ b", "# c\n", "a\r--index-url=x"} {
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		all, err := pydeps.ParseFile(dir, text)
		if err != nil {
			return
		}
		for _, line := range all {
			if strings.ContainsAny(line, "\n\r\x00") || strings.HasPrefix(line, "-") || strings.Contains(strings.ReplaceAll(line, " --hash=sha", ""), " --") {
				t.Errorf("%q becomes %q", text, line)
			}
			if again, err := pydeps.ParseFile(dir, line); err != nil || len(again) != 1 || again[0] != line {
				t.Errorf("%q becomes %q, and that %q, %v", text, line, again, err)
			}
		}
	})
}

func FuzzProject(f *testing.F) {
	f.Add("[project]\ndependencies = ['a>=1']\nrequires-python = '>=3.8'\n")
	f.Add("[project\n")
	path := filepath.Join(f.TempDir(), "pyproject.toml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := pydeps.ParseProject(path); err != nil && !strings.Contains(err.Error(), "pyproject.toml") {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add("Metadata-Version: 2.1\nName: A.b\nVersion: 1.0\n\nName: other\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := pydeps.ParseMetadata(strings.NewReader(text)); ok && (p.Name == "" || p.Version == "" || p.Name != pydeps.Normalize(p.Name)) {
			t.Errorf("%q: %+v", text, p)
		}
	})
}
