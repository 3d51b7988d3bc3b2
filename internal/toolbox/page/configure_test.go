package page_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/page"
	"github.com/toolyard/toolyard/internal/toolbox/yamlin"
)

const longSecret = "sk-THIS-must-never-be-seen-0123456789-abcd"

func TestConfigure(t *testing.T) {
	d := weather()
	values := map[string]string{
		"API_KEY": longSecret, "BASE_URL": "https://u:pa55@example.com/" + longSecret, "MAX_TOKENS": "many", "HIDDEN": "short", "PLAIN": "sixteen-bytes-xy",
		"OLD_TOKEN": "another-secret-value", "EXTRA": "a|b\nc",
	}
	for _, l := range []page.Lang{page.English, page.Chinese} {
		p := page.Configure(page.Configuration{Definition: d, Values: values, Path: "/t/.env", Changed: []string{"API_KEY"}, Lang: l})
		columns(t, p.Markdown)
		for _, text := range []string{p.Markdown, string(p.JSON)} {
			for _, secret := range []string{longSecret, longSecret[:12], "never-be", "pa55", "short", "sixteen", "another-secret", "0000"} {
				if strings.Contains(text, secret) {
					t.Errorf("%q is in the page:\n%s", secret, text)
				}
			}
		}
	}
	p := page.Configure(page.Configuration{Definition: d, Values: values, Path: "/t/.env", Changed: []string{"API_KEY"}, Removed: []string{"X"}})
	contains(t, p.Markdown, "# 🌐 Weather – configuration", "⚠️ partly", "`/t/.env`", "**Changed now**: `API_KEY`", "**Removed now**: `X`",
		"| `API_KEY` | `••••••` | string | yes | – | `your-api-key` | of the service | ✅ |",
		"| `MAX_TOKENS` | `many` | integer | no | – | `10` |  | ⚠️ |",
		"| `REGION` | – | string | yes | – | `eu` |  | ❌ |",
		"| `EXTRA` | `a\\|b c` |", "- ✅ `API_KEY`\n- ❌ `REGION`", "mode: configure\nparameters:\n  REGION: eu\n", "null removes")
	var data struct {
		Status       page.Status
		Set, Default []struct{ Name, Value, State string }
		Missing      []string
		Change       string `json:"how_to_change"`
	}
	if err := json.Unmarshal(p.JSON, &data); err != nil {
		t.Fatal(err)
	}
	if data.Status != page.Partly || !slices.Equal(data.Missing, []string{"REGION"}) || len(data.Set) != 7 || len(data.Default) != 6 {
		t.Errorf("%s", p.JSON)
	}
	if req, repairs, err := yamlin.Parse(data.Change); err != nil || len(repairs) > 0 || req.Mode != yamlin.Configure {
		t.Errorf("how to change is no request: %q %v", data.Change, err)
	}
}

func TestStatusOf(t *testing.T) {
	d := weather()
	for _, c := range []struct {
		name    string
		d       *definition.Definition
		values  map[string]string
		want    page.Status
		missing []string
	}{
		{"nothing set", d, nil, page.NotConfigured, []string{"API_KEY", "REGION"}},
		{"something set", d, map[string]string{"DEBUG": "true"}, page.Partly, []string{"API_KEY", "REGION"}},
		{"empty is not set", d, map[string]string{"API_KEY": "", "REGION": "eu"}, page.Partly, []string{"API_KEY"}},
		{"all set", d, map[string]string{"API_KEY": longSecret, "REGION": "eu"}, page.Configured, []string{}},
		{"no variables", &definition.Definition{Name: "x"}, nil, page.Configured, []string{}},
		{"a default is enough", &definition.Definition{Environment: json.RawMessage(`{"properties":{"A":{"default":1}},"required":["A"]}`)}, nil, page.Configured, []string{}},
		{"required and not described", &definition.Definition{Environment: json.RawMessage(`{"required":["B"]}`)}, nil, page.NotConfigured, []string{"B"}},
	} {
		got, missing := page.StatusOf(c.d, c.values)
		if got != c.want || !slices.Equal(missing, c.missing) {
			t.Errorf("%s: %s %v, want %s %v", c.name, got, missing, c.want, c.missing)
		}
	}
}

