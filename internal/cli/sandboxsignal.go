package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// signals are what a person or a supervisor sends to end a command or to tell it
// something: they are the command's, not this program's.
type signals struct {
	caught chan os.Signal
	done   chan struct{}
	wg     sync.WaitGroup
}

// catchSignals catches signals from now on. What was ignored when this program
// began, as under nohup, is left so: the command ignores it as well.
func catchSignals() *signals {
	s := &signals{caught: make(chan os.Signal, 8), done: make(chan struct{})}
	for _, sig := range caughtSignals {
		if !signal.Ignored(sig) {
			signal.Notify(s.caught, sig)
		}
	}
	return s
}

// stop ends forward. Signals stay caught: the command has ended, and what is left
// is to say how.
func (s *signals) stop() {
	close(s.done)
	s.wg.Wait()
}

// atOnce is the time in which several signals to end are one: timeout(1) sends
// its own to the process and to the group.
const atOnce = 100 * time.Millisecond

// forward passes signals on until stop. The second that asks to end kills.
func (s *signals) forward(process sandbox.Process) {
	s.wg.Go(func() {
		var asked time.Time // zero while nothing has asked to end
		for {
			select {
			case <-s.done:
				return
			case caught := <-s.caught:
				sig, ok := caught.(syscall.Signal)
				switch {
				case !ok || sig == syscall.SIGPIPE: // a write says so as well
				case stops(sig):
					pause(process)
				case !ends(sig):
					_ = process.Signal(sig) // it may have ended by now
				case asked.IsZero():
					asked = time.Now()
					_ = process.Signal(sig)
				case time.Since(asked) > atOnce:
					process.Kill(sandbox.EndKilled)
				}
			}
		}
	})
}

func ends(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}
