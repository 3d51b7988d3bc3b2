package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/toolyard/toolyard/tool"
)

// attributed is an elicitation as a person is to see it: it says first which
// server asks, so that none passes for another, or for this program, and shows
// what its text hides.
func (p *peer) attributed(params json.RawMessage) json.RawMessage {
	message := visible(strings.ReplaceAll(textOf(params, "message"), "\r", "\n"))
	return with(params, "message", quote(fmt.Sprintf("The MCP server %s asks:\n\n%s", p.name, message)))
}

// wantsSecret reports whether an elicitation asks for a secret in a form, whose
// answer the client and its model may see. Secrets are asked for by URL only
// (MCP, elicitation).
func wantsSecret(r tool.InputRequest) bool {
	var in struct {
		Mode   string `json:"mode"`
		Schema struct {
			Properties map[string]struct {
				Type   any    `json:"type"`
				Title  string `json:"title"`
				Format string `json:"format"`
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	if r.Method != methodElicit || json.Unmarshal(r.Params, &in) != nil || in.Mode == "url" {
		return false
	}
	for name, field := range in.Schema.Properties {
		if field.Format == "password" {
			return true
		}
		if kind, _ := field.Type.(string); kind != "" && kind != "string" {
			continue
		}
		if namesSecret(name) || namesSecret(field.Title) {
			return true
		}
	}
	return false
}

// soleSecrets name a secret where they stand alone, and pairedSecrets where they
// follow each other.
var (
	soleSecrets   = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "credential", "credentials", "cvv", "cvc"}
	pairedSecrets = []string{"api key", "access key", "private key", "secret key", "pass word", "pass phrase"}
)

// namesSecret reads the words of a name: "githubToken", "API_KEY", "Your password".
func namesSecret(name string) bool {
	var b strings.Builder
	low := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r):
			r = ' '
		case unicode.IsUpper(r) && low:
			b.WriteByte(' ')
		}
		low = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	words := strings.Fields(b.String())
	if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(soleSecrets, w) }) {
		return true
	}
	line := " " + strings.Join(words, " ") + " "
	return slices.ContainsFunc(pairedSecrets, func(pair string) bool { return strings.Contains(line, " "+pair+" ") })
}
