package toolindex_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/toolindex"
	"github.com/toolyard/toolyard/tool"
)

// definitions reads the 500 tools of testdata.
func definitions(t testing.TB) []*tool.Spec {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "tools.json"))
	if err != nil {
		t.Fatal(err)
	}
	var servers []struct {
		Server string
		Tools  []struct {
			Name, Title, Family, Description string
			InputSchema                      *jsonschema.Schema
		}
	}
	if err := json.Unmarshal(raw, &servers); err != nil {
		t.Fatal(err)
	}
	var specs []*tool.Spec
	for _, s := range servers {
		for _, one := range s.Tools {
			spec := &tool.Spec{
				Name: one.Name, Source: s.Server, Title: one.Title, Category: one.Family, Description: one.Description, Input: one.InputSchema,
			}
			if source, name, ok := strings.Cut(one.Name, ":"); ok && s.Server == "" {
				spec.Source, spec.Name = source, name
			}
			specs = append(specs, spec)
		}
	}
	return specs
}

// indexed is an index of them.
func indexed(t testing.TB) *toolindex.Index {
	t.Helper()
	x := &toolindex.Index{}
	for _, spec := range definitions(t) {
		x.Put(spec.FullName(), spec)
	}
	return x
}

// question is a query with the tools that answer it.
type question struct {
	query  string
	answer []string
}

func questions(t testing.TB, file string) []question {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var list []question
	for line := range strings.Lines(string(raw)) {
		query, answer, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			t.Fatalf("%s: %q has no answer", file, line)
		}
		list = append(list, question{query, strings.Fields(answer)})
	}
	return list
}

// recall asks the questions and tells which share of them is answered among the
// first five.
func recall(t *testing.T, file string) float64 {
	x := indexed(t)
	list := questions(t, file)
	found, first := 0, 0
	for _, q := range list {
		var got []string
		for _, h := range x.Search(q.query, 5, nil) {
			got = append(got, h.ID)
		}
		at := slices.IndexFunc(got, func(id string) bool { return slices.Contains(q.answer, id) })
		if at >= 0 {
			found++
		} else {
			t.Logf("%q: got %s, want one of %s", q.query, strings.Join(got, " "), strings.Join(q.answer, " "))
		}
		if at == 0 {
			first++
		}
	}
	share := float64(found) / float64(len(list))
	t.Logf("%s: %d queries, recall@5 %.1f %%, first %.1f %%", file, len(list), 100*share, 100*float64(first)/float64(len(list)))
	return share
}

// TestRecall holds every set of queries to what is reached on it; what the sets are
// stands with them.
func TestRecall(t *testing.T) {
	for _, c := range []struct {
		file  string
		least float64
	}{
		{"queries.tsv", 0.97},
		{"heldout.tsv", 0.95},
		{"set_b.tsv", 0.95},
		{"set_c.tsv", 0.96},
		{"set_d.tsv", 0.94},
		{"set_e.tsv", 0.92},
		{"set_f.tsv", 0.95},
		{"set_g.tsv", 0.95},
		{"set_h.tsv", 0.94},
	} {
		t.Run(c.file, func(t *testing.T) {
			if share := recall(t, c.file); share < c.least {
				t.Errorf("recall@5 is %.1f %%, want at least %.1f %%", 100*share, 100*c.least)
			}
		})
	}
}
