package sandboxtest

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// System is what a dynamic program of the machine needs to run.
func System() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives"}
}

// Run holds a sandbox to the contract. Level is the one that it must report.
func Run(t *testing.T, s sandbox.Runner, level sandbox.Level) { NewCorpus(t).Run(t, s, level) }

// Run is [Run] with a corpus whose controls may have run before.
func (c *Corpus) Run(t *testing.T, s sandbox.Runner, level sandbox.Level) {
	report := s.Probe(t.Context())
	if report.Level != level {
		t.Skipf("level %s cannot be had here, only %s: %v", level, report.Level, report.Missing)
	}
	t.Run("attacks", func(t *testing.T) { c.Attack(t, s, level) })
	t.Run("abilities", func(t *testing.T) { runAbilities(t, s) })
	t.Run("endings", func(t *testing.T) { runEndings(t, s) })
	t.Run("protected", func(t *testing.T) { runProtected(t, s, level) })
}

// Outcome is how a command ended and what it printed on both outputs.
type Outcome struct {
	sandbox.Result
	Output string
	Took   time.Duration // until Wait returned
}

// Command runs one command to its end and closes its sandbox.
func Command(t *testing.T, s sandbox.Runner, cmd sandbox.Cmd) Outcome {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	p, err := s.Start(ctx, cmd)
	w.Close()
	if err != nil {
		t.Fatalf("starting %q: %v", cmd.Args, err)
	}
	read := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(io.LimitReader(r, 1<<20))
		read <- b
	}()
	p.Wait(ctx)
	took := time.Since(start)
	if err := p.Close(); err != nil {
		t.Errorf("closing %q: %v", cmd.Args, err)
	}
	return Outcome{p.Wait(ctx), string(bytes.TrimSpace(<-read)), took}
}

// Shell runs a script with a profile that also grants the machine's programs.
func Shell(t *testing.T, s sandbox.Runner, p sandbox.Profile, script string) Outcome {
	t.Helper()
	p.Read = append(p.Read, System()...)
	dir := "/"
	if len(p.Write) > 0 {
		dir = p.Write[0]
	}
	return Command(t, s, sandbox.Cmd{Args: []string{"/bin/bash", "-c", script}, Dir: dir, Profile: p})
}
