package cli

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// streams connect a command with those of this program: by the descriptors
// themselves where that can be, through pipes where its output is counted, and
// through a terminal of its own where a person sits before one.
type streams struct {
	limit   int64 // bytes of output; zero or less is none
	theirs  []*os.File
	outputs []output
	tty     *terminal // nil if there is none

	copies sync.WaitGroup
	mu     sync.Mutex
	count  int64
	cut    bool  // something was over the limit
	failed error // the first write that went wrong and not because nobody reads
}

// output is a pipe of the command and where it goes.
type output struct {
	from *os.File
	to   io.Writer
}

// streams fills the streams of cmd. The caller calls close.
func (p *program) streams(cmd *sandbox.Cmd) (*streams, error) {
	s := &streams{limit: cmd.Profile.Output}
	for _, stream := range []struct {
		name string
		file any
	}{{"stdin", p.stdin}, {"stdout", p.stdout}, {"stderr", p.stderr}} {
		if f, ok := stream.file.(*os.File); ok && isDirectory(f) {
			return nil, usagef("%s is a directory, from which a command could reach others", stream.name)
		}
	}
	if p.inTTY && p.outTTY {
		s.tty = openTerminal(p.stdin)
	}
	switch {
	case s.tty != nil:
		cmd.TTY = &s.tty.size
	case !p.inTTY || inForeground(p.stdin):
		cmd.Stdin = p.stdin
	}
	var err error
	if s.tty == nil {
		cmd.Stdout, err = s.output(p.stdout)
	}
	switch {
	case err != nil || s.tty != nil && p.errTTY:
	case cmd.Stdout != nil && sameFile(p.stdout, p.stderr):
		cmd.Stderr = cmd.Stdout // so that lines keep their order
	default:
		cmd.Stderr, err = s.output(p.stderr)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	if s.tty != nil {
		s.tty.out = p.stdout
	}
	return s, nil
}

// output is what the command gets to write to w.
func (s *streams) output(w io.Writer) (*os.File, error) {
	if f, ok := w.(*os.File); ok && s.limit <= 0 {
		return f, nil
	}
	r, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.outputs = append(s.outputs, output{r, w})
	s.theirs = append(s.theirs, theirs)
	return theirs, nil
}

// run begins to copy. The command has its ends of the pipes by now.
func (s *streams) run(process sandbox.Process) error {
	for _, f := range s.theirs {
		f.Close()
	}
	s.theirs = nil
	for _, o := range s.outputs {
		s.copies.Go(func() { s.copy(o, process) })
	}
	if s.tty == nil {
		return nil
	}
	master := process.PTY()
	if master == nil {
		return errors.New("the sandbox gave the command no terminal")
	}
	s.copies.Go(func() { s.copy(output{master, s.tty.out}, process) })
	return s.tty.run(master)
}

// finish returns when all that was printed has been passed on.
func (s *streams) finish() {
	s.copies.Wait()
	if s.tty != nil {
		s.tty.restore()
	}
}

// close gives back what is left.
func (s *streams) close() {
	for _, f := range s.theirs {
		f.Close()
	}
	if s.tty != nil {
		s.tty.close()
	}
}

// copy passes a stream on until it ends. What goes past the limit is thrown
// away, and the command with it.
func (s *streams) copy(o output, process sandbox.Process) {
	defer o.from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := o.from.Read(buf)
		passed := s.take(n)
		if passed > 0 {
			if _, err := o.to.Write(buf[:passed]); err != nil {
				s.fail(err)
				return // the command finds the pipe closed, as it would have
			}
		}
		if passed < n {
			process.Kill(sandbox.EndOutput)
			return
		}
		if err != nil {
			return // a terminal's master reads EIO when its last process is gone
		}
	}
}

// take counts n bytes and says how many of them are within the limit.
func (s *streams) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit <= 0 {
		return n
	}
	within := min(int64(n), s.limit-s.count)
	s.count += within
	s.cut = s.cut || within < int64(n)
	return int(within)
}

func (s *streams) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil && !errors.Is(err, syscall.EPIPE) {
		s.failed = err
	}
}

func isDirectory(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.IsDir()
}

// sameFile reports whether two streams are one, as after 2>&1.
func sameFile(a, b io.Writer) bool {
	fa, ok := a.(*os.File)
	fb, also := b.(*os.File)
	if !ok || !also {
		return false
	}
	ia, err := fa.Stat()
	if err != nil {
		return false
	}
	ib, err := fb.Stat()
	return err == nil && os.SameFile(ia, ib)
}
