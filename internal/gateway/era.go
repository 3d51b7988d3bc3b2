package gateway

import (
	"context"

	"github.com/toolyard/toolyard/tool"
)

// A server that speaks both eras of the protocol may act differently in each: one
// asks by input_required, the other by requests of its own while a call runs. So
// that a client meets the server as it would without a gateway between, its calls
// go over a connection of the client's era. The connection by which a server is
// known is of the newest era; the other one is made when a client of the session
// era comes that can be asked something, and ends when nobody uses it.

// metaProtocol is the key of a stateless client's version in its _meta.
const metaProtocol = "io.modelcontextprotocol/protocolVersion"

// asksInSession reports whether a client is of the session era and takes requests
// while a call runs.
func asksInSession(c tool.Client) bool {
	if c == nil || get(c.Meta(), metaProtocol) != nil {
		return false
	}
	capabilities, err := membersOf(c.Capabilities())
	if err != nil {
		return false
	}
	for _, m := range capabilities {
		switch m.key {
		case "elicitation", "sampling", "roots":
			return true
		}
	}
	return false
}

// ofEra is the peer whose connection is of the era of the client behind x, given
// that p's is l.
func (p *peer) ofEra(l *link, x *exchange) *peer {
	if p.parent != nil || !l.client.Stateless() || !l.client.Sessions() || !asksInSession(x.client) {
		return p
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p
	}
	if p.twin == nil {
		p.twin = newPeer(p.g, p.name, p.entry)
		p.twin.log.close()
		p.twin.log, p.twin.parent = p.log, p
	}
	return p.twin
}

// useFor gives the connection for x, of the client's era if the server speaks it.
func (p *peer) useFor(ctx context.Context, x *exchange) (at *peer, l *link, release func(), err error) {
	l, release, err = p.use(ctx)
	if err != nil {
		return p, nil, nil, err
	}
	twin := p.ofEra(l, x)
	if twin == p {
		p.setLevel(ctx, l)
		return p, l, release, nil
	}
	other, done, err := twin.use(ctx)
	if err != nil {
		if ctx.Err() != nil {
			release()
			return p, nil, nil, err
		}
		return p, l, release, nil // the server as it is known is better than none
	}
	release()
	twin.setLevel(ctx, other)
	return twin, other, done, nil
}

// endTwin stops the connection of the other era.
func (p *peer) endTwin(forGood bool) {
	p.mu.Lock()
	twin := p.twin
	p.mu.Unlock()
	if twin != nil {
		twin.end(Stopped, "the server was stopped", forGood)
	}
}

// budget is what the server has used of the client's model, in both eras.
func (p *peer) budget() *sampled {
	if p.parent != nil {
		return &p.parent.asked
	}
	return &p.asked
}
