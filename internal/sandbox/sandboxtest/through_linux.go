package sandboxtest

import (
	"context"
	"os"
	"sync"
	"syscall"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// Through makes a Runner of whatever runs a command in a sandbox at last: a
// program, a tool. Run closes nothing of cmd and returns when all is over.
func Through(report sandbox.Report, run func(ctx context.Context, cmd sandbox.Cmd) (sandbox.Result, error)) sandbox.Runner {
	return &through{report, run}
}

type through struct {
	report sandbox.Report
	run    func(context.Context, sandbox.Cmd) (sandbox.Result, error)
}

func (r *through) Probe(context.Context) sandbox.Report { return r.report }

func (r *through) Close() error { return nil }

func (r *through) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &passage{cancel: cancel, done: make(chan struct{})}
	// The caller closes its copies at once.
	var copies []*os.File
	for _, f := range []**os.File{&cmd.Stdin, &cmd.Stdout, &cmd.Stderr} {
		if *f == nil {
			continue
		}
		fd, err := syscall.Dup(int((*f).Fd()))
		if err != nil {
			cancel()
			return nil, err
		}
		syscall.CloseOnExec(fd)
		*f = os.NewFile(uintptr(fd), (*f).Name())
		copies = append(copies, *f)
	}
	go func() {
		defer close(p.done)
		result, err := r.run(ctx, cmd)
		p.mu.Lock()
		p.result, p.err = result, err
		p.mu.Unlock()
		for _, f := range copies {
			f.Close()
		}
	}()
	return p, nil
}

// passage is a command on its way.
type passage struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	result sandbox.Result
	err    error
}

func (p *passage) Wait(ctx context.Context) sandbox.Result {
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

func (p *passage) Done() <-chan struct{} { return p.done }

func (p *passage) Kill(string) { p.cancel() }

func (p *passage) Close() error {
	p.cancel()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *passage) Signal(syscall.Signal) error { return syscall.ENOSYS }

func (p *passage) Usage() tool.Peaks { return p.Wait(context.Background()).Peaks }

func (p *passage) PTY() *os.File { return nil }

func (p *passage) PID() int { return 0 }
