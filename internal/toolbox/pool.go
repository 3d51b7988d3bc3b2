package toolbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/worker"
)

// drainTime is how long calls may run on when their workers are no longer wanted.
const drainTime = 10 * time.Minute

// maxPools is how many tools and sessions have workers at the same time; the one
// that idles longest makes place.
const maxPools = 128

// poolSet holds the workers: a pool for each version, plan and session.
type poolSet struct {
	mu     sync.Mutex
	pools  map[poolKey]*pooled
	ending sync.WaitGroup
	errs   []error
}

type poolKey struct {
	plan    *plan
	session string
}

// spare is the session of workers that wait for one.
const spare = "\x00spare"

type pooled struct {
	key     poolKey
	version *version
	pool    *worker.Pool
	used    time.Time
	calls   int  // that run
	retired bool // to be closed after the last of them
}

// take gives the pool of a key, made where there is none, and holds it until
// release.
func (s *poolSet) take(v *version, key poolKey, make func() *worker.Pool) *pooled {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[key]
	if p == nil && key.session != spare {
		if p = s.pools[poolKey{key.plan, spare}]; p != nil && p.calls == 0 {
			delete(s.pools, p.key)
			p.key = key
			s.pools[key] = p
		} else {
			p = nil
		}
	}
	if p == nil {
		if len(s.pools) >= maxPools {
			s.evict()
		}
		p = &pooled{key: key, version: v, pool: make()}
		s.pools[key] = p
	}
	p.calls++
	p.used = time.Now()
	return p
}

// evict retires the pool that idles longest. Where all are busy nothing is
// retired: the number of calls is bounded elsewhere.
func (s *poolSet) evict() {
	var oldest *pooled
	for _, p := range s.pools {
		if p.calls == 0 && (oldest == nil || p.used.Before(oldest.used)) {
			oldest = p
		}
	}
	if oldest != nil {
		s.retire(oldest)
	}
}

func (s *poolSet) release(p *pooled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.calls--
	p.used = time.Now()
	if p.retired && p.calls == 0 {
		s.end(p)
	}
}

// retire takes a pool out of use. The caller holds mu.
func (s *poolSet) retire(p *pooled) {
	delete(s.pools, p.key)
	p.retired = true
	if p.calls == 0 {
		s.end(p)
	}
}

// end closes a pool in the background. The caller holds mu.
func (s *poolSet) end(p *pooled) {
	s.ending.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		if err := p.pool.Close(ctx); err != nil {
			s.mu.Lock()
			s.errs = append(s.errs, err)
			s.mu.Unlock()
		}
	})
}

// retireIf takes all pools out of use that f names.
func (s *poolSet) retireIf(f func(*pooled) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		if f(p) {
			s.retire(p)
		}
	}
}

// close ends all pools, with the calls that still run, and waits.
func (s *poolSet) close(ctx context.Context) error {
	s.mu.Lock()
	var err error
	for _, p := range s.pools {
		delete(s.pools, p.key)
		s.ending.Go(func() {
			if e := p.pool.Close(ctx); e != nil {
				s.mu.Lock()
				s.errs = append(s.errs, e)
				s.mu.Unlock()
			}
		})
	}
	s.mu.Unlock()
	s.ending.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	err = errors.Join(s.errs...)
	s.errs = nil
	return err
}
