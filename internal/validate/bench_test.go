package validate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/validate"
	"github.com/toolyard/toolyard/tool"
)

type readInput struct {
	FilePath string `json:"file_path" alias:"path" jsonschema:"the file; format=path"`
	Offset   int    `json:"offset,omitempty" jsonschema:"lines to skip; default=0; min=0"`
	Limit    int    `json:"limit,omitempty" jsonschema:"lines to return; default=2000; min=1"`
	Pages    string `json:"pages,omitempty" jsonschema:"pages of a PDF"`
	Raw      bool   `json:"raw,omitempty" jsonschema:"the bytes as they are"`
}

type editItem struct {
	Old        string `json:"old_str" alias:"old_string" jsonschema:"what is there; minLength=1"`
	New        string `json:"new_str" alias:"new_string" jsonschema:"what shall be there"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"every place; default=false"`
}

type multiEditInput struct {
	FilePath string     `json:"file_path" alias:"path" jsonschema:"the file; format=path"`
	Edits    []editItem `json:"edits" jsonschema:"the changes, in order; minItems=1"`
}

type grepInput struct {
	Pattern    string   `json:"pattern" jsonschema:"RE2"`
	Path       string   `json:"path,omitempty" jsonschema:"where; default=.; format=path"`
	IgnoreCase bool     `json:"-i,omitempty" alias:"case_insensitive" jsonschema:"ignore case"`
	Output     string   `json:"output,omitempty" jsonschema:"what; default=content; enum=content|files|count"`
	MaxResults int      `json:"max_results,omitempty" jsonschema:"lines; default=100; min=1; max=1000"`
	Exclude    []string `json:"exclude,omitempty" jsonschema:"globs"`
}

func validator[In any](tb testing.TB) *validate.Validator {
	tb.Helper()
	schema, aliases, err := tool.SchemaFor[In]()
	if err != nil {
		tb.Fatal(err)
	}
	v, err := validate.Compile(&tool.Spec{Name: "t", Input: schema, ArgumentAliases: aliases})
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func BenchmarkArguments(b *testing.B) {
	var edits []string
	for i := range 100 {
		edits = append(edits, fmt.Sprintf(`{"old_string":"line %d\n","new_string":"changed %d\n"}`, i, i))
	}
	for _, c := range []struct {
		name string
		v    *validate.Validator
		args string
	}{
		{"read", validator[readInput](b), `{"file_path":"internal/validate/validate.go","offset":100,"limit":200}`},
		{"read/defaults", validator[readInput](b), `{"file_path":"internal/validate/validate.go"}`},
		{"read/alias", validator[readInput](b), `{"path":"internal/validate/validate.go"}`},
		{"multi_edit/100", validator[multiEditInput](b), `{"path":"a.go","edits":[` + strings.Join(edits, ",") + `]}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			raw := json.RawMessage(c.args)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := c.v.Arguments(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCanonical(b *testing.B) {
	raw := json.RawMessage(`{"limit":200,"file_path":"internal/validate/validate.go","offset":100.0}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := validate.Canonical(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLargeContent(b *testing.B) {
	type in struct {
		FilePath string `json:"file_path" alias:"path" jsonschema:"the file"`
		Content  string `json:"content" jsonschema:"what to write"`
		Mode     string `json:"mode,omitempty" jsonschema:"how; default=overwrite; enum=overwrite|append"`
	}
	v := validator[in](b)
	content, err := json.Marshal(strings.Repeat("\tline of code that is not very long\n", 30_000))
	if err != nil {
		b.Fatal(err)
	}
	raw := json.RawMessage(`{"path":"a.go","content":` + string(content) + `}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := v.Arguments(raw); err != nil {
			b.Fatal(err)
		}
	}
}
