package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

// The transports.
const (
	transportStdio = "stdio"
	transportHTTP  = "http"
	transportSSE   = "sse"
	transportWS    = "ws"
)

// names of a transport in clients' files.
var transports = map[string]string{
	"stdio": transportStdio, "local": transportStdio,
	"http": transportHTTP, "streamable-http": transportHTTP, "streamablehttp": transportHTTP, "streamable_http": transportHTTP, "remote": transportHTTP,
	"sse": transportSSE, "ws": transportWS, "websocket": transportWS,
}

// ignored are keys of other clients that have no effect here, and why.
var ignored = map[string]string{
	"alwaysAllow":   "what runs without a question is in permissions.allow",
	"autoApprove":   "what runs without a question is in permissions.allow",
	"trust":         "", // Gemini's is ours as well, as a boolean
	"description":   "a server describes itself",
	"includeTools":  "",
	"excludeTools":  "",
	"gallery":       "it is a client's own",
	"version":       "it is a client's own",
	"icon":          "it is a client's own",
	"envFile":       "the environment is given in env",
	"dev":           "it is a client's own",
	"startup":       "servers are started when they are needed",
	"required":      "servers are started when they are needed",
	"supports":      "it is a client's own",
	"source":        "it is a client's own",
	"authProvider":  "it is a client's own",
	"tool_timeout":  "",
	"disabledTools": "",
	"enabledTools":  "",
}

// entryKeys are the keys of an entry that are ours, for the nearest name.
var entryKeys = []string{
	"type", "transport", "command", "args", "env", "cwd", "url", "httpUrl", "serverUrl", "headers", "enabled", "disabled", "namespace", "tools", "timeout",
	"startTimeout", "idleTimeout", "concurrency", "retry", "sandbox", "permissions", "pin", "sampling", "session", "trust", "oauth",
}

// EntryKeys lists the keys that an entry may have, for documentation.
func EntryKeys() []string { return slices.Clone(entryKeys) }

// entry collects what one entry says, and what is wrong with it.
type entry struct {
	s      Server
	faults []tool.Fault
	notes  []string
}

func (e *entry) fault(key, expected string, raw json.RawMessage) {
	e.faults = append(e.faults, tool.Fault{Path: key, Expected: expected, Got: shortJSON(raw)})
}

func shortJSON(raw json.RawMessage) string {
	var compact bytes.Buffer
	if json.Compact(&compact, raw) == nil {
		raw = compact.Bytes()
	}
	const longest = 80
	if len(raw) > longest {
		return strings.ToValidUTF8(string(raw[:longest]), "") + "…"
	}
	return string(raw)
}

func parseServer(name string, raw json.RawMessage) (Server, []string, error) {
	var e entry
	members, err := objectOf(raw)
	if err != nil {
		e.fault("", "an object", raw)
	}
	if !validServerName(name) {
		e.fault("", "a name of 1 to 64 letters, digits, '.', '_', '-' that begins with a letter or a digit", quote(name))
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		e.member(key, members[key])
	}
	e.whole(raw)
	if len(e.faults) > 0 {
		fail := tool.Errorf(tool.ValidationError, "the MCP server %q is not configured right: %s", name, e.faults[0]).
			WithHint("Correct it where it is written; the other servers are not affected.")
		fail.Faults = e.faults
		return e.s, e.notes, fail
	}
	return e.s, e.notes, nil
}

func quote(s string) json.RawMessage { return appendQuoted(make([]byte, 0, len(s)+2), s) }

