package mcp

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
)

// TestPipeOfTheSystem serves over pipes as a client that starts the program
// makes them: the reader of one is opened again and must still see its end.
func TestPipeOfTheSystem(t *testing.T) {
	in, client, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, out := io.Pipe()
	s := New(Config{Executor: &calls{f: echo}, Catalog: &catalog{}})
	done := make(chan error, 1)
	go func() {
		done <- s.ServeStdio(t.Context(), in, out)
		out.Close()
	}()
	lines := bufio.NewReader(answers)
	for range 3 {
		if _, err := io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"result":{}`) {
			t.Fatalf("answer to ping: %q, %v", line, err)
		}
	}
	client.Close()
	if err := <-done; err != nil {
		t.Errorf("ServeStdio: %v, want nil when the client closes its end", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := in.Stat(); err == nil {
		t.Error("the stream is still open")
	}
}
