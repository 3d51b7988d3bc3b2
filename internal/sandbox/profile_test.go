package sandbox

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestIntersect(t *testing.T) {
	grant := Profile{
		Kind: "toolbox", Read: []string{"/data", "/srv/one"}, Write: []string{"/out"}, Memory: 100, Wall: time.Minute,
		Network: Network{Mode: NetworkDomains, Domains: []string{"*.example.org", "api.test:443", "db.test=10.0.0.1"}}, Protected: []string{"keep"},
	}
	for _, c := range []struct {
		name  string
		asked Profile
		check func(Profile) any
		want  any
	}{
		{"a path below", Profile{Read: []string{"/data/x"}}, func(p Profile) any { return p.Read }, []string{"/data/x"}},
		{"a path above", Profile{Read: []string{"/srv"}}, func(p Profile) any { return p.Read }, []string{"/srv/one"}},
		{"a sibling prefix", Profile{Read: []string{"/database"}}, func(p Profile) any { return p.Read }, []string{}},
		{"dots", Profile{Read: []string{"/data/../etc"}}, func(p Profile) any { return p.Read }, []string{}},
		{"writing what may be read", Profile{Write: []string{"/data"}}, func(p Profile) any { return [][]string{p.Read, p.Write} }, [][]string{{"/data"}, nil}},
		{"more memory", Profile{Memory: 1000}, func(p Profile) any { return p.Memory }, int64(100)},
		{"less memory", Profile{Memory: 10}, func(p Profile) any { return p.Memory }, int64(10)},
		{"no limit", Profile{Memory: -1, Wall: -1}, func(p Profile) any { return []any{p.Memory, p.Wall} }, []any{int64(100), time.Minute}},
		{"a lower level", Profile{MinLevel: L0}, func(p Profile) any { return p.MinLevel }, L2},
		{"another kind", Profile{Kind: "bash"}, func(p Profile) any { return p.Kind }, "toolbox"},
		{"unprotecting", Profile{Protected: []string{}}, func(p Profile) any { return p.Protected }, []string{"keep"}},
		{"all of the network", Profile{Network: Network{Mode: NetworkAll}}, func(p Profile) any { return p.Network.Domains }, []string{"*.example.org", "api.test:443", "db.test=10.0.0.1"}},
		{"some domains", Profile{Network: Network{Mode: NetworkDomains, Domains: []string{"a.example.org", "example.org", "api.test", "api.test:443", "evil.test"}}},
			func(p Profile) any { return p.Network.Domains }, []string{"a.example.org", "api.test:443"}},
		{"a pinned address", Profile{Network: Network{Mode: NetworkDomains, Domains: []string{"a.example.org=10.0.0.1"}}},
			func(p Profile) any { return len(p.Network.Domains) }, 0},
		{"another address for a host", Profile{Network: NetworkOf([]string{"db.test=10.0.0.2", "db.test=10.0.0.1"})}, func(p Profile) any { return p.Network.Domains }, []string{"db.test=10.0.0.1"}},
		{"no network", Profile{}, func(p Profile) any { return p.Network.Mode }, NetworkNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.check(Intersect(c.asked, grant))); diff != "" {
				t.Errorf("asked %+v (-want +got):\n%s", c.asked, diff)
			}
		})
	}
}

// TestIntersectWithAll: all is every public address, and no other.
func TestIntersectWithAll(t *testing.T) {
	grant := Profile{Network: NetworkOf([]string{"all"})}
	asked := Profile{Network: NetworkOf([]string{"a.test", "*.b.test:8443", "c.test=127.0.0.1", "10.0.0.0/8", "not a host"})}
	if diff := cmp.Diff([]string{"a.test", "*.b.test:8443"}, Intersect(asked, grant).Network.Domains); diff != "" {
		t.Error(diff)
	}
}

func TestProfileJSON(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"seconds", `{"wall": 90}`, `{"wall":"1m30s"}`},
		{"text", `{"cpu": "2s", "network": "all"}`, `{"network":"all","cpu":"2s"}`},
		{"domains", `{"network": ["a.example"]}`, `{"network":["a.example"]}`},
		{"level", `{"min_level": "l2"}`, `{"min_level":"L2"}`},
		{"misspelt", `{"memmory": 1}`, ""},
		{"no mode", `{"network": "some"}`, ""},
		{"no level", `{"min_level": "L9"}`, ""},
		{"no duration", `{"wall": "soon"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p Profile
			err := json.Unmarshal([]byte(c.text), &p)
			if c.want == "" {
				if err == nil {
					t.Errorf("%s was taken as %+v", c.text, p)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(p); string(got) != c.want {
				t.Errorf("%s: got %s, want %s", c.text, got, c.want)
			}
		})
	}
}

func TestLevels(t *testing.T) {
	for i, a := range levels {
		for j, b := range levels {
			if got := a.AtLeast(b); got != (i >= j) {
				t.Errorf("%s at least %s: %v", a, b, got)
			}
		}
	}
	if Level("").AtLeast(L0) {
		t.Error("an unknown level is at least L0")
	}
}

func TestCleanEnv(t *testing.T) {
	got := cleanEnv([]string{"A=1", "LD_PRELOAD=x", "BASH_FUNC_ls%%=() { x; }", "=x", "plain", "PYTHONHOME=/", "PATH=/bin", "NODE_OPTIONS="})
	if diff := cmp.Diff([]string{"A=1", "PATH=/bin"}, got); diff != "" {
		t.Error(diff)
	}
}
