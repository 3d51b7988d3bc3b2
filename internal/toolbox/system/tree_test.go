package system

import (
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func files(names ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, name := range names {
		m[name] = &fstest.MapFile{Data: []byte("of " + name), Mode: 0o644}
	}
	return m
}

func TestFSIsAFileSystem(t *testing.T) {
	if err := fstest.TestFS(FS(), "filesystem/filesystem.tool.js", "filesystem/harness.js", "filesystem/lib/move.js", "filesystem/lib/text.js", "pdf-reader/lib/fail.js"); err != nil {
		t.Error(err)
	}
	if _, err := fs.Stat(FS(), sharedDir); err == nil {
		t.Errorf("%s is shown as if it were a tool", sharedDir)
	}
}

func TestTreeShowsSharedFilesInTheirTools(t *testing.T) {
	from := files("a/a.js", "a/lib/own.js", "b/b.js", "b/lib/own.js", "b/lib/z.js", "c/c.js", "common/help.js", "common/lib/text.js")
	tree, err := newTree(from, "common", map[string][]string{"help.js": {"a", "c"}, "lib/text.js": {"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(tree, "a/help.js", "b/lib/text.js"); err != nil {
		t.Error(err)
	}
	got := map[string]string{}
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		got[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a/help.js": "of common/help.js", "c/help.js": "of common/help.js", "a/lib/text.js": "of common/lib/text.js", "b/lib/text.js": "of common/lib/text.js"}
	for _, own := range []string{"a/a.js", "a/lib/own.js", "b/b.js", "b/lib/own.js", "b/lib/z.js", "c/c.js"} {
		want[own] = "of " + own
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if _, err := tree.Open("common/help.js"); err == nil {
		t.Error("the shared folder is shown itself")
	}
}

func TestTreeListsInParts(t *testing.T) {
	tree, err := newTree(files("a/lib/k.js", "a/lib/z.js", "common/lib/b.js"), "common", map[string][]string{"lib/b.js": {"a"}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := tree.Open("a/lib")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for _, n := range []int{2, 2} {
		list, err := f.(fs.ReadDirFile).ReadDir(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			names = append(names, e.Name())
		}
	}
	if diff := cmp.Diff([]string{"b.js", "k.js", "z.js"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, err := f.(fs.ReadDirFile).ReadDir(1); err != io.EOF {
		t.Errorf("at the end it gave %v, want io.EOF", err)
	}
}

func TestTreeRefusesWhatDoesNotFit(t *testing.T) {
	from := files("a/a.js", "a/lib/own.js", "b/b.js", "common/help.js", "common/lib/own.js", "common/lib/text.js")
	good := map[string][]string{"help.js": {"a"}, "lib/text.js": {"a"}}
	for name, test := range map[string]struct {
		users map[string][]string
		want  string
	}{
		"no such file":     {map[string][]string{"none.js": {"a"}}, "none.js is used"},
		"nobody uses it":   {map[string][]string{"help.js": {}}, "help.js is used and not"},
		"not named at all": {nil, "lib/own.js in common is used by nothing"},
		"no such tool":     {map[string][]string{"help.js": {"none"}}, "no folder none"},
		"no such folder":   {map[string][]string{"lib/text.js": {"b"}}, "no folder b/lib"},
		"hides its own":    {map[string][]string{"lib/own.js": {"a"}}, "a/lib/own.js is there"},
		"twice":            {map[string][]string{"help.js": {"a", "a"}}, "a/help.js is there"},
	} {
		t.Run(name, func(t *testing.T) {
			users := maps.Clone(good)
			maps.Copy(users, test.users)
			_, err := newTree(from, "common", users)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

// A file that is the same in two tools belongs into shared/.
func TestNothingIsThereTwice(t *testing.T) {
	where := map[string][]string{}
	err := fs.WalkDir(folders, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folders, name)
		where[string(content)] = append(where[string(content)], name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range where {
		if len(names) > 1 {
			t.Errorf("these are the same: %q", slices.Sorted(slices.Values(names)))
		}
	}
}
