package netproxy

import (
	"container/list"
	"encoding/binary"
	"net/netip"
	"sync"
)

// The addresses that names stand behind inside. IPv4 has the range for
// benchmarks (RFC 2544), IPv6 a random private prefix (RFC 4193). Of each the
// first 256 are left to the namespace, for its own interface and DNS server.
var (
	FakeIPv4 = netip.MustParsePrefix("198.18.0.0/15")
	FakeIPv6 = netip.MustParsePrefix("fdc7:6f4a:91d2:18::/64")
)

const (
	fakeReserved = 256
	fakeSpan     = 1<<17 - fakeReserved
	maxFake      = 4096 // names that have an address at once
)

// fakes maps names to addresses and back: the least recently used name gives way,
// and its address comes back only after all others had their turn, so that what
// a program remembers is more likely to lead nowhere than to another name.
type fakes struct {
	reserved func(netip.Addr) bool // what must not stand for a name

	mu     sync.Mutex
	next   uint32
	order  *list.List // of *fake, most recently used first
	byName map[string]*list.Element
	bySlot map[uint32]*list.Element
}

type fake struct {
	name string
	slot uint32
}

func newFakes(reserved func(netip.Addr) bool) *fakes {
	return &fakes{reserved: reserved, order: list.New(), byName: map[string]*list.Element{}, bySlot: map[uint32]*list.Element{}}
}

// addrs gives the addresses that stand for a name, if there is room.
func (f *fakes) addrs(name string) (v4, v6 netip.Addr, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.byName[name]; e != nil {
		f.order.MoveToFront(e)
		v4, v6 = slotAddrs(e.Value.(*fake).slot)
		return v4, v6, true
	}
	if f.order.Len() >= maxFake {
		oldest := f.order.Remove(f.order.Back()).(*fake)
		delete(f.byName, oldest.name)
		delete(f.bySlot, oldest.slot)
	}
	for range 2 * maxFake {
		slot := f.next
		f.next = (f.next + 1) % fakeSpan
		v4, v6 = slotAddrs(slot)
		if f.bySlot[slot] != nil || f.reserved(v4) || f.reserved(v6) {
			continue
		}
		e := f.order.PushFront(&fake{name, slot})
		f.byName[name], f.bySlot[slot] = e, e
		return v4, v6, true
	}
	return v4, v6, false
}

// name gives the name that an address stands for.
func (f *fakes) name(addr netip.Addr) (string, bool) {
	slot, ok := addrSlot(addr)
	if !ok {
		return "", false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.bySlot[slot]
	if e == nil {
		return "", false
	}
	f.order.MoveToFront(e)
	return e.Value.(*fake).name, true
}

// isFake reports whether the address could stand for a name.
func isFake(addr netip.Addr) bool { return FakeIPv4.Contains(addr) || FakeIPv6.Contains(addr) }

func slotAddrs(slot uint32) (v4, v6 netip.Addr) {
	n := slot + fakeReserved
	a, b := FakeIPv4.Addr().As4(), FakeIPv6.Addr().As16()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+n)
	binary.BigEndian.PutUint32(b[12:], n)
	return netip.AddrFrom4(a), netip.AddrFrom16(b)
}

func addrSlot(addr netip.Addr) (uint32, bool) {
	if !isFake(addr) {
		return 0, false
	}
	var n uint32
	if addr.Is4() {
		a, base := addr.As4(), FakeIPv4.Addr().As4()
		n = binary.BigEndian.Uint32(a[:]) - binary.BigEndian.Uint32(base[:])
	} else {
		b := addr.As16()
		if binary.BigEndian.Uint32(b[8:12]) != 0 {
			return 0, false
		}
		n = binary.BigEndian.Uint32(b[12:])
	}
	if n < fakeReserved || n >= fakeReserved+fakeSpan {
		return 0, false
	}
	return n - fakeReserved, true
}
