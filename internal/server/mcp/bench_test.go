package mcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/executor"
	"github.com/toolyard/toolyard/tool"
)

// benchmark sends a message over stdio and waits for its answer, b.N times.
func benchmark(b *testing.B, specs []*tool.Spec, message string) {
	payload := tool.Text(string(make([]byte, 0)) + fmt.Sprintf("%04096d", 1))
	s := New(Config{Catalog: &catalog{specs: specs}, Executor: &fixed{payload}})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.ServeStdio(context.Background(), inR, outW) }()
	out := bufio.NewReaderSize(outR, 1<<20)
	ask := func(line string) {
		if _, err := io.WriteString(inW, line+"\n"); err != nil {
			b.Fatal(err)
		}
		if _, err := out.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	ask(fmt.Sprintf(hello, "2025-11-25", "{}"))
	b.ReportAllocs()
	for b.Loop() {
		ask(message)
	}
	_ = inW.Close()
	if err := <-done; err != nil {
		b.Error(err)
	}
	_ = s.Close(context.Background())
}

type fixed struct{ r *tool.Result }

func (f *fixed) Call(context.Context, executor.Call) *tool.Result { return f.r }

// BenchmarkCall compares a tools/call of our own with one that goes through the
// SDK, as a second round does. The result holds 4 KB.
func BenchmarkCall(b *testing.B) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	specs := []*tool.Spec{spec("echo")}
	b.Run("own", func(b *testing.B) {
		benchmark(b, specs, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1},`+meta+`}}`)
	})
	b.Run("sdk", func(b *testing.B) {
		benchmark(b, specs, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":1},"requestState":"x",`+meta+`}}`)
	})
}

func BenchmarkList(b *testing.B) {
	var specs []*tool.Spec
	for i := range 60 {
		s := spec(fmt.Sprint("tool", i))
		for j := range 8 {
			s.Input.Properties[fmt.Sprint("argument", j)] = &jsonschema.Schema{Type: "string", Description: "what it is for, in a few words"}
		}
		specs = append(specs, s)
	}
	benchmark(b, specs, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
}

func BenchmarkNew(b *testing.B) {
	var specs []*tool.Spec
	for i := range 60 {
		specs = append(specs, spec(fmt.Sprint("tool", i)))
	}
	c := &catalog{specs: specs}
	for b.Loop() {
		_ = New(Config{Catalog: c, Executor: &fixed{}})
	}
}
