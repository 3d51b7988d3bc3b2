package executor

import "sync/atomic"

// maxIdle is how many goroutines wait for the next tool to run.
const maxIdle = 64

// workers are goroutines that run tools. One that has run a tool waits for the
// next: its stack has grown already, and to grow a new one costs more than all
// the rest of the pipeline.
type workers struct {
	work chan func()
	quit chan struct{} // closed by stop
	idle atomic.Int32
}

func newWorkers() *workers { return &workers{work: make(chan func()), quit: make(chan struct{})} }

// stop ends the goroutines that wait; those that run a tool end after it.
func (w *workers) stop() { close(w.quit) }

// run calls f in a goroutine of its own. The goroutine ends after it if enough
// others wait, else with stop.
func (w *workers) run(f func()) {
	select {
	case w.work <- f:
	default:
		go w.serve(f)
	}
}

func (w *workers) serve(f func()) {
	for {
		f()
		f = nil
		if w.idle.Add(1) > maxIdle {
			w.idle.Add(-1)
			return
		}
		select {
		case f = <-w.work:
			w.idle.Add(-1)
		case <-w.quit:
			return
		}
	}
}
