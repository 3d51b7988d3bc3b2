package sandboxtest

import (
	"net"
	"testing"
)

// attack is what the helper does with one target.
type attack struct {
	name string
	run  func(target string) error
}

// visitor finds a visit by its name.
func visitor(name string) func(args []string) error {
	for _, v := range visits {
		if v.name == name {
			return func(args []string) error { return v.run(args[0]) }
		}
	}
	return nil
}

// udp succeeds if an answer comes: sending alone shows nothing.
func udp(address string) error {
	c, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1)) // a port nobody listens on answers with an error
	return err
}

// echo sends every packet back.
func echo(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 16)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	return c.LocalAddr().String()
}
