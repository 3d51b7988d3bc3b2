package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of what a tool may say of itself.
const (
	maxProblems = 200
	maxText     = 200 // characters of a value that a problem shows
)

// Decode reads what a host's describe returned. Whatever is malformed in it is
// left out and named in Problems; an error means only that raw is no object. Name,
// Dir, File, Language and Hash are the caller's to set.
func Decode(raw json.RawMessage) (*Definition, error) {
	var told struct {
		Methods  []string                   `json:"methods"`
		Values   map[string]json.RawMessage `json:"values"`
		Problems []Problem                  `json:"problems"`
		Script   bool                       `json:"script"`
	}
	if err := json.Unmarshal(raw, &told); err != nil || !isObject(raw) {
		return nil, fmt.Errorf("the description of a tool is no object: %s", short(raw))
	}
	d := &Definition{Methods: told.Methods, Script: told.Script, Raw: told.Values, Problems: told.Problems}
	if len(d.Problems) == 0 {
		d.Problems = nil
	}
	for name, value := range told.Values {
		if isNull(value) {
			delete(d.Raw, name)
			d.problem(name, "it returned null")
		}
	}
	d.metadata(&reader{d, "getMetadata", fields(d, "getMetadata")})
	d.schemas(&reader{d, "getSchema", fields(d, "getSchema")})
	d.dependencies(d.Raw["getDependencies"])
	d.businessErrors(d.Raw["getBusinessErrors"])
	d.runtime(&reader{d, "getRuntimeConfig", fields(d, "getRuntimeConfig")})
	if manual, ok := d.Raw["generateManual"]; ok && json.Unmarshal(manual, &d.Manual) != nil {
		d.problem("generateManual", "expected a text, got %s", short(manual))
	}
	return d, nil
}

func (d *Definition) problem(method, format string, args ...any) {
	if len(d.Problems) < maxProblems {
		d.Problems = append(d.Problems, Problem{Method: method, Message: fmt.Sprintf(format, args...)})
	}
}

// reader takes the fields of one method's answer.
type reader struct {
	d      *Definition
	method string
	fields map[string]json.RawMessage
}

// fields are those of an object, under their names as JavaScript writes them, so
// that max_memory is maxMemory.
func fields(d *Definition, method string) map[string]json.RawMessage {
	raw, ok := d.Raw[method]
	if !ok {
		return nil
	}
	var given map[string]json.RawMessage
	if !isObject(raw) || json.Unmarshal(raw, &given) != nil {
		d.problem(method, "expected an object, got %s", short(raw))
		return nil
	}
	named := make(map[string]json.RawMessage, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) { // MAX comes before max
		if !isNull(given[name]) {
			named[camel(name)] = given[name]
		}
	}
	return named
}

