package executor

import "container/list"

// lru is a map that forgets what was not used for longest. It is not safe for
// concurrent use.
type lru[K comparable, V any] struct {
	max   int
	order list.List // of *entry, the newest first
	items map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](max int) *lru[K, V] {
	return &lru[K, V]{max: max, items: map[K]*list.Element{}}
}

func (l *lru[K, V]) get(key K) (value V, ok bool) {
	e, ok := l.items[key]
	if !ok {
		return value, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*entry[K, V]).value, true
}

// put adds a value and forgets the oldest one over the bound.
func (l *lru[K, V]) put(key K, value V) {
	if e, ok := l.items[key]; ok {
		e.Value.(*entry[K, V]).value = value
		l.order.MoveToFront(e)
		return
	}
	l.items[key] = l.order.PushFront(&entry[K, V]{key, value})
	if l.order.Len() > l.max {
		l.oldest()
	}
}

// oldest removes and returns what was not used for longest.
func (l *lru[K, V]) oldest() (value V) {
	e := l.order.Back()
	if e == nil {
		return value
	}
	last := l.order.Remove(e).(*entry[K, V])
	delete(l.items, last.key)
	return last.value
}

func (l *lru[K, V]) remove(key K) {
	if e, ok := l.items[key]; ok {
		l.order.Remove(e)
		delete(l.items, key)
	}
}

func (l *lru[K, V]) len() int { return l.order.Len() }
