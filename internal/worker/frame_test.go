package worker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var unexported = cmp.AllowUnexported(frame{})

// framed puts the length in front.
func framed(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

func TestFrames(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes []byte
		want  frame
		fault string
	}{
		{name: "a header", bytes: framed(`{"t":"pong","k":"n","id":7}`), want: frame{header: header{Type: "pong", Key: "n", ID: 7}}},
		{name: "a body", bytes: framed("{\"t\":\"result\",\"k\":\"n\",\"id\":1}\n[1,\n2]"), want: frame{header{Type: "result", Key: "n", ID: 1}, json.RawMessage("[1,\n2]")}},
		{name: "unknown fields", bytes: framed(`{"t":"pong","k":"n","new":{}}`), want: frame{header: header{Type: "pong", Key: "n"}}},
		{name: "no nonce", bytes: framed(`{"t":"pong"}`), fault: "without the nonce"},
		{name: "another nonce", bytes: framed(`{"t":"pong","k":"m"}`), fault: "without the nonce"},
		{name: "text", bytes: []byte("hello, world"), fault: "a frame of 1751477356 bytes"},
		{name: "nothing in it", bytes: framed(""), fault: "header"},
		{name: "no JSON", bytes: framed("{"), fault: "header"},
		{name: "a body that is none", bytes: framed("{\"t\":\"result\",\"k\":\"n\"}\n{"), fault: "body that is not JSON"},
		{name: "two bodies", bytes: framed("{\"t\":\"result\",\"k\":\"n\"}\n1\n2"), fault: "body that is not JSON"},
		{name: "an empty body", bytes: framed("{\"t\":\"result\",\"k\":\"n\"}\n"), fault: "body that is not JSON"},
		{name: "a long header", bytes: framed(`{"t":"` + strings.Repeat("x", maxHeader) + `"}`), fault: "a header of"},
		{name: "cut off", bytes: framed(`{"t":"pong","k":"n"}`)[:9], fault: "the end within a frame"},
		{name: "a length cut off", bytes: []byte{0, 0}, fault: "the end within a frame"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			got, err := (&reader{from: bytes.NewReader(c.bytes), max: 1 << 20, key: "n"}).next()
			if c.fault != "" {
				if !errors.Is(err, errProtocol) || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("got %+v, %v, want a fault with %q", got, err, c.fault)
				}
				return
			}
			if diff := cmp.Diff(c.want, got, unexported); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// FuzzFrames: whatever comes, the reader says frame, end or fault, and what it
// takes for a frame is one when it is written again.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("hello"))
	f.Add(framed(`{"t":"ready","k":"n"}`))
	f.Add(append(framed("{\"t\":\"result\",\"k\":\"n\",\"id\":3}\n\"x\""), framed(`{"t":"error","k":"n","error":{"name":"E","message":"m"}}`)...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := reader{from: bufio.NewReader(bytes.NewReader(data)), max: 1 << 16, key: "n"}
		for {
			got, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				if !errors.Is(err, errProtocol) {
					t.Fatalf("%v is no fault", err)
				}
				return
			}
			again, err := encode(nil, &got.header, got.Body)
			if err != nil {
				t.Fatal(err)
			}
			back, err := (&reader{from: bytes.NewReader(again), max: 1 << 20, key: "n"}).next()
			if diff := cmp.Diff(got, back, unexported); diff != "" || err != nil {
				t.Fatalf("%v (-read +written and read):\n%s", err, diff)
			}
		}
	})
}
