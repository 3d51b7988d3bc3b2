package definition

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name, values string
		want         Definition
		problems     []string
	}{
		{name: "nothing", values: `{}`},
		{
			name: "metadata", values: `{"getMetadata":{"id":"i","name":"n","description":"d","version":"1.0.0","category":"c","author":"a","tags":["t"],"scenarios":["s"],"limitations":["l"],"more":1}}`,
			want: Definition{Metadata: Metadata{"i", "n", "d", "1.0.0", "c", "a", []string{"t"}, []string{"s"}, []string{"l"}}},
		},
		{
			name: "malformed metadata", values: `{"getMetadata":{"name":["x"],"version":1.5,"description":null,"tags":"one","scenarios":[1,"s",null],"limitations":{}}}`,
			want: Definition{Metadata: Metadata{Tags: []string{"one"}, Scenarios: []string{"s"}}},
			problems: []string{
				`name: expected a text, got ["x"]`, `version: expected a text, got 1.5`, `tags: expected a list of texts, got "one"`,
				`scenarios[0]: expected a text, got 1`, `scenarios[2]: expected a text, got null`, `limitations: expected a list of texts, got {}`,
			},
		},
		{name: "metadata that is none", values: `{"getMetadata":"x","getSchema":7}`, problems: []string{`expected an object, got "x"`, `expected an object, got 7`}},
		{name: "null", values: `{"getMetadata":null}`, problems: []string{"it returned null"}},
		{
			name: "schemas", values: `{"getSchema":{"parameters":{"type":"object"},"environment":{"properties":{}}}}`,
			want: Definition{Parameters: json.RawMessage(`{"type":"object"}`), Environment: json.RawMessage(`{"properties":{}}`)},
		},
		{name: "schemas that are none", values: `{"getSchema":{"parameters":[],"environment":true}}`, problems: []string{`parameters: expected a JSON Schema, got []`, `environment: expected a JSON Schema, got true`}},
		{
			name: "a bare schema", values: `{"getSchema":{"type":"object","properties":{}}}`, want: Definition{Parameters: json.RawMessage(`{"type":"object","properties":{}}`)},
			problems: []string{`it is a schema itself: expected {parameters, environment}; taken as the parameters`},
		},
		{
			name: "dependencies", values: `{"getDependencies":{"lodash":"^4","./a.js":"local","lib":"local","docker":">=20","cmd:jq":"","@a/b":" 1 - 2 ","bad":7,"cmd:":"1"}}`,
			want: Definition{Dependencies: []Dependency{
				{Local, "./a.js", ""}, {Package, "@a/b", "1 - 2"}, {Command, "jq", ""}, {Command, "docker", ">=20"}, {Local, "lib", ""}, {Package, "lodash", "^4"},
			}},
			problems: []string{`bad: expected a range of versions as text, got 7`, `"cmd:": expected the name of a package, a file or a command`},
		},
		{
			name: "a list of dependencies", values: `{"getDependencies":["requests>=2,<3","rich","uvicorn[standard]==0.3","cmd:git >= 2",7]}`,
			want: Definition{Dependencies: []Dependency{
				{Package, "requests", ">=2,<3"}, {Package, "rich", ""}, {Package, "uvicorn", "[standard]==0.3"}, {Command, "git", ">= 2"},
			}},
			problems: []string{`[4]: expected a text, got 7`},
		},
		{name: "dependencies that are none", values: `{"getDependencies":"lodash"}`, problems: []string{`expected an object of names and ranges, got "lodash"`}},
		{
			name:   "business errors",
			values: `{"getBusinessErrors":[{"code":"A","description":"d","match":{"source":"x","flags":"i"},"solution":"s","retryable":true},{"code":"B","match":"y","retryable":"no"},{"description":"none"},7]}`,
			want:   Definition{BusinessErrors: []BusinessError{{"A", "d", "x", "i", "s", true}, {Code: "B", Match: "y"}}},
			problems: []string{
				`[1].retryable: expected true or false, got "no"`, `[2]: it has no code`, `[3]: expected an object, got 7`,
			},
		},
		{name: "business errors that are none", values: `{"getBusinessErrors":{}}`, problems: []string{`expected a list, got {}`}},
		{
			name:   "runtime",
			values: `{"getRuntimeConfig":{"sandboxType":"docker","image":"i","maxMemory":1024,"maxExecutionTime":60,"allowedDirectories":["a"],"networkAccess":true,"environment":{"A":"x","B":2,"C":true,"D":null},"shared":true,"isConcurrencySafe":true}}`,
			want: Definition{Runtime: Runtime{
				SandboxType: "docker", Image: "i", MaxMemory: 1 << 30, MaxExecutionTime: time.Minute, Directories: []string{"a"}, Network: Network{All: true},
				Environment: map[string]string{"A": "x", "B": "2", "C": "true"}, Shared: true, ConcurrencySafe: true,
			}},
		},
		{
			name: "runtime as texts", values: `{"getRuntimeConfig":{"max_memory":"1.5 GiB","max_execution_time":"2m","network_access":"a.org","concurrency_safe":true}}`,
			want: Definition{Runtime: Runtime{MaxMemory: 3 << 29, MaxExecutionTime: 2 * time.Minute, Network: Network{Domains: []string{"a.org"}}, ConcurrencySafe: true}},
		},
		{
			name: "runtime in small units", values: `{"getRuntimeConfig":{"maxMemory":268435456,"maxExecutionTime":30000,"networkAccess":["a.org",1]}}`,
			want:     Definition{Runtime: Runtime{MaxMemory: 256 << 20, MaxExecutionTime: 30 * time.Second, Network: Network{Domains: []string{"a.org"}}}},
			problems: []string{`networkAccess[1]: expected a text, got 1`},
		},
		{
			name: "runtime that is malformed", values: `{"getRuntimeConfig":{"maxMemory":"much","maxExecutionTime":-1,"networkAccess":false,"environment":{"A":{}},"shared":1}}`,
			want: Definition{Runtime: Runtime{Environment: map[string]string{}}},
			problems: []string{
				`maxMemory: expected megabytes, as a number, got "much"`, `maxExecutionTime: expected seconds, as a number, got -1`, `shared: expected true or false, got 1`,
				`environment.A: expected a text, got {}`,
			},
		},
		{name: "a manual", values: `{"generateManual":"# x"}`, want: Definition{Manual: "# x"}},
		{name: "a manual that is none", values: `{"generateManual":{"a":"` + strings.Repeat("ü", 300) + `"}}`, problems: []string{`expected a text, got {"a":"` + strings.Repeat("ü", 194) + "…"}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			got, err := Decode(json.RawMessage(`{"methods":["execute"],"problems":[],"values":` + c.values + `}`))
			if err != nil {
				t.Fatal(err)
			}
			var problems []string
			for _, p := range got.Problems {
				problems = append(problems, p.Message)
			}
			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if !slices.Equal(got.Methods, []string{"execute"}) {
				t.Errorf("methods %q", got.Methods)
			}
			got.Raw, got.Problems, got.Methods = nil, nil, nil
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Errorf("definition (-want +got):\n%s", diff)
			}
		})
	}
	for _, raw := range []string{``, `null`, `7`, `[]`, `{`, `"x"`, `{"values":7}`} {
		if d, err := Decode(json.RawMessage(raw)); err == nil {
			t.Errorf("%q is %+v", raw, d)
		}
	}
	given := `{"methods":["execute"],"script":true,"values":{"getMetadata":{"name":"n"}},"problems":[{"method":"getSchema","message":"m","threw":true}]}`
	got, err := Decode(json.RawMessage(given))
	if err != nil || !got.Script || string(got.Raw["getMetadata"]) != `{"name":"n"}` || len(got.Problems) != 1 || !got.Problems[0].Threw {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"getMetadata":{"name":1,"tags":[{}]}}`)
	f.Add(`{"getRuntimeConfig":{"max_memory":"1e300gb","maxExecutionTime":1e300,"MAX":1}}`)
	f.Add(`{"getDependencies":["a==1"],"getBusinessErrors":[{"code":"x","match":{}}]}`)
	f.Fuzz(func(t *testing.T, values string) {
		if !json.Valid([]byte(values)) {
			return
		}
		d, err := Decode(json.RawMessage(`{"values":` + values + `}`))
		if err != nil {
			return
		}
		if d.Runtime.MaxMemory < 0 || d.Runtime.MaxExecutionTime < 0 {
			t.Errorf("%s: %+v", values, d.Runtime)
		}
		if _, err := json.Marshal(d); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	})
}
