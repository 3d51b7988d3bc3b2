package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

func frame(stream byte, text string) []byte {
	head := make([]byte, 8, 8+len(text))
	head[0] = stream
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return append(head, text...)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestDemultiplex(t *testing.T) {
	long := string(bytes.Repeat([]byte("0123456789"), 10_000))
	for _, c := range []struct {
		name           string
		in             []byte
		stdout, stderr string
		fails          bool
	}{
		{"nothing", nil, "", "", false},
		{"both", append(frame(1, "out"), frame(2, "err")...), "out", "err", false},
		{"in turns", bytes.Join([][]byte{frame(1, "a"), frame(2, "b"), frame(1, "c")}, nil), "ac", "b", false},
		{"empty frame", append(frame(1, ""), frame(1, "x")...), "x", "", false},
		{"longer than the buffer", frame(1, long), long, "", false},
		{"cut in the header", frame(1, "x")[:5], "", "", true},
		{"cut in the frame", frame(1, "xyz")[:9], "x", "", true},
		{"a foreign stream", frame(7, "x"), "", "", true},
		{"no frames at all", []byte("plain text of a terminal"), "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			err := demultiplex(bytes.NewReader(c.in), &stdout, &stderr)
			if stdout.String() != c.stdout || stderr.String() != c.stderr || (err != nil) != c.fails {
				t.Errorf("got %q, %q, %v, want %q, %q, failure %v", stdout.String(), stderr.String(), err, c.stdout, c.stderr, c.fails)
			}
		})
	}
	t.Run("a broken writer does not stop the other", func(t *testing.T) {
		var stderr bytes.Buffer
		in := bytes.Join([][]byte{frame(1, "a"), frame(2, "b"), frame(1, "c"), frame(2, "d")}, nil)
		if err := demultiplex(bytes.NewReader(in), broken{}, &stderr); err != nil || stderr.String() != "bd" {
			t.Errorf("got %q, %v, want bd", stderr.String(), err)
		}
	})
}

func FuzzDemultiplex(f *testing.F) {
	f.Add(frame(1, "out"))
	f.Add(append(frame(2, "err"), frame(1, "out")...))
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 255, 'x'})
	f.Fuzz(func(t *testing.T, in []byte) {
		var stdout, stderr bytes.Buffer
		_ = demultiplex(bytes.NewReader(in), &stdout, &stderr)
		if stdout.Len()+stderr.Len() > len(in) {
			t.Errorf("%d bytes became %d", len(in), stdout.Len()+stderr.Len())
		}
		var again bytes.Buffer
		_ = demultiplex(io.MultiReader(bytes.NewReader(in)), &again, nil)
		if !bytes.Equal(again.Bytes(), stdout.Bytes()) {
			t.Errorf("without stderr stdout is %q, with it %q", again.Bytes(), stdout.Bytes())
		}
	})
}
