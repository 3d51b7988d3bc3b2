package mcp

import (
	"encoding/json"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/tool"
)

// logName is the logger that clients see.
const logName = "toolyard"

// followLogs begins to tell a client what happens, once it has set a log level.
// The SDK drops what is below that level. It ends with the session.
func (s *Server) followLogs(sess *session, level string) {
	if !slices.Contains(severities, level) {
		return // the SDK has refused it
	}
	sess.mu.Lock()
	following := sess.following
	sess.logLevel, sess.following = level, true
	sess.mu.Unlock()
	if following || s.config.Bus == nil {
		return
	}
	sub, _ := s.config.Bus.Subscribe(s.config.Bus.Last(), func(e tool.Event) bool {
		return (e.Session == "" || e.Session == sess.id) && logLevel(e) != ""
	})
	gone := make(chan struct{})
	s.work.Go(func() {
		defer close(gone)
		_ = sess.ss.Wait()
	})
	s.work.Go(func() {
		defer sub.Close()
		for {
			select {
			case e := <-sub.C():
				//lint:ignore SA1019 clients of the session era use it
				err := sess.ss.Log(s.background, &sdk.LoggingMessageParams{Level: logLevel(e), Logger: logName, Data: e})
				if err != nil {
					return
				}
			case <-gone:
				return
			case <-s.background.Done():
				return
			}
		}
	})
}

// severities orders the levels of log messages (RFC 5424), the least first.
var severities = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// logs is from which level on the client wants log messages of the call; "" for
// none, or none that can be sent.
func (op *operation) logs() string {
	if op.params == nil { // a call of the server's own
		return ""
	}
	return op.params.logLevel
}

// event takes an event of the call.
func (op *operation) event(e tool.Event) {
	if e.Type != tool.EventCallLog {
		if op.progress != nil {
			op.progress.event(e)
		}
		return
	}
	params, _ := e.Data["params"].(json.RawMessage)
	level := ""
	_ = eachMember(params, func(key string, value []byte) error {
		if key == "level" {
			level = unquote(value)
		}
		return nil
	})
	if op.logs() == "" || slices.Index(severities, level) < slices.Index(severities, op.logs()) {
		return
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.notify != nil {
		op.notify(methodMessage, params)
	}
}

// logLevel is how much an event matters to a client; "" means not at all.
//
//lint:ignore SA1019 clients of the session era use it
func logLevel(e tool.Event) sdk.LoggingLevel {
	text := func(key string) string {
		s, _ := e.Data[key].(string)
		return s
	}
	switch e.Type {
	case tool.EventToolState:
		switch text("to") {
		case "failed", "error":
			return "error"
		case "disabled", "unregistered":
			return "notice"
		}
		return "info"
	case tool.EventDoomLoop:
		return "warning"
	case tool.EventPermissionAsked, tool.EventPermissionReplied, tool.EventJobStarted, tool.EventJobFinished, tool.EventArtifactCreated, tool.EventNetworkRefused:
		return "info"
	case tool.EventCallStarted:
		return "debug"
	case tool.EventCallFinished:
		if text("code") == string(tool.Internal) {
			return "error"
		}
		return "debug"
	}
	return ""
}
