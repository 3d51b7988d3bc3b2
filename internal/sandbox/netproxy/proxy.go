package netproxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/netguard"
)

// ProxyPort is where the HTTP and SOCKS proxy listens inside, on 127.0.0.1.
const ProxyPort = 3128

// DefaultMaxConns is how many connections from inside are served at once.
const DefaultMaxConns = 512

// acceptPause is how long an accept loop waits after an error, such as too many
// open files.
const acceptPause = 50 * time.Millisecond

// Config is what may be reached, and how. The zero value allows nothing.
type Config struct {
	Entries []Entry
	// All allows every public address and every name at one, beside Entries.
	All bool
	// AllowRanges are addresses, otherwise refused, at which an allowed name may
	// be. A metadata address must be named by itself.
	AllowRanges []netip.Prefix
	// Inject are headers that the proxy sets, so that whoever is inside never
	// holds them. They allow nothing by themselves.
	Inject []Injection
	// NoIPv6 leaves IPv6 out of DNS answers and Routes, for a namespace without.
	NoIPv6 bool
	// Resolver is asked for names; nil is the host's.
	Resolver Resolver
	// Dial makes connections to addresses that were checked; nil is net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// RootCAs verifies servers of hosts with an injection; nil is the system's.
	RootCAs *x509.CertPool
	// Log gets refusals at level info and the rest at debug; nil is none.
	Log *slog.Logger
	// OnDecision is called for each decision, never concurrently. It must not block.
	OnDecision func(Decision)
	// MaxConns bounds the connections served at once; others wait. Zero is
	// [DefaultMaxConns].
	MaxConns int
}

// Sockets are what a Proxy serves, all listening inside of the namespace.
// [Proxy.Serve] owns and closes them. Any may be nil.
type Sockets struct {
	DNS    net.PacketConn
	DNSTCP net.Listener
	// Proxy is HTTP, CONNECT, SOCKS5 and SOCKS4a on one port.
	Proxy net.Listener
	// Transparent are listeners by port, on all addresses: the address that a
	// client dialled, the connection's local one, says what it wants.
	Transparent map[uint16]net.Listener
}

// Proxy lets through what its Config allows. Make one with [New]; all methods
// are safe for concurrent use.
type Proxy struct {
	config    Config
	fakes     *fakes
	resolved  resolved
	decisions decisions
	inject    map[string][]Injection // by host
	ca        *authority             // nil without an injection
	caErr     error

	mu     sync.Mutex
	served bool
}

// New makes a Proxy. It starts nothing.
func New(c Config) *Proxy {
	c.Entries = slices.Clone(c.Entries)
	c.AllowRanges = slices.Clone(c.AllowRanges)
	c.Inject = slices.Clone(c.Inject)
	if c.Resolver == nil {
		c.Resolver = netguard.HostResolver{}
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: netguard.DialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	if c.MaxConns <= 0 {
		c.MaxConns = DefaultMaxConns
	}
	p := &Proxy{config: c, decisions: decisions{log: c.Log, call: c.OnDecision}, inject: map[string][]Injection{}}
	for _, in := range c.Inject {
		p.inject[in.Host] = append(p.inject[in.Host], in)
	}
	if len(c.Inject) > 0 {
		p.ca, p.caErr = newAuthority(slices.Sorted(maps.Keys(p.inject)))
	}
	p.fakes = newFakes(func(addr netip.Addr) bool {
		return slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.Host == "" && e.Prefix.Contains(addr) })
	})
	return p
}

// allPorts are the transparent ports when all is allowed: HTTP, TLS, SSH and
// git. Other ports go through the proxy.
var allPorts = []uint16{22, 80, 443, 9418}