func camel(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

func (r *reader) fault(field, expected string) {
	r.d.problem(r.method, "%s: expected %s, got %s", field, expected, short(r.fields[field]))
}

// text is a field that is a text, or "".
func (r *reader) text(field string) string {
	var s string
	raw, ok := r.fields[field]
	if ok && json.Unmarshal(raw, &s) != nil {
		r.fault(field, "a text")
	}
	return s
}

// texts is a field that is a list of texts. A single text is a list of one.
func (r *reader) texts(field string) []string {
	raw, ok := r.fields[field]
	if !ok {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		r.fault(field, "a list of texts")
		var one string
		if json.Unmarshal(raw, &one) == nil && one != "" {
			return []string{one}
		}
		return nil
	}
	var texts []string
	for i, item := range list {
		var s string
		if isNull(item) || json.Unmarshal(item, &s) != nil {
			r.d.problem(r.method, "%s[%d]: expected a text, got %s", field, i, short(item))
			continue
		}
		texts = append(texts, s)
	}
	return texts
}

func (r *reader) flag(field string) bool {
	var b bool
	raw, ok := r.fields[field]
	if ok && json.Unmarshal(raw, &b) != nil {
		r.fault(field, "true or false")
	}
	return b
}

func (d *Definition) metadata(r *reader) {
	d.Metadata = Metadata{
		ID: r.text("id"), Name: r.text("name"), Description: r.text("description"), Version: r.text("version"),
		Category: r.text("category"), Author: r.text("author"), Tags: r.texts("tags"), Scenarios: r.texts("scenarios"),
		Limitations: r.texts("limitations"),
	}
}

func (d *Definition) schemas(r *reader) {
	schema := func(field string) json.RawMessage {
		raw, ok := r.fields[field]
		if !ok {
			return nil
		}
		if !isObject(raw) {
			r.fault(field, "a JSON Schema")
			return nil
		}
		return raw
	}
	d.Parameters, d.Environment = schema("parameters"), schema("environment")
	_, typed := r.fields["type"]
	_, properties := r.fields["properties"]
	if d.Parameters == nil && d.Environment == nil && (typed || properties) {
		d.problem(r.method, "it is a schema itself: expected {parameters, environment}; taken as the parameters")
		d.Parameters = d.Raw[r.method]
	}
}

// commands are the names that mean a program of the machine and no package.
var commands = []string{"docker", "ffmpeg", "git", "python3"}

func (d *Definition) dependencies(raw json.RawMessage) {
	const method = "getDependencies"
	if raw == nil {
		return
	}
	var ranges map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case isObject(raw) && json.Unmarshal(raw, &ranges) == nil:
		for _, name := range slices.Sorted(maps.Keys(ranges)) {
			var version string
			if isNull(ranges[name]) || json.Unmarshal(ranges[name], &version) != nil {
				d.problem(method, "%s: expected a range of versions as text, got %s", name, short(ranges[name]))
				continue
			}
			d.depend(method, name, version)
		}
	case json.Unmarshal(raw, &list) == nil: // as requirements.txt has them
		for i, item := range list {
			var line string
			if isNull(item) || json.Unmarshal(item, &line) != nil {
				d.problem(method, "[%d]: expected a text, got %s", i, short(item))
				continue
			}
			at := strings.IndexAny(line, "<>=!~ ;@[")
			if at <= 0 || strings.HasPrefix(line, ".") {
				at = len(line)
			}
			d.depend(method, line[:at], strings.TrimSpace(line[at:]))
		}
	default:
		d.problem(method, "expected an object of names and ranges, got %s", short(raw))
	}
}

func (d *Definition) depend(method, name, version string) {
	name = strings.TrimSpace(name)
	dep := Dependency{Kind: Package, Name: name, Range: strings.TrimSpace(version)}
	command, isCommand := strings.CutPrefix(name, "cmd:")
	switch {
	case isCommand:
		dep.Kind, dep.Name = Command, strings.TrimSpace(command)
	case strings.HasPrefix(name, "./"), strings.HasPrefix(name, "../"), version == "local":
		dep.Kind, dep.Range = Local, ""
	case slices.Contains(commands, name):
		dep.Kind = Command
	}
	if dep.Name == "" || strings.ContainsAny(dep.Name, "\x00\n\r") {
		d.problem(method, "%q: expected the name of a package, a file or a command", name)
		return
	}
	d.Dependencies = append(d.Dependencies, dep)
}

func (d *Definition) businessErrors(raw json.RawMessage) {
	const method = "getBusinessErrors"
	if raw == nil {
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		d.problem(method, "expected a list, got %s", short(raw))
		return
	}
	for i, item := range list {
		var given map[string]json.RawMessage
		if !isObject(item) || json.Unmarshal(item, &given) != nil {
			d.problem(method, "[%d]: expected an object, got %s", i, short(item))
			continue
		}
		at := fmt.Sprintf("[%d].", i)
		r := &reader{d, method, map[string]json.RawMessage{}}
		for name, value := range given {
			if !isNull(value) {
				r.fields[at+name] = value
			}
		}
		e := BusinessError{Code: r.text(at + "code"), Description: r.text(at + "description"), Solution: r.text(at + "solution"), Retryable: r.flag(at + "retryable")}
		e.Match, e.Flags = r.pattern(at + "match")
		if e.Code == "" {
			d.problem(method, "[%d]: it has no code", i)
			continue
		}
		d.BusinessErrors = append(d.BusinessErrors, e)
	}
}

