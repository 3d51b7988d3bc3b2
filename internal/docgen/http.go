package docgen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/internal/event"
	"github.com/toolyard/toolyard/internal/gateway"
	"github.com/toolyard/toolyard/internal/server/api"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/toolbox"
)

// operation is what the pages need of one in an OpenAPI document.
type operation struct {
	Summary    string
	Parameters []struct {
		Name, In, Description string
		Required              bool
		Schema                *jsonschema.Schema
	}
	RequestBody *struct{ Content map[string]media }
	Responses   map[string]struct{ Content map[string]media }
}

type media struct{ Schema *jsonschema.Schema }

// openAPI fetches the document as a client would.
func openAPI() (map[string]map[string]operation, error) {
	server := api.New(api.Config{
		Store: struct{ api.Store }{}, Bus: event.New(0), Policy: struct{ api.Policy }{}, Jobs: struct{ api.Jobs }{},
		Toolbox: toolbox.New(toolbox.Config{}), Gateway: new(gateway.Gateway),
		OpenArtifact: func(context.Context, string) (io.ReadSeekCloser, store.Artifact, error) {
			return nil, store.Artifact{}, fmt.Errorf("there are no artifacts here")
		},
	})
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/openapi.json", nil))
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("the OpenAPI document: status %d: %s", w.Code, w.Body)
	}
	var document struct {
		Paths map[string]map[string]operation
	}
	err := json.Unmarshal(w.Body.Bytes(), &document)
	return document.Paths, err
}

// httpRoutes lists the routes, then each with what it takes and gives.
func httpRoutes() (string, error) {
	paths, err := openAPI()
	if err != nil {
		return "", err
	}
	var table, details strings.Builder
	table.WriteString("| route | does |\n|---|---|\n")
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range slices.Sorted(maps.Keys(paths[path])) {
			op := paths[path][method]
			route := strings.ToUpper(method) + " " + path
			fmt.Fprintf(&table, "| `%s` | %s |\n", route, cell(op.Summary))
			fmt.Fprintf(&details, "### %s\n\n%s.\n\n", route, op.Summary)
			writeOperation(&details, op)
		}
	}
	return table.String() + "\n" + details.String(), nil
}

func writeOperation(b *strings.Builder, op operation) {
	if len(op.Parameters) > 0 {
		b.WriteString("| parameter | in | takes | meaning |\n|---|---|---|---|\n")
		for _, p := range op.Parameters {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", p.Name, p.In, kind(p.Schema), cell(p.Description))
		}
		b.WriteString("\n")
	}
	if op.RequestBody != nil {
		writeMedia(b, "Body", op.RequestBody.Content)
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if status != "default" {
			writeMedia(b, "Answer "+status, op.Responses[status].Content)
		}
	}
}

func writeMedia(b *strings.Builder, title string, content map[string]media) {
	if len(content) == 0 {
		fmt.Fprintf(b, "%s: no content.\n\n", title)
		return
	}
	for _, mime := range slices.Sorted(maps.Keys(content)) {
		schema := content[mime].Schema
		fmt.Fprintf(b, "%s: `%s`", title, mime)
		rows := fieldRows(schema, nil)
		if len(rows) == 0 {
			b.WriteString(".\n\n")
			continue
		}
		b.WriteString("\n\n| field | takes | meaning |\n|---|---|---|\n")
		for _, row := range rows {
			fmt.Fprintf(b, "| %s | %s | %s |\n", code(row.path), row.takes, row.meaning)
		}
		b.WriteString("\n")
	}
}
