package search

import (
	"bytes"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// plainLines is the slow way: every line by package regexp.
func plainLines(re *regexp.Regexp, data []byte) []int {
	var starts []int
	for pos := 0; pos < len(data); {
		end := lineEnd(data, pos)
		line := data[pos:end]
		if re.Match(line) {
			starts = append(starts, pos)
		}
		pos = end + 1
	}
	return starts
}

func foundLines(p *Pattern, data []byte) []int {
	f := newFinder(p, func() bool { return false })
	var starts []int
	for pos := 0; pos < len(data); {
		start, end, ok := f.next(data, pos)
		if !ok {
			break
		}
		starts = append(starts, start)
		pos = end + 1
	}
	return starts
}

func checkSame(t *testing.T, pattern string, fold bool, data []byte) {
	t.Helper()
	flags := "(?m)"
	if fold {
		flags = "(?mi)"
	}
	re, err := regexp.Compile(flags + pattern)
	if err != nil {
		return
	}
	p, err := Compile(pattern, PatternOptions{IgnoreCase: fold})
	if err != nil {
		return
	}
	got, want := foundLines(p, data), plainLines(re, data)
	if len(got) != len(want) {
		t.Fatalf("%q fold=%v in %q: lines at %v, want %v (literals %v whole %v)", pattern, fold, data, got, want, p.lits, p.whole)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%q fold=%v in %q: lines at %v, want %v (literals %v whole %v)", pattern, fold, data, got, want, p.lits, p.whole)
		}
	}
}

// randomPattern writes an expression over a small alphabet.
func randomPattern(r *rand.Rand, depth int) string {
	atoms := []string{"a", "b", "c", "k", "s", "ab", "bca", "K", ".", "[ab]", "[^a]", "^", "$", `\b`, `\B`, "x", "[a-c]", "é", " ", `\A`, `\z`, "aaa", "[[:alpha:]]", `\Qa.\E`}
	if depth == 0 {
		return atoms[r.IntN(len(atoms))]
	}
	sub := func() string { return randomPattern(r, depth-1) }
	switch r.IntN(8) {
	case 0:
		return "(" + sub() + "|" + sub() + ")"
	case 1:
		return "(?:" + sub() + ")*"
	case 2:
		return "(" + sub() + ")+"
	case 3:
		return "(?:" + sub() + ")?"
	case 4:
		return "(?:" + sub() + "){1,3}"
	default:
		return sub() + sub()
	}
}

func randomText(r *rand.Rand) []byte {
	atoms := []string{"a", "b", "c", "k", "s", "\n", "\n", " ", "ab", "bca", "K", "x", "A", "B", "é", "\u212a", "ſ", "aaa", ".", "\r\n", "_", "1"}
	var b bytes.Buffer
	for range r.IntN(40) {
		b.WriteString(atoms[r.IntN(len(atoms))])
	}
	return b.Bytes()
}

// The automaton and the literals must find the lines that package regexp finds.
// Assertions on words are compared on ASCII only: there both mean the same.
func TestLinesAsRegexp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 30000 {
		pattern, data := randomPattern(r, r.IntN(4)), randomText(r)
		if bytes.ContainsFunc(data, func(c rune) bool { return c >= 0x80 }) && regexp.MustCompile(`\\[bB]`).MatchString(pattern) {
			continue
		}
		checkSame(t, pattern, r.IntN(2) == 0, data)
	}
}

func FuzzLiterals(f *testing.F) {
	f.Add("foo|bar", "a foo\nbar b\nbaz", true)
	f.Add("h?ttps?://", "http://x\nhttps", false)
	f.Add("(?i)task$", "TASK\r\ntaſk\n", false)
	f.Fuzz(func(t *testing.T, pattern, text string, fold bool) {
		if len(pattern) > 60 || len(text) > 500 || regexp.MustCompile(`\\[bBdDsSwWAz]`).MatchString(pattern) {
			return // these differ from RE2 on purpose outside ASCII
		}
		if !bytes.Equal(bytes.ToValidUTF8([]byte(text), nil), []byte(text)) || bytes.ContainsRune([]byte(text), 0xfffd) {
			return
		}
		checkSame(t, pattern, fold, []byte(text))
	})
}

// The vector code and the plain code find the same, wherever the buffer ends.
func TestIndexPair(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20000 {
		d := r.IntN(20)
		n := 1 + r.IntN(150)
		s := make([]byte, n+d)
		for i := range s {
			s[i] = "abcdefgh"[r.IntN(8)]
		}
		pick := func() byte { return "abcdefghxyz"[r.IntN(11)] }
		a0, a1, b0, b1 := pick(), pick(), pick(), pick()
		want := -1
		for i := range n {
			if (s[i] == a0 || s[i] == a1) && (s[i+d] == b0 || s[i+d] == b1) {
				want = i
				break
			}
		}
		for name, f := range map[string]func([]byte, int, int, byte, byte, byte, byte) int{"fast": indexPair, "plain": indexPairGo} {
			if got := f(s, n, d, a0, a1, b0, b1); got != want {
				t.Fatalf("%s: %q n=%d d=%d %c%c %c%c: %d, want %d", name, s, n, d, a0, a1, b0, b1, got, want)
			}
		}
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("src/**/*.{ts,tsx}", "src/a/b.ts")
	f.Add("{a,{b,c}}[!x]\\*", "ax*")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 40 || len(path) > 60 {
			return
		}
		g, err := CompileGlob(pattern)
		if err != nil {
			return
		}
		if g.suffix != "" && g.Match(path) != (&GlobPattern{text: g.text}).Match(path) {
			t.Fatalf("%q of %q: the short way differs", pattern, path)
		}
		if o, err := newOverride(pattern); err == nil && o != nil {
			o.match(path, "", path[strings.LastIndexByte(path, '/')+1:], false)
		}
	})
}
