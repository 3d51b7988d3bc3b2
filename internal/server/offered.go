package server

import (
	"net/http"
	"strings"
)

// offeredToken begins the WebSocket subprotocol that carries a token. A page in a
// browser can set no header of a WebSocket but this one: it offers "mcp" and
// "toolyard.bearer.TOKEN". Only "mcp" is agreed on, and the token is in no URL,
// which would be logged.
const offeredToken = "toolyard.bearer."

// withOfferedToken gives a request for a WebSocket whose token was offered as a
// subprotocol the Authorization header that others send, and takes the token out
// of the offer. A header that was sent holds.
func withOfferedToken(r *http.Request) *http.Request {
	const header = "Sec-WebSocket-Protocol"
	if r.URL.Path != "/ws" && !strings.HasPrefix(r.URL.Path, "/ws/") || r.Header.Get("Authorization") != "" {
		return r
	}
	token, rest := "", []string(nil)
	for _, value := range r.Header.Values(header) {
		for name := range strings.SplitSeq(value, ",") {
			name = strings.TrimSpace(name)
			if given, ok := strings.CutPrefix(name, offeredToken); ok {
				token = given
				continue
			}
			rest = append(rest, name)
		}
	}
	if token == "" {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(header, strings.Join(rest, ", "))
	return r
}
