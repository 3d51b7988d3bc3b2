package deps_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

// TestCommands compares versions of programs that say them in several ways.
func TestCommands(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"docker":  "echo 'Docker version 20.10.24+dfsg1, build 297e128'",
		"ffmpeg":  `case $1 in -version) echo "ffmpeg version 5.1.6-0+deb12u1 Copyright (c) 2000-2024";; *) echo "Unrecognized option" >&2; exit 1;; esac`,
		"go":      `case $1 in version) echo "go version go1.26.1 linux/amd64";; *) echo "flag provided but not defined: $1" >&2; exit 2;; esac`,
		"node":    "echo v20.20.2",
		"java":    `echo 'openjdk version "17.0.9" 2023-10-17' >&2`,
		"single":  "echo single 7",
		"silent":  "true",
		"network": "exec 3<>/dev/tcp/127.0.0.1/80 && echo 1.0.0",
		"padded":  "echo tool 2024.01.05",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "data"), []byte("1.0.0"), 0o644); err != nil {
		t.Fatal(err)
	}
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(func() { box.Close() })
	in := deps.New(deps.Config{Runner: box, Cache: t.TempDir(), Env: []string{"PATH=" + bin + ":/usr/bin:/bin"}})
	for _, x := range []struct{ name, wanted, version, say string }{
		{"docker", ">=20", "20.10.24", ""},
		{"docker", ">=24", "", "the command docker is version 20.10.24, >=24 is asked for"},
		{"cmd:docker", "^20.10.0", "20.10.24", ""},
		{"docker", "", "", ""},
		{"docker", "*", "", ""},
		{"ffmpeg", "5.x", "5.1.6", ""},
		{"go", ">=1.26", "1.26.1", ""},
		{"node", "20 || 22", "20.20.2", ""},
		{"java", ">=17", "17.0.9", ""},
		{"single", "~7", "7.0.0", ""},
		{"padded", ">=2024", "2024.1.5", ""},
		{"absent", "", "", "the command absent is not on this machine"},
		{"data", "", "", "the command data is not on this machine"},
		{"../bin/sh", "", "", "is not on this machine"},
		{"silent", ">=1", "", "the command silent does not tell its version"},
		{"network", ">=1", "", "the command network does not tell its version"},
		{"docker", "newest", "", `"newest" is no range of versions`},
	} {
		got, err := in.Commands(t.Context(), &definition.Definition{Dependencies: []definition.Dependency{{Kind: definition.Command, Name: x.name, Range: x.wanted}}})
		if x.say != "" {
			if e := failed(t, err); !strings.Contains(e.Message, x.say) {
				t.Errorf("%s %s: %q, want %q", x.name, x.wanted, e.Message, x.say)
			}
			continue
		}
		if err != nil || len(got) != 1 || got[0].Version != x.version || got[0].Path != filepath.Join(bin, strings.TrimPrefix(x.name, "cmd:")) {
			t.Errorf("%s %s: %+v, %v", x.name, x.wanted, got, err)
		}
	}
	// What is known is not asked again.
	best := time.Hour
	for range 20 {
		began := time.Now()
		if _, err := in.Commands(t.Context(), &definition.Definition{Dependencies: []definition.Dependency{{Kind: definition.Command, Name: "docker", Range: ">=20"}}}); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(began))
	}
	if best > 5*time.Millisecond { // a program takes more to start
		t.Errorf("a known program takes %v", best)
	}
}
