package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
)

func TestParseTime(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"", 0, true}, {"none", noLimit, true}, {"5", 5 * time.Second, true}, {"0.5", 500 * time.Millisecond, true}, {"500ms", 500 * time.Millisecond, true},
		{"1m30s", 90 * time.Second, true}, {"2h", 2 * time.Hour, true},
		{"0", 0, false}, {"-5", 0, false}, {"-5s", 0, false}, {"soon", 0, false}, {"1e3", 0, false}, {"5 s", 0, false}, {"99999999999999", 0, false}, {"nan", 0, false},
	} {
		if got, ok := parseTime(c.text); ok != c.ok || ok && got != c.want {
			t.Errorf("parseTime(%q) = %s, %v; want %s, %v", c.text, got, ok, c.want, c.ok)
		}
	}
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]int{"": 0, "none": noLimit, "1": 1, "512": 512} {
		if got, ok := parseCount(text); !ok || got != want {
			t.Errorf("parseCount(%q) = %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"0", "-1", "1.5", "1K", "many", "99999999999", "+1"} {
		if got, ok := parseCount(text); ok {
			t.Errorf("parseCount(%q) = %d, want none", text, got)
		}
	}
}

// FuzzLimits: a limit that is taken is one: positive, or said to be none.
func FuzzLimits(f *testing.F) {
	for _, text := range []string{"", "none", "256M", "1.5GiB", "90", "1m30s", "0", "-1", "1e9", "inf", "0x1p4"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, ok := sandbox.ParseSize(text)
		d, okTime := parseTime(text)
		n, okCount := parseCount(text)
		for _, c := range []struct {
			what  string
			value int64
			ok    bool
		}{{"size", size, ok}, {"time", int64(d), okTime}, {"count", int64(n), okCount}} {
			switch {
			case !c.ok, text == "" && c.value == 0, text == "none" && c.value == noLimit:
			case c.value <= 0:
				t.Errorf("%s %q is %d", c.what, text, c.value)
			case strings.HasPrefix(text, "-"):
				t.Errorf("%s %q was taken", c.what, text)
			}
		}
	})
}
