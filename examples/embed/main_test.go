package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a.txt": "a tool\n", "b.txt": "no match\n", "server.key": "secret\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, dir); err != nil {
		t.Fatal(err)
	}
	want := "2 files\ngrep: a.txt:1\n(1 left out: permission rules keep them from being shown)\nread: PERMISSION_DENIED\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