func TestMergeConfig(t *testing.T) {
	open := &definition.Definition{Environment: json.RawMessage(`{"properties":{"A":{"type":"string"}},"additionalProperties":true}`)}
	broken := &definition.Definition{Environment: json.RawMessage(`{"properties":{"A":{"type":"nonsense"},"B":{"$ref":"#/nowhere"}}}`)}
	for _, c := range []struct {
		name    string
		d       *definition.Definition
		current map[string]string
		params  string
		want    map[string]string
		faults  []string // parts of them
	}{
		{"sets and keeps", weather(), map[string]string{"DEBUG": "true"}, `{"REGION":"eu"}`, map[string]string{"DEBUG": "true", "REGION": "eu"}, nil},
		{"null removes", weather(), map[string]string{"DEBUG": "true", "REGION": "eu"}, `{"REGION":null}`, map[string]string{"DEBUG": "true"}, nil},
		{"null of what is not set", weather(), nil, `{"REGION":null}`, map[string]string{}, nil},
		{"null removes what the schema does not know", weather(), map[string]string{"GONE": "1"}, `{"GONE":null}`, map[string]string{}, nil},
		{"nothing", weather(), map[string]string{"A": "1"}, ``, map[string]string{"A": "1"}, nil},
		{"empty", weather(), map[string]string{"A": "1"}, `{}`, map[string]string{"A": "1"}, nil},
		{"a number as number and text", weather(), nil, `{"MAX_TOKENS":7}`, map[string]string{"MAX_TOKENS": "7"}, nil},
		{"a number as text", weather(), nil, `{"MAX_TOKENS":"7"}`, map[string]string{"MAX_TOKENS": "7"}, nil},
		{"a boolean", weather(), nil, `{"DEBUG":false}`, map[string]string{"DEBUG": "false"}, nil},
		{"a boolean as text", weather(), nil, `{"DEBUG":"yes"}`, map[string]string{"DEBUG": "true"}, nil},
		{"a number for text", weather(), nil, `{"BASE_URL":12}`, map[string]string{"BASE_URL": "12"}, nil},
		{"a list", weather(), nil, `{"HOSTS":["a","b, c"]}`, map[string]string{"HOSTS": `["a","b, c"]`}, nil},
		{"a list as text", weather(), nil, `{"HOSTS":"a, b"}`, map[string]string{"HOSTS": "a, b"}, nil},
		{"an object", weather(), nil, `{"OPTIONS":{"b":1,"a":[2]}}`, map[string]string{"OPTIONS": `{"b":1,"a":[2]}`}, nil},
		{"an object as text", weather(), nil, `{"OPTIONS":"{\"a\": 1}"}`, map[string]string{"OPTIONS": `{"a": 1}`}, nil},
		{"directories as a list", weather(), nil, `{"ALLOWED_DIRECTORIES":["~/a","/b c"]}`, map[string]string{"ALLOWED_DIRECTORIES": `["~/a","/b c"]`}, nil},
		{"directories as JSON text", weather(), nil, `{"ALLOWED_DIRECTORIES":"[\"~/a\"]"}`, map[string]string{"ALLOWED_DIRECTORIES": `["~/a"]`}, nil},
		{"directories separated", weather(), nil, `{"ALLOWED_DIRECTORIES":"~/a:/b,/c"}`, map[string]string{"ALLOWED_DIRECTORIES": "~/a:/b,/c"}, nil},
		{"any text survives", weather(), nil, `{"BASE_URL":"a\nB=c # \"'\\ $X"}`, map[string]string{"BASE_URL": "a\nB=c # \"'\\ $X"}, nil},
		{"open schema takes others", open, nil, `{"B":"1","C":[1]}`, map[string]string{"B": "1", "C": "[1]"}, nil},
		{"broken schema", broken, nil, `{"B":"1"}`, map[string]string{"B": "1"}, nil},

		{"directories with an empty one", weather(), nil, `{"ALLOWED_DIRECTORIES":["",1]}`, nil, []string{"ALLOWED_DIRECTORIES: expected a list of directories"}},
		{"open schema with a bad name", open, nil, `{"b":"1"}`, nil, []string{"b: expected a name of capitals"}},
		{"unknown, nearest", weather(), nil, `{"REGOIN":"eu"}`, nil, []string{"did you mean REGION?"}},
		{"unknown in a tool without variables", &definition.Definition{}, nil, `{"A":"1"}`, nil, []string{"this tool has none"}},
		{"case", weather(), nil, `{"region":"eu"}`, nil, []string{"did you mean REGION?"}},
		{"all at once", weather(), nil, `{"REGION":"asia","MAX_TOKENS":0,"DEBUG":"maybe","HOSTS":{"a":1},"NEW":"x"}`, nil, []string{"REGION: ", "MAX_TOKENS: ", "DEBUG: expected boolean", "HOSTS: expected array", "NEW: "}},
		{"no mapping", weather(), nil, `["a"]`, nil, []string{"expected a mapping of environment variables, got a list"}},
		{"NUL", weather(), nil, `{"BASE_URL":"a\u0000b"}`, nil, []string{"BASE_URL: expected text without NUL"}},
		{"too long", weather(), nil, `{"BASE_URL":"` + strings.Repeat("x", 300<<10) + `"}`, nil, []string{"at most 256 KiB"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := maps.Clone(c.current)
			got, faults := page.MergeConfig(c.d, c.current, json.RawMessage(c.params))
			if diff := cmp.Diff(before, c.current); diff != "" {
				t.Errorf("the present values were changed: %s", diff)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var said []string
			for _, f := range faults {
				said = append(said, f.String())
			}
			if len(said) != len(c.faults) {
				t.Errorf("faults %q, want %d", said, len(c.faults))
			}
			for _, part := range c.faults {
				if !strings.Contains(strings.Join(said, "\n"), part) {
					t.Errorf("faults %q, want one with %q", said, part)
				}
			}
		})
	}
}

func TestFaultsShowNoSecret(t *testing.T) {
	for _, params := range []string{`{"API_KEY":"hunt2"}`, `{"API_KEY":["hunt2"]}`, `{"API_KEY":{"hunt2":1}}`, `{"HIDDEN":["hunt2"]}`, `{"PLAIN":"hunt2\u0000"}`, `{"API_KY":"hunt2"}`} {
		_, faults := page.MergeConfig(weather(), nil, json.RawMessage(params))
		if len(faults) == 0 {
			t.Errorf("%s is taken", params)
		}
		for _, f := range faults {
			if strings.Contains(f.String(), "hunt2") {
				t.Errorf("%s: %s", params, f)
			}
		}
	}
}

func TestSecret(t *testing.T) {
	for name, want := range map[string]bool{
		"API_KEY": true, "apiKey": true, "OPENAIKEY": true, "KEY": true, "DB_PASSWORD": true, "PGPASSWORD": true, "ACCESS_TOKEN": true, "SECRET": true, "CLIENT_SECRET_2": true,
		"AUTH": true, "SESSION_COOKIE": true, "MYTOKEN": true, "JWT": true, "PASSPHRASE": true,
		"KEYWORD": false, "MONKEY": false, "AUTHOR": false, "PASSENGER": false, "BASE_URL": false, "COMPASS": false, "HOST": false, "KEYBOARD_LAYOUT": false, "PINNED": false,
	} {
		if got := page.Secret(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	names := page.Secrets(weather(), map[string]string{"API_KEY": "1", "MAX_TOKENS": "2", "HIDDEN": "3", "PLAIN": "4", "BASE_URL": "5", "OTHER_TOKEN": "6"})
	if want := []string{"API_KEY", "HIDDEN", "OTHER_TOKEN", "PLAIN"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

func TestChanges(t *testing.T) {
	changed, removed := page.Changes(map[string]string{"A": "1", "B": "2", "C": "3"}, map[string]string{"B": "2", "C": "4", "D": ""})
	if !slices.Equal(changed, []string{"C", "D"}) || !slices.Equal(removed, []string{"A"}) {
		t.Errorf("%v %v", changed, removed)
	}
}

// FuzzMergeConfig: nothing panics, current never changes, and a merge that is
// merged again changes nothing.
func FuzzMergeConfig(f *testing.F) {
	f.Add(string(weather().Environment), `{"API_KEY":"12345678","DEBUG":1,"HOSTS":"a,b","OPTIONS":"{}","MAX_TOKENS":"+5"}`)
	f.Add(`{"properties":{"A":{"type":["integer","array"]}},"additionalProperties":{}}`, `{"A":[1],"B":null}`)
	f.Fuzz(func(t *testing.T, schema, params string) {
		d := &definition.Definition{Name: "x", Environment: json.RawMessage(schema)}
		current := map[string]string{"A": "1"}
		merged, faults := page.MergeConfig(d, current, json.RawMessage(params))
		if len(current) != 1 || current["A"] != "1" {
			t.Fatal("the present values were changed")
		}
		if (merged == nil) != (len(faults) > 0) {
			t.Fatalf("%v %v", merged, faults)
		}
		if faults == nil && !strings.Contains(params, "null") { // what is gone cannot be taken out again
			if again, faults := page.MergeConfig(d, merged, json.RawMessage(params)); faults != nil || !maps.Equal(again, merged) {
				t.Fatalf("%v %v, then %v", merged, faults, again)
			}
		}
		page.Configure(page.Configuration{Definition: d, Values: merged})
		page.Manual(d, page.ManualOptions{})
	})
}
