package host_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/internal/worker"
)

// BenchmarkCold starts a worker, calls it once and ends it, in turn with and
// without an adapter; adapter-ms is what the adapter costs, at the median.
func BenchmarkCold(b *testing.B) {
	s := box(b)
	for _, l := range languages {
		b.Run(l.name, func(b *testing.B) {
			with := contract(b, s, l.file, nil).config
			bare := with
			bare.Adapter, bare.Setup = "", nil
			var times [2][]time.Duration
			one := func(c worker.Config, i int, name worker.Call) {
				began := time.Now()
				p := worker.New(c)
				if _, err := p.Call(b.Context(), name); err != nil {
					b.Fatal(err)
				}
				times[i] = append(times[i], time.Since(began))
				if err := p.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			bare.Module = filepath.Join(filepath.Dir(bare.Module), "bare"+filepath.Ext(bare.Module))
			text, err := os.ReadFile(with.Module)
			if err != nil {
				b.Fatal(err)
			}
			text = append(text, map[string]string{"js": "\nexport function plain () { return 1 }\n", "py": "\ndef plain(a):\n    return 1\n"}[l.name]...)
			if err := os.WriteFile(bare.Module, text, 0o644); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				one(bare, 0, worker.Call{Name: "plain", Args: json.RawMessage(`{}`)})
				one(with, 1, host.Execute(json.RawMessage(`{"method":"value","value":1}`), ""))
			}
			for i := range times {
				slices.Sort(times[i])
			}
			median := func(t []time.Duration) float64 { return float64(t[len(t)/2].Microseconds()) / 1000 }
			b.ReportMetric(median(times[0]), "bare-ms")
			b.ReportMetric(median(times[1])-median(times[0]), "adapter-ms")
		})
	}
}

// BenchmarkWarm calls a worker that is there, through an adapter and without.
func BenchmarkWarm(b *testing.B) {
	s := box(b)
	for _, l := range languages {
		b.Run(l.name, func(b *testing.B) {
			with := contract(b, s, l.file, nil)
			with.text(`{"method":"value","value":1}`)
			call := host.Execute(json.RawMessage(`{"method":"value","value":1}`), "")
			for b.Loop() {
				if _, err := with.pool.Call(b.Context(), call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("bare", func(b *testing.B) {
		bare := newBench(b, s, "bare", "bare.mjs", map[string]string{"bare.mjs": "export async function execute (p) { return p.params.value }"}, func(b *bench) { b.config.Adapter = "" })
		call := host.Execute(json.RawMessage(`{"method":"value","value":1}`), "")
		for b.Loop() {
			if _, err := bare.pool.Call(b.Context(), call); err != nil {
				b.Fatal(err)
			}
		}
	})
}
