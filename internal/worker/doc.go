// Package worker keeps processes of tools warm and calls functions in them. It
// knows sandboxes and a protocol, not what a tool is, where tools are found or
// what they may do.
//
// A [Pool] belongs to one tool and one session. Each of its workers is a process
// in a sandbox of its own that runs a host, [Node] or [Python]; the host loads
// one module and calls what it exports:
//
//	pool := worker.New(worker.Config{
//		Runner:  box,
//		Host:    worker.Node{},
//		Module:  "/home/me/.toolyard/toolbox/greet/tool.js",
//		Profile: sandbox.Profile{Kind: "toolbox", Read: []string{"/home/me/.toolyard/toolbox/greet"}},
//	})
//	defer pool.Close(context.Background())
//	result, err := pool.Call(ctx, worker.Call{Name: "execute", Args: json.RawMessage(`{"who":"you"}`)})
//
// # The protocol
//
// Runtime and host speak over a stream socket that is the process's descriptor
// 3, so that standard output stays the tool's. A frame is its length, four bytes
// big-endian, then a JSON object on one line, and for some types a line feed and
// a second JSON value, which is the tool's own and is passed on as it is. The
// runtime says hello with a nonce and the worker answers ready with it; every
// frame of the worker carries it.
//
// # What is defended
//
// The host runs in the same process as the tool, so the tool can do whatever the
// host can. What the protocol keeps apart is accident from answer: something
// that prints to descriptor 3, by mistake or because it tries every descriptor,
// does not know the nonce, and its worker is ended with a typed error. The hosts
// close descriptor 3 to programs that the tool starts; that of Node keeps the
// nonce and the functions that it needs where a tool that changes prototypes and
// globals does not come, for which Python has no place. A tool that digs in its own process's memory
// can still forge the result of its own call, which it could as well have
// returned. It gains nothing by it: all that comes from a worker is treated as
// what the tool says, and what the tool may do is the sandbox's business.
package worker
