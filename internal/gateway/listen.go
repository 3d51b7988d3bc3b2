package gateway

import (
	"context"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
)

// listen hears of changes from a server that must be asked for them, and follows
// the resources anew that an earlier process of the server was asked for. It ends
// with ctx.
func (p *peer) listen(ctx context.Context, l *link) {
	p.setLevel(ctx, l)
	capabilities := l.client.Server().Capabilities
	want := upstream.Subscriptions{
		Tools: changes(capabilities, "tools"), Prompts: changes(capabilities, "prompts"), Resources: changes(capabilities, "resources"),
	}
	if l.client.Stateless() && (want.Tools || want.Prompts || want.Resources) {
		if _, err := l.client.Listen(ctx, want); err != nil && ctx.Err() == nil {
			p.log.add("note: subscriptions/listen: " + reason(err))
		}
	}
	p.mu.Lock()
	var uris []string
	for uri := range p.held {
		uris = append(uris, uri)
	}
	p.mu.Unlock()
	for _, uri := range uris {
		if err := p.follows(ctx, l, uri); err != nil && ctx.Err() == nil {
			p.log.add("note: resources/subscribe: " + reason(err))
		}
	}
}

// changes reports whether a server says that it tells of changes of a list.
func changes(capabilities []byte, name string) bool {
	return string(get(get(capabilities, name), "listChanged")) == "true"
}

// follows asks a server to tell of changes of a resource.
func (p *peer) follows(ctx context.Context, l *link, uri string) error {
	limited, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	s, err := l.client.Listen(limited, upstream.Subscriptions{URIs: []string{uri}})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.follows == nil {
		l.follows = map[string]*upstream.Subscription{}
	}
	l.follows[uri] = s
	return nil
}

// leaves ends what follows began.
func (p *peer) leaves(l *link, uri string) {
	p.mu.Lock()
	s := l.follows[uri]
	delete(l.follows, uri)
	p.mu.Unlock()
	if s != nil {
		s.Close()
	}
}
