package page_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/page"
	"github.com/toolyard/toolyard/internal/toolbox/yamlin"
	"github.com/toolyard/toolyard/internal/validate"
)

func weather() *definition.Definition {
	return &definition.Definition{
		Name: "weather", Dir: "/home/u/.toolyard/toolbox/weather",
		Metadata: definition.Metadata{
			Name: "Weather", Description: "Tells | the\nweather", Version: "1.2.0", Category: "api", Author: "Ann", Tags: []string{"rain", "sun"},
			Scenarios: []string{"Plan a trip"}, Limitations: []string{"Five days\nat most"},
		},
		Parameters: json.RawMessage(`{"type":"object","required":["city","opts","tags"],"properties":{
			"city":{"type":"string","description":"which | city\nof them"},
			"units":{"type":"string","enum":["c","f|x"],"default":"c"},
			"opts":{"type":"object","required":["days"],"properties":{"days":{"type":"integer","minimum":3,"maximum":9}}},
			"tags":{"type":"array","minItems":2,"items":{"type":"string","enum":["a","b"]}},
			"password":{"type":"string","default":"hunter2"}}}`),
		Environment: json.RawMessage(`{"type":"object","required":["API_KEY"],"properties":{
			"API_KEY":{"type":"string","description":"of the service","minLength":8},
			"PIN_CODE":{"type":"string","default":"0000"},
			"BASE_URL":{"type":"string","default":"https://example.com"},
			"REGION":{"type":"string","required":true,"enum":["eu","us"]},
			"MAX_TOKENS":{"type":"integer","minimum":1},
			"DEBUG":{"type":"boolean"},
			"HIDDEN":{"type":"string","writeOnly":true},
			"PLAIN":{"type":"string","format":"password"},
			"HOSTS":{"type":"array","items":{"type":"string"}},
			"OPTIONS":{"type":"object"},
			"ALLOWED_DIRECTORIES":{"type":"string"}}}`),
		BusinessErrors: []definition.BusinessError{{Code: "NO_CITY", Description: "There is no such city", Solution: "Ask for | it", Retryable: true}},
		Runtime:        definition.Runtime{MaxMemory: 1 << 30, MaxExecutionTime: time.Minute, Network: definition.Network{Domains: []string{"example.com"}}},
		Dependencies:   []definition.Dependency{{Kind: definition.Package, Name: "left-pad", Range: "^1.0.0"}},
	}
}

// columns checks that every table of a page has as many cells in each row.
func columns(t *testing.T, markdown string) {
	t.Helper()
	cells := regexp.MustCompile(`(^|[^\\])\|`)
	want, fenced := 0, false
	for line := range strings.Lines(markdown) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if fenced || !strings.HasPrefix(line, "|") {
			want = 0
			continue
		}
		n := len(cells.FindAllString(line, -1))
		if want != 0 && n != want {
			t.Errorf("%d cells, the row above has %d: %s", n, want, line)
		}
		want = n
	}
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

