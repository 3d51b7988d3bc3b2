package mcp

import "testing"

func TestNotJSON(t *testing.T) {
	for _, tt := range []struct{ name, message, want string }{
		{"text", "hello\n", "the message is not JSON: invalid character 'h' looking for beginning of value at byte 1"},
		{"cut off in a string", `{"id":1,"method":"pi`, "the message is not JSON: it was cut off at byte 20"},
		{"cut off between", `{"id":1,`, "the message is not JSON: it was cut off at byte 8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseFrame([]byte(tt.message))
			if err == nil || err.code != codeParse || err.message != tt.want {
				t.Errorf("parseFrame(%q) gives %v, want %q", tt.message, err, tt.want)
			}
		})
	}
}
