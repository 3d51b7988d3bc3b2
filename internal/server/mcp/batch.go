package mcp

import "sync"

// batch collects the answers to an array of messages (before 2025-06-18).
type batch struct {
	mu   sync.Mutex
	left int
	body []byte
}

// batches reports whether the client speaks a version that has batches.
func (c *connection) batches() bool {
	c.sess.mu.Lock()
	defer c.sess.mu.Unlock()
	return c.sess.version != "" && c.sess.version < versionNoBatch
}

func (c *connection) takeBatch(line []byte) {
	var frames []frame
	b := &batch{}
	var faults []func()
	eachElement(line, func(value []byte) {
		f, err := parseFrame(value)
		switch {
		case err != nil:
			b.left++
			faults = append(faults, func() { c.fail(b, f.id, err) })
		case f.method == "initialize":
			b.left++
			faults = append(faults, func() { c.fail(b, f.id, &wireError{codeInvalidRequest, "initialize cannot be part of a batch"}) })
		default:
			if f.request() {
				b.left++
			}
			frames = append(frames, f)
		}
	})
	if len(frames)+len(faults) == 0 {
		c.fail(nil, nil, &wireError{codeInvalidRequest, "the batch is empty"})
		return
	}
	for _, fault := range faults {
		fault()
	}
	for i := range frames {
		c.route(&frames[i], b)
	}
}

// reply sends an answer, alone or with the others of its batch. Nil data is a
// request that gets none.
func (c *connection) reply(b *batch, data []byte) error {
	if b == nil {
		if data == nil {
			return nil
		}
		return c.send(data)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left--
	if data != nil {
		if b.body == nil {
			b.body = append(b.body, '[')
		} else {
			b.body = append(b.body, ',')
		}
		b.body = append(b.body, data...)
	}
	if b.left > 0 || b.body == nil {
		return nil
	}
	return c.send(append(b.body, ']'))
}
