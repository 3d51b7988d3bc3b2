package mcp

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of subscriptions.
const (
	pollEvery     = time.Second // between two looks at the files subscribed to
	maxSubscribed = 200         // files subscribed to, over all sessions
)

// watched is one file that clients subscribed to.
type watched struct {
	path, workspace string
	by              map[*sdk.ServerSession]int
	size            int64
	modified        time.Time
	there           bool
}

// subscribe watches a file for a client. An artifact never changes, so there is
// nothing to watch.
func (s *Server) subscribe(ctx context.Context, r *sdk.SubscribeRequest) error {
	uri := r.Params.URI
	v, listening := ctx.Value(viewKey{}).(*view)
	if !listening {
		v = s.viewFor(s.sessionBySDK(r.Session), r.Extra)
	}
	if s.config.Upstream != nil && !s.ours(uri) {
		return s.followForeign(ctx, r.Session, v, uri, listening)
	}
	if s.config.Stat == nil || !s.reads(v) {
		return sdk.ResourceNotFoundError(uri)
	}
	if strings.HasPrefix(uri, artifactScheme) {
		return nil
	}
	name, err := filePath(uri)
	if err != nil {
		return &jsonrpc.Error{Code: codeInvalidParams, Message: err.Error()}
	}
	root := s.workspaceOf(name)
	if root == "" {
		return sdk.ResourceNotFoundError(uri)
	}
	info, err := s.config.Stat(root, name)
	if err != nil {
		return resourceError(uri, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watching[uri]
	if w == nil {
		if len(s.watching) >= maxSubscribed {
			return &jsonrpc.Error{Code: codeBusy, Message: fmt.Sprintf("more than %d files are subscribed to", maxSubscribed)}
		}
		w = &watched{path: name, workspace: root, by: map[*sdk.ServerSession]int{}}
		w.look(info)
		s.watching[uri] = w
	}
	w.by[r.Session]++
	if len(s.watching) == 1 && !s.polling && !s.closed {
		s.polling = true
		s.work.Go(s.poll)
	}
	return nil
}

// following is one client's subscription to a resource of another server.
type following struct {
	by  *sdk.ServerSession
	uri string
}

// followForeign subscribes to a resource of another server. listening says that
// whoever asks unsubscribes in any case; else the end of the session does.
func (s *Server) followForeign(ctx context.Context, by *sdk.ServerSession, v *view, uri string, listening bool) error {
	key := following{by, uri}
	s.mu.Lock()
	full := len(s.following) >= maxSubscribed && s.following[key] == 0
	s.mu.Unlock()
	if full {
		return &jsonrpc.Error{Code: codeBusy, Message: fmt.Sprintf("more than %d resources of other servers are subscribed to", maxSubscribed)}
	}
	u := s.config.Upstream
	if err := u.Subscribe(ctx, v.allowed, uri); err != nil {
		return foreignFailure(err)
	}
	s.mu.Lock()
	gone := !listening && s.bySDK[by] == nil
	if !gone {
		s.following[key]++
	}
	s.mu.Unlock()
	if gone {
		_ = u.Unsubscribe(s.background, uri)
	}
	return nil
}

func (s *Server) unsubscribe(ctx context.Context, r *sdk.UnsubscribeRequest) error {
	if u := s.config.Upstream; u != nil && !s.ours(r.Params.URI) {
		key := following{r.Session, r.Params.URI}
		s.mu.Lock()
		known := s.following[key] > 0
		if s.following[key]--; s.following[key] <= 0 {
			delete(s.following, key)
		}
		s.mu.Unlock()
		if !known {
			return nil
		}
		if err := u.Unsubscribe(ctx, r.Params.URI); err != nil {
			return foreignFailure(err)
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watching[r.Params.URI]; w != nil {
		if w.by[r.Session]--; w.by[r.Session] <= 0 {
			delete(w.by, r.Session)
		}
		if len(w.by) == 0 {
			delete(s.watching, r.Params.URI)
		}
	}
	return nil
}

// unsubscribeAll forgets what a client that has gone had subscribed to; s is
// locked. It gives what of other servers is to be unsubscribed from.
func (s *Server) unsubscribeAll(ss *sdk.ServerSession) (foreign []string) {
	for key, n := range s.following {
		if key.by == ss {
			foreign = append(foreign, slices.Repeat([]string{key.uri}, n)...)
			delete(s.following, key)
		}
	}
	for uri, w := range s.watching {
		delete(w.by, ss)
		if len(w.by) == 0 {
			delete(s.watching, uri)
		}
	}
	return foreign
}

// poll looks at the files until none is left or the server is closed.
func (s *Server) poll() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.background.Done():
			return
		}
		s.mu.Lock()
		if len(s.watching) == 0 {
			s.polling = false
			s.mu.Unlock()
			return
		}
		looks := make(map[string]watched, len(s.watching))
		for uri, w := range s.watching {
			looks[uri] = watched{path: w.path, workspace: w.workspace}
		}
		s.mu.Unlock()
		for uri, l := range looks {
			info, err := s.config.Stat(l.workspace, l.path)
			if err != nil {
				info = nil
			}
			s.mu.Lock()
			w := s.watching[uri]
			changed := w != nil && w.look(info)
			s.mu.Unlock()
			if changed {
				_ = s.sdk.ResourceUpdated(s.background, &sdk.ResourceUpdatedNotificationParams{URI: uri})
			}
		}
	}
}

// look notes how a file is now, nil if it is not there, and reports whether it
// was different.
func (w *watched) look(info fs.FileInfo) bool {
	now := watched{}
	if info != nil {
		now.there, now.size, now.modified = true, info.Size(), info.ModTime()
	}
	changed := now.there != w.there || now.size != w.size || !now.modified.Equal(w.modified)
	w.there, w.size, w.modified = now.there, now.size, now.modified
	return changed
}
