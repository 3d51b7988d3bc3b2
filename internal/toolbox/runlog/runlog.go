// Package runlog keeps the log of a tool's runs, run.log: one line an entry,
// appended, bounded in size and age. It does not know what a tool or a call is.
//
//	[2026-11-18T02:00:08.104Z] [INFO] message {"key":"value"}
//
// No text that a tool logs can look like another entry, or like meta data:
// control characters, the backslash and a brace after a blank are escaped.
package runlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Bounds.
const (
	MaxText = 64 << 10 // bytes of a message, and of its meta data; more is cut

	batchEntries = 64
	batchBytes   = 32 << 10
	batchAge     = time.Second // how long an entry waits before the next one writes it too
	retryAfter   = time.Second // after a write that failed
	cleanEvery   = time.Hour
	cleanRetry   = time.Minute
)

// Config of a Log. Path is needed; the rest works when zero.
type Config struct {
	// Path of the file. It is made, with mode 0600, at the first entry; a symbolic
	// link is not followed.
	Path string
	// MaxBytes is the size from which entries are removed. Zero is 10 MB.
	MaxBytes int64
	// Keep is how many lines stay where removing by age is not enough. Zero is 1000.
	Keep int
	// Retention is how long an entry stays. Zero is 3 hours, negative is for ever.
	Retention time.Duration
	// Queue is how many entries wait to be written. Zero is 1000.
	Queue int
	// Now is the clock. Nil is time.Now.
	Now func() time.Time
	// Redact removes secrets from a message and from meta data before they are
	// kept. Nil keeps all.
	Redact func(string) string
}

// Log appends entries to a file. It has no goroutine: entries are written by
// whoever calls Append, when enough wait or the first has waited for a second,
// and by Flush; so is the file made smaller, and by Query and Clean. Many Logs, also in other processes,
// may share a file. Safe for concurrent use.
type Log struct {
	c Config

	mu     sync.Mutex
	queue  []pending
	bytes  int
	lost   int // entries that found the queue full and the file not writable
	retry  time.Time
	closed bool

	file    sync.Mutex // held while the file is written; taken before mu
	cleaned time.Time  // guarded by file
	unclean time.Time  // guarded by file; until when cleaning is not tried again
	nolock  time.Time  // guarded by file; until when the lock is not waited for
}

type pending struct {
	at   time.Time
	line []byte
}

// ErrClosed is what Flush says after Close.
var ErrClosed = errors.New("the log is closed")

// Open makes a Log. It touches no file.
func Open(c Config) *Log {
	if c.MaxBytes <= 0 {
		c.MaxBytes = 10_000_000
	}
	if c.Keep <= 0 {
		c.Keep = 1000
	}
	if c.Retention == 0 {
		c.Retention = 3 * time.Hour
	}
	if c.Queue <= 0 {
		c.Queue = 1000
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Redact == nil {
		c.Redact = func(s string) string { return s }
	}
	return &Log{c: c}
}

// Append adds an entry. The level is DEBUG, INFO, WARN or ERROR, in any case;
// anything else is INFO. Meta is JSON; what is no object is put in one, under
// "value". It does not fail: if the file cannot be written, as many entries wait
// as the queue holds, and how many more were lost is logged later. After Close
// it does nothing.
func (l *Log) Append(level, message string, meta json.RawMessage) {
	now := l.c.Now()
	p := pending{now, appendLine(nil, now, level, l.c.Redact(message), l.redacted(meta))}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	full := len(l.queue) >= l.c.Queue
	if !full {
		l.push(p)
	}
	due := !now.Before(l.retry) &&
		(len(l.queue) >= batchEntries || l.bytes >= batchBytes || now.Sub(l.queue[0].at) >= batchAge)
	l.mu.Unlock()
	switch {
	case full:
		l.file.Lock()
		_ = l.write() // stays in the queue, or is counted as lost
		l.file.Unlock()
		l.pushOrLose(p)
	case due && l.file.TryLock(): // else somebody is writing just now
		_ = l.write() // stays in the queue
		l.file.Unlock()
	}
}

func (l *Log) push(p pending) {
	l.queue = append(l.queue, p)
	l.bytes += len(p.line)
}

// pushOrLose adds to a queue that was full a moment ago; the oldest gives way.
func (l *Log) pushOrLose(p pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.push(p)
	l.trim()
}

// trim counts what does not fit in the queue as lost. The caller holds mu.
func (l *Log) trim() {
	over := len(l.queue) - l.c.Queue
	if over <= 0 {
		return
	}
	for _, p := range l.queue[:over] {
		l.bytes -= len(p.line)
	}
	l.lost += over
	l.queue = append([]pending(nil), l.queue[over:]...)
}

func (l *Log) redacted(meta json.RawMessage) json.RawMessage {
	if len(meta) == 0 {
		return nil
	}
	out := l.c.Redact(string(meta))
	if out != string(meta) && !json.Valid([]byte(out)) {
		out = quoted(out)
	}
	return json.RawMessage(out)
}

// Flush writes what waits. Call it when a call of the tool ends. An error says
// that the entries still wait.
func (l *Log) Flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return ErrClosed
	}
	l.file.Lock()
	defer l.file.Unlock()
	return l.write()
}

