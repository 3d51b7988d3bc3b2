package netguard

import (
	"net/netip"
	"slices"
	"strings"
)

// special lists what is not the public internet, from the registries of IANA
// (https://www.iana.org/assignments/iana-ipv4-special-registry,
// https://www.iana.org/assignments/iana-ipv6-special-registry). To add a range:
// one row; the first one that fits names it.
var special = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an address of this machine"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier's address"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.52.193.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a relay's address"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("192.175.48.0/24"), "a reserved address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address for documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},

	{netip.MustParsePrefix("::/128"), "an address of this machine"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("::ffff:0:0/96"), "an IPv4 address in IPv6 form"},
	{netip.MustParsePrefix("::/96"), "an IPv4 address in IPv6 form"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "an IPv4 address in IPv6 form"},
	{netip.MustParsePrefix("64:ff9b::/96"), "an IPv4 address in IPv6 form"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an IPv4 address in IPv6 form"},
	{netip.MustParsePrefix("2001::/32"), "a tunnel's address"},
	{netip.MustParsePrefix("2001::/23"), "a reserved address"},
	{netip.MustParsePrefix("2001:db8::/32"), "an address for documentation"},
	{netip.MustParsePrefix("2002::/16"), "a tunnel's address"},
	{netip.MustParsePrefix("3fff::/20"), "an address for documentation"},
	{netip.MustParsePrefix("fc00::/7"), "a private address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
}

// global is what IANA has given out of IPv6; all else is refused.
var global = netip.MustParsePrefix("2000::/3")

// metadata lists where clouds tell a machine its own secrets. A range that
// happens to hold one does not open it: it must be named by itself.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), // nearly all
	netip.MustParseAddr("169.254.170.2"),   // AWS containers
	netip.MustParseAddr("169.254.170.23"),  // AWS Kubernetes
	netip.MustParseAddr("169.254.0.23"),    // Tencent
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("168.63.129.16"),   // Azure, a public address
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("fd00:ec2::23"),    // AWS Kubernetes
	netip.MustParseAddr("fd20:ce::254"),    // Google
	netip.MustParseAddr("fe80::a9fe:a9fe"), // OpenStack
}

// metadataNames are refused when all is allowed, as their addresses are, so that
// the sentence says so at once. An entry opens them as it does any other.
var metadataNames = []string{
	"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
	"metadata.azure.internal", "metadata.tencentyun.com", "metadata.platformequinix.com",
}

// Special says what an address is if it is none of the public internet ("a
// loopback address", to be put behind "which is"), and is "" for a public one.
// An IPv4 address in IPv6 form is special whatever it stands for: unmap what a
// resolver gives.
func Special(addr netip.Addr) string {
	if addr.Zone() != "" {
		return "an address of one link"
	}
	if Metadata(addr) {
		return "a cloud's metadata address"
	}
	for _, s := range special {
		if s.prefix.Contains(addr) {
			return s.what
		}
	}
	if addr.Is6() && !global.Contains(addr) {
		return "a reserved address"
	}
	return ""
}

// Metadata reports whether a cloud tells a machine its own secrets at addr.
func Metadata(addr netip.Addr) bool { return slices.Contains(metadata, addr) }

// SpecialName says what a name is, in the form that [Name] gives, if it means
// no host of the public internet, and is "" for all others.
func SpecialName(name string) string {
	switch {
	case slices.Contains(metadataNames, name):
		return "a cloud's metadata service"
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return "this machine"
	}
	return ""
}
