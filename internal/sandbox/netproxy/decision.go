package netproxy

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/netguard"
)

// Decision is what the proxy did about one attempt to reach something.
type Decision struct {
	Time     time.Time
	Protocol string // dns, http, connect, tls, socks4, socks5 or tcp
	Host     string // a name, or an address in text
	Port     int    // 0 for dns
	Address  string // ADDRESS:port that was dialled, if one was
	Allowed  bool
	// Rule is the entry that allowed it ("all" if all is allowed), or the
	// sentence that says why not.
	Rule string
}

// maxDecisions is how many of the last decisions a Proxy keeps.
const maxDecisions = 1000

// decisions keeps the last ones.
type decisions struct {
	log  *slog.Logger
	call func(Decision)

	mu      sync.Mutex
	last    []Decision // a ring once it is full
	next    int
	dropped int

	callMu sync.Mutex // call is never called concurrently
}

func (d *decisions) add(dec Decision) {
	dec.Time = time.Now()
	dec.Host, dec.Rule = printable(dec.Host, netguard.MaxName), printable(dec.Rule, maxSentence)
	d.mu.Lock()
	if len(d.last) < maxDecisions {
		d.last = append(d.last, dec)
	} else {
		d.last[d.next] = dec
		d.next = (d.next + 1) % maxDecisions
		d.dropped++
	}
	d.mu.Unlock()
	level := slog.LevelDebug
	if !dec.Allowed {
		level = slog.LevelInfo
	}
	if d.log != nil && d.log.Enabled(context.Background(), level) {
		d.log.LogAttrs(context.Background(), level, "network decision", slog.String("protocol", dec.Protocol), slog.String("host", dec.Host),
			slog.Int("port", dec.Port), slog.String("address", dec.Address), slog.Bool("allowed", dec.Allowed), slog.String("rule", dec.Rule))
	}
	if d.call != nil {
		d.callMu.Lock()
		defer d.callMu.Unlock()
		d.call(dec)
	}
}

func (d *decisions) list() ([]Decision, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Concat(d.last[d.next:], d.last[:d.next]), d.dropped
}

// printable cuts a text to a length and takes out what could break a line or a
// terminal: names come from whoever is inside.
func printable(s string, most int) string {
	clean := make([]rune, 0, min(len(s), most))
	for _, r := range s {
		if len(clean) == most {
			return string(clean) + "…"
		}
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' || (r >= 0x80 && r < 0xa0) {
			r = '?'
		}
		clean = append(clean, r)
	}
	return string(clean)
}
