package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/toolyard/toolyard/internal/server/mcp"
	"github.com/toolyard/toolyard/tool"
)

// routes is the table of what lies where. To add a part: a field in Config and
// a line here. streams is done when long answers shall end; draining is closed
// when no more work is wanted.
func routes(c Config, streams context.Context, draining <-chan struct{}) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		status(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { readyz(c, draining, w, r) })
	if c.Metrics != nil {
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			if err := c.Metrics(w); err != nil {
				c.Log.Warn("metrics are not complete", "err", err)
			}
		})
	}
	if c.Resource != nil {
		for _, path := range c.Resource.MetadataPaths() {
			mux.HandleFunc(path, c.Resource.ServeMetadata)
		}
	}
	if c.MCP != nil {
		handler, socket := c.MCP.Handler(mcp.HTTPOptions{}), c.MCP.Socket(mcp.SocketOptions{})
		mux.Handle("/mcp", handler)
		mux.Handle("/mcp/{profile}", handler)
		mux.Handle("/ws", socket)
		mux.Handle("/ws/{profile}", socket)
	}
	if c.API != nil {
		mux.Handle("/api/v1/", endingWith(streams, c.API))
	}
	if c.Console != nil {
		mux.Handle("/", c.Console)
	} else {
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			fail(w, http.StatusNotFound, string(tool.NotFound), "nothing is served at "+r.URL.Path, "There are /mcp, /ws, /api/v1/, /metrics, /healthz and /readyz.")
		})
	}
	return mux
}

// endingWith ends event streams, which nobody waits for, when streams is done.
// Other requests go on.
func endingWith(streams context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(streams, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func readyz(c Config, draining <-chan struct{}, w http.ResponseWriter, r *http.Request) {
	select {
	case <-draining:
		status(w, http.StatusServiceUnavailable, map[string]string{"status": "stopping"})
		return
	default:
	}
	if c.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), readyLimit)
		defer cancel()
		if err := c.Ready(ctx); err != nil {
			status(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": err.Error()})
			return
		}
	}
	status(w, http.StatusOK, map[string]string{"status": "ready"})
}

func status(w http.ResponseWriter, code int, body map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
