// Package gateway turns other MCP servers into tools of this program. It knows
// MCP messages, processes in the sandbox and what a server may do; it does not
// know who calls, what a permission is, or how a message travels (package
// upstream).
//
//	g, err := gateway.New(gateway.Config{Home: home, Servers: servers, Runner: box, Settings: store})
//	for _, source := range g.Sources() {
//		composite.Add(source)
//	}
//	go g.Run(ctx)
//	defer g.Close(ctx)
//
// A server is started when it is first needed and once for everybody; until then,
// and while it is down, its tools are known from the last time it ran. Each server
// has a goroutine and bounds of its own: one that hangs, crashes, floods or lies
// harms no other.
//
// # Definitions are pinned
//
// What a server says of a tool goes to a model as it is, so a server that changes
// its words later could turn a model against its user. The first definition of a
// tool is remembered; one that differs is withheld until somebody has looked at
// the difference ([Gateway.Approve]).
package gateway
