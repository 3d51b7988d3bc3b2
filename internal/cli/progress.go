package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Timing of the line that shows that something is being done.
const (
	progressAfter = 400 * time.Millisecond
	progressEvery = 100 * time.Millisecond
)

// progress is one line on a terminal: what runs, for how long, and the last line
// that it printed. A nil progress shows nothing.
type progress struct {
	w     io.Writer
	look  look
	title string
	start time.Time
	stop  chan struct{}
	done  sync.WaitGroup

	mu     sync.Mutex
	last   string // of the output
	paused bool
	shown  bool
}

var frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// progress begins a line on stderr, if that is a terminal. The caller ends it.
func (p *program) progress(title string) *progress {
	if !p.errTTY || p.flags.quiet {
		return nil
	}
	g := &progress{w: p.stderr, look: p.err, title: title, start: time.Now(), stop: make(chan struct{})}
	g.done.Go(g.run)
	return g
}

func (g *progress) run() {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for frame := 0; ; frame++ {
		select {
		case <-g.stop:
			return
		case <-tick.C:
			g.draw(frames[frame%len(frames)])
		}
	}
}

func (g *progress) draw(frame string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	elapsed := time.Since(g.start)
	if g.paused || elapsed < progressAfter {
		return
	}
	line := fmt.Sprintf("%s %s %s", g.look.cyan(frame), g.title, g.look.dim(durationText(elapsed.Truncate(100*time.Millisecond))))
	if g.last != "" {
		line += "  " + g.look.dim(oneLine(g.last, max(10, 70-len(g.title))))
	}
	fmt.Fprint(g.w, "\r\x1b[K"+line)
	g.shown = true
}

// event notes what a call printed. It fits toolyard.Call.OnEvent.
func (g *progress) event(e tool.Event) {
	if g == nil {
		return
	}
	var text string
	switch e.Type {
	case tool.EventCallOutput:
		text, _ = e.Data["text"].(string)
	case tool.EventCallProgress:
		text, _ = e.Data["message"].(string)
	}
	text = strings.TrimRight(text, "\r\n")
	if text = text[strings.LastIndexByte(text, '\n')+1:]; strings.TrimSpace(text) == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = text
}

// pause takes the line away until resume.
func (g *progress) pause() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paused = true
	g.clear()
}

func (g *progress) resume() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paused = false
}

// clear removes the line; the caller holds mu.
func (g *progress) clear() {
	if g.shown {
		fmt.Fprint(g.w, "\r\x1b[K")
		g.shown = false
	}
}

// end takes the line away for good.
func (g *progress) end() {
	if g == nil {
		return
	}
	close(g.stop)
	g.done.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clear()
}

// durationText is a duration for people: "950µs", "12.3ms", "4.2s", "3m20s".
func durationText(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// stage shows how far a long operation has come. It fits
// toolbox.InstallOptions.Progress.
func (g *progress) stage(stage string, done, total int64) {
	if g == nil {
		return
	}
	text := stage
	if total > 0 {
		const width = 20
		filled := int(min(done, total) * width / total)
		text = fmt.Sprintf("%s %s%s %d%%", stage, strings.Repeat("█", filled), strings.Repeat("░", width-filled), min(done, total)*100/total)
	} else if done > 0 {
		text = stage + " " + bytesText(done)
	}
	g.mu.Lock()
	g.last = text
	g.mu.Unlock()
}