// appendQuoted appends s as encoding/json writes a string.
func appendQuoted(dst []byte, s string) []byte {
	for _, c := range []byte(s) {
		if c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			raw, _ := json.Marshal(s)
			return append(dst, raw...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

func objectOf(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	if members == nil {
		return nil, fmt.Errorf("null is no object")
	}
	return members, nil
}

var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func validServerName(name string) bool { return serverName.MatchString(name) }

// member reads one key.
func (e *entry) member(key string, raw json.RawMessage) {
	s := &e.s
	into := func(expected string, to any) {
		if string(raw) == "null" {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if dec.Decode(to) != nil {
			e.fault(key, expected, raw)
		}
	}
	switch key {
	case "type", "transport":
		into("stdio, http, sse or ws", &s.Type)
	case "command":
		e.command(raw)
	case "args":
		into("a list of texts", &s.Args)
	case "env", "environment":
		e.texts(key, raw, &s.Env)
	case "cwd", "workingDirectory":
		into("a directory", &s.Cwd)
	case "url", "httpUrl", "serverUrl":
		into("a URL", &s.URL)
		if key == "httpUrl" && s.Type == "" {
			s.Type = transportHTTP
		}
	case "headers", "http_headers":
		e.texts(key, raw, &s.Headers)
	case "disabled":
		var off bool
		into("true or false", &off)
		on := !off
		s.Enabled = &on
	case "enabled":
		into("true or false", &s.Enabled)
	case "namespace":
		into(`letters, digits, "_" and "-", or "" for no prefix`, &s.Namespace)
		if s.Namespace != nil && *s.Namespace != "" && !validNamespace(*s.Namespace) {
			e.fault(key, `letters, digits, "_" and "-", at most 32, or "" for no prefix`, raw)
		}
	case "tools":
		if len(bytes.TrimSpace(raw)) > 0 && bytes.TrimSpace(raw)[0] == '[' {
			into("a list of names", &s.Tools.Allow)
			return
		}
		e.object(key, raw, map[string]any{"allow": &s.Tools.Allow, "deny": &s.Tools.Deny, "rename": &s.Tools.Rename, "description": &s.Tools.Description})
	case "includeTools", "enabledTools", "enabled_tools":
		into("a list of names", &s.Tools.Allow)
	case "excludeTools", "disabledTools", "disabled_tools":
		into("a list of names", &s.Tools.Deny)
	case "timeout":
		into("a time such as 30s, or milliseconds", &s.Timeout)
	case "startTimeout":
		into("a time such as 30s, or milliseconds", &s.StartTimeout)
	case "idleTimeout":
		into("a time such as 10m, or milliseconds", &s.IdleTimeout)
	case "concurrency":
		into("a whole number of at least 1", &s.Concurrency)
		if s.Concurrency < 0 || s.Concurrency > 1000 {
			e.fault(key, "a whole number from 1 to 1000", raw)
		}
	case "retry":
		e.object(key, raw, map[string]any{"attempts": &s.Retry.Attempts, "base": &s.Retry.Base, "cap": &s.Retry.Cap})
	case "sandbox":
		b := &s.Sandbox
		e.object(key, raw, map[string]any{"read": &b.Read, "write": &b.Write, "network": (*hosts)(&b.Network), "memory": &b.Memory, "pids": &b.PIDs,
			"disk": &b.Disk, "level": &b.Level, "workspaces": &b.Workspaces})
	case "permissions":
		e.object(key, raw, map[string]any{"allow": &s.Permissions.Allow, "ask": &s.Permissions.Ask, "deny": &s.Permissions.Deny})
	case "pin":
		e.pin(raw)
	case "sampling":
		if json.Unmarshal(raw, &s.Sampling.Allowed) != nil {
			s.Sampling.Allowed = true
			e.object(key, raw, map[string]any{"allowed": &s.Sampling.Allowed, "calls": &s.Sampling.Calls, "tokens": &s.Sampling.Tokens})
		}
	case "trust":
		into("true or false", &s.Trust)
	case "session":
		into("true or false", &s.Session)
	case "oauth":
		s.OAuth = &OAuth{}
		if string(raw) == "false" {
			s.OAuth.Off = true
			return
		}
		o := s.OAuth
		var cimd json.RawMessage
		e.object(key, raw, map[string]any{"clientId": &o.ClientID, "clientSecret": &o.ClientSecret, "authServerMetadataUrl": &o.MetadataURL, "scopes": &o.Scopes,
			"callbackPort": &o.CallbackPort, "off": &o.Off, "enabled": &cimd})
		if string(cimd) == "false" {
			o.Off = true
		}
	default:
		e.foreign(key)
	}
}

// foreign notes a key that has no effect.
func (e *entry) foreign(key string) {
	if why, known := ignored[key]; known {
		e.notes = append(e.notes, strings.TrimSuffix(key+" has no effect: "+why, ": "))
		return
	}
	note := key + " is not known and has no effect"
	if best, near := validate.Nearest(key, entryKeys); near {
		note += "; did you mean " + best + "?"
	}
	e.notes = append(e.notes, note)
}

// command is a text, or as in some clients a list of the command and its
// arguments.
func (e *entry) command(raw json.RawMessage) {
	var list []string
	if json.Unmarshal(raw, &e.s.Command) == nil {
		return
	}
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		e.fault("command", "a text", raw)
		return
	}
	e.s.Command = list[0]
	e.s.Args = append(list[1:], e.s.Args...)
}

// texts reads an object of texts; numbers and booleans count as texts.
func (e *entry) texts(key string, raw json.RawMessage, to *map[string]string) {
	if string(raw) == "null" {
		return
	}
	members, err := objectOf(raw)
	if err != nil {
		e.fault(key, "an object of texts", raw)
		return
	}
	*to = map[string]string{}
	for name, value := range members {
		var text string
		if json.Unmarshal(value, &text) != nil {
			if text = string(value); text == "" || strings.ContainsAny(text[:1], `{["n`) {
				e.fault(key+"."+name, "a text", value)
				continue
			}
		}
		if strings.ContainsAny(name, "=\x00\r\n") || name == "" || strings.ContainsAny(text, "\x00") {
			e.fault(key+"."+name, "a name and a text without NUL", value)
			continue
		}
		(*to)[name] = text
	}
}

// object reads an object of which every key is known.
func (e *entry) object(key string, raw json.RawMessage, keys map[string]any) {
	if string(raw) == "null" {
		return
	}
	members, err := objectOf(raw)
	if err != nil {
		e.fault(key, "an object", raw)
		return
	}
	for name, value := range members {
		to, known := keys[name]
		if !known {
			expected := "one of " + strings.Join(slices.Sorted(maps.Keys(keys)), ", ")
			if best, near := validate.Nearest(name, slices.Sorted(maps.Keys(keys))); near {
				expected = best
			}
			e.fault(key+"."+name, expected, quote(name))
			continue
		}
		if err := json.Unmarshal(value, to); err != nil {
			e.fault(key+"."+name, expectedOf(to), value)
		}
	}
}

func expectedOf(to any) string {
	switch to.(type) {
	case *[]string:
		return "a list of texts"
	case *hosts:
		return "a list of hosts, or all"
	case *map[string]string:
		return "an object of texts"
	case *int:
		return "a whole number"
	case *bool:
		return "true or false"
	case *Duration:
		return "a time such as 30s, or milliseconds"
	case *Size:
		return "a size such as 512MiB"
	}
	return "a text"
}

func (e *entry) pin(raw json.RawMessage) {
	var on bool
	if json.Unmarshal(raw, &on) == nil {
		e.s.Pin = PinOff
		if on {
			e.s.Pin = PinOn
		}
		return
	}
	var word string
	if json.Unmarshal(raw, &word) == nil && slices.Contains([]Pin{PinOn, PinStrict, PinOff}, Pin(word)) {
		e.s.Pin = Pin(word)
		return
	}
	e.fault("pin", "on, strict or off", raw)
}

// hosts is a list of hosts, or one of the words all and none.
type hosts []string

func (h *hosts) UnmarshalJSON(raw []byte) error {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch word {
		case "", "none":
			*h = nil
		case "all":
			*h = []string{"all"}
		default:
			return fmt.Errorf("%q is neither all nor none", word)
		}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(h))
}

// whole checks what concerns several keys.
func (e *entry) whole(raw json.RawMessage) {
	s := &e.s
	if s.Type != "" {
		t, known := transports[strings.ToLower(s.Type)]
		if !known {
			e.fault("type", "stdio, http, sse or ws", quote(s.Type))
			return
		}
		s.Type = t
	} else {
		switch {
		case s.Command != "":
			s.Type = transportStdio
		case strings.HasPrefix(s.URL, "ws://"), strings.HasPrefix(s.URL, "wss://"):
			s.Type = transportWS
		case s.URL != "":
			s.Type = transportHTTP
		default:
			if len(e.faults) == 0 {
				e.fault("", "a command or a url", raw)
			}
			return
		}
	}
	if s.Type == transportStdio {
		if strings.TrimSpace(s.Command) == "" && len(e.faults) == 0 {
			e.fault("command", "a program", quote(s.Command))
		}
	} else {
		e.address()
	}
	if s.Sandbox.Level != "" {
		if _, err := sandbox.ParseLevel(s.Sandbox.Level); err != nil {
			e.fault("sandbox.level", "L0, L1 or L2", quote(s.Sandbox.Level))
		}
	}
	if !slices.Contains([]string{"", "read", "write", "none"}, s.Sandbox.Workspaces) {
		e.fault("sandbox.workspaces", "read, write or none", quote(s.Sandbox.Workspaces))
	}
	if _, err := sandbox.NetworkOf(s.Sandbox.Network).Entries(); err != nil {
		e.fault("sandbox.network", "hosts such as example.org or example.org:8443", quote(strings.Join(s.Sandbox.Network, ", ")))
	}
	for key, patterns := range map[string][]string{"tools.allow": s.Tools.Allow, "tools.deny": s.Tools.Deny} {
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil {
				e.fault(key, "names, with * and ?", quote(p))
			}
		}
	}
	for from, to := range s.Tools.Rename {
		if !validToolName(to) {
			e.fault("tools.rename."+from, `letters, digits, "_" and "-", at most 64`, quote(to))
		}
	}
	for key, bad := range map[string]bool{"retry.attempts": s.Retry.Attempts < 0, "sampling.calls": s.Sampling.Calls < 0, "sampling.tokens": s.Sampling.Tokens < 0,
		"timeout": s.Timeout < 0, "startTimeout": s.StartTimeout < 0, "sandbox.pids": s.Sandbox.PIDs < 0} {
		if bad {
			e.fault(key, "nothing below 0", quote("a negative number"))
		}
	}
}

// address checks the URL of a remote server. One with ${VAR} is checked when the
// server is started.
func (e *entry) address() {
	if strings.Contains(e.s.URL, "${") {
		return
	}
	if fault := addressFault(e.s.Type, e.s.URL); fault != "" && len(e.faults) == 0 {
		e.fault("url", fault, quote(e.s.URL))
	}
}

func addressFault(transport, address string) string {
	schemes := []string{"http", "https"}
	if transport == transportWS {
		schemes = []string{"ws", "wss"}
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
		return "a URL that begins with " + strings.Join(schemes, ":// or ") + "://"
	}
	return ""
}

var namespacePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

func validNamespace(s string) bool { return namespacePattern.MatchString(s) }

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func validToolName(s string) bool { return toolName.MatchString(s) }

// UnmarshalJSON reads a Go duration, also in days, or milliseconds.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var ms float64
	if json.Unmarshal(raw, &ms) == nil {
		const most = float64(1<<63-1) / float64(time.Millisecond) / 2
		if ms > most || ms < -most {
			return fmt.Errorf("%v ms is too long", ms)
		}
		*d = Duration(ms * float64(time.Millisecond))
		return nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n < -100_000 || n > 100_000 {
			return fmt.Errorf("%q is no time", text)
		}
		*d = Duration(n * float64(24*time.Hour))
		return nil
	}
	v, err := time.ParseDuration(text)
	*d = Duration(v)
	return err
}

// MarshalJSON writes it as a Go duration.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads a number of bytes, with or without a unit.
func (s *Size) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `" `)
	n, ok := sandbox.ParseSize(text)
	if !ok {
		return fmt.Errorf("%s is no size", raw)
	}
	*s = Size(n)
	return nil
}
