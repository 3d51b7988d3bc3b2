package upstream_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
)

// echo answers as fast as a server can: it knows the form of our requests.
func echo(t testing.TB) *upstream.Stdio {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		lines := bufio.NewReaderSize(inR, 64<<10)
		out := bufio.NewWriterSize(outW, 64<<10)
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				return
			}
			id, _, _ := bytes.Cut(line[len(`{"jsonrpc":"2.0","id":`):], []byte(","))
			switch {
			case bytes.Contains(line, []byte(`"initialize"`)):
				out.WriteString(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}` + "\n")
			case bytes.Contains(line, []byte(`"notifications/`)):
				continue
			default:
				out.WriteString(`{"jsonrpc":"2.0","id":`)
				out.Write(id)
				out.WriteString(`,"result":{"content":[{"type":"text","text":"hello, world"}],"isError":false}}` + "\n")
			}
			if lines.Buffered() == 0 {
				out.Flush()
			}
		}
	}()
	t.Cleanup(func() { inR.Close(); outW.Close() })
	return &upstream.Stdio{Stdin: inW, Stdout: outR}
}

func BenchmarkEcho(b *testing.B) {
	r := upstream.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"echo","arguments":{"text":"hello, world"}}`)}
	b.Run("1", func(b *testing.B) {
		c := dial(b, upstream.Config{Session: true, Stdio: echo(b)})
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Call(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("64", func(b *testing.B) {
		c := dial(b, upstream.Config{Session: true, Stdio: echo(b)})
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := c.Call(b.Context(), r); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
