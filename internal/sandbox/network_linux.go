//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/internal/sandbox/landlock"
	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
)

// dnsPort is where the resolver is asked.
const dnsPort = 53

// backlog of each listener. What comes faster waits in the command's own connect.
const backlog = 128

// address is where one of the sockets is bound.
type address struct {
	kind   int // SOCK_STREAM or SOCK_DGRAM
	ip     netip.Addr
	port   uint16
	shared bool // another socket has the same port
}

// addresses lists the sockets of the network: DNS over UDP and TCP, the proxy,
// and one for each port at which programs connect that know of no proxy.
func (n *network) addresses() []address {
	here, every := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Unspecified()
	if !hasIPv6() {
		every = netip.IPv4Unspecified()
	}
	list := []address{
		{unix.SOCK_DGRAM, here, dnsPort, false},
		{unix.SOCK_STREAM, here, dnsPort, slices.Contains(n.ports, dnsPort)},
		{unix.SOCK_STREAM, here, netproxy.ProxyPort, slices.Contains(n.ports, netproxy.ProxyPort)},
	}
	for _, port := range n.ports {
		list = append(list, address{unix.SOCK_STREAM, every, port, port == dnsPort || port == netproxy.ProxyPort})
	}
	return list
}

// hasIPv6 reports whether the kernel knows IPv6 at all.
func hasIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// openNetwork makes what leads out of the new network namespace: routes by which
// the granted addresses are the namespace's own, and sockets in it, which the
// runtime gets and serves. Nothing else leads anywhere.
func (b *builder) openNetwork() {
	if b.network == nil {
		return
	}
	b.routes()
	list := b.network.addresses()
	slots, send := b.passage("pass the network's sockets on", networkMessage, len(list))
	for i, a := range list {
		b.listen(a, slots[i])
	}
	send()
	for i, a := range list {
		b.call("let go of "+a.String(), unix.SYS_CLOSE, load(slots[i]))
	}
}

func (a address) String() string {
	name := "TCP"
	if a.kind == unix.SOCK_DGRAM {
		name = "UDP"
	}
	return fmt.Sprintf("%s port %d", name, a.port)
}

// listen leaves a socket in a slot.
func (b *builder) listen(a address, slot uint32) {
	b.call("open "+a.String(), unix.SYS_SOCKET, num(int(family(a.ip))), num(a.kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK), num(0)).store(slot)
	if a.shared {
		// An entry names the port of the resolver or the proxy; the socket with the
		// address wins there.
		yes := int32(1)
		b.call("share "+a.String(), unix.SYS_SETSOCKOPT, load(slot), num(unix.SOL_SOCKET), num(unix.SO_REUSEPORT),
			at(object(b.program, &yes)), num(int(unsafe.Sizeof(yes))))
	}
	name, size := b.sockaddr(a)
	b.call("bind "+a.String(), unix.SYS_BIND, load(slot), at(name), num(size))
	if a.kind == unix.SOCK_STREAM {
		b.call("listen at "+a.String(), unix.SYS_LISTEN, load(slot), num(backlog))
	}
}

func (b *builder) sockaddr(a address) (offset uint32, size uint32) {
	var port uint16
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&port))[:], a.port)
	if a.ip.Is6() {
		name := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: a.ip.As16()}
		return object(b.program, &name), unix.SizeofSockaddrInet6
	}
	name := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: a.ip.As4()}
	return object(b.program, &name), unix.SizeofSockaddrInet4
}

// The namespace's own addresses, from those that the proxy leaves to it. With
// none but the loopback's, resolvers that are asked for usable families
// (AI_ADDRCONFIG) find that there are none.
var (
	ownIPv4 = netip.AddrFrom4(netproxy.FakeIPv4.Addr().As4()).Next()
	ownIPv6 = netip.AddrFrom16(netproxy.FakeIPv6.Addr().As16()).Next()
)

