// Package mcp speaks the Model Context Protocol with clients, over stdio and
// streamable HTTP, in both eras of the protocol: sessions (2024-11-05 to
// 2025-11-25) and stateless requests (2026-07-28). It turns tools/call into
// executor calls and their results into wire results. It does not know how a
// tool runs, what the policy decides or where rows are kept.
//
// A request that may ask its client something is an operation: it runs once, in a
// goroutine of its own, and its client follows it over one exchange or several. In
// a session it asks by requests of ours. A stateless client gets its questions as
// answers (input_required), together with a signed requestState that brings its
// next request back to the same operation; nothing is run again. What takes long
// becomes a task for clients that know tasks.
//
// The go-sdk does the protocol. Only the one method that matters for speed,
// tools/call, is taken off the wire before the SDK sees it: the SDK decodes
// every message about twelve times with a decoder that allocates 32 KB each.
// Whatever is out of the ordinary in such a request (a version we do not know,
// headers that contradict the body) is left to the SDK, which answers with the
// protocol's own errors.
package mcp
