package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/secret"
)

const token = `s3cr/t+"tök\n&<9`

func TestRedactorFindsEveryForm(t *testing.T) {
	r := secret.New(secret.Value{Name: "TOKEN", Value: token})
	quoted, _ := json.Marshal(token)
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(token); err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"plain":         token,
		"json":          string(quoted[1 : len(quoted)-1]),
		"json, no html": strings.Trim(strings.TrimSpace(raw.String()), `"`),
		"hex":           hex.EncodeToString([]byte(token)),
		"upper hex":     strings.ToUpper(hex.EncodeToString([]byte(token))),
		"query":         url.QueryEscape(token),
		"path":          url.PathEscape(token),
		"lower query":   strings.ToLower(url.QueryEscape(token)), // the token has no capitals
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			got := r.String("a " + form + " z")
			if got != "a [redacted:TOKEN] z" {
				t.Errorf("String(%q) = %q", form, got)
			}
		})
	}
	for shift := range 6 {
		for name, enc := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.URLEncoding} {
			text := enc.EncodeToString([]byte("abcdef"[:shift] + token + "tail"))
			got := r.String(text)
			if !strings.Contains(got, "[redacted:TOKEN]") {
				t.Errorf("base64 %s at %d: %q stays %q", name, shift, text, got)
			}
		}
	}
}

func TestRedactorBounds(t *testing.T) {
	tests := []struct {
		name   string
		values []secret.Value
		in     string
		want   string
	}{
		{"three bytes are left alone", []secret.Value{{Value: "abc"}}, "abcabc", "abcabc"},
		{"four bytes", []secret.Value{{Value: "abcd"}}, "xabcdabcdx", "x[redacted][redacted]x"},
		{"the longest wins", []secret.Value{{Name: "A", Value: "pass"}, {Name: "B", Value: "password1"}}, "password1 pass", "[redacted:B] [redacted:A]"},
		{"names are cleaned", []secret.Value{{Name: "a\"]b", Value: "qwertz"}}, "qwertz", "[redacted:ab]"},
		{"a line of a key", []secret.Value{{Name: "K", Value: "-----BEGIN-----\nAAAABBBBCCCCDDDD\n"}}, "x AAAABBBBCCCCDDDD", "x [redacted:K]"},
		{"at the very end", []secret.Value{{Value: "qwertz"}}, "qwert", "qwert"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := secret.New(test.values...).String(test.in); got != test.want {
				t.Errorf("String(%q) = %q, want %q", test.in, got, test.want)
			}
		})
	}
}

func TestRedactorJSONStaysJSON(t *testing.T) {
	r := secret.New(secret.Value{Name: "PIN", Value: "12345"})
	got := r.JSON(json.RawMessage(`{"a":123456,"b":["x12345"],"12345":true}`))
	want := `{"[redacted:PIN]":true,"a":"[redacted:PIN]6","b":["x[redacted:PIN]"]}`
	if string(got) != want {
		t.Errorf("JSON = %s, want %s", got, want)
	}
	m := r.Map(map[string]any{"n": 3, "s": []string{"12345"}, "deep": map[string]any{"x": "12345"}, "t": struct{ V string }{"12345"}})
	if got := fmt.Sprint(m["n"], m["s"], m["deep"]); strings.Contains(got, "12345") || !strings.HasPrefix(got, "3 ") {
		t.Errorf("Map = %s", got)
	}
	if got := fmt.Sprintf("%s", m["t"]); strings.Contains(got, "12345") {
		t.Errorf("Map of a struct = %s", got)
	}
}

func TestEmptyRedactorCopiesNothing(t *testing.T) {
	var r secret.Redactor
	b := []byte("some text")
	if allocs := testing.AllocsPerRun(100, func() { r.Bytes(b); r.String("some text") }); allocs != 0 {
		t.Errorf("allocations of an empty redactor = %v", allocs)
	}
	full := secret.New(secret.Value{Value: "hidden"})
	if allocs := testing.AllocsPerRun(100, func() { full.Bytes(b); full.String("some text") }); allocs != 0 {
		t.Errorf("allocations without a hit = %v", allocs)
	}
}

func TestStreamHoldsBackOnlyBeginnings(t *testing.T) {
	s := secret.New(secret.Value{Name: "T", Value: "secretvalue"}).Stream()
	steps := []struct{ in, want string }{
		{"hello ", "hello "}, {"sec", ""}, {"ond ", "second "}, {"x secret", "x "}, {"value!", "[redacted:T]!"}, {"s", ""},
	}
	for _, step := range steps {
		if got := string(s.Next([]byte(step.in))); got != step.want {
			t.Errorf("Next(%q) = %q, want %q", step.in, got, step.want)
		}
	}
	if got := string(s.End()); got != "s" {
		t.Errorf("End = %q, want %q", got, "s")
	}
}

// A stream gives the same as the whole text, however it is cut.
func FuzzStream(f *testing.F) {
	f.Add("secret-one", "secret-two", "xx secret-one secret-two secret-", uint8(3))
	f.Add("aaaa", "aaaab", "aaaaaaabaaaab", uint8(1))
	f.Add("\x00\xff\x01\x02", "abcd\nefghijklmnopqrst", "YWJjZAplZmdoaWprbG1ub3BxcnN0", uint8(2))
	f.Fuzz(func(t *testing.T, a, b, text string, size uint8) {
		r := secret.New(secret.Value{Name: "A", Value: a}, secret.Value{Name: "B", Value: b})
		want := r.String(text)
		s := r.Stream()
		var got bytes.Buffer
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), int(size)+1)
			got.Write(s.Next(bytes.Clone(rest[:n])))
			rest = rest[n:]
		}
		got.Write(s.End())
		if got.String() != want {
			t.Fatalf("stream %q, whole %q", got.String(), want)
		}
		if len(a) >= secret.MinLength && strings.Contains(text, a) && strings.Contains(want, a) && !strings.Contains("[redacted:A][redacted:B]", a) {
			if !strings.Contains(want, "[redacted") {
				t.Fatalf("%q is still in %q", a, want)
			}
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	values := make([]secret.Value, 50)
	for i := range values {
		values[i] = secret.Value{Name: "S", Value: fmt.Sprintf("ghp_%032x", i*7919)}
	}
	r := secret.New(values...)
	text := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog, line 42\n"), 20000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Bytes(text)
	}
}