func TestManual(t *testing.T) {
	d := weather()
	p := page.Manual(d, page.ManualOptions{Granted: page.Limits{Memory: 512 << 20, Time: 30 * time.Second}})
	columns(t, p.Markdown)
	contains(t, p.Markdown, "# 🌐 Weather\n", "> Tells | the weather\n", "`tool://weather`", "1.2.0", "Ann", "rain, sun", "- Plan a trip", "- Five days at most",
		"| `city` | string | yes | – |  | which \\| city of them |",
		"| `units` | string | no | `c` | `c`, `f\\|x` |",
		"| `opts.days` | integer | yes | – | ≥ 3, ≤ 9 |",
		"| `API_KEY` | string | yes |", "| `REGION` | string | yes | – | `eu`, `us` |",
		"| `NO_CITY` | There is no such city | Ask for \\| it | yes |",
		"| Memory | 1 GiB | 512 MiB |", "| Time of a call | 1m0s | 30s |", "| Network | example.com | none |", "`left-pad ^1.0.0`")
	if strings.Contains(p.Markdown, "hunter2") || strings.Contains(string(p.JSON), "hunter2") || strings.Contains(string(p.JSON), "0000") {
		t.Error("the default of a secret is shown")
	}
	if again := page.Manual(weather(), page.ManualOptions{Granted: page.Limits{Memory: 512 << 20, Time: 30 * time.Second}}); again.Markdown != p.Markdown || string(again.JSON) != string(p.JSON) {
		t.Error("the same tool gives another page")
	}
	zh := page.Manual(d, page.ManualOptions{Lang: page.Chinese})
	contains(t, zh.Markdown, "## 📝 参数", "## 🎯 使用场景", "## 🔧 环境变量", "## 🚨 业务错误", "## ⚠️ 使用限制", "## 🛡️ 运行限制", "## 💡 调用示例", "| 名称 | 类型 | 必需 | 默认值 | 可选值 | 说明 |")
	columns(t, zh.Markdown)

	var data struct {
		Tool, Mode, Icon string
		Parameters       []struct {
			Name     string
			Required bool
			Choices  []string
		}
		Example struct{ Parameters map[string]any }
	}
	if err := json.Unmarshal(p.JSON, &data); err != nil {
		t.Fatal(err)
	}
	if data.Tool != "weather" || data.Mode != "manual" || data.Icon != "🌐" || len(data.Parameters) != 6 || data.Parameters[3].Name != "opts.days" || !data.Parameters[3].Required || len(data.Parameters[1].Choices) != 2 {
		t.Errorf("%s", p.JSON)
	}
	want := map[string]any{"city": "example", "opts": map[string]any{"days": 3.0}, "tags": []any{"a", "a"}}
	if diff := cmp.Diff(want, data.Example.Parameters); diff != "" {
		t.Error(diff)
	}
}

func TestManualOfTheToolsOwn(t *testing.T) {
	d := weather()
	d.Manual = "# Mine\n"
	p := page.Manual(d, page.ManualOptions{Failure: "it is\nbroken"})
	if want := "> ❌ Does not load: it is broken\n\n# Mine\n"; p.Markdown != want {
		t.Errorf("%q, want %q", p.Markdown, want)
	}
	contains(t, string(p.JSON), `"manual":"# Mine\n"`, `"failure":"it is\nbroken"`)
	empty := page.Manual(&definition.Definition{Name: "x"}, page.ManualOptions{})
	contains(t, empty.Markdown, "# 🔧 x\n", "It takes no named parameters.", "tool: x\nmode: execute\n")
	broken := page.Manual(&definition.Definition{Name: "x", Parameters: json.RawMessage(`[1`), Environment: json.RawMessage(`{"properties":7}`)}, page.ManualOptions{})
	contains(t, broken.Markdown, "It takes no named parameters.")
}

