package executor

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/toolyard/toolyard/tool"
)

const (
	defaultCacheBytes = 32 << 20
	maxCached         = 1 << 20         // bytes of one result
	maxCachedReads    = 64              // resources of one call
	networkAge        = 5 * time.Minute // how long a result from the network is good
	cacheOverhead     = 512             // bytes counted for a result besides its content
)

// replayer is a tool whose calls leave a record beside the result, such as "this
// session has seen the file". Replay makes that record for a result from the
// cache; after an error the tool is called.
type replayer interface {
	Replay(ctx context.Context, req *tool.Request, r *tool.Result) error
}

// cache answers from earlier results of calls that only read. The key holds
// all that the answer may depend on, also the content of what is read.
type cache struct {
	max  int64
	hash func(key string) (string, error) // may be nil

	mu    sync.Mutex
	used  int64
	items *lru[cacheKey, *cached]
}

type cacheKey [16]byte

type cached struct {
	key    cacheKey
	result tool.Result
	size   int64
	until  time.Time // zero means for as long as the key holds
}

func (s *cache) wrap(next handler) handler {
	return func(ctx context.Context, c *call) *tool.Result {
		if s.max <= 0 || !mayCache(c) {
			return next(ctx, c)
		}
		key, ok := s.key(c)
		if !ok {
			return next(ctx, c)
		}
		if r := s.get(key); r != nil && replay(ctx, c, r) {
			return r
		}
		r := next(ctx, c)
		// What was read may have changed meanwhile: the key must still be the same.
		if after, ok := s.key(c); ok && after == key {
			s.put(c, key, r)
		}
		return r
	}
}

// mayCache tells whether a call's result depends on nothing but its key.
func mayCache(c *call) bool {
	on := c.spec.Cacheable
	if c.settings.Cache != nil {
		on = *c.settings.Cache
	}
	return on && c.spec.Idempotent && !c.coordinates && c.spec.Effects&^(tool.Read|tool.Network) == 0
}

func replay(ctx context.Context, c *call, r *tool.Result) bool {
	p, ok := c.handle.Tool.(replayer)
	return !ok || p.Replay(ctx, c.request(), r) == nil
}

// key is what the result depends on; ok is false if that cannot be told.
func (s *cache) key(c *call) (key cacheKey, ok bool) {
	var reads []tool.Resource
	if r, can := c.handle.Tool.(tool.Resourcer); can {
		reads = r.Resources(c.request())
	} else if c.spec.Effects&tool.Read != 0 {
		return key, false
	}
	if len(reads) > 0 && s.hash == nil || len(reads) > maxCachedReads {
		return key, false
	}
	h := xxh3.New()
	rules := make([]string, len(c.in.Rules))
	for i, r := range c.in.Rules {
		rules[i] = r.Action.String() + " " + r.Text
	}
	rights, err := json.Marshal(rules)
	if err != nil {
		return key, false
	}
	for _, part := range []string{c.name, c.spec.Version, c.in.Tenant, c.in.Project, c.in.Workspace, string(c.in.Mode), string(rights), string(c.canonicalArguments())} {
		field(h, part)
	}
	for _, r := range reads {
		sum, err := s.hash(r.Key)
		if err != nil || r.Access == tool.WriteAccess {
			return key, false
		}
		field(h, r.Key)
		field(h, sum)
	}
	return h.Sum128().Bytes(), true
}

// field adds a part of a key so that no two lists of parts look the same.
func field(h *xxh3.Hasher, part string) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
	h.Write(n[:])
	h.WriteString(part)
}

// get gives a copy of a result; its blocks are shared and never changed.
func (s *cache) get(key cacheKey) *tool.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.items.get(key)
	if !ok {
		return nil
	}
	if !e.until.IsZero() && time.Now().After(e.until) {
		s.items.remove(key)
		s.used -= e.size
		return nil
	}
	r := e.result
	r.Content = append([]tool.Content(nil), r.Content...)
	r.Meta.Cached = true
	return &r
}

func (s *cache) put(c *call, key cacheKey, r *tool.Result) {
	size := textBytes(r) + cacheOverhead
	c.mu.Lock()
	kept := len(c.artifacts) + len(c.spools)
	c.mu.Unlock()
	if r.IsError || kept > 0 || r.Meta.OutputHandle != "" || r.Meta.Ending != nil || size > maxCached {
		return
	}
	e := &cached{key: key, result: *r, size: size}
	e.result.Content = append([]tool.Content(nil), r.Content...)
	e.result.Meta = tool.Meta{MatchedWith: r.Meta.MatchedWith, Truncated: r.Meta.Truncated}
	if c.spec.Effects&tool.Network != 0 {
		e.until = time.Now().Add(networkAge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.items.get(key); ok {
		s.used -= old.size
	}
	s.items.put(key, e)
	for s.used += size; s.used > s.max && s.items.len() > 1; {
		s.used -= s.items.oldest().size
	}
}
