package clients

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// callSeconds is how long a client that has a limit of its own is told to wait
// for a call: a command may run for 10 minutes, and be asked about before.
const callSeconds = 660

// field is a key with its value: a string, a bool, an int, a []string, a
// map[string]string or fields.
type field struct {
	key   string
	value any
}

// fields is an object that keeps its order.
type fields []field

// dialect is how a client writes an entry, where it differs from
// {command, args, env, cwd} and {url, headers}.
type dialect struct {
	kind             string // the key that names the transport; "" if there is none
	stdio, http, sse string // its values
	line             bool   // command is an array with the arguments in it
	env              string // default env
	url              string // default url
	headers          string // default headers
	more             fields // set where they are missing, whatever the transport
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// write gives what an entry sets, and which keys of the other transport it
// removes.
func (d dialect) write(e Entry) (set fields, drop []string) {
	env, url, headers := or(d.env, "env"), or(d.url, "url"), or(d.headers, "headers")
	kinds := map[string]string{"stdio": d.stdio, "http": d.http, "sse": d.sse}
	if kind := kinds[e.Type]; d.kind != "" && kind != "" {
		set = append(set, field{d.kind, kind})
	} else {
		drop = append(drop, "type")
	}
	if e.Type == "stdio" {
		if d.line {
			set = append(set, field{"command", append([]string{e.Command}, e.Args...)})
			drop = append(drop, "args")
		} else {
			set = append(set, field{"command", e.Command}, field{"args", append([]string{}, e.Args...)})
		}
		if len(e.Env) > 0 {
			set = append(set, field{env, e.Env})
		}
		if e.Cwd != "" {
			set = append(set, field{"cwd", e.Cwd})
		}
		return set, append(drop, "url", "serverUrl", "httpUrl", headers, "bearer_token_env_var", "env_http_headers")
	}
	set = append(set, field{url, e.URL})
	if len(e.Headers) > 0 {
		set = append(set, field{headers, e.Headers})
	} else {
		drop = append(drop, headers)
	}
	for _, other := range []string{"url", "serverUrl", "httpUrl"} {
		if other != url {
			drop = append(drop, other)
		}
	}
	return set, append(drop, "command", "args", env, "env_vars", "cwd")
}

// neutral reads an entry as any of the clients writes it. ok is false if it is
// none.
func neutral(name string, value any) (e Entry, ok bool) {
	object, ok := value.(map[string]any)
	if !ok {
		return Entry{}, false
	}
	e = Entry{Name: name}
	switch command := object["command"].(type) {
	case string:
		e.Command = command
		e.Args = texts(object["args"])
	case []any:
		if line := texts(command); len(line) > 0 {
			e.Command, e.Args = line[0], line[1:]
		}
	case map[string]any: // as Zed wrote it once
		e.Command, _ = command["path"].(string)
		e.Args = texts(command["args"])
		e.Env = textMap(command["env"])
	}
	for _, key := range []string{"env", "environment"} {
		if env := textMap(object[key]); len(env) > 0 {
			e.Env = env
		}
	}
	for _, key := range []string{"headers", "http_headers"} {
		if headers := textMap(object[key]); len(headers) > 0 {
			e.Headers = headers
		}
	}
	e.bearer(object)
	e.Cwd, _ = object["cwd"].(string)
	kind, _ := object["type"].(string)
	if kind == "" {
		kind, _ = object["transport"].(string)
	}
	e.address(object, kind)
	if disabled, _ := object["disabled"].(bool); disabled {
		e.Disabled = true
	}
	if enabled, said := object["enabled"].(bool); said && !enabled {
		e.Disabled = true
	}
	return e, e.Command != "" || e.URL != ""
}

// bearer reads the headers that Codex takes from the environment.
func (e *Entry) bearer(object map[string]any) {
	set := func(header, value string) {
		if e.Headers == nil {
			e.Headers = map[string]string{}
		}
		e.Headers[header] = value
	}
	if variable, _ := object["bearer_token_env_var"].(string); variable != "" {
		set("Authorization", "Bearer ${"+variable+"}")
	}
	for header, variable := range textMap(object["env_http_headers"]) {
		set(header, "${"+variable+"}")
	}
}

// address finds the URL of an entry and its transport.
func (e *Entry) address(object map[string]any, kind string) {
	for _, key := range []string{"httpUrl", "serverUrl", "url"} {
		if url, _ := object[key].(string); url != "" && e.URL == "" {
			e.URL = url
			if key == "httpUrl" {
				kind = "http"
			}
		}
	}
	switch {
	case e.Command != "":
		e.Type, e.URL, e.Headers = "stdio", "", nil
	case strings.HasPrefix(e.URL, "ws://") || strings.HasPrefix(e.URL, "wss://"):
		e.Type = "ws"
	case kind == "sse" || kind == "" && strings.HasSuffix(strings.TrimRight(e.URL, "/"), "/sse"):
		e.Type = "sse"
	default:
		e.Type = "http"
	}
}

// texts are the strings of an array; numbers and booleans are written out.
func texts(value any) []string {
	items, _ := value.([]any)
	var list []string
	for _, item := range items {
		if s, ok := scalar(item); ok {
			list = append(list, s)
		}
	}
	return list
}

func textMap(value any) map[string]string {
	object, _ := value.(map[string]any)
	var found map[string]string
	for key, v := range object {
		if s, ok := scalar(v); ok {
			if found == nil {
				found = map[string]string{}
			}
			found[key] = s
		}
	}
	return found
}

func scalar(value any) (string, bool) {
	switch v := value.(type) {
	case nil, []any, map[string]any, []map[string]any:
		return "", false
	case string:
		return v, true
	default:
		return fmt.Sprint(v), true
	}
}

// entries reads the servers of a decoded list, by name.
func entries(list map[string]any) []Entry {
	var found []Entry
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if e, ok := neutral(name, list[name]); ok {
			found = append(found, e)
		}
	}
	return found
}
