//go:build amd64 || arm64

package docker

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// resizeInterval is how often the size of the caller's terminal is looked at.
const resizeInterval = 100 * time.Millisecond

// streams carries what the caller and the container say to each other.
type streams struct {
	client   *client
	id       string
	conn     *hijacked // nil if there is nothing to carry
	stopper  *stopper
	terminal *terminal // nil without
	ends     []*end

	output sync.WaitGroup // ends with what the container says
	input  sync.WaitGroup // ends with the stopper or the connection

	mu   sync.Mutex
	last unix.Winsize // as the container knows it
}

// attach connects the caller's files with a container that is not started yet.
func (r *Runner) attach(ctx context.Context, id string, cmd *sandbox.Cmd) (*streams, error) {
	s := &streams{client: r.client, id: id}
	var err error
	if s.stopper, err = newStopper(); err != nil {
		return nil, err
	}
	if err := s.open(ctx, cmd); err != nil {
		s.abort()
		return nil, err
	}
	return s, nil
}

func (s *streams) open(ctx context.Context, cmd *sandbox.Cmd) error {
	stdin, stdout, stderr := cmd.Stdin, cmd.Stdout, cmd.Stderr
	if cmd.TTY != nil {
		var err error
		if s.terminal, err = openTerminal(sizeOf(cmd.TTY)); err != nil {
			return err
		}
		stdin, stdout, stderr = s.terminal.peer, s.terminal.peer, nil
	}
	files := [...]*os.File{stdin, stdout, stderr}
	var ends [3]*end
	query := url.Values{"stream": {"1"}}
	for i, name := range []string{"stdin", "stdout", "stderr"} {
		if files[i] == nil {
			continue
		}
		query.Set(name, "1")
		e, err := newEnd(files[i], s.stopper)
		if err != nil {
			return err
		}
		ends[i] = e
		s.ends = append(s.ends, e)
	}
	if len(query) == 1 {
		return nil
	}
	var err error
	if s.conn, err = s.client.hijack(ctx, "/containers/"+s.id+"/attach", query); err != nil {
		return err
	}
	s.output.Go(func() { s.copyOut(ends[1], ends[2]) })
	if ends[0] != nil {
		s.input.Go(func() {
			_, _ = io.Copy(s.conn, ends[0])
			_ = s.conn.CloseWrite()
		})
	}
	if s.terminal != nil {
		s.input.Go(s.follow)
	}
	return nil
}

// copyOut ends with the container's output and closes the ends that it went to,
// so that whoever reads there sees the end.
func (s *streams) copyOut(stdout, stderr *end) {
	writer := func(e *end) io.Writer {
		if e == nil {
			return nil
		}
		return e
	}
	if s.terminal != nil {
		_, _ = io.Copy(stdout, s.conn)
		return
	}
	_ = demultiplex(s.conn, writer(stdout), writer(stderr))
}

// follow passes on the size of the terminal, which the caller sets on the
// master, until the streams are over. Nothing tells of a change: the other end
// is nobody's controlling terminal.
func (s *streams) follow() {
	tick := time.NewTicker(resizeInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.stopper.done:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
		_ = s.resize(ctx) // it is tried again
		cancel()
	}
}

// resize tells the container the size of the terminal, if it has changed.
func (s *streams) resize(ctx context.Context) error {
	size, err := s.terminal.size() // fails once the terminal is closed
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if size == s.last {
		return nil
	}
	query := url.Values{"h": {strconv.Itoa(int(size.Row))}, "w": {strconv.Itoa(int(size.Col))}}
	if err := s.client.call(ctx, http.MethodPost, "/containers/"+s.id+"/resize", query, nil, nil); err != nil {
		return err
	}
	s.last = size
	return nil
}

func (s *streams) pty() *os.File {
	if s.terminal == nil {
		return nil
	}
	return s.terminal.master
}

// finish ends what waits for the caller, and output that nobody reads.
func (s *streams) finish() { s.stopper.stop() }

// wait returns when all that the container said has been passed on. The caller's
// files have then been let go of.
func (s *streams) wait() {
	s.output.Wait()
	s.finish()
	if s.conn != nil {
		s.conn.Close()
	}
	s.input.Wait()
	for _, e := range s.ends {
		_ = e.Close()
	}
	s.ends = nil
	if s.terminal != nil {
		s.terminal.peer.Close() // the master reads EIO from now on
	}
}

// close lets go of the rest. Nobody may wait any more.
func (s *streams) close() {
	if s.terminal != nil {
		s.terminal.master.Close()
	}
	s.stopper.close()
}

// abort gives up.
func (s *streams) abort() {
	s.finish()
	if s.conn != nil {
		s.conn.Close()
	}
	s.wait()
	s.close()
}
