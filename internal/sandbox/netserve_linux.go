//go:build amd64 || arm64

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/internal/sandbox/netproxy"
	"github.com/toolyard/toolyard/tool"
)

// network is the runtime's end of a command's network: it answers the sockets
// that were opened inside, and dials outside what the profile grants.
type network struct {
	proxy *netproxy.Proxy
	ports []uint16 // where programs connect that know of no proxy
	// env and files are what leads the command's programs here.
	env   []string
	files map[string]string

	stop context.CancelFunc // nil until it serves
	done chan struct{}      // closed when nothing of it is left

	mu      sync.Mutex
	refused []Violation // the first maxRefused, each once
	more    int         // those that came after
}

// maxRefused bounds the refusals that a result lists. The first ones are kept,
// so that a command cannot push what it did out of the list.
const maxRefused = 100

// maxPorts bounds the sockets of one command: a message carries 253 descriptors.
const maxPorts = 240

// newNetwork is the network of a command, nil if it has none.
func (s *Sandbox) newNetwork(cmd *Cmd) (*network, error) {
	if cmd.Profile.Network.Mode == NetworkNone {
		return nil, nil
	}
	entries, err := cmd.Profile.Network.Entries()
	if err != nil {
		return nil, err
	}
	n := &network{done: make(chan struct{})}
	n.proxy = netproxy.New(netproxy.Config{
		Entries: entries, All: cmd.Profile.Network.Mode == NetworkAll, AllowRanges: s.config.AllowRanges,
		Inject: cmd.Inject, NoIPv6: !hasIPv6(), Resolver: s.config.Resolver, RootCAs: s.config.RootCAs, Log: s.config.Log,
		OnDecision: n.note,
	})
	n.ports = n.proxy.Ports()
	if len(n.ports) > maxPorts {
		return nil, tool.Errorf(tool.ParameterError, "the network's entries name %d ports", len(n.ports)).
			WithHint("Name at most %d.", maxPorts)
	}
	n.env = append(proxyEnv(), s.trust()...)
	if ca := n.proxy.CA(); ca != nil {
		n.trust(ca)
	}
	return n, nil
}

// proxyEnv leads programs that know of proxies to ours. ALL_PROXY names it as an
// HTTP proxy as well: several HTTP libraries fail at their start where it names
// a SOCKS proxy and they cannot speak that.
func proxyEnv() []string {
	const (
		proxy  = "http://127.0.0.1"
		direct = "localhost,127.0.0.1,::1"
	)
	url := fmt.Sprintf("%s:%d", proxy, netproxy.ProxyPort)
	var env []string
	for _, v := range [][2]string{{"HTTP_PROXY", url}, {"HTTPS_PROXY", url}, {"ALL_PROXY", url}, {"NO_PROXY", direct}} {
		env = append(env, v[0]+"="+v[1], strings.ToLower(v[0])+"="+v[1])
	}
	return env
}

// machineTrust makes programs that bring certificates of their own trust the
// machine's instead, as all others do: machines behind a mirror or an inspecting
// proxy have theirs there. NODE_EXTRA_CA_CERTS would do the same and cost each
// start of node 40 ms.
func machineTrust() []string {
	var env []string
	hashed, _ := filepath.Glob("/etc/ssl/certs/*.0")
	if _, err := os.Stat("/etc/ssl/cert.pem"); err == nil || len(hashed) > 0 {
		env = append(env, "NODE_OPTIONS=--use-openssl-ca") // node's OpenSSL looks there
	}
	if path := machineBundle(); path != "" {
		env = append(env, "PIP_CERT="+path)
	}
	return env
}

func machineBundle() string {
	for _, path := range bundles {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// Where the certificates are that a command is to trust: the proxy's own, and
// the same with those of the machine. They are not in /etc, which may be the
// machine's own.
const (
	certificateDir  = "/.certificates"
	ownCertificate  = certificateDir + "/ca.pem"
	allCertificates = certificateDir + "/all.pem"
)

// bundles are where machines keep all their certificates in one file.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// trust makes programs accept the certificates of a proxy that opens TLS.
func (n *network) trust(ca []byte) {
	all := ""
	if b, err := os.ReadFile(machineBundle()); err == nil {
		all = strings.TrimRight(string(b), "\n") + "\n"
	}
	n.files = map[string]string{ownCertificate: string(ca), allCertificates: all + string(ca)}
	n.env = slices.DeleteFunc(n.env, func(v string) bool { return strings.HasPrefix(v, "PIP_CERT=") })
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT"} {
		n.env = append(n.env, name+"="+allCertificates)
	}
	n.env = append(n.env, "NODE_EXTRA_CA_CERTS="+ownCertificate)
}

// environment is env with the variables of the network, which win.
func (n *network) environment(env []string) []string {
	if n == nil {
		return env
	}
	env = slices.DeleteFunc(env, func(old string) bool {
		name, _, _ := strings.Cut(old, "=")
		return slices.ContainsFunc(n.env, func(own string) bool { return strings.HasPrefix(own, name+"=") })
	})
	return append(env, n.env...)
}

// sockets is how many descriptors one message of the sandbox can carry.
func (n *network) sockets() int {
	if n == nil {
		return 1
	}
	return 3 + len(n.ports)
}

// serve takes the sockets over, in the order of addresses, and answers them until
// close.
func (n *network) serve(files []*os.File) error {
	defer closeAll(files)
	if len(files) != n.sockets() {
		return fmt.Errorf("%d sockets came, not %d", len(files), n.sockets())
	}
	var opened []interface{ Close() error }
	closeAll := func() {
		for _, o := range opened {
			o.Close()
		}
	}
	sockets := netproxy.Sockets{Transparent: map[uint16]net.Listener{}}
	var err error
	if sockets.DNS, err = net.FilePacketConn(files[0]); err != nil {
		return err
	}
	opened = append(opened, sockets.DNS)
	listen := func(f *os.File) net.Listener {
		l, listenErr := net.FileListener(f)
		if listenErr != nil {
			err = errors.Join(err, listenErr)
			return nil
		}
		opened = append(opened, l)
		return l
	}
	sockets.DNSTCP, sockets.Proxy = listen(files[1]), listen(files[2])
	for i, port := range n.ports {
		sockets.Transparent[port] = listen(files[3+i])
	}
	if err != nil {
		closeAll()
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	go func() { // ends in close
		defer close(n.done)
		defer closeAll()
		_ = n.proxy.Serve(ctx, sockets) // a socket that fails is one that the command cannot use
	}()
	return nil
}

// close ends the network and returns when nothing of it is left.
func (n *network) close() {
	if n == nil || n.stop == nil {
		return
	}
	n.stop()
	<-n.done
}

// noteNetwork puts what the network decided into the result; p.mu is held.
func (p *local) noteNetwork() {
	if p.network == nil {
		return
	}
	p.result.Network = p.network.proxy.Decisions()
	p.result.Violations = slices.DeleteFunc(p.result.Violations, func(v Violation) bool { return v.Kind == networkViolation })
	p.result.Violations = append(p.result.Violations, p.network.refusals()...)
}

// note keeps a refusal.
func (n *network) note(d netproxy.Decision) {
	if d.Allowed {
		return
	}
	v := refusal(d)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case slices.Contains(n.refused, v):
	case len(n.refused) < maxRefused:
		n.refused = append(n.refused, v)
	default:
		n.more++
	}
}

func (n *network) refusals() []Violation {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := slices.Clone(n.refused)
	if n.more > 0 {
		list = append(list, Violation{networkViolation, "more", fmt.Sprintf("network: %d more refusals", n.more)})
	}
	return list
}
