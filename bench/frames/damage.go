package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
)

// good are messages of both eras, as clients send them. Nothing in them writes
// or executes.
var good = []string{
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"frames","version":"1"}}}`,
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	`{"jsonrpc":"2.0","id":2,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"x"}}`,
	`{"jsonrpc":"2.0","id":"four","method":"tools/call","params":{"name":"read","arguments":{"file_path":"hello.txt"},"_meta":{"progressToken":4}}}`,
	`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"glob","arguments":{"pattern":"**/*.txt"}}}`,
	`{"jsonrpc":"2.0","id":6,"method":"resources/list"}`,
	`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"file:///nowhere"}}`,
	`{"jsonrpc":"2.0","id":8,"method":"prompts/list","params":{}}`,
	`{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":{"level":"debug"}}`,
	`{"jsonrpc":"2.0","id":10,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"}}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"enough"}}`,
	`{"jsonrpc":"2.0","id":99,"result":{"action":"accept","content":{"answer":"always"}}}`,
	`{"jsonrpc":"2.0","id":"toolyard-1","error":{"code":-1,"message":"no"}}`,
	`[{"jsonrpc":"2.0","id":11,"method":"ping"},{"jsonrpc":"2.0","id":12,"method":"tools/list"}]`,
	`{"jsonrpc":"2.0","id":13,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
	`{"jsonrpc":"2.0","id":14,"method":"tools/call","params":{"name":"read","arguments":{"file_path":"hello.txt"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"frames","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`,
	`{"jsonrpc":"2.0","id":15,"method":"tools/call","params":{"name":"read","requestState":"AAAA","inputResponses":{"a":{"action":"accept"}},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
}

// pieces are put where they do harm.
var pieces = []string{
	`"id":null`, `"id":1e400`, `"id":-9223372036854775809`, `"id":{}`, `"id":"` + strings.Repeat("i", 5000) + `"`,
	`"jsonrpc":"1.0"`, `"method":7`, `"method":""`, `"params":[]`, `"params":null`, `"params":"x"`, `"error":[]`,
	"\x00", "\xff\xfe", "\u2028", `\ud800`, `\u0000`, "\r\n\r\n", strings.Repeat("[", 20000), strings.Repeat(`{"a":`, 5000),
	`"io.modelcontextprotocol/protocolVersion":"2099-01-01"`, `"protocolVersion":"1999-01-01"`, `"_meta":7`, `"progressToken":{}`,
	`"arguments":"{\"file_path\":\"hello.txt\"}"`, `"name":"` + strings.Repeat("n", 300) + `"`, `"cursor":"` + strings.Repeat("A", 4000) + `"`, ",", "}", "]", `"`,
}

// damagedBurst makes some frames. Most are damaged a little, so that they get far.
func damagedBurst(r *rand.Rand) [][]byte {
	frames := make([][]byte, 1+r.IntN(40))
	for i := range frames {
		b := []byte(good[r.IntN(len(good))])
		for range r.IntN(4) {
			b = damage(r, b)
		}
		frames[i] = b
	}
	if r.IntN(400) == 0 { // longer than may be
		frames[len(frames)-1] = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":77,"method":"ping","params":{"x":"%s"}}`, bytes.Repeat([]byte("x"), 21<<20))
	}
	return frames
}

func damage(r *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	at, to := r.IntN(len(b)), r.IntN(len(b))
	if at > to {
		at, to = to, at
	}
	switch r.IntN(8) {
	case 0: // bits
		b = bytes.Clone(b)
		for range 1 + r.IntN(4) {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
		return b
	case 1: // cut off
		return b[:at]
	case 2: // a part is missing
		return append(bytes.Clone(b[:at]), b[to:]...)
	case 3: // a part stands twice
		return append(bytes.Clone(b[:to]), b[at:]...)
	case 4: // two messages in one
		other := good[r.IntN(len(good))]
		return append(bytes.Clone(b[:at]), other[r.IntN(len(other)):]...)
	case 5: // a member more
		return append([]byte("{"+pieces[r.IntN(len(pieces))]+","), b[1:]...)
	case 6: // noise
		noise := make([]byte, r.IntN(200))
		for i := range noise {
			noise[i] = byte(r.Uint32())
		}
		return append(append(bytes.Clone(b[:at]), noise...), b[at:]...)
	default:
		return append(append(bytes.Clone(b[:at]), pieces[r.IntN(len(pieces))]...), b[at:]...)
	}
}
