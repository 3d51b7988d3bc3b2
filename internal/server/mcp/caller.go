package mcp

import (
	"net/http"
	"sync"

	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/tool"
)

// maxCallers bounds how many callers are known at a time.
const maxCallers = 8192

// callers are those who have made requests, by the Authorization header that
// stands for them. The code behind the SDK's handlers gets that header and no
// context.
type callers struct {
	mu    sync.Mutex
	known map[string]auth.Caller
}

// note remembers who makes a request.
func (c *callers) note(r *http.Request) {
	caller := auth.From(r.Context())
	if caller.ID == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCallers {
		c.known = map[string]auth.Caller{} // each is noted again with its next request
	}
	c.known[r.Header.Get("Authorization")] = caller
}

// of is who a principal is. One that is not known any more may do nothing.
func (c *callers) of(principal string) auth.Caller {
	if !auth.Settled(principal) {
		return auth.Owner()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if caller, ok := c.known[principal]; ok {
		return caller
	}
	return auth.Caller{ID: principal, Allowed: func(*tool.Spec) bool { return false }}
}

// foreign reports whether a session was begun by another caller than the one who
// makes a request. There is no such session for that caller then.
func (s *session) foreign(r *http.Request) bool {
	return s.principal != owned(r.Header.Get("Authorization"))
}

// owned is the principal as far as it tells callers apart: all that is not a
// settled caller is the owner.
func owned(principal string) string {
	if auth.Settled(principal) {
		return principal
	}
	return ""
}

// bothAllow is the test for tools that two tests let in; nil lets in all.
func bothAllow(a, b func(*tool.Spec) bool) func(*tool.Spec) bool {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(s *tool.Spec) bool { return a(s) && b(s) }
}
