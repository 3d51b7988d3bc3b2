package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// The versions of the protocol that we speak, newest first: without sessions,
// and with.
var (
	statelessVersions = []string{"2026-07-28"}
	sessionVersions   = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
)

// handshake reports whether a method is one before whose answer nothing is said
// of it.
func handshake(method string) bool { return method == "initialize" || method == "server/discover" }

// connect makes the transport and finds out what the server speaks.
func (c *Client) connect(ctx context.Context) error {
	switch {
	case c.conf.Stdio != nil:
		newDuplex(c, newPipes(c.conf.Stdio, c.conf.MaxMessage))
	case c.conf.WebSocket != nil:
		w, err := newWeb(c, c.conf.WebSocket)
		if err != nil {
			return err
		}
		conn, err := w.dial(ctx)
		if err != nil {
			return err
		}
		newDuplex(c, conn)
		c.spawn(func() { conn.beat(c) })
	case c.conf.HTTP != nil:
		w, err := newWeb(c, c.conf.HTTP)
		if err != nil {
			return err
		}
		c.t = &streamable{web: w}
	case c.conf.SSE != nil:
		w, err := newWeb(c, c.conf.SSE)
		if err != nil {
			return err
		}
		l := &legacy{web: w}
		c.t = l
		if err := l.open(ctx); err != nil {
			return err
		}
		return c.begin(ctx) // it is older than anything else
	}
	if c.conf.Session {
		return c.begin(ctx)
	}
	return c.negotiate(ctx)
}

// outcome is what a request of the handshake brought.
type outcome struct {
	result json.RawMessage
	err    error
}

// negotiate asks for the newest protocol and begins a session if the server does
// not know it. A server that does not answer gets both requests: what answers
// first counts.
func (c *Client) negotiate(ctx context.Context) error {
	probing, stop := context.WithCancel(ctx)
	defer stop()
	found := make(chan outcome, 1)
	c.spawn(func() {
		result, err := c.call(probing, &Request{Method: "server/discover"}, statelessVersions[0], nil)
		if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeUnsupportedVersion && common(texts(member(e.Data, "supported")), statelessVersions) {
			// It names a version that we asked with: whoever stands before it did not
			// know it yet.
			result, err = c.call(probing, &Request{Method: "server/discover"}, statelessVersions[0], nil)
		}
		found <- outcome{result, err}
	})
	patience := time.NewTimer(discoverTimeout)
	defer patience.Stop()
	select {
	case o := <-found:
		if begin, err := c.discovered(o); !begin {
			return err
		}
		return c.begin(ctx)
	case <-patience.C:
	}
	beginning, stopBeginning := context.WithCancel(ctx)
	defer stopBeginning()
	begun := make(chan error, 1)
	c.spawn(func() { begun <- c.begin(beginning) })
	for {
		select {
		case err := <-begun:
			return err
		case o := <-found:
			found = nil
			if o.err != nil {
				continue
			}
			if begin, err := c.discovered(o); begin || err != nil {
				continue
			}
			stopBeginning()
			if <-begun == nil {
				return nil // a session stands: it came at the same moment
			}
			_, err := c.discovered(o)
			return err
		}
	}
}

// discovered reads the answer to server/discover. begin says that a session is
// to be tried.
func (c *Client) discovered(o outcome) (begin bool, err error) {
	if o.err != nil {
		if e, ok := errors.AsType[*Error](o.err); ok {
			known := texts(member(e.Data, "supported"))
			if e.Code == CodeUnsupportedVersion && len(known) > 0 && !common(known, sessionVersions) {
				return false, strangers(known)
			}
			return true, nil
		}
		e, ok := errors.AsType[*tool.Error](o.err)
		switch {
		case ok && e.Code == tool.DependencyError, ok && e.Code == tool.ConnectionError && e.Began && c.http():
			return true, nil // HTTP that is no answer: an older server
		case ok && e.Code == tool.ConnectionError:
			e.WithDetail("probe", true)
		}
		return false, o.err
	}
	known := texts(member(o.result, "supportedVersions"))
	for _, v := range statelessVersions {
		if slices.Contains(known, v) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.version, c.modern, c.both = v, true, common(known, sessionVersions)
			c.server = ServerInfo{
				Info:         member(member(o.result, "_meta"), metaServerInfo),
				Capabilities: orObject(member(o.result, "capabilities"), json.RawMessage("{}")),
				Instructions: Unquote(member(o.result, "instructions")),
				Result:       o.result,
			}
			return false, nil
		}
	}
	if len(known) > 0 && !common(known, sessionVersions) {
		return false, strangers(known)
	}
	return true, nil
}

// begin begins a session.
func (c *Client) begin(ctx context.Context) error {
	version := sessionVersions[0]
	result, err := c.initialize(ctx, version)
	if e, ok := errors.AsType[*Error](err); ok {
		known := texts(member(e.Data, "supported"))
		for _, v := range sessionVersions[1:] {
			if slices.Contains(known, v) {
				version = v
				result, err = c.initialize(ctx, v)
				break
			}
		}
		if len(known) > 0 && !common(known, sessionVersions) {
			return strangers(known)
		}
	}
	if err != nil {
		return err
	}
	version = Unquote(member(result, "protocolVersion"))
	if !slices.Contains(sessionVersions, version) {
		return strangers([]string{version})
	}
	c.mu.Lock()
	c.version, c.modern = version, false
	c.server = ServerInfo{
		Info:         member(result, "serverInfo"),
		Capabilities: orObject(member(result, "capabilities"), json.RawMessage("{}")),
		Instructions: Unquote(member(result, "instructions")),
		Result:       result,
	}
	c.mu.Unlock()
	if err := c.Notify(ctx, "notifications/initialized", nil); err != nil {
		return err
	}
	if s, ok := c.t.(*streamable); ok {
		// Servers put what belongs to the first call on this stream too, and lose it
		// if the stream is not there yet.
		wait := time.NewTimer(listenTimeout)
		defer wait.Stop()
		select {
		case <-s.listen():
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	return nil
}

func (c *Client) initialize(ctx context.Context, version string) (json.RawMessage, error) {
	params := fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, version, c.conf.Capabilities, c.conf.Info)
	return c.call(ctx, &Request{Method: "initialize", Params: params}, "", nil)
}

// strangers is the error of two that speak no common version.
func strangers(theirs []string) error {
	ours := strings.Join(slices.Concat(statelessVersions, sessionVersions), ", ")
	return tool.Errorf(tool.DependencyError, "the server speaks MCP %s, which is none of ours: %s", strings.Join(theirs, ", "), ours).
		WithHint("Update the server, or this program.")
}

func common(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// texts reads an array of strings, at most a hundred short ones.
func texts(raw json.RawMessage) (all []string) {
	array(raw, space(raw, 0), 0, func(start, end int) {
		if s := Unquote(raw[start:end]); s != "" && len(s) < 100 && len(all) < 100 {
			all = append(all, s)
		}
	})
	return all
}
