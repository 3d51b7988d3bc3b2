// Package process starts, watches, signals and reaps processes. It is the only
// place that starts one; it knows nothing of sandboxes, tools or sessions.
package process
