package toolbox

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sync/errgroup"
)

const (
	// settle is how long a folder must be quiet before it is looked at: an editor
	// saves in several steps.
	settle = 100 * time.Millisecond
	// rescan is how often all folders are looked at although nothing was heard.
	rescan = 30 * time.Second
	// unheard is the same where the system does not tell what changes.
	unheard = time.Second
	// maxWatched is how many directories are watched.
	maxWatched = 8192
	// askAtOnce is how many tools are asked what they are at the same time.
	askAtOnce = 2
)

// Run keeps the toolbox current until ctx is done: it asks tools what they are,
// as Config.Preload says, and takes in what is edited.
func (b *Box) Run(ctx context.Context) {
	if err := b.Ready(ctx); err != nil {
		return
	}
	w := b.watch()
	defer w.close()
	// What was saved before anybody listened is heard of by nobody.
	if err := b.Scan(ctx); err != nil && ctx.Err() == nil {
		b.log.Warn("toolbox", "error", err)
	}
	w.follow()
	for _, e := range b.all() {
		if v := e.good.Load(); v != nil {
			b.hide(v)
		}
	}
	b.reload(ctx)
	if b.config.Preload == "workers" {
		b.warm(ctx)
	}
	dirty := map[string]bool{}
	quiet := time.NewTimer(0)
	<-quiet.C
	again := time.NewTicker(w.every())
	defer again.Stop()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-w.events():
			if !ok {
				return
			}
			if name := w.heard(event); name != "" {
				dirty[name] = true
				quiet.Reset(settle)
			}
		case <-quiet.C:
			for name := range dirty {
				b.glance(name)
			}
			clear(dirty)
			w.follow()
			b.reload(ctx)
		case <-again.C:
			if err := b.Scan(ctx); err != nil && ctx.Err() == nil {
				b.log.Warn("toolbox", "error", err)
			}
			w.follow()
			b.reload(ctx)
		case <-minute.C:
			b.logs.tidy()
			idle := time.Now().Add(-2 * b.config.Idle)
			b.pools.retireIf(func(p *pooled) bool { return p.calls == 0 && p.used.Before(idle) })
		}
	}
}

// tidy writes down what was learnt.
func (b *Box) tidy() {
	err := b.index.save(func(name string) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.entries[name] != nil
	})
	if err != nil {
		b.log.Warn("the toolbox's index", "error", err)
	}
}

// Load asks every tool what it is whose files are not known. Those that fail are
// listed with the reason.
func (b *Box) Load(ctx context.Context) {
	if b.Ready(ctx) == nil {
		b.load(ctx, b.all())
		b.tidy()
	}
}

// reload asks the tools whose folders changed; with preload off only those that
// have been asked before.
func (b *Box) reload(ctx context.Context) {
	b.load(ctx, slices.DeleteFunc(b.all(), func(e *entry) bool { return b.config.Preload == "off" && e.good.Load() == nil }))
	b.tidy()
}

func (b *Box) load(ctx context.Context, entries []*entry) {
	var g errgroup.Group
	g.SetLimit(askAtOnce)
	for _, e := range entries {
		g.Go(func() error {
			if ctx.Err() == nil {
				_ = b.loadOne(ctx, e) // it is listed as failed, with the reason
			}
			return nil
		})
	}
	_ = g.Wait()
}

// watcher hears of changes in the folders of tools. The zero value hears nothing.
type watcher struct {
	b       *Box
	w       *fsnotify.Watcher
	watched map[string]string // directory → tool, "" for the toolbox itself
}

func (b *Box) watch() *watcher {
	w := &watcher{b: b, watched: map[string]string{}}
	var err error
	if w.w, err = fsnotify.NewWatcher(); err != nil {
		b.log.Warn("the system does not tell what changes in the toolbox; it is looked at every second", "error", err)
		return w
	}
	w.follow()
	return w
}

func (w *watcher) close() {
	if w.w != nil {
		_ = w.w.Close()
	}
}

func (w *watcher) every() time.Duration {
	if w.w == nil {
		return unheard
	}
	return rescan
}

func (w *watcher) events() <-chan fsnotify.Event {
	if w.w == nil {
		return nil
	}
	return w.w.Events
}

// follow watches the directories that there are now.
func (w *watcher) follow() {
	if w.w == nil {
		return
	}
	add := func(dir, name string) {
		if _, ok := w.watched[dir]; ok || len(w.watched) >= maxWatched {
			return
		}
		if err := w.w.Add(dir); err == nil {
			w.watched[dir] = name
		}
	}
	add(w.b.dir, "")
	for _, e := range w.b.all() {
		e.mu.Lock()
		f := e.folder
		e.mu.Unlock()
		if f == nil {
			continue
		}
		add(f.dir, e.name)
		for _, dir := range f.subs {
			add(filepath.Join(f.dir, dir), e.name)
		}
	}
}

// heard gives the tool that an event is about; "" if none.
func (w *watcher) heard(event fsnotify.Event) string {
	dir := filepath.Dir(event.Name)
	name, ok := w.watched[dir]
	if event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
		delete(w.watched, event.Name) // if it was a directory; a new one may come
	}
	base := filepath.Base(event.Name)
	switch {
	case !ok:
		return ""
	case name == "": // a folder came or went
		if strings.HasPrefix(base, ".") {
			return ""
		}
		return base
	case isSource(base) || base == ".env":
		return name
	}
	return ""
}
