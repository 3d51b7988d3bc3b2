package mcp

import (
	"encoding/json"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxSafeID is the largest integer that survives the SDK's float64 ids.
const maxSafeID = 1 << 53

// idKey makes ids comparable: 1 and "1" differ, "a" and "\u0061" do not.
func idKey(raw json.RawMessage) string {
	if raw[0] == '"' {
		return `"` + unquote(raw)
	}
	return string(raw)
}

func keyOf(id jsonrpc.ID) string {
	switch v := id.Raw().(type) {
	case string:
		return `"` + v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return ""
}

// sdkID is a request's id as the SDK takes it.
func sdkID(raw json.RawMessage) (jsonrpc.ID, bool) {
	if raw[0] == '"' {
		id, err := jsonrpc.MakeID(unquote(raw))
		return id, err == nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n > maxSafeID || n < -maxSafeID {
		return jsonrpc.ID{}, false
	}
	id, err := jsonrpc.MakeID(float64(n))
	return id, err == nil
}

// requestVersion is the protocol version that a request names in its _meta; ""
// if it names none.
func requestVersion(params json.RawMessage) (version string) {
	_ = eachMember(params, func(key string, value []byte) error {
		if key != "_meta" {
			return nil
		}
		return eachMember(value, func(key string, value []byte) error {
			if key == metaVersion {
				version = unquote(value)
			}
			return nil
		})
	})
	return version
}

// cancelledID is the request that a notifications/cancelled means.
func cancelledID(params json.RawMessage) (id json.RawMessage) {
	_ = eachMember(params, func(key string, value []byte) error {
		if key == "requestId" && validID(value) {
			id = value
		}
		return nil
	})
	return id
}
