package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/toolyard/toolyard/tool"
)

// schemaRef is a schema that is made when the document is: deriving all of them
// at the start would cost time that nobody may need.
type schemaRef struct {
	make func() (*jsonschema.Schema, error)
}

// schemaOf is the schema of a Go type.
func schemaOf[T any]() *schemaRef {
	return &schemaRef{func() (*jsonschema.Schema, error) {
		s, _, err := tool.SchemaFor[T]()
		return s, err
	}}
}

func fixed(s *jsonschema.Schema) *schemaRef {
	return &schemaRef{func() (*jsonschema.Schema, error) { return s, nil }}
}

var (
	anyObject = fixed(&jsonschema.Schema{Type: "object"})
	binary    = fixed(&jsonschema.Schema{Type: "string", ContentEncoding: "binary"})
	// callResult is MCP's CallToolResult.
	callResult = fixed(&jsonschema.Schema{
		Type:        "object",
		Description: "CallToolResult of the Model Context Protocol",
		Properties: map[string]*jsonschema.Schema{
			"content":           {Type: "array", Items: &jsonschema.Schema{Type: "object"}},
			"structuredContent": {Type: "object"},
			"isError":           {Type: "boolean"},
			"_meta":             {Type: "object"},
		},
		Required: []string{"content"},
	})
	batchResult = &schemaRef{func() (*jsonschema.Schema, error) {
		result, err := callResult.make()
		return &jsonschema.Schema{
			Type:        "object",
			Description: "one line for each call",
			Properties:  map[string]*jsonschema.Schema{"index": {Type: "integer"}, "tool": {Type: "string"}, "result": result},
			Required:    []string{"index", "tool", "result"},
		}, err
	}}
	apiError = &jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{"error": {
			Type: "object",
			Properties: map[string]*jsonschema.Schema{
				"code": {Type: "string"}, "message": {Type: "string"}, "hint": {Type: "string"},
			},
			Required: []string{"code", "message", "hint"},
		}},
		Required: []string{"error"},
	}
)

// document is the OpenAPI document, made once.
type document struct {
	once sync.Once
	body []byte
	err  error
}

func (a *api) getOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	d := &a.spec
	d.once.Do(func() { d.body, d.err = openAPI(a.routes(), a.config.Version) })
	if d.err != nil {
		return d.err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(d.body)
	return nil
}

// openAPI writes the table of routes as OpenAPI 3.1.
func openAPI(routes []route, version string) ([]byte, error) {
	if version == "" {
		version = "0.0.0-dev"
	}
	paths := map[string]map[string]any{}
	for _, r := range routes {
		op, err := operation(r)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		if paths[prefix+r.path] == nil {
			paths[prefix+r.path] = map[string]any{}
		}
		paths[prefix+r.path][strings.ToLower(r.method)] = op
	}
	return json.Marshal(map[string]any{
		"openapi":  "3.1.0",
		"info":     map[string]any{"title": "Toolyard", "version": version, "license": map[string]string{"name": "Apache-2.0", "identifier": "Apache-2.0"}},
		"servers":  []map[string]string{{"url": "/"}},
		"security": []map[string][]string{{"token": {}}},
		"paths":    paths,
		"components": map[string]any{
			"securitySchemes": map[string]any{"token": map[string]string{"type": "http", "scheme": "bearer"}},
			"schemas":         map[string]any{"Error": apiError},
			"responses": map[string]any{"Error": map[string]any{
				"description": "The request failed",
				"content":     content("application/json", map[string]string{"$ref": "#/components/schemas/Error"}),
			}},
		},
	})
}

func operation(r route) (map[string]any, error) {
	op := map[string]any{"summary": r.summary, "operationId": operationID(r)}
	parameters := []map[string]any{}
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			parameters = append(parameters, map[string]any{"name": name, "in": "path", "required": true, "schema": map[string]string{"type": "string"}})
		}
	}
	for _, p := range r.query {
		in := p.in
		if in == "" {
			in = "query"
		}
		parameters = append(parameters, map[string]any{"name": p.name, "in": in, "description": p.description, "schema": map[string]string{"type": p.kind}})
	}
	op["parameters"] = parameters
	if r.body != nil {
		s, err := r.body.make()
		if err != nil {
			return nil, err
		}
		op["requestBody"] = map[string]any{"required": true, "content": content(orJSON(r.bodyType), s)}
	}
	success := map[string]any{"description": "Success"}
	if r.answer != nil {
		s, err := r.answer.make()
		if err != nil {
			return nil, err
		}
		success["content"] = content(orJSON(r.answerType), s)
	}
	status := r.status
	if status == 0 {
		status = http.StatusOK
	}
	op["responses"] = map[string]any{
		strconv.Itoa(status): success,
		"default":            map[string]string{"$ref": "#/components/responses/Error"},
	}
	return op, nil
}

func content(kind string, schema any) map[string]any {
	return map[string]any{kind: map[string]any{"schema": schema}}
}

func orJSON(kind string) string {
	if kind == "" {
		return "application/json"
	}
	return kind
}

// operationID is method and path as one word: getCallsId.
func operationID(r route) string {
	id := strings.ToLower(r.method)
	for _, word := range strings.FieldsFunc(r.path, func(c rune) bool { return c < 'a' || c > 'z' }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}
