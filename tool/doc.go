// Package tool is the model of Toolyard: what a tool is, what one call of it
// carries in, and what comes back. It holds no I/O and knows no operating
// system, no server and no store.
//
// A tool is a value with two methods:
//
//	type Tool interface {
//		Spec() *Spec
//		Call(ctx context.Context, req *Request) (*Result, error)
//	}
//
// Most tools are built with [New] from a Go function whose input and output
// types give the JSON Schemas:
//
//	type in struct {
//		Name string `json:"name" alias:"who" jsonschema:"whom to greet"`
//	}
//	type out struct {
//		Greeting string `json:"greeting" jsonschema:"the greeting"`
//	}
//
//	greet := tool.New(tool.Spec{
//		Name:        "greet",
//		Description: "Greets somebody by name.",
//		Effects:     tool.Read,
//	}, func(ctx context.Context, req *tool.Request, in in) (*tool.Result, out, error) {
//		o := out{Greeting: "hello, " + in.Name}
//		return tool.Text(o.Greeting), o, nil
//	})
//
// A tool decodes, does the thing and returns. Permission, time limits, retry,
// folding of long output, recording and redaction happen around it, in the
// executor, and never in a tool.
package tool
