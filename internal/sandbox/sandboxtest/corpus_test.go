package sandboxtest

import (
	"strings"
	"testing"
)

// TestCorpus: every attack can be read and has a name of its own, and no
// category is empty.
func TestCorpus(t *testing.T) {
	list, err := Attacks()
	if err != nil {
		t.Fatal(err)
	}
	seen, categories := map[string]bool{}, map[string]int{}
	for _, a := range list {
		name := a.Category + "/" + a.Name
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
		categories[a.Category]++
	}
	for _, want := range strings.Fields("file-reads file-writes protected-paths races network network-domains kernel-surface process-signal resource-exhaustion lifetime environment supply-chain false-reporting output") {
		if categories[want] == 0 {
			t.Errorf("no attack in %s", want)
		}
	}
	if len(list) < 150 {
		t.Errorf("%d attacks, want 150", len(list))
	}
}

func TestParseAttacks(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no body", "-- a --\nevidence: leak\n", " a: nothing to run"},
		{"an empty body", "-- a --\nevidence: leak\nbash:\n", " a: an empty bash body"},
		{"no such evidence", "-- a --\nevidence: luck\nbash:\n  x\n", ` a: evidence "luck"`},
		{"no such key", "-- a --\nevidense: leak\n", `2: a: no key "evidense"`},
		{"a body of nothing", "-- a --\n  x\n", `2: a: "  x" belongs to no body`},
		{"rounds", "-- a --\nrounds: many\n", "2: a: strconv"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			if _, err := parseAttacks("x", c.text); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	list, err := parseAttacks("x", "words\n-- a --\nevidence: leak\nuncovered: L1 that layer\nbash:\n  one\n\n  two $SECRET\npython:\n  three\n-- b --\nevidence: says\ngo: f 1\n")
	if err != nil {
		t.Fatal(err)
	}
	a := list[0]
	layer, known := a.uncoveredAt("L1")
	if len(list) != 2 || len(a.Steps) != 2 || a.Steps[0].Text != "one\n\ntwo $SECRET\n" || layer != "that layer" || !known || !a.mentions("SECRET") || a.mentions("VICTIM") {
		t.Errorf("got %+v, %+v", a, list[1])
	}
}

func FuzzParseAttacks(f *testing.F) {
	f.Add("-- a --\nevidence: leak\nbash:\n  x\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseAttacks("x", text)
		for _, a := range list {
			if err == nil && a.check() != nil {
				t.Errorf("%q is read although it is wrong", text)
			}
		}
	})
}
