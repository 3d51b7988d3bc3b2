package mcp

import (
	"context"
	"fmt"
	"io/fs"
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
	if u := s.config.Upstream; u != nil && !s.ours(uri) {
		if err := u.Subscribe(ctx, uri); err != nil {
			return foreignFailure(err)
		}
		return nil
	}
	if s.config.Stat == nil {
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

func (s *Server) unsubscribe(ctx context.Context, r *sdk.UnsubscribeRequest) error {
	if u := s.config.Upstream; u != nil && !s.ours(r.Params.URI) {
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
// locked.
func (s *Server) unsubscribeAll(ss *sdk.ServerSession) {
	for uri, w := range s.watching {
		delete(w.by, ss)
		if len(w.by) == 0 {
			delete(s.watching, uri)
		}
	}
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