// pattern is a regular expression as the host wrote it down, or its source.
func (r *reader) pattern(field string) (source, flags string) {
	raw, ok := r.fields[field]
	if !ok {
		return "", ""
	}
	var expression struct{ Source, Flags string }
	if isObject(raw) && json.Unmarshal(raw, &expression) == nil && expression.Source != "" {
		return expression.Source, expression.Flags
	}
	if json.Unmarshal(raw, &source) != nil {
		r.fault(field, "a regular expression")
	}
	return source, ""
}

func (d *Definition) runtime(r *reader) {
	rt := &d.Runtime
	rt.SandboxType, rt.Image = r.text("sandboxType"), r.text("image")
	rt.MaxMemory, rt.MaxExecutionTime = r.memory("maxMemory"), r.duration("maxExecutionTime")
	rt.Directories = r.texts("allowedDirectories")
	rt.Shared = r.flag("shared")
	for _, name := range []string{"concurrencySafe", "isConcurrencySafe"} {
		rt.ConcurrencySafe = rt.ConcurrencySafe || r.flag(name)
	}
	rt.Network = r.network("networkAccess")
	raw, ok := r.fields["environment"]
	if !ok {
		return
	}
	var environment map[string]json.RawMessage
	if !isObject(raw) || json.Unmarshal(raw, &environment) != nil {
		r.fault("environment", "an object of names and values")
		return
	}
	rt.Environment = make(map[string]string, len(environment))
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		value := environment[name]
		var text string
		switch {
		case isNull(value):
		case json.Unmarshal(value, &text) == nil:
			rt.Environment[name] = text
		case isObject(value) || value[0] == '[':
			d.problem(r.method, "environment.%s: expected a text, got %s", name, short(value))
		default:
			rt.Environment[name] = string(value)
		}
	}
}

// network is false, true or a list of domains. One domain is a list of one.
func (r *reader) network(field string) Network {
	raw, ok := r.fields[field]
	if !ok {
		return Network{}
	}
	var all bool
	if json.Unmarshal(raw, &all) == nil {
		return Network{All: all}
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return Network{Domains: []string{one}}
	}
	return Network{Domains: r.texts(field)}
}

// units of memory as texts write them. A plain number is MiB.
var units = []struct {
	suffix string
	factor float64
}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"b", 1}, {"", 1 << 20}}

// plainBytes is from where on a plain number of memory can only be bytes.
const plainBytes = 1 << 20

func (r *reader) memory(field string) int64 {
	raw, ok := r.fields[field]
	if !ok {
		return 0
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	text = strings.ToLower(strings.ReplaceAll(text, " ", ""))
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.suffix)
		n, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil {
			continue
		}
		if u.suffix == "" && n >= plainBytes {
			u.factor = 1
		}
		if n *= u.factor; n >= 1 && n < 1<<53 {
			return int64(n)
		}
		break
	}
	r.fault(field, "megabytes, as a number")
	return 0
}

// plainSeconds is from where on a plain number of time can only be milliseconds.
const plainSeconds = 10_000

// maxTime keeps what a tool asks for in bounds where numbers are added.
const maxTime = 1000 * time.Hour

func (r *reader) duration(field string) time.Duration {
	raw, ok := r.fields[field]
	if !ok {
		return 0
	}
	var text string
	var n float64
	if json.Unmarshal(raw, &text) == nil {
		text = strings.ReplaceAll(text, " ", "")
		if d, err := time.ParseDuration(text); err == nil && d > 0 {
			return min(d, maxTime)
		}
		n, _ = strconv.ParseFloat(text, 64)
	} else if json.Unmarshal(raw, &n) != nil {
		n = 0
	}
	switch {
	case !(n > 0):
		r.fault(field, "seconds, as a number")
		return 0
	case n >= plainSeconds:
		n /= 1000
	}
	return time.Duration(min(n, maxTime.Seconds()) * float64(time.Second))
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null"
}

// short shows a value in a problem.
func short(raw json.RawMessage) string {
	text := strings.ToValidUTF8(string(bytes.TrimSpace(raw)), "\uFFFD")
	if text == "" {
		return "nothing"
	}
	if utf8.RuneCountInString(text) > maxText {
		text = string([]rune(text)[:maxText]) + "…"
	}
	return text
}
