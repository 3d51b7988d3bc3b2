package toolbox

import (
	"context"
	"sync"
)

// turn is a lock that can be waited for as long as a context lasts: what is done
// in it may take minutes. The zero value is free.
type turn struct {
	once sync.Once
	held chan struct{}
}

func (t *turn) init() { t.once.Do(func() { t.held = make(chan struct{}, 1) }) }

// take waits for the turn. The error is the end of ctx.
func (t *turn) take(ctx context.Context) (release func(), err error) {
	t.init()
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held }, nil
	default:
	}
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// free reports whether nobody has it now.
func (t *turn) free() bool {
	t.init()
	return len(t.held) == 0
}
