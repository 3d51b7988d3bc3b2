package netproxy_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// turns answers each lookup with the next address.
type turns struct {
	mu      sync.Mutex
	answers []string
	n       int
}

func (r *turns) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := netip.MustParseAddr(r.answers[r.n%len(r.answers)])
	r.n++
	return []netip.Addr{a}, nil
}

// dialLog notes what is dialled.
type dialLog struct {
	mu        sync.Mutex
	addresses []string
	behave    func(ctx context.Context, address string) (net.Conn, error)
}

func (d *dialLog) dial(ctx context.Context, _, address string) (net.Conn, error) {
	d.mu.Lock()
	d.addresses = append(d.addresses, address)
	d.mu.Unlock()
	if d.behave != nil {
		return d.behave(ctx, address)
	}
	a, b := net.Pipe()
	b.Close()
	return a, nil
}

// all answers each lookup with the same addresses.
type all []netip.Addr

func (a all) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return a, nil }

func TestDialTriesAllAddresses(t *testing.T) {
	addrs := all{
		netip.MustParseAddr("2606:4700::1"), netip.MustParseAddr("2606:4700::2"), netip.MustParseAddr("10.0.0.1"),
		netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("1.1.1.2"),
	}
	hang := func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	fail := func(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") }
	for _, c := range []struct {
		name   string
		behave func(ctx context.Context, address string) (net.Conn, error)
		want   []string
		took   time.Duration
	}{
		{"the first answers", nil, []string{"[2606:4700::1]:443"}, 0},
		{"all fail", fail, []string{"[2606:4700::1]:443", "1.1.1.1:443", "[2606:4700::2]:443", "1.1.1.2:443"}, 0},
		{"all hang", hang, []string{"[2606:4700::1]:443", "1.1.1.1:443", "[2606:4700::2]:443", "1.1.1.2:443"}, 15*time.Second + 750*time.Millisecond},
		{"IPv6 hangs", func(ctx context.Context, address string) (net.Conn, error) {
			if address[0] == '[' {
				return hang(ctx, address)
			}
			a, _ := net.Pipe()
			return a, nil
		}, []string{"[2606:4700::1]:443", "1.1.1.1:443"}, 250 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &dialLog{behave: c.behave}
				p := netproxy.New(netproxy.Config{Entries: entries(t, "a.test"), Resolver: addrs, Dial: d.dial})
				start := time.Now()
				netproxy.DialFresh(p, t.Context(), "a.test", 443)
				if took := time.Since(start); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				if !slices.Equal(d.addresses, c.want) {
					t.Errorf("dialled %v, want %v", d.addresses, c.want)
				}
			})
		})
	}
}

type failing struct{ err error }

func (f failing) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, f.err
}

// turnsTo always fails.
func turnsTo(err error) netproxy.Resolver { return failing{err} }
