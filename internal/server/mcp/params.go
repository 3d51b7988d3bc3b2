package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The versions of the protocol where behaviour differs.
const (
	versionStateless = "2026-07-28"
	versionNoBatch   = "2025-06-18" // the first without batches
)

// Keys of a request's _meta.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
	metaSession      = "toolyard/session"
	metaTurn         = "toolyard/turn"
	metaTimeout      = "toolyard/timeout"
	metaWorkspace    = "toolyard/workspace"
)

// maxLabel bounds the session and turn that a client may name, in bytes.
const maxLabel = 256

// callParams are the params of tools/call. The raw values point into the
// message.
type callParams struct {
	name      string
	arguments json.RawMessage
	token     json.RawMessage // progressToken; nil if there is none

	view *view // the request's own; nil if it has none

	session, turn, workspace string
	timeout                  time.Duration

	version      string          // of the stateless era; "" in a session
	logLevel     string          // from which on log messages are wanted; "" for none
	client       string          // name/version
	capabilities bool            // clientCapabilities is there and an object
	badClient    bool            // clientInfo is there and no object
	principal    string          // who calls, over HTTP
	able         json.RawMessage // clientCapabilities
	meta         json.RawMessage // _meta
	state        string          // requestState: a retry
	responses    json.RawMessage // inputResponses
	concurrent   bool            // sent along with others
	unread       bool            // the last answer has just been sent
}

// parseCall reads the params of tools/call.
func parseCall(raw json.RawMessage) (p callParams, err *wireError) {
	if raw == nil {
		return p, &wireError{codeInvalidParams, "tools/call: params are missing"}
	}
	var fault string
	walkErr := eachMember(raw, func(key string, value []byte) error {
		switch key {
		case "name":
			if p.name = unquote(value); p.name == "" {
				fault = "name is not a string"
			}
		case "arguments":
			if string(value) != "null" {
				p.arguments = value
			}
		case "_meta":
			if err := p.parseMeta(value); err != nil {
				fault = err.Error()
			}
		case "inputResponses":
			p.responses = value
		case "requestState":
			if p.state = unquote(value); p.state == "" {
				fault = "requestState is not a string"
			}
		}
		return nil
	})
	switch {
	case walkErr != nil:
		fault = walkErr.Error()
	case fault == "" && p.name == "":
		fault = "name is missing"
	}
	if fault != "" {
		return p, &wireError{codeInvalidParams, "tools/call: " + fault}
	}
	return p, nil
}

func (p *callParams) parseMeta(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	p.meta = raw
	var fault error
	err := eachMember(raw, func(key string, value []byte) error {
		switch key {
		case "progressToken":
			if !validID(value) {
				fault = fmt.Errorf("progressToken is neither a string nor an integer")
			}
			p.token = value
		case metaVersion:
			p.version = unquote(value)
		case metaClient:
			p.client, p.badClient = clientName(value)
		case metaCapabilities:
			p.capabilities, p.able = value[0] == '{', value
		case metaLogLevel:
			p.logLevel = unquote(value)
		case metaSession:
			fault = label(key, value, &p.session)
		case metaTurn:
			fault = label(key, value, &p.turn)
		case metaWorkspace:
			p.workspace = unquote(value)
		case metaTimeout:
			p.timeout, fault = duration(value)
		}
		return fault
	})
	if err == errNotObject {
		return fmt.Errorf("_meta is not an object")
	}
	return err
}

// clientName is name/version of a clientInfo; bad says that it is none.
func clientName(info []byte) (client string, bad bool) {
	var name, version string
	plain := eachMember(info, func(key string, value []byte) error {
		switch {
		case key == "name" && value[0] == '"':
			name = unquote(value)
		case key == "version" && value[0] == '"':
			version = unquote(value)
		case strings.EqualFold(key, "name"), strings.EqualFold(key, "version"):
			return errUnusual
		}
		return nil
	})
	if plain == nil {
		return name + "/" + version, false
	}
	var unusual struct{ Name, Version string }
	bad = value0(info) != '{' || json.Unmarshal(info, &unusual) != nil
	return unusual.Name + "/" + unusual.Version, bad
}

// errUnusual is of what only encoding/json reads as encoding/json does.
var errUnusual = errors.New("unusual")

// label reads a name that a client gives to a session or turn.
func label(key string, value []byte, to *string) error {
	if *to = unquote(value); *to == "" || len(*to) > maxLabel {
		return fmt.Errorf("%s is not a string of 1 to %d bytes", key, maxLabel)
	}
	return nil
}

// duration reads a Go duration ("90s") or a number of milliseconds, as the
// configuration does.
func duration(value []byte) (time.Duration, error) {
	if text := unquote(value); text != "" {
		if d, err := time.ParseDuration(text); err == nil && d > 0 {
			return d, nil
		}
	} else if ms, err := strconv.ParseFloat(string(value), 64); err == nil && ms > 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	return 0, fmt.Errorf("%s is neither a duration such as \"90s\" nor a positive number of milliseconds", metaTimeout)
}
