// Package netproxy is the only way out of a sandbox's network: names are
// answered, connections made and requests passed on here, after a check against
// what was allowed. It knows sockets and names; it knows nothing of namespaces,
// commands or tools.
//
//	allowed, err := netproxy.ParseEntry("registry.npmjs.org")
//	...
//	p := netproxy.New(netproxy.Config{Entries: []netproxy.Entry{allowed}})
//	// Inside of the namespace: routes for p.Routes(), listeners on p.Ports(), a DNS
//	// socket and the proxy's port; then, with these sockets, outside:
//	err = p.Serve(ctx, sockets)
//
// # Why nothing else gets out
//
// The sockets that a [Proxy] serves listen inside of a network namespace that has
// no other interface. So whatever a program in there does — sets the proxy
// variables or ignores them, resolves names or dials addresses, uses raw sockets
// — ends here or nowhere. What the proxy does then is the whole of the argument:
//
//  1. A name is checked before anything is asked outside. A lookup of a name that
//     is not allowed leaves no trace in anybody's DNS server. One that is allowed
//     is answered with an address that exists only inside and stands for the name
//     ([FakeIPv4], [FakeIPv6]): programs never learn where a host is, and a
//     connection to such an address is a connection to the name.
//  2. The proxy resolves the name itself, refuses addresses that are not public
//     (unless the operator's entry or range names them), and dials by number one
//     of those that it checked. There is no second lookup between the check and the
//     use, so a DNS server that changes its mind gains nothing (DNS rebinding).
//  3. A connection must go on as it began. TLS must name the same host in its
//     ClientHello (SNI): in the second one too, if the server asks for two; not
//     beside an Encrypted Client Hello, behind which another name could be. Plain
//     HTTP must name it in each request, and is not relayed but read and written
//     anew, so that there is nothing that two parsers could read differently. This
//     holds in whatever way the connection came: to an address, through CONNECT or
//     through SOCKS. At 80 and 443 what is neither TLS nor HTTP is refused.
//  4. What cannot be checked is refused, and a refusal says the host and the rule
//     in the program's own protocol: NXDOMAIN, a 403, a TLS alert, "not allowed by
//     ruleset", a reset. UDP is answered for DNS only, so there is no QUIC.
//
// # What it does not protect from
//
// Whoever may talk to a host may tell it anything. If a host carries content of
// strangers (a code forge, a bucket store, a content delivery network), allowing it
// allows talking to them: inside of TLS that the proxy does not open, a request
// may name another host of the same server (domain fronting behind the right
// SNI). Only for hosts with an [Injection] is TLS opened and each request
// checked. Ports other than 80 and 443 that an entry names are raw: TLS and
// HTTP/1 are still recognised there and checked, other protocols are passed as
// they are. A name below a wildcard is looked up as it was asked for, so it can
// carry something to the servers of that domain. An address that an entry names,
// and everything where all is allowed, is not held to a name at all.
//
// # Injected headers
//
// A value of an [Injection] is in the Config, and goes into requests to its host
// over a connection that this package made (with TLS: after it verified the
// server's certificate). It is in no decision, log line or error. What servers
// answer is passed on as it is: a server that repeats what it was sent would show
// it.
package netproxy
