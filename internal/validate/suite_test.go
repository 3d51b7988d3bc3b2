package validate_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/validate"
)

// outside are the tests of the suite that need a schema from elsewhere: ours
// loads nothing, and Compile must say so.
var outside = regexp.MustCompile(`"\$ref":\s*"(https://json-schema.org/draft/2020-12/schema|http://json-schema.org/draft-07/schema#|http://localhost:1234/)|"\$id":\s*"http://localhost:1234/`)

// TestSuite runs the official JSON Schema test suite, which the module of
// google/jsonschema-go carries.
func TestSuite(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	if err != nil {
		t.Fatalf("finding the test suite: %v", err)
	}
	for draft, uri := range map[string]string{
		"draft2020-12": "https://json-schema.org/draft/2020-12/schema",
		"draft7":       "http://json-schema.org/draft-07/schema#",
	} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "jsonschema", "testdata", draft, "*.json"))
		if err != nil || len(files) < 30 {
			t.Fatalf("%d files of %s: %v", len(files), draft, err)
		}
		ran, refused := 0, 0
		for _, file := range files {
			r, x := runSuite(t, draft+"/"+filepath.Base(file), file, uri)
			ran += r
			refused += x
		}
		t.Logf("%s: %d cases, %d groups refused for leading out of the schema", draft, ran, refused)
		if ran < 800 {
			t.Errorf("%s: only %d cases ran", draft, ran)
		}
	}
}

func runSuite(t *testing.T, name, file, uri string) (ran, refused int) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Description string
		Schema      json.RawMessage
		Tests       []struct {
			Description string
			Data        json.RawMessage
			Valid       bool
		}
	}
	if err := json.Unmarshal(raw, &groups); err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		var s jsonschema.Schema
		if err := json.Unmarshal(g.Schema, &s); err != nil {
			t.Errorf("%s: %s: %v", name, g.Description, err)
			continue
		}
		if s.Schema == "" {
			s.Schema = uri
		}
		v, err := validate.CompileSchema(&s)
		if err != nil {
			if strings.Contains(err.Error(), "leads out of the schema") && (strings.HasSuffix(name, "/refRemote.json") || outside.Match(g.Schema)) {
				refused++
				continue
			}
			t.Errorf("%s: %s: %v", name, g.Description, err)
			continue
		}
		for _, c := range g.Tests {
			ran++
			faults := v.Check(c.Data)
			if (len(faults) == 0) != c.Valid {
				t.Errorf("%s: %s: %s: valid %t, want %t\nschema %s\ndata %s\nfaults %v", name, g.Description, c.Description, len(faults) == 0, c.Valid, g.Schema, c.Data, faults)
			}
		}
	}
	return ran, refused
}
