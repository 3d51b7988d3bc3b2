package docgen

import (
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/config"
)

// settings is the table of the keys of the configuration.
func settings() (string, error) {
	var b strings.Builder
	b.WriteString("| setting | takes | default | does |\n|---|---|---|---|\n")
	for _, k := range config.Keys() {
		standard := "the tool's own"
		if k.Default != "" {
			standard = code(k.Default)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", code(strings.Replace(k.Path, "*", "NAME", 1)), cell(k.Takes()), standard, escape(k.Doc))
	}
	return b.String(), nil
}
