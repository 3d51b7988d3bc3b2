package tool

import "strings"

// classes are the words by which a failure is known that came as text; the
// first that matches wins. Each word of a row is lower case, and a row matches
// if one of its lists has all of its words in the message. To add one: a row in
// its place.
var classes = []struct {
	code  Code
	words [][]string
}{
	{ConnectionError, [][]string{
		{"connection refused"}, {"connection reset"}, {"connection lost"}, {"connection closed"}, {"connection was", "closed"}, {"connection was", "reset"},
		{"connection was", "lost"}, {"connection was", "refused"}, {"closed connection"}, {"lost connection"}, {"websocket"}, {"cannot connect"},
		{"can't connect"}, {"could not connect"}, {"failed to connect"}, {"unable to connect"}, {"broken pipe"}, {"econn"}, {"connection error"},
	}},
	{TimeoutError, [][]string{{"timeout"}, {"timed out"}, {"deadline exceeded"}}},
	{ParameterError, [][]string{{"invalid parameter"}, {"missing parameter"}, {"missing required parameter"}}},
	{PermissionDenied, [][]string{{"permission denied"}, {"unauthorized"}, {"forbidden"}, {"eperm"}, {"eacces"}}},
	{SandboxNotFound, [][]string{{"sandbox", "not found"}}},
	{SandboxTerminated, [][]string{{"sandbox", "terminated"}}},
	{NotFound, [][]string{{"file not found"}, {"path not found"}, {"no such file"}, {"enoent"}}},
	{ResourceExhausted, [][]string{{"no space"}, {"quota"}, {"out of memory"}, {"too many open files"}}},
}

// Classify gives the code of a failure that came as text, from another server
// or a script. What matches nothing is EXECUTION_ERROR.
func Classify(message string) Code {
	message = strings.ToLower(message)
	for _, class := range classes {
		for _, words := range class.words {
			if all(message, words) {
				return class.code
			}
		}
	}
	return ExecutionError
}

func all(message string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(message, w) {
			return false
		}
	}
	return true
}
