package sandbox_test

import (
	"encoding/json"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
)

func TestParseSize(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		ok   bool
	}{
		{"", 0, true}, {"none", -1, true}, {"1", 1, true}, {"1048576", 1 << 20, true}, {"512B", 512, true},
		{"1K", 1 << 10, true}, {"64k", 64 << 10, true}, {"256M", 256 << 20, true}, {"256MB", 256 << 20, true}, {"256MiB", 256 << 20, true},
		{"1.5G", 3 << 29, true}, {"2 GiB", 2 << 30, true}, {"1T", 1 << 40, true}, {"0.5K", 512, true},
		{"0", 0, false}, {"0.1", 0, false}, {"-1M", 0, false}, {"1Q", 0, false}, {"M", 0, false}, {"1e9", 0, false}, {"0x10", 0, false},
		{"inf", 0, false}, {"nan", 0, false}, {"1_000", 0, false}, {"1IB", 0, false}, {"1KK", 0, false}, {"9999999999G", 0, false}, {"1.2.3M", 0, false},
		{" ", 0, false}, {"None", 0, false}, {"+1M", 0, false},
	} {
		if got, ok := sandbox.ParseSize(c.text); ok != c.ok || ok && got != c.want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d, %v", c.text, got, ok, c.want, c.ok)
		}
	}
}

// TestProfileSizes: sizes of a profile's file are numbers or texts, and written as
// numbers.
func TestProfileSizes(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
	}{
		{"numbers", `{"memory": 1024, "disk": 5, "output": 7, "tmp": 9}`, `{"memory":1024,"disk":5,"output":7,"tmp":9}`},
		{"texts", `{"memory": "64M", "disk": "1.5K", "output": "none", "tmp": "1GiB"}`, `{"memory":67108864,"disk":1536,"output":-1,"tmp":1073741824}`},
		{"a negative number is no limit", `{"memory": -1}`, `{"memory":-1}`},
		{"no size", `{"memory": "much"}`, ""},
		{"a fraction", `{"memory": 1.5}`, ""},
		{"nothing that is known", `{"memory": [1]}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p sandbox.Profile
			err := json.Unmarshal([]byte(c.text), &p)
			if c.want == "" {
				if err == nil {
					t.Errorf("it was taken: %+v", p)
				}
				return
			}
			got, encErr := json.Marshal(p)
			if err != nil || encErr != nil || string(got) != c.want {
				t.Errorf("got %s, %v, %v; want %s", got, err, encErr, c.want)
			}
		})
	}
}