// TestExamples: the example of a manual is YAML that is a request, and its
// parameters fit the schema.
func TestExamples(t *testing.T) {
	schemas := map[string]string{
		"formats":    `{"properties":{"a":{"type":"string","format":"email"},"b":{"type":"string","format":"date-time"},"c":{"type":"string","format":"uri"}},"required":["a","b","c"]}`,
		"bounds":     `{"properties":{"a":{"type":"integer","minimum":5,"maximum":7},"b":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1},"c":{"type":"integer","multipleOf":4,"minimum":9},"limit":{"type":"integer","maximum":3}},"required":["a","b","c","limit"]}`,
		"lengths":    `{"properties":{"a":{"type":"string","minLength":20},"b":{"type":"string","maxLength":3},"c":{"type":"array","minItems":3,"items":{"type":"boolean"}}},"required":["a","b","c"]}`,
		"patterns":   `{"properties":{"a":{"type":"string","pattern":"^[A-Z]+$"},"b":{"type":"string","pattern":"^\\d{4}-\\d{2}-\\d{2}$"},"c":{"type":"string","pattern":"^#[0-9a-f]{6}$"}},"required":["a","b","c"]}`,
		"names":      `{"properties":{"file_path":{"type":"string"},"url":{"type":"string"},"query":{"type":"string"},"apiKey":{"type":"string"}},"required":["file_path","url","query","apiKey"]}`,
		"references": `{"$defs":{"p":{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}},"properties":{"a":{"$ref":"#/$defs/p"},"b":{"type":"array","items":{"$ref":"#/$defs/p"}}},"required":["a","b"]}`,
		"circle":     `{"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}},"properties":{"a":{"$ref":"#/$defs/n"}},"required":["a"]}`,
		"choices":    `{"properties":{"a":{"oneOf":[{"type":"integer","minimum":1},{"type":"string"}]},"b":{"type":["string","null"]},"c":{"const":"k: v"},"d":{"enum":["no","yes"]},"e":{"type":"string","examples":["# x","y"]}},"required":["a","b","c","d","e"]}`,
		"optional":   `{"properties":{"a":{"type":"boolean"},"b":{"type":"string"},"c":{"type":"string"}}}`,
		"odd names":  `{"properties":{"a b":{"type":"string"},"c: d":{"type":"string"},"true":{"type":"string"},"\"q\"":{"type":"string"}},"required":["a b","c: d","true","\"q\""]}`,
		"texts":      `{"properties":{"a":{"type":"string","default":"line 1\nline 2"},"b":{"type":"string","default":"@x"},"c":{"type":"string","default":"C:\\new"},"d":{"type":"string","default":"1.5"},"e":{"type":"string","default":" x "}},"required":["a","b","c","d","e"]}`,
	}
	fence := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for name, schema := range schemas {
		t.Run(name, func(t *testing.T) {
			d := &definition.Definition{Name: "x", Parameters: json.RawMessage(schema)}
			for _, p := range []page.Page{page.Manual(d, page.ManualOptions{}), page.Help(d, page.English)} {
				text := fence.FindStringSubmatch(p.Markdown)[1]
				req, repairs, err := yamlin.Parse(text)
				if err != nil || len(repairs) > 0 || req.Tool != "x" {
					t.Fatalf("%s\n%v %v", text, repairs, err)
				}
				var s jsonschema.Schema
				if err := json.Unmarshal([]byte(schema), &s); err != nil {
					t.Fatal(err)
				}
				v, err := validate.CompileSchema(&s)
				if err != nil {
					t.Fatal(err)
				}
				if faults := v.Check(req.Parameters); faults != nil {
					t.Errorf("%s\n%v", text, faults)
				}
				var twin struct{ Example struct{ Parameters any } }
				var parameters any
				if json.Unmarshal(p.JSON, &twin) != nil || json.Unmarshal(req.Parameters, &parameters) != nil {
					t.Fatal(string(p.JSON))
				}
				if diff := cmp.Diff(parameters, twin.Example.Parameters); diff != "" {
					t.Errorf("the example as JSON is another: %s", diff)
				}
			}
		})
	}
}

func TestHelpIsShort(t *testing.T) {
	var properties []string
	for i := range 200 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"type":"string","description":%q}`, i, strings.Repeat("words ", 100)))
	}
	d := &definition.Definition{Name: "x", Parameters: json.RawMessage(`{"properties":{` + strings.Join(properties, ",") + `}}`)}
	p := page.Help(d, page.Chinese)
	if len(p.Markdown) > 8<<10 {
		t.Errorf("%d bytes", len(p.Markdown))
	}
	columns(t, p.Markdown)
	contains(t, p.Markdown, "参数", "示例", "mode: manual")
}

func TestLog(t *testing.T) {
	lines := []string{"[2026-11-18T02:00:08.104Z] [INFO] ```", "| x | # y"}
	p := page.Log(page.Excerpt{Tool: "x", Path: "/t/run.log", Action: "grep", Filters: []string{"pattern a|b"}, Lines: lines, Matched: 7, More: true})
	contains(t, p.Markdown, "# 📜 x – log", "2 of 7 entries", "````text\n"+lines[0]+"\n"+lines[1]+"\n````\n")
	var data struct {
		Mode, Action   string
		Shown, Matched int
		More           bool
		Lines          []string
	}
	if err := json.Unmarshal(p.JSON, &data); err != nil || data.Mode != "log" || data.Matched != 7 || data.Shown != 2 || !data.More || len(data.Lines) != 2 {
		t.Errorf("%s %v", p.JSON, err)
	}
	none := page.Log(page.Excerpt{Tool: "x", Action: "tail", Lang: page.Chinese})
	contains(t, none.Markdown, "没有符合条件的日志")
	contains(t, string(none.JSON), `"lines":[]`)
}

