package auth

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxBuckets bounds how many callers or addresses are counted apart.
const maxBuckets = 4096

// Rates counts the requests of many by a name. It is safe for concurrent use; the
// zero value works.
type Rates struct {
	// Now is the clock. Nil means [time.Now].
	Now func() time.Time

	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	limiter *rate.Limiter
	perMin  int
	last    time.Time
}

// Take counts a request of who, of whom perMinute are let through, up to a
// quarter of them at once. If this one is not, retry is when the next may be. No
// bound is zero.
func (r *Rates) Take(who string, perMinute int) (retry time.Duration, ok bool) {
	if perMinute <= 0 {
		return 0, true
	}
	now := r.now()
	b := r.bucket(who, perMinute, now)
	reserved := b.ReserveN(now, 1)
	if wait := reserved.DelayFrom(now); wait > 0 {
		reserved.CancelAt(now)
		return wait, false
	}
	return 0, true
}

// Spent reports whether who has used up what Take lets through, and counts
// nothing.
func (r *Rates) Spent(who string, perMinute int) (retry time.Duration, spent bool) {
	if perMinute <= 0 {
		return 0, false
	}
	now := r.now()
	r.mu.Lock()
	b := r.buckets[who]
	r.mu.Unlock()
	if b == nil || b.limiter.TokensAt(now) >= 1 {
		return 0, false
	}
	return time.Duration((1 - b.limiter.TokensAt(now)) / float64(perMinute) * float64(time.Minute)), true
}

func (r *Rates) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *Rates) bucket(who string, perMinute int, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[who]
	if b == nil || b.perMin != perMinute {
		if r.buckets == nil {
			r.buckets = map[string]*bucket{}
		}
		if len(r.buckets) >= maxBuckets {
			r.forget(now)
		}
		b = &bucket{limiter: rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(1, perMinute/4)), perMin: perMinute}
		r.buckets[who] = b
	}
	b.last = now
	return b.limiter
}

// forget drops who has been silent for a minute, whose bucket is full again, and
// if that is not enough who has been silent longest; r is locked.
func (r *Rates) forget(now time.Time) {
	oldest, at := "", now.Add(time.Hour)
	for who, b := range r.buckets {
		if now.Sub(b.last) > time.Minute {
			delete(r.buckets, who)
		} else if b.last.Before(at) {
			oldest, at = who, b.last
		}
	}
	if len(r.buckets) >= maxBuckets {
		delete(r.buckets, oldest)
	}
}
