package toolbox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/builtin/toolbox"
	"github.com/toolyard/toolyard/tool"
)

func TestConceal(t *testing.T) {
	const secret = "sk-unseen-0123456789"
	concealer := toolbox.Toolm(toolbox.Deps{}).(tool.Concealer)
	for _, c := range []struct{ name, arguments, want string }{
		{"yaml", text("tool: x\nmode: configure\nparameters:\n  API_KEY: " + secret + "\n  OLD: null\n"), `{"mode":"configure","parameters":{"API_KEY":"••••••","OLD":null},"tool":"x"}`},
		{"yaml with escapes", text("tool: x\nmode: \"\\x63onfigure\"\nparameters:\n  API_KEY: " + secret + "\n"), `{"mode":"configure","parameters":{"API_KEY":"••••••"},"tool":"x"}`},
		{"fields", `{"tool":"x","mode":"configure","parameters":{"API_KEY":"` + secret + `"}}`, `{"mode":"configure","parameters":{"API_KEY":"••••••"},"tool":"x"}`},
		{"other names", `{"url":"x","operation":"configure","params":{"API_KEY":["` + secret + `"]}}`, `{"operation":"configure","params":{"API_KEY":"••••••"},"url":"x"}`},
		{"parameters as text", `{"tool":"x","mode":"configure","parameters":"{\"API_KEY\":\"` + secret + `\"}"}`, `{"mode":"configure","parameters":"••••••","tool":"x"}`},
		{"arguments as text", `"{\"tool\":\"x\",\"mode\":\"configure\",\"parameters\":{\"A\":\"` + secret + `\"}}"`, `{"mode":"configure","parameters":{"A":"••••••"},"tool":"x"}`},
		{"no YAML", text("tool: x\nmode: configure\nparameters: [" + secret), `{"_bytes":`},
		{"no JSON", `{"tool":"x","mode":"configure","parameters":{"A":"` + secret, `{"_bytes":`},
		{"fields beside yaml", `{"yaml":"tool: x","mode":"configure","parameters":{"A":"` + secret + `"}}`, `{"mode":"configure","parameters":{"A":"••••••"},"yaml":"tool: x"}`},
		{"execute stays", `{"tool":"x","parameters":{"a":"b"}}`, `{"tool":"x","parameters":{"a":"b"}}`},
		{"yaml of execute stays", text("tool: x\nparameters:\n  a: configure\n"), text("tool: x\nparameters:\n  a: configure\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(concealer.Conceal(json.RawMessage(c.arguments)))
			if !strings.HasPrefix(got, c.want) || strings.Contains(got, secret) || !json.Valid([]byte(got)) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestErrorsOfConfigureShowNoLine(t *testing.T) {
	const secret = "sk-unseen-0123456789"
	for _, yaml := range []string{
		"tool: x\nmode: configure\nparameters:\n  API_KEY: \"" + secret + "\n",
		"tool: x\nmode: configure\nparameters: " + secret + "\n",
		"tool: " + secret + " configure\nmode: configure\n",
		"mode: configure\n" + secret + "\n",
	} {
		_, err := call(t, newBox(echo()), nil, "toolm", text(yaml))
		if err == nil || strings.Contains(string(tool.AsError(err).AppendJSON(nil)), secret) {
			t.Errorf("%q: %s", yaml, tool.AsError(err).AppendJSON(nil))
		}
	}
}
