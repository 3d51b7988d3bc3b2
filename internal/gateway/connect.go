package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/tool"
)

// connect starts a server, agrees with it on a protocol and asks what it offers.
// trouble is what of it does not work.
func (p *peer) connect(ctx context.Context, limit time.Duration) (l *link, trouble string, err error) {
	s, err := p.expanded(ctx)
	if err != nil {
		return nil, "", err
	}
	session := s.Session || p.parent != nil
	for {
		l, err = p.open(ctx, s, limit, session)
		var e *tool.Error
		if err != nil && !session && ctx.Err() == nil && errors.As(err, &e) && e.Details["probe"] == true {
			session = true // it ends when the first message is not initialize
			continue
		}
		break
	}
	if err != nil {
		p.log.add("not started: " + reason(err))
		return nil, "", err
	}
	if p.parent == nil {
		p.pinsAgain(ctx)
		listing, cancel := context.WithTimeout(ctx, min(limit, listTime))
		trouble = p.fetch(listing, l.client)
		cancel()
	}
	background, stop := context.WithCancel(p.g.background)
	l.stop = stop
	p.g.work.Go(func() { p.watch(background, l) })
	if p.parent == nil {
		p.g.work.Go(func() { p.listen(background, l) })
	}
	return l, trouble, nil
}

// expanded is the entry with values in the place of references. Those that are
// secret are told to whoever redacts.
func (p *peer) expanded(ctx context.Context) (Server, error) {
	x := &expander{env: p.g.config.Env, secret: p.g.config.Secret, used: map[string]string{}}
	s, err := x.expand(ctx, p.entry)
	if err != nil {
		return s, err
	}
	if fault := ""; s.Type != transportStdio {
		if fault = addressFault(s.Type, s.URL); fault != "" {
			return s, tool.Errorf(tool.ParameterError, "url of the MCP server %s is %q, expected %s", p.name, s.URL, fault).WithHint("Correct it where it is written.")
		}
	}
	if conceal := p.g.config.Conceal; conceal != nil {
		conceal(p.name, concealed(p.entry, s, x.used))
	}
	return s, nil
}

// secretWords are in the names of variables and headers whose values must not be
// shown.
var secretWords = []string{"token", "secret", "password", "passwd", "apikey", "api_key", "api-key", "authorization", "credential", "private", "cookie"}

func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, word := range secretWords {
		if strings.Contains(name, word) {
			return true
		}
	}
	return strings.HasSuffix(name, "_key") || strings.HasSuffix(name, "-key")
}

// concealed are the values of an entry that must not be shown, by their names.
func concealed(written, s Server, used map[string]string) map[string]string {
	values := map[string]string{}
	for _, text := range append(append(mapValues(written.Env), mapValues(written.Headers)...), append([]string{written.URL, written.Command}, written.Args...)...) {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if name, ok := strings.CutPrefix(m[1], "secret:"); ok {
				values[name] = used[name]
			}
		}
	}
	for name, v := range used {
		if secretName(name) {
			values[name] = v
		}
	}
	for _, m := range []map[string]string{s.Env, s.Headers} {
		for name, v := range m {
			if secretName(name) && v != "" {
				values[name] = v
				if scheme, token, ok := strings.Cut(v, " "); ok && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic")) {
					values[name] = token
				}
			}
		}
	}
	return values
}

func mapValues(m map[string]string) (list []string) {
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

// open makes one connection.
func (p *peer) open(ctx context.Context, s Server, limit time.Duration, session bool) (*link, error) {
	l := &link{since: p.g.config.Now(), gone: make(chan struct{}), stop: func() {}, leveling: make(chan struct{}, 1)}
	c := upstream.Config{
		Info: p.g.config.Info, Capabilities: p.capabilities(), Session: session, Request: p.request, Log: p.g.log.With("server", p.name),
		Notification: func(method string, params json.RawMessage) { p.notified(l, method, params) },
		Renewed: func() {
			l.level.Store(nil)
			p.refetch(l)
		},
		Closed: func(err error) { p.ended(l, p.ending(l, err)) },
	}
	if s.Type == transportStdio {
		guest, err := p.launch(ctx, s)
		if err != nil {
			return nil, err
		}
		l.guest = guest
		c.Stdio = &upstream.Stdio{Stdin: guest.in, Stdout: guest.out}
	} else {
		h := p.address(s)
		switch s.Type {
		case transportSSE:
			c.SSE = h
		case transportWS:
			c.WebSocket = h
		default:
			c.HTTP = h
		}
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := upstream.Connect(limited, c)
	if err != nil {
		if l.guest != nil {
			err = p.ending(l, err)
			l.guest.end()
		}
		return nil, err
	}
	l.client = client
	return l, nil
}

func (p *peer) address(s Server) *upstream.HTTP {
	h := &upstream.HTTP{URL: s.URL, Header: http.Header{}, Client: p.g.config.HTTP}
	for name, value := range s.Headers {
		h.Header.Set(name, value)
	}
	if auth := p.g.config.Auth; auth != nil && (s.OAuth == nil || !s.OAuth.Off) && h.Header.Get("Authorization") == "" {
		if a := auth(p.name, s); a != nil {
			h.Auth = a
		}
	}
	return h
}

// ending adds to an error how the process ended, and what it said last.
func (p *peer) ending(l *link, err error) error {
	if err == nil {
		err = errors.New("the connection ended")
	}
	if l.guest == nil {
		return err
	}
	how := l.guest.ending()
	if how == "" {
		return err
	}
	text := "it ended (" + how + ")"
	if said := p.log.tail(1); len(said) > 0 {
		if _, line, ok := strings.Cut(said[0], " "); ok && !strings.HasPrefix(line, "started: ") {
			text += ": " + line
		}
	}
	e := tool.Errorf(tool.ConnectionError, "%s", text)
	var was *tool.Error
	if errors.As(err, &was) {
		e.Details = was.Details
	}
	e.Err = err
	return e
}
