package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/worker"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			if _, err := Write(dir); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	files, err := Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("%d files, %v, want 2", len(names), err)
	}
	for _, file := range []string{files.JS, files.Py} {
		if !filepath.IsAbs(file) {
			t.Errorf("%s is not absolute", file)
		}
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range whole {
			if c >= 0x80 {
				t.Errorf("%s has a byte %#x at %d: it is read faster without", file, c, i)
				break
			}
		}
		if err := os.WriteFile(file, whole[:100], 0o644); err != nil { // by whatever
			t.Fatal(err)
		}
		if _, err := Write(dir); err != nil {
			t.Fatal(err)
		}
		if again, err := os.ReadFile(file); err != nil || string(again) != string(whole) {
			t.Errorf("%s is not written again: %d bytes, %v", file, len(again), err)
		}
	}
	if _, err := Write(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "writing an adapter") {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	schema := json.RawMessage(`{"properties":{"A":{"default":"schema"},"B":{"default":"schema"},"N":{"default":3},"L":{"default":["x"]},"O":{"default":null},"P":{}, "Q": true, "ALLOWED_DIRECTORIES":{"default":"[\"~\"]"}}}`)
	got := Environment(map[string]string{"A": "dotenv", "": "x", "B=": "x", "Z": "a\x00b"}, map[string]string{"NODE_ENV": "production", "A": "config"}, SchemaDefaults(schema))
	want := map[string]string{"A": "dotenv", "B": "schema", "NODE_ENV": "production", "N": "3", "L": `["x"]`, "ALLOWED_DIRECTORIES": `["~"]`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	s := Setup{Environment: map[string]string{"A": "own", "ALLOWED_DIRECTORIES": "~"}, Directories: []string{"/d/data"}}
	if diff := cmp.Diff([]string{"A=own", `ALLOWED_DIRECTORIES=["/d/data"]`, "PATH=/bin"}, s.Env(map[string]string{"PATH": "/bin", "A": "base"})); diff != "" {
		t.Errorf("Env (-want +got):\n%s", diff)
	}
	if got, want := string(s.JSON()), `{"name":"","dir":"","data":"","directories":["/d/data"]}`; got != want {
		t.Errorf("JSON %s, want %s", got, want)
	}
	if got := SchemaDefaults(json.RawMessage(`7`)); len(got) != 0 {
		t.Errorf("defaults of no schema: %v", got)
	}
}

func TestCalls(t *testing.T) {
	for _, c := range []struct{ params, mode, want string }{
		{``, ``, `{"mode":"execute","params":{}}`},
		{`{"a":1}`, `one`, `{"mode":"execute","params":{"a":1},"session":"one"}`},
		{`{}`, `a"b`, `{"mode":"execute","params":{},"session":"a\"b"}`},
	} {
		if got := Execute(json.RawMessage(c.params), c.mode); got.Name != "execute" || string(got.Args) != c.want {
			t.Errorf("%+v, want %s", got, c.want)
		}
	}
	for _, c := range []struct {
		line worker.Line
		want string
	}{
		{worker.Line{Stream: "stdout"}, "INFO"}, {worker.Line{Stream: "stderr"}, "WARN"}, {worker.Line{Stream: "log", Level: "info"}, "INFO"},
		{worker.Line{Stream: "log", Level: "debug"}, "DEBUG"}, {worker.Line{Stream: "log", Level: "warning"}, "WARN"}, {worker.Line{Stream: "log", Level: "error"}, "ERROR"},
		{worker.Line{Stream: "log", Level: "strange\nlevel"}, "INFO"},
	} {
		if got := Level(c.line); got != c.want {
			t.Errorf("%+v: %s, want %s", c.line, got, c.want)
		}
	}
}