func TestToolmDescription(t *testing.T) {
	var tools []page.Summary
	for i := range 1000 {
		tools = append(tools, page.Summary{
			Name: fmt.Sprintf("tool-%04d", 999-i), Description: "Does a thing.\nUse it for 日本語 things. " + strings.Repeat("More of it. ", 20),
			Tags: []string{"a", "b", "c"}, Scenarios: []string{"to do this", "to do that"},
		})
	}
	for _, n := range []int{0, 1, 5, 12, 20, 40, 80, 200, 1000} {
		for _, l := range []page.Lang{page.English, page.Chinese} {
			text := page.ToolmDescription(tools[:n], 0, l)
			if len(text) > page.ToolmLimit || strings.ToValidUTF8(text, "") != text {
				t.Errorf("%d tools: %d bytes", n, len(text))
			}
			if n > 0 && n <= 200 {
				contains(t, text, tools[0].Name, tools[n-1].Name)
			}
		}
	}
	few := page.ToolmDescription([]page.Summary{{Name: "b", Description: "B.", Tags: []string{"t1", "t2"}, Scenarios: []string{"s1"}}, {Name: "a"}, {Name: "c", Failed: true}}, 0, page.English)
	contains(t, few, "- a\n- b: B. Use to: s1 [t1, t2]\n", "Not loaded: c")
	contains(t, page.ToolmDescription(tools, 0, page.English), "more (find them with tool_search)")
	if a, b := page.ToolmDescription(tools, 0, page.English), page.ToolmDescription(tools, 0, page.English); a != b {
		t.Error("another text each time")
	}
}

func TestLanguage(t *testing.T) {
	for text, want := range map[string]page.Lang{
		"": page.English, "en-GB": page.English, "de": page.English, "zh": page.Chinese, "zh-CN": page.Chinese, "zh_TW.UTF-8": page.Chinese, "中文": page.Chinese, "Chinese": page.Chinese, "简体中文": page.Chinese,
	} {
		if got := page.Language(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestIcon(t *testing.T) {
	for category, want := range map[string]string{"": "🔧", "filesystem": "📁", "File Tools": "📁", "document": "📄", "AI": "🤖", "mail": "💬", "email": "🔧", "数据处理": "📊", "todo-list": "🗂️"} {
		if got := page.Icon(category); got != want {
			t.Errorf("%q has %s, want %s", category, got, want)
		}
	}
}

// TestWideSchemas holds pages to their bounds, however a schema refers to itself.
func TestWideSchemas(t *testing.T) {
	for name, schema := range map[string]string{
		"choices":    `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/a"},`, 50) + `{"type":"string"}]}}}`,
		"properties": `{"$ref":"#/$defs/a","$defs":{"a":{"required":["a","b","c","d","e","f"],"properties":{` + strings.Repeat(`"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#/$defs/a"},`, 20) + `"c":{"$ref":"#/$defs/a"},"d":{"$ref":"#/$defs/a"},"e":{"$ref":"#/$defs/a"},"f":{"$ref":"#/$defs/a"}}}}}`,
		"items":      `{"properties":{"a":` + strings.Repeat(`{"minItems":1000000000,"items":`, 200) + `{}` + strings.Repeat(`}`, 200) + `},"required":["a"]}`,
		"itself":     `{"$ref":"#/","properties":{"a":{"$ref":"#/properties/a"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := &definition.Definition{Name: "x", Parameters: json.RawMessage(schema), Environment: json.RawMessage(schema)}
			const most = 1 << 20
			for _, p := range []page.Page{page.Manual(d, page.ManualOptions{}), page.Help(d, page.English), page.Configure(page.Configuration{Definition: d})} {
				if len(p.Markdown) > most || len(p.JSON) > most || !json.Valid(p.JSON) {
					t.Errorf("%d and %d bytes", len(p.Markdown), len(p.JSON))
				}
			}
		})
	}
}
