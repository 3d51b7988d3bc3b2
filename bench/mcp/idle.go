package main

import (
	"fmt"
	"time"
)

// idleSessions opens n sessions over HTTP, and n WebSockets, each with a server
// of its own, and says what they cost while they do nothing.
func idleSessions(t target, dir string, n int) error {
	for _, kind := range []string{viaSession, viaSocket} {
		url, cmd, err := listen(t, dir)
		if cmd != nil {
			defer end(t, cmd)
		}
		if err != nil {
			return err
		}
		time.Sleep(time.Second) // what the start does beside
		before := memory(cmd.Process.Pid, "VmRSS:")
		open := []client{}
		for range n {
			c, err := openIdle(url, kind)
			if err != nil {
				return fmt.Errorf("session %d of %s over %s: %w", len(open)+1, t.name, kind, err)
			}
			open = append(open, c)
		}
		time.Sleep(time.Second)
		after := memory(cmd.Process.Pid, "VmRSS:")
		fmt.Printf("%s: %d idle sessions, %s: %.1f MiB resident, before them %.1f, peak %.1f: %.1f KiB each\n", t.name, n, kind,
			float64(after)/1024, float64(before)/1024, float64(memory(cmd.Process.Pid, "VmHWM:"))/1024, float64(after-before)/float64(n))
		for _, c := range open {
			c.close()
		}
	}
	return nil
}

func openIdle(url, kind string) (client, error) {
	if kind == viaSocket {
		s, err := dialSocket(url)
		if err != nil {
			return nil, err
		}
		return newStream(s, s, 16<<10)
	}
	c := &httpClient{url: url + "/mcp", headers: map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}}
	return c, c.initialize()
}
