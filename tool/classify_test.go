package tool_test

import (
	"testing"

	"github.com/toolyard/toolyard/tool"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		message string
		want    tool.Code
	}{
		{"ECONNREFUSED 127.0.0.1", tool.ConnectionError},
		{"write: broken pipe", tool.ConnectionError},
		{"failed to connect: timed out", tool.ConnectionError},
		{"Missing parameter: path", tool.ParameterError},
		{"EACCES", tool.PermissionDenied},
		{"403 Forbidden", tool.PermissionDenied},
		{"sandbox sb-1 was terminated", tool.SandboxTerminated},
		{"open x: no such file or directory", tool.NotFound},
		{"write x: no space left on device", tool.ResourceExhausted},
		{"Too many open files", tool.ResourceExhausted},
		{"", tool.ExecutionError},
		{"boom", tool.ExecutionError},
	}
	for _, test := range tests {
		if got := tool.Classify(test.message); got != test.want {
			t.Errorf("Classify(%q) = %s, want %s", test.message, got, test.want)
		}
	}
}
