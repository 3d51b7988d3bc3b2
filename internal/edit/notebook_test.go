package edit

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/tool"
)

const plainNotebook = `{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title\n",
    "text"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 7,
   "id": "calc",
   "metadata": {"tags": ["x"]},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": ["1\n"]
    }
   ],
   "source": "print(1)"
  }
 ],
 "metadata": {"z": 1, "a": "ä"},
 "nbformat": 4,
 "nbformat_minor": 5
}
`

func ptr[T any](v T) *T { return &v }

func TestNotebook(t *testing.T) {
	compact := `{"cells":[{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source":["a"]}],"metadata":{},"nbformat":4,"nbformat_minor":2}`
	tests := []struct {
		name   string
		raw    string
		edit   CellEdit
		was    string // cut from raw …
		is     string // … and put in its place
		number int
		cells  int
	}{
		{"replace by id", plainNotebook, CellEdit{ID: "intro", Source: ptr("# Título\n\n\"q\" <&> \\")}, "    \"# Title\\n\",\n    \"text\"\n", "    \"# Título\\n\",\n    \"\\n\",\n    \"\\\"q\\\" <&> \\\\\"\n", 0, 2},
		{"delete the first", plainNotebook, CellEdit{Number: ptr(0), Mode: "delete"}, plainNotebook[strings.Index(plainNotebook, "  {\n   \"cell_type\": \"markdown\""):strings.Index(plainNotebook, "  {\n   \"cell_type\": \"code\"")], "", 0, 1},
		{"delete the last", plainNotebook, CellEdit{ID: "calc", Mode: "delete"}, plainNotebook[strings.Index(plainNotebook, ",\n  {\n   \"cell_type\": \"code\""):strings.Index(plainNotebook, "\n ],\n \"metadata\"")], "", 1, 1},
		{"empty source", plainNotebook, CellEdit{Number: ptr(0), Source: ptr("")}, "[\n    \"# Title\\n\",\n    \"text\"\n   ]", "[]", 0, 2},
		{"compact stays compact", compact, CellEdit{Number: ptr(0), Source: ptr("b\nc")}, `["a"]`, `["b\n","c"]`, 0, 1},
		{"delete the only one", compact, CellEdit{Number: ptr(0), Mode: "delete"}, compact[strings.Index(compact, "[{") : strings.Index(compact, "],\"metadata\"")+1], "[]", 0, 0},
		{"CRLF", strings.ReplaceAll(plainNotebook, "\n", "\r\n"), CellEdit{Number: ptr(0), Source: ptr("a\nb")}, "    \"# Title\\n\",\r\n    \"text\"\r\n", "    \"a\\n\",\r\n    \"b\"\r\n", 0, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if strings.Count(test.raw, test.was) != 1 {
				t.Fatalf("%q is not once in the notebook", test.was)
			}
			got, cell, err := Notebook([]byte(test.raw), test.edit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Replace(test.raw, test.was, test.is, 1), string(got)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if cell.Number != test.number || cell.Cells != test.cells {
				t.Errorf("cell %+v", cell)
			}
		})
	}
}

