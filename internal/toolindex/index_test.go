package toolindex_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/toolindex"
	"github.com/toolyard/toolyard/tool"
)

func put(specs ...*tool.Spec) *toolindex.Index {
	x := &toolindex.Index{}
	for _, s := range specs {
		x.Put(s.FullName(), s)
	}
	return x
}

func ids(hits []toolindex.Hit) []string {
	list := []string{}
	for _, h := range hits {
		list = append(list, h.ID)
	}
	return list
}

func TestSearch(t *testing.T) {
	x := put(
		&tool.Spec{Name: "read", Category: "files", Description: "Reads a text file."},
		&tool.Spec{Name: "createPullRequest", Source: "forge", Description: "Opens a request to merge a branch."},
		&tool.Spec{Name: "list-repos", Source: "forge", Description: "Lists repositories."},
		&tool.Spec{Name: "APIKeyList", Source: "vault", Description: "Lists keys."},
		&tool.Spec{Name: "maps_weather", Source: "amap", Description: "根据城市名称查询天气预报。"},
		&tool.Spec{Name: "screenshot", Source: "browser", Description: "Takes a picture of the page."},
		&tool.Spec{Name: "open", Source: "vault", Description: "Opens it.", Input: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{
			"options": {Properties: map[string]*jsonschema.Schema{"masterPassword": {Description: "the secret"}}},
		}}},
		&tool.Spec{Name: "convert", Source: "office", Description: "Converts.", Input: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"to": {Enum: []any{"docx", "odt"}}}},
			Tags: []string{"papers"}, Aliases: []string{"transmogrify"}, Scenarios: []string{"when a colleague wants another kind"},
			Examples: []tool.Example{{Title: "a thesis"}}},
	)
	for _, c := range []struct{ name, query, first string }{
		{"a word in another form", "reading files", "read"},
		{"camel case", "pull", "forge:createPullRequest"},
		{"capitals", "api", "vault:APIKeyList"},
		{"an abbreviation", "PR", "forge:createPullRequest"},
		{"one the other way round", "repository", "forge:list-repos"},
		{"a synonym", "photo of the page", "browser:screenshot"},
		{"a slip of the pen", "screnshot", "browser:screenshot"},
		{"letters swapped", "weahter", "amap:maps_weather"},
		{"the beginning of a word", "screen", "browser:screenshot"},
		{"two words for one", "screen shot", "browser:screenshot"},
		{"one word for two", "pullrequest", "forge:createPullRequest"},
		{"an argument within another", "the master secret", "vault:open"},
		{"a value", "odt", "office:convert"},
		{"a tag", "papers", "office:convert"},
		{"an alias", "transmogrify", "office:convert"},
		{"a scenario", "colleague", "office:convert"},
		{"an example", "thesis", "office:convert"},
		{"a source", "vault", "vault:APIKeyList"},
		{"Chinese for English", "读取文件", "read"},
		{"Chinese for English, in a sentence", "请帮我截图", "browser:screenshot"},
		{"English for Chinese", "weather forecast", "amap:maps_weather"},
		{"Chinese for Chinese", "城市天气", "amap:maps_weather"},
		{"the very name", "open", "vault:open"},
		{"the full name", "forge:list-repos", "forge:list-repos"},
		{"on the wire", "forge__list-repos", "forge:list-repos"},
		{"a name in a sentence", "please use createPullRequest now", "forge:createPullRequest"},
		{"only small words", "to", "office:convert"},
		{"an expression with small words", "which repos do I have", "forge:list-repos"},
		{"the path of a file", "what says ./weather/notes.md", "read"},
		{"the address of a page", "picture of https://forge.example/repos", "browser:screenshot"},
	} {
		if got := ids(x.Search(c.query, 3, nil)); len(got) == 0 || got[0] != c.first {
			t.Errorf("%s: %q finds %v, want %s first", c.name, c.query, got, c.first)
		}
	}
	for _, query := range []string{"", "  ", "。", "qqqqqqqqqq", "\x00\xff"} {
		if got := x.Search(query, 3, nil); len(got) != 0 {
			t.Errorf("%q finds %v", query, ids(got))
		}
	}
}

func TestTiesAreByID(t *testing.T) {
	x := &toolindex.Index{}
	for _, id := range []string{"c", "a", "d", "b"} {
		x.Put(id, &tool.Spec{Name: "same", Description: "The same thing."})
	}
	for range 5 {
		if diff := cmp.Diff([]string{"a", "b", "c", "d"}, ids(x.Search("thing", -1, nil))); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
	}
	got := x.Search("thing", 2, func(id string, _ *tool.Spec) bool { return id != "a" })
	if diff := cmp.Diff([]string{"b", "c"}, ids(got)); diff != "" {
		t.Errorf("what may not be given is left out before the limit (-want +got)\n%s", diff)
	}
}

