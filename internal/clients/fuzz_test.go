package clients_test

import (
	"encoding/json"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolyard/toolyard/internal/clients"
)

// checkEdits holds for every file that Put takes: the result parses, everything
// but the entry means what it did, a second time changes nothing, and Remove
// takes the entry away and nothing else.
func checkEdits(t *testing.T, p clients.Place, data []byte, decode func([]byte) (map[string]any, error)) {
	t.Helper()
	got, err := p.Put(data, ours)
	if err != nil {
		return
	}
	after, err := decode(got)
	if err != nil {
		t.Fatalf("the result does not parse: %v\n%q\n%q", err, data, got)
	}
	if before, err := decode(data); err == nil {
		a, b := rest(before, p.Keys), rest(after, p.Keys)
		if diff := cmp.Diff(a, b, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("something else has changed (-before +after):\n%s\n%q\n%q", diff, data, got)
		}
	}
	again, err := p.Put(got, ours)
	if err != nil || string(again) != string(got) {
		t.Fatalf("a second time gives %q, %v after %q", again, err, got)
	}
	removed, err := p.Remove(got, ours.Name)
	if err != nil {
		t.Fatalf("Remove: %v of %q", err, got)
	}
	list, err := p.Entries(removed)
	if err != nil {
		t.Fatalf("after Remove: %v in %q", err, removed)
	}
	for _, e := range list {
		if e.Name == ours.Name {
			t.Fatalf("the entry is still in %q", removed)
		}
	}
}

// rest is a document without our entry, and without a list that is empty.
func rest(root map[string]any, keys []string) map[string]any {
	list, ok := root[keys[0]].(map[string]any)
	if !ok {
		if root[keys[0]] == nil {
			delete(root, keys[0])
		}
		return root
	}
	delete(list, ours.Name)
	if len(list) == 0 {
		delete(root, keys[0])
	}
	return root
}

func FuzzJSON(f *testing.F) {
	for _, c := range puts {
		f.Add(c.before)
		f.Add(c.want)
	}
	p := user(f, "claude-code")
	f.Fuzz(func(t *testing.T, data string) {
		checkEdits(t, p, []byte(data), func(raw []byte) (map[string]any, error) {
			var root map[string]any
			err := json.Unmarshal(trimBOM(raw), &root)
			return root, err
		})
	})
}

func FuzzJSONC(f *testing.F) {
	for _, c := range puts {
		f.Add(c.before)
		f.Add(c.want)
	}
	p := user(f, "zed")
	f.Fuzz(func(t *testing.T, data string) {
		checkEdits(t, p, []byte(data), func(raw []byte) (map[string]any, error) {
			_, err := p.Entries(raw) // no other parser of this kind is here
			return map[string]any{}, err
		})
	})
}

func FuzzTOML(f *testing.F) {
	for _, c := range puts {
		f.Add(c.before)
		f.Add(c.want)
	}
	p := user(f, "codex")
	f.Fuzz(func(t *testing.T, data string) {
		checkEdits(t, p, []byte(data), func(raw []byte) (map[string]any, error) {
			root := map[string]any{}
			_, err := toml.Decode(string(trimBOM(raw)), &root)
			return root, err
		})
	})
}

func user(f *testing.F, client string) clients.Place {
	c, _ := clients.Find(client)
	p, _ := c.Place(clients.Machine{OS: "linux", Home: "/home/ann"}, clients.User, nil)
	return p
}

func trimBOM(raw []byte) []byte {
	if len(raw) >= 3 && string(raw[:3]) == "\ufeff" {
		return raw[3:]
	}
	return raw
}