// Ports lists the ports, ascending, at which programs that know of no proxy
// connect: a listener on each belongs into [Sockets].Transparent.
func (p *Proxy) Ports() []uint16 {
	var ports []uint16
	if p.config.All {
		ports = append(ports, allPorts...)
	}
	for _, e := range p.config.Entries {
		ports = append(ports, e.ports()...)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// Routes lists what the namespace must treat as local, so that connections to it
// arrive at the listeners: the fake ranges and the addresses that entries name;
// if all is allowed, everything. An interface needs an address besides loopback,
// or programs that ask for "configured" families get none: 198.18.0.1 is free.
func (p *Proxy) Routes() []netip.Prefix {
	routes := []netip.Prefix{FakeIPv4, FakeIPv6}
	if p.config.All {
		routes = append(routes, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"))
	}
	for _, e := range p.config.Entries {
		if e.Host == "" && !e.Prefix.Addr().IsLoopback() && !slices.Contains(routes, e.Prefix) {
			routes = append(routes, e.Prefix)
		}
	}
	if p.config.NoIPv6 {
		routes = slices.DeleteFunc(routes, func(r netip.Prefix) bool { return r.Addr().Is6() })
	}
	return routes
}

// Decisions are the last 1000 decisions, oldest first.
func (p *Proxy) Decisions() []Decision {
	list, _ := p.decisions.list()
	return list
}

// Dropped is how many decisions were made before those that Decisions gives.
func (p *Proxy) Dropped() int {
	_, dropped := p.decisions.list()
	return dropped
}

func (p *Proxy) record(d Decision) { p.decisions.add(d) }

// decide records a decision about a connection or request.
func (p *Proxy) decide(protocol string, t target, address string, err error) {
	d := Decision{Protocol: protocol, Host: t.host, Port: int(t.port), Address: address, Allowed: err == nil, Rule: t.rule}
	if err != nil {
		d.Rule = err.Error()
	}
	p.record(d)
}

// Serve serves until ctx ends or a listener breaks, and returns when all
// connections are gone. It closes the sockets. A Proxy serves once.
func (p *Proxy) Serve(ctx context.Context, s Sockets) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, s.close)
	defer func() {
		if stop() {
			s.close()
		}
	}()
	p.mu.Lock()
	served := p.served
	p.served = true
	p.mu.Unlock()
	if served {
		return errors.New("netproxy: served already")
	}
	if err := p.config.Check(); err != nil {
		return err
	}
	if p.caErr != nil {
		return p.caErr
	}
	r := &run{Proxy: p, slots: make(chan struct{}, p.config.MaxConns)}
	finish := r.startHTTP(ctx)
	r.wg.Go(func() { r.watchDNS(ctx, cancel, s.DNS) })
	r.listen(ctx, cancel, s.DNSTCP, func(ctx context.Context, c *client) { p.serveDNSConn(ctx, c) })
	r.listen(ctx, cancel, s.Proxy, r.serveProxy)
	for port, l := range s.Transparent {
		r.listen(ctx, cancel, l, func(ctx context.Context, c *client) { r.serveTransparent(ctx, c, port) })
	}
	<-ctx.Done()
	r.wg.Wait()
	finish()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

func (s Sockets) close() {
	if s.DNS != nil {
		s.DNS.Close()
	}
	for _, l := range s.listeners() {
		l.Close()
	}
}

func (s Sockets) listeners() []net.Listener {
	var all []net.Listener
	for _, l := range s.Transparent {
		all = append(all, l)
	}
	return slices.DeleteFunc(append(all, s.DNSTCP, s.Proxy), func(l net.Listener) bool { return l == nil })
}

// run is one Serve.
type run struct {
	*Proxy
	wg    sync.WaitGroup // accept loops and connections
	slots chan struct{}
	http  *forwarder
}

func (r *run) watchDNS(ctx context.Context, cancel context.CancelCauseFunc, socket net.PacketConn) {
	if socket == nil {
		return
	}
	if err := r.serveDNS(ctx, socket); err != nil {
		cancel(err)
	}
}

// listen starts an accept loop, which ends with its listener.
func (r *run) listen(ctx context.Context, cancel context.CancelCauseFunc, l net.Listener, handle func(context.Context, *client)) {
	if l == nil {
		return
	}
	r.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				if ctx.Err() != nil {
					return
				}
				if errors.Is(err, net.ErrClosed) {
					cancel(fmt.Errorf("netproxy: listener on %s: %w", l.Addr(), err))
					return
				}
				if !pause(ctx, acceptPause) {
					return
				}
				continue
			}
			select {
			case r.slots <- struct{}{}:
			case <-ctx.Done():
				conn.Close()
				return
			}
			r.wg.Go(func() {
				defer func() { <-r.slots }()
				c := newClient(conn)
				defer c.Close()
				stop := context.AfterFunc(ctx, func() { c.Close() })
				defer stop()
				handle(ctx, c)
			})
		}
	})
}

// pause waits; it is false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// CA is the certificate, in PEM, that programs inside must trust so that headers
// can be injected into TLS; nil without an injection. Its key never leaves
// memory, and it is good for the hosts with an injection only.
func (p *Proxy) CA() []byte {
	if p.ca == nil {
		return nil
	}
	return slices.Clone(p.ca.pem)
}

// Check says what is wrong with the configuration. It never shows an injected
// value.
func (c Config) Check() error {
	for _, in := range c.Inject {
		if err := in.check(); err != nil {
			return err
		}
	}
	for _, e := range c.Entries {
		if got, err := ParseEntry(e.String()); err != nil || got != e {
			return fmt.Errorf("network entry %q is not one that ParseEntry made", shorten(e.String()))
		}
	}
	return nil
}