func TestNotebookCodeCellLosesItsOutputs(t *testing.T) {
	got, _, err := Notebook([]byte(plainNotebook), CellEdit{ID: "calc", Source: ptr("print(2)")})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(`"execution_count": 7`, `"execution_count": null`, `"print(1)"`, `"print(2)"`).Replace(plainNotebook)
	outputs := want[strings.Index(want, `"outputs": [`)+len(`"outputs": `) : strings.Index(want, ",\n   \"source\": \"print")]
	want = strings.Replace(want, outputs, "[]", 1)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestNotebookInsert(t *testing.T) {
	for _, test := range []struct {
		name string
		edit CellEdit
		at   int
	}{
		{"first", CellEdit{Mode: "insert"}, 0},
		{"at a number", CellEdit{Mode: "insert", Number: ptr(1), Type: "markdown"}, 1},
		{"after the last", CellEdit{Mode: "insert", Number: ptr(2)}, 2},
		{"after an id", CellEdit{Mode: "insert", ID: "intro"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.edit.Source = ptr("x = 1\ny")
			got, cell, err := Notebook([]byte(plainNotebook), test.edit)
			if err != nil {
				t.Fatal(err)
			}
			var n struct {
				Cells []struct {
					ID     string
					Type   string          `json:"cell_type"`
					Source json.RawMessage `json:"source"`
				}
			}
			if err := json.Unmarshal(got, &n); err != nil {
				t.Fatalf("%v\n%s", err, got)
			}
			if len(n.Cells) != 3 || cell.Number != test.at || n.Cells[test.at].ID != cell.ID || cell.ID == "" {
				t.Errorf("cells %+v, cell %+v", n.Cells, cell)
			}
			// Taking it out again gives the same bytes.
			back, _, err := Notebook(got, CellEdit{ID: cell.ID, Mode: "delete"})
			if err != nil || string(back) != plainNotebook {
				t.Errorf("%v\n%s", err, cmp.Diff(plainNotebook, string(back)))
			}
		})
	}
}

func TestNotebookRefusals(t *testing.T) {
	tests := []struct {
		name string
		raw  string
		edit CellEdit
		code tool.Code
		text string
	}{
		{"no such number", plainNotebook, CellEdit{Number: ptr(2), Source: ptr("x")}, tool.NotFound, "no cell 2; the notebook has 2 cells"},
		{"no such id", plainNotebook, CellEdit{ID: "nope", Source: ptr("x")}, tool.NotFound, `"nope"`},
		{"no cell named", plainNotebook, CellEdit{Source: ptr("x")}, tool.ParameterError, "neither cell_id nor cell_number"},
		{"two cells named", plainNotebook, CellEdit{ID: "calc", Number: ptr(1), Source: ptr("x")}, tool.ParameterError, "both"},
		{"no source", plainNotebook, CellEdit{Number: ptr(1)}, tool.ParameterError, "new_source is missing"},
		{"bad mode", plainNotebook, CellEdit{Number: ptr(1), Mode: "move", Source: ptr("")}, tool.ParameterError, `"move"`},
		{"not JSON", "{", CellEdit{Number: ptr(1), Source: ptr("")}, tool.ParameterError, "cannot be edited"},
		{"no cells", "{}", CellEdit{Number: ptr(1), Source: ptr("")}, tool.ParameterError, "no list of cells"},
		{"too deep", `{"cells": ` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + "}", CellEdit{Number: ptr(0), Source: ptr("")}, tool.ParameterError, "nested deeper"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := Notebook([]byte(test.raw), test.edit)
			if e := tool.AsError(err); e == nil || e.Code != test.code || !strings.Contains(e.Message, test.text) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// FuzzNotebook asserts that an edit of any JSON gives valid JSON in which only
// the cell named has changed, or a refusal.
func FuzzNotebook(f *testing.F) {
	f.Add([]byte(plainNotebook), 0, "x\ny", "replace", "markdown")
	f.Add([]byte(`{"cells":[]}`), 0, "x", "insert", "")
	f.Add([]byte(`{"cells" : [ { "a":"\u00e4" } , {"source":"x"} ]}`), 1, "é", "delete", "")
	f.Fuzz(func(t *testing.T, raw []byte, number int, source, mode, kind string) {
		got, cell, err := Notebook(raw, CellEdit{Number: &number, Source: &source, Mode: mode, Type: kind})
		if err != nil {
			if e := tool.AsError(err); e.Code == tool.Internal {
				t.Fatalf("%v\n%s", err, raw)
			}
			return
		}
		var before, after struct{ Cells []json.RawMessage }
		if err := json.Unmarshal([]byte(strings.TrimPrefix(string(got), "\ufeff")), &after); err != nil {
			t.Fatalf("%v\nbefore %s\nafter %s", err, raw, got)
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(string(raw), "\ufeff")), &before) != nil {
			t.Skip()
		}
		if len(after.Cells) != cell.Cells {
			t.Fatalf("%d cells, said %d\nbefore %s\nafter %s", len(after.Cells), cell.Cells, raw, got)
		}
		for i := range before.Cells {
			j := i
			switch {
			case mode == "insert" && i >= number:
				j++
			case mode == "delete" && i > number:
				j--
			case mode != "insert" && i == number:
				continue
			}
			if string(before.Cells[i]) != string(after.Cells[j]) {
				t.Fatalf("cell %d changed\nbefore %s\nafter %s", i, raw, got)
			}
		}
	})
}

// FuzzSearch asserts that the splices of a match are in order and inside the
// text, that a single exact match replaces exactly that, and that text outside
// of the matches stays.
func FuzzSearch(f *testing.F) {
	f.Add("a\r\n\tb \nc", "a\n\tb\n", "a\nx\n", false)
	f.Add("  x\n    y\n", "x\n  y", "z", false)
	f.Add("“q” – r’s", `"q" - r's`, `"p"`, true)
	f.Add("aaa", "a", "", true)
	f.Fuzz(func(t *testing.T, content, old, new string, all bool) {
		if old == "" || old == new {
			return
		}
		hits := search(content, Replacement{Old: old, New: new, All: all})
		if len(hits.regions) > 1 && !all {
			return
		}
		at := 0
		for _, s := range hits.splices {
			if s.start < at || s.end < s.start || s.end > len(content) {
				t.Fatalf("splices %v of %q, regions %v", hits.splices, content, hits.regions)
			}
			at = s.end
		}
		if len(hits.regions) == 1 && len(hits.splices) > 0 {
			first, last := hits.splices[0], hits.splices[len(hits.splices)-1]
			line := strings.LastIndexByte(content[:hits.regions[0].start], '\n') + 1
			if first.start < line || last.end > hits.regions[0].end {
				t.Fatalf("changes %v lie outside the match %v of %q", hits.splices, hits.regions, content)
			}
		}
		if hits.with == MatchExact && len(hits.regions) == 1 && !strings.Contains(new, "\n") && new != "" {
			m := hits.regions[0]
			if got, want := applySplices(content, hits.splices), content[:m.start]+new+content[m.end:]; got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	})
}