// Close writes what waits and ends the Log. It may be called twice.
func (l *Log) Close() error {
	l.file.Lock()
	defer l.file.Unlock()
	err := l.write()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.queue = nil
	return err
}

// write appends the queue to the file. The caller holds file.
func (l *Log) write() error {
	l.mu.Lock()
	batch, lost := l.queue, l.lost
	l.queue, l.bytes, l.lost = nil, 0, 0
	l.mu.Unlock()
	now := l.c.Now()
	if len(batch) == 0 && lost == 0 {
		return nil
	}
	var data []byte
	if lost > 0 {
		data = appendLine(data, now, "WARN", fmt.Sprintf("%d entries before this one were lost", lost), nil)
	}
	for _, p := range batch {
		data = append(data, p.line...)
	}
	err := l.appendFile(data, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.retry = time.Time{}
		return nil
	}
	l.retry = now.Add(retryAfter)
	l.queue = append(batch, l.queue...)
	l.bytes = 0
	for _, p := range l.queue {
		l.bytes += len(p.line)
	}
	l.lost += lost
	l.trim()
	return fmt.Errorf("writing %s: %w", l.c.Path, err)
}

// appendFile adds data at the end of the file, and makes it smaller when it is
// time. A file that cannot be made smaller is no error: the entries are there.
func (l *Log) appendFile(data []byte, now time.Time) error {
	f, locked, err := l.lockFile(now)
	if err != nil {
		return err
	}
	defer f.Close() // which gives the lock up
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if size > 0 {
		// What was cut off in the middle of a line must not become part of ours.
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err == nil && last[0] != '\n' {
			data = append([]byte{'\n'}, data...)
		}
	}
	if n, err := f.Write(data); err != nil {
		if n > 0 {
			_ = f.Truncate(size) // half a line would stay; the entries are written again
		}
		return err
	}
	size += int64(len(data))
	limit := l.c.MaxBytes
	if !locked {
		limit *= 2 // somebody may be at it, or only pretends to
	}
	if now.Before(l.unclean) || size <= limit && (!locked || now.Sub(l.cleaned) < cleanEvery) {
		return nil
	}
	l.cleaned = now
	if l.clean(f, size, now) != nil {
		l.unclean = now.Add(cleanRetry)
	}
	return nil
}

// Clean removes entries that are too old, if the last look is an hour ago. Writing
// does it too; call it for a log that nobody writes to.
func (l *Log) Clean() error {
	l.file.Lock()
	defer l.file.Unlock()
	now := l.c.Now()
	if now.Sub(l.cleaned) < cleanEvery || now.Before(l.unclean) {
		return nil
	}
	if _, err := os.Lstat(l.c.Path); err != nil {
		return nil // then there is nothing to clean
	}
	f, locked, err := l.lockFile(now)
	if err != nil {
		return fmt.Errorf("cleaning %s: %w", l.c.Path, err)
	}
	defer f.Close() // which gives the lock up
	info, err := f.Stat()
	if err == nil && locked {
		l.cleaned = now
		err = l.clean(f, info.Size(), now)
	}
	if err != nil {
		l.unclean = now.Add(cleanRetry)
		return fmt.Errorf("cleaning %s: %w", l.c.Path, err)
	}
	return nil
}

// level gives the name that is written.
func level(name string) string {
	switch up := strings.ToUpper(name); up {
	case "DEBUG", "INFO", "WARN", "ERROR":
		return up
	case "WARNING":
		return "WARN"
	}
	return "INFO"
}