func TestChanges(t *testing.T) {
	x := put(&tool.Spec{Name: "walk", Description: "Goes on foot."}, &tool.Spec{Name: "swim", Description: "Goes through water."})
	if got := ids(x.Search("water", 0, nil)); !slices.Equal(got, []string{"swim"}) {
		t.Fatalf("at first: %v", got)
	}
	x.Put("swim", &tool.Spec{Name: "swim", Description: "Goes through the lake."})
	if got := ids(x.Search("water", 0, nil)); len(got) != 0 {
		t.Errorf("replaced: %v", got)
	}
	x.Put("dive", &tool.Spec{Name: "dive", Description: "Goes below the lake."})
	if got := ids(x.Search("lake", 0, nil)); len(got) != 2 {
		t.Errorf("added: %v", got)
	}
	x.Remove("swim")
	x.Remove("never there")
	if got := ids(x.Search("lake", 0, nil)); !slices.Equal(got, []string{"dive"}) || x.Len() != 2 {
		t.Errorf("removed: %v of %d", got, x.Len())
	}
}

// TestTogether searches while the index changes: a search sees the whole of one
// state.
func TestTogether(t *testing.T) {
	x := indexed(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := range 60 {
			id := fmt.Sprintf("new%d", i%7)
			if i%3 == 2 {
				x.Remove(id)
			} else {
				x.Put(id, &tool.Spec{Name: "zeppelin", Description: fmt.Sprint("flies ", i)})
			}
			x.Search("zeppelin", 0, nil)
		}
		close(stop)
	})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := ids(x.Search("take a screenshot", 5, nil)); len(got) != 5 {
					t.Errorf("found %v", got)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestLongDescriptions: a tool does not win by saying everything.
func TestLongDescriptions(t *testing.T) {
	all := ""
	for _, s := range definitions(t) {
		all += s.Description + " "
	}
	x := indexed(t)
	x.Put("boaster", &tool.Spec{Name: "boaster", Description: "Does it all. " + strings.Repeat(all, 3)})
	for _, q := range questions(t, "queries.tsv") {
		if got := x.Search(q.query, 1, nil); len(got) > 0 && got[0].ID == "boaster" {
			t.Errorf("%q finds the boaster first", q.query)
		}
	}
}

// TestMemory holds what the index keeps of a tool to a bound.
func TestMemory(t *testing.T) {
	specs := definitions(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := put(specs...)
	x.Search("file", 0, nil)
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d tools: %d KiB", x.Len(), kept>>10)
	if most := int64(6 << 20); kept > most {
		t.Errorf("%d bytes, at most %d", kept, most)
	}
	runtime.KeepAlive(specs)
}

func FuzzSearch(f *testing.F) {
	for _, q := range []string{"read a file", "读取文件 now", "PDFs", "a_b-c:d", "ÄÖ ß İ", "pull pull request", "截图截图截", "\xff\xfe", strings.Repeat("x ", 400)} {
		f.Add(q, q)
	}
	// One index for all: to read the table of synonyms and the tools anew for every
	// input takes longer than the search.
	const most = 2000 // bytes: what is longer tells nothing more
	x := put(definitions(f)[:12]...)
	f.Fuzz(func(t *testing.T, query, description string) {
		if len(query)+len(description) > most {
			return
		}
		x.Put("own", &tool.Spec{Name: "own", Source: "fuzz", Description: description, Tags: []string{query}})
		got := x.Search(query, -1, nil)
		for i, h := range got {
			if h.Score <= 0 || h.Score != h.Score || i > 0 && h.Score > got[i-1].Score {
				t.Fatalf("score %v at %d", h.Score, i)
			}
		}
		if again := x.Search(query, -1, nil); !slices.Equal(ids(got), ids(again)) {
			t.Fatal("the same query finds other tools")
		}
	})
}

// BenchmarkSearch asks all queries and reports the 95th percentile.
func BenchmarkSearch(b *testing.B) {
	x := indexed(b)
	list := questions(b, "queries.tsv")
	x.Search("file", 0, nil)
	var times []time.Duration
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		begin := time.Now()
		x.Search(list[i%len(list)].query, 10, nil)
		times = append(times, time.Since(begin))
		i++
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*95/100].Microseconds()), "p95-µs")
	b.ReportMetric(float64(times[len(times)-1].Microseconds()), "max-µs")
}

// BenchmarkBuild makes the picture of 500 tools anew.
func BenchmarkBuild(b *testing.B) {
	specs := definitions(b)
	b.ReportAllocs()
	for b.Loop() {
		put(specs...).Search("file", 1, nil)
	}
}

// BenchmarkChange replaces one tool of 500 and searches.
func BenchmarkChange(b *testing.B) {
	x := indexed(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		x.Put("changing", &tool.Spec{Name: "changing", Description: fmt.Sprint(i)})
		x.Search("file", 1, nil)
	}
}
