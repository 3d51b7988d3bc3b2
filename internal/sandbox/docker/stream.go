package docker

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Streams of an attached container without a terminal.
const (
	streamStdin  = 0
	streamStdout = 1
	streamStderr = 2
)

// demultiplex copies an attached container's output until the stream ends. Each
// frame has a header of eight bytes: the stream, three zeros, the length. A
// writer that fails or is nil takes no more, and the rest for it is thrown away,
// so that the other one still gets everything.
// https://docs.docker.com/reference/api/engine/version/v1.41/#operation/ContainerAttach
func demultiplex(r io.Reader, stdout, stderr io.Writer) error {
	var head [8]byte
	buf := make([]byte, 32<<10)
	out := [...]io.Writer{streamStdin: stdout, streamStdout: stdout, streamStderr: stderr}
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		stream := head[0]
		if int(stream) >= len(out) || head[1]|head[2]|head[3] != 0 {
			return fmt.Errorf("docker: the container's output is not in frames: % x", head)
		}
		left := int64(binary.BigEndian.Uint32(head[4:]))
		for left > 0 {
			n, err := io.ReadFull(r, buf[:min(left, int64(len(buf)))])
			left -= int64(n)
			if w := out[stream]; w != nil && n > 0 {
				if _, err := w.Write(buf[:n]); err != nil {
					out[stream] = nil
				}
			}
			if err != nil {
				return err
			}
		}
	}
}