// routes makes every address local, so that a socket bound to none takes
// connections to each: the proxy's addresses that stand for names, those that
// are granted, and all others, whose refusal then has a sentence. IPv6 may not
// be there; IPv4 is tried.
func (b *builder) routes() {
	messages := slices.Concat(
		addressMessage(ownIPv4), routeMessage(netip.PrefixFrom(netip.IPv4Unspecified(), 0)),
		addressMessage(ownIPv6), routeMessage(netip.PrefixFrom(netip.IPv6Unspecified(), 0)),
	)
	b.call("open a routing socket", unix.SYS_SOCKET, num(unix.AF_NETLINK), num(unix.SOCK_RAW|unix.SOCK_CLOEXEC), num(unix.NETLINK_ROUTE)).store(b.fd)
	b.call("make the routes", unix.SYS_SENDTO, load(b.fd), at(b.data(messages)), num(len(messages)), num(0), num(0), num(0))
	b.call("close the routing socket", unix.SYS_CLOSE, load(b.fd))
	// What the kernel thinks of the messages stands in its answers; that a route
	// leads somewhere is simpler to see.
	name, size := b.sockaddr(address{ip: netip.AddrFrom4([4]byte{192, 0, 2, 1}), port: 9})
	b.call("open a socket to try the routes", unix.SYS_SOCKET, num(unix.AF_INET), num(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC), num(0)).store(b.fd)
	b.call("try the routes", unix.SYS_CONNECT, load(b.fd), at(name), num(size))
	b.call("close the socket that tried", unix.SYS_CLOSE, load(b.fd))
}

// loopback is the index of the loopback device in every new namespace.
const loopback = 1

// routeMessage is the netlink message that makes a prefix local:
// https://man7.org/linux/man-pages/man7/rtnetlink.7.html
func routeMessage(p netip.Prefix) []byte {
	m := []byte{family(p.Addr()), byte(p.Bits()), 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	if p.Bits() > 0 {
		m = attribute(m, unix.RTA_DST, p.Addr().AsSlice())
	}
	return netlink(unix.RTM_NEWROUTE, attribute(m, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, loopback)))
}

// addressMessage gives the loopback device an address.
func addressMessage(a netip.Addr) []byte {
	m := []byte{family(a), byte(a.BitLen()), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE}
	m = binary.NativeEndian.AppendUint32(m, loopback)
	return netlink(unix.RTM_NEWADDR, attribute(attribute(m, unix.IFA_LOCAL, a.AsSlice()), unix.IFA_ADDRESS, a.AsSlice()))
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// attribute appends one; all values here fill whole words.
func attribute(m []byte, kind uint16, value []byte) []byte {
	m = binary.NativeEndian.AppendUint16(m, uint16(unix.SizeofRtAttr+len(value)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	return append(m, value...)
}

func netlink(kind uint16, body []byte) []byte {
	head := make([]byte, unix.SizeofNlMsghdr)
	binary.NativeEndian.PutUint32(head, uint32(len(head)+len(body)))
	binary.NativeEndian.PutUint16(head[4:], kind)
	binary.NativeEndian.PutUint16(head[6:], unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	return append(head, body...)
}

// networkFiles makes the files by which programs find the network.
func (b *builder) networkFiles() {
	if b.network == nil {
		return
	}
	b.resolver("nameserver 127.0.0.1\noptions timeout:5 attempts:2\n")
	if len(b.network.files) > 0 {
		b.mkdir(certificateDir)
		b.extraRules = append(b.extraRules, rule{certificateDir, landlock.Read})
	}
	for name, text := range b.network.files {
		b.create(name, text, 0o444)
	}
	b.browserPolicies()
}

// resolver makes /etc/resolv.conf. Where the machine's /etc was granted the
// machine's own is there, or a link to a place that may be missing.
func (b *builder) resolver(text string) {
	path := "/etc/resolv.conf"
	if covering(b.tree.places, path) == nil {
		b.mkdirAll("/etc")
		b.create(path, text, 0o644)
		return
	}
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	b.extraRules = append(b.extraRules, rule{path, landlock.Read & landlock.OnFile})
	if covering(b.tree.places, path) == nil {
		b.mkdirAll(filepath.Dir(path))
		b.create(path, text, 0o644)
		return
	}
	if _, err := os.Lstat(path); err != nil {
		return // a machine without one: nothing to put it over
	}
	const own = "/.resolv.conf"
	b.create(own, text, 0o444)
	b.attach(own, path, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, false, true)
}
