package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	toolyard "github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/policy"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of a configuration file.
const (
	maxFile  = 64 << 10 // bytes
	maxNodes = 100_000  // values in it, those of aliases counted each time
	maxDepth = 32       // values inside values
)

// origin is where a layer of the configuration comes from.
type origin struct {
	layer Layer
	file  string // "" for the environment and flags
	name  string // to show: the file, or "environment", "--deny"
	dir   string // where relative directories start
}

// place is where a line is, to show.
func (o origin) place(line int) string {
	if o.file == "" || line == 0 {
		return o.name
	}
	return fmt.Sprintf("%s:%d", o.name, line)
}

// reader fills a configuration from one layer and collects what is wrong.
type reader struct {
	loaded *Loaded
	tree   *tree
	from   origin
	faults []tool.Fault
	nodes  int
	// anchors of the present file.
	anchors map[string]ast.Node
}

// yaml reads a file's content.
func (r *reader) yaml(content []byte) {
	if len(content) > maxFile {
		r.fault(nil, "", fmt.Sprintf("at most %d KiB", maxFile>>10), fmt.Sprintf("%d KiB", len(content)>>10))
		return
	}
	file, err := parse(content)
	if err != nil {
		r.faults = append(r.faults, syntaxFault(r.from, err))
		return
	}
	r.anchors = map[string]ast.Node{}
	seen := false
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		if seen {
			r.fault(doc.Body, "", "one document", "a second one")
			return
		}
		seen = true
		r.mapping(doc.Body, r.tree, "", "")
	}
}

// mapping reads the settings below path. tool is the name under "tools.".
func (r *reader) mapping(n ast.Node, at *tree, path, name string) {
	n = r.resolve(n)
	if n == nil || n.Type() == ast.NullType {
		return
	}
	pairs, ok := pairsOf(n)
	if !ok {
		r.fault(n, path, "a mapping of settings", r.value(n, 0).got())
		return
	}
	for _, pair := range pairs {
		key := keyText(pair.Key)
		full := join(path, key)
		switch {
		case pair.Key.Type() == ast.MergeKeyType:
			r.fault(pair.Key, full, "a key", "a merge (<<), which is not understood here")
		case path == "tools" && at.children["*"] != nil:
			r.tool(pair, at.children["*"], key)
		case path == "profiles" && at.children["*"] != nil:
			r.profile(key)
			r.mapping(pair.Value, at.children["*"], full, key)
		case at.children[fold(key)] != nil:
			r.setting(pair, at.children[fold(key)], at.named(key), path, name)
		case name != "" && r.alias(pair, path, name, key):
		default:
			r.unknown(pair.Key, at, full, key)
		}
	}
}

// tool reads the settings of one tool.
func (r *reader) tool(pair *ast.MappingValueNode, at *tree, key string) {
	name := policy.NormaliseName(key)
	if name == "" || strings.ContainsAny(name, " \t()") {
		r.fault(pair.Key, "tools."+key, "the name of a tool", fmt.Sprintf("%q", key))
		return
	}
	r.mapping(pair.Value, at, "tools."+name, name)
}

// profile notes that a profile was defined, if only by its name.
func (r *reader) profile(name string) {
	c := &r.loaded.Config
	if _, there := c.Profiles[name]; there || r.from.layer == ProjectFile {
		return
	}
	if c.Profiles == nil {
		c.Profiles = map[string]toolyard.Profile{}
	}
	c.Profiles[name] = toolyard.Profile{}
}

func (r *reader) setting(pair *ast.MappingValueNode, at *tree, key, path, name string) {
	full := join(path, key)
	if at.key == nil {
		r.mapping(pair.Value, at, full, name)
		return
	}
	node := r.resolve(pair.Value)
	if at.key.kind == servers {
		r.servers(at.key, full, node)
		return
	}
	v := r.value(node, 0)
	if v.empty {
		return
	}
	r.set(at.key, name, full, v, node)
}

// alias reads a name of another system.
func (r *reader) alias(pair *ast.MappingValueNode, path, name, key string) bool {
	if path != "tools."+name {
		return false
	}
	node := r.resolve(pair.Value)
	v := r.value(node, 0)
	full := join(path, key)
	bad := func(expected string) bool {
		r.faultAt(v.line, v.col, full, expected, v.got())
		return true
	}
	switch fold(key) {
	case "securitylevel":
		level, ok := securityLevels[v.text]
		if !ok || v.kind != scalar {
			return bad("low, standard or high")
		}
		if name != "bash" {
			r.note(full + " has no effect: only bash runs commands, and they are always in the sandbox")
			return true
		}
		if v.text == "high" {
			none := value{kind: list, line: v.line, col: v.col}
			r.set(r.tree.find("sandbox.network"), "", "sandbox.network", none, node)
		}
		v.text = level
		r.set(r.tree.find("sandbox.minLevel"), "", "sandbox.minLevel", v, node)
	case "allowedpaths", "forbiddenpaths":
		var patterns []string
		if v.kind != list || !eachText(v.list, &patterns) {
			return bad("a list of path patterns")
		}
		r.pathRules(name, full, fold(key) == "allowedpaths", patterns, v)
	case "requiredcapabilities":
		for _, item := range v.list {
			if _, err := tool.ParseEffect(item.text); err != nil {
				return bad("a list of effects: read, write, execute, network, interact, state")
			}
		}
		if v.kind != list {
			return bad("a list of effects: read, write, execute, network, interact, state")
		}
		r.note(full + " has no effect: a tool states its effects itself")
	case "enablemetrics", "enabletracing":
		if v.kind != scalar || v.text != "true" && v.text != "false" {
			return bad("true or false")
		}
		r.note(full + " has no effect: calls are always counted and recorded")
	default:
		ours, ok := foreign[fold(key)]
		if !ok {
			return false
		}
		if ours == "retry.attempts" && v.text == "0" {
			v.text = "1" // no retry
		}
		if !v.empty {
			r.set(r.tree.find("tools.*."+ours), name, path+"."+ours, v, node)
		}
	}
	return true
}

// pathRules makes permission rules of another system's lists of paths: what is
// forbidden is denied; what is allowed is allowed, and everything else asked
// about, in the weakest scope, since within one scope ask wins.
func (r *reader) pathRules(name, full string, allow bool, patterns []string, v value) {
	action, scope := tool.Deny, r.from.layer.scope()
	to := &r.loaded.Config.Permissions.Deny
	if allow {
		action, to = tool.Allow, &r.loaded.Config.Permissions.Allow
	}
	source := r.from.place(v.line)
	for _, pattern := range patterns {
		text := name + "(" + pattern + ")"
		if _, err := policy.ParseRule(action, text, scope, source); err != nil {
			r.faultAt(v.line, v.col, full, "a list of path patterns", tool.AsError(err).Message)
			return
		}
		*to = append(*to, toolyard.Rule{Text: text, Scope: scope.String(), Source: source})
	}
	if allow && len(patterns) > 0 {
		ask := &r.loaded.Config.Permissions.Ask
		*ask = append(*ask, toolyard.Rule{Text: name, Scope: policy.BuiltIn.String(), Source: source})
	}
}

func (r *reader) note(text string) {
	r.loaded.Notes = append(r.loaded.Notes, r.from.name+": "+text)
}

// operators are settings that a workspace's own file may not hold; a dot at the
// end means all below.
var operators = []string{"workspaces", "audit", "profile", "profiles.", "sandbox.driver", "sandbox.image", "questions.", "retention.", "toolbox.", "gateway.", "auth.", "tls."}

// set gives a setting its value.
func (r *reader) set(k *Key, name, full string, v value, node ast.Node) {
	ours := slices.ContainsFunc(operators, func(name string) bool {
		return k.Path == name || strings.HasSuffix(name, ".") && strings.HasPrefix(k.Path, name)
	})
	if r.from.layer == ProjectFile && ours {
		r.fault(node, full, "a setting of the workspace", "one that only the operator has")
		return
	}
	where := Origin{Layer: r.from.layer, File: r.from.file, Name: r.from.name, Line: v.line, Column: v.col}
	c := &r.loaded.Config
	if k.kind == rules {
		r.rules(k, full, v, where)
		return
	}
	var target any
	if k.profile != nil {
		p := c.Profiles[name]
		target = k.profile(&p)
		defer func() {
			r.profile(name)
			c.Profiles[name] = p
		}()
	} else if k.tool != nil {
		t := c.ToolSettings[name]
		target = k.tool(&t)
		defer func() { c.ToolSettings[name] = t }()
	} else {
		target = k.at(r.loaded)
	}
	granted := reflect.ValueOf(target).Elem().Interface() // assign replaces lists, it does not change them
	if !r.entries(k, full, v) {
		return
	}
	if !k.assign(target, v, r.from) {
		r.faultAt(v.line, v.col, full, k.expected(), v.got())
		return
	}
	if r.from.layer == ProjectFile && k.narrow != nil {
		asked := reflect.ValueOf(target).Elem()
		left, cut := k.narrow(granted, asked.Interface())
		asked.Set(reflect.ValueOf(left))
		if cut != "" {
			r.note(full + " asks for more than the user granted; " + cut)
		}
		if reflect.DeepEqual(left, granted) {
			return // what was granted stands, and its origin
		}
	}
	r.loaded.Origins[full] = where
}

// rules adds permission rules to those of the layers below.
func (r *reader) rules(k *Key, full string, v value, where Origin) {
	parsed, wrong := parseRules(v, r.from, r.from.layer.scope().String())
	if wrong != nil {
		r.faultAt(wrong.line, wrong.col, full, k.expected(), wrong.got())
		return
	}
	actions := map[string]tool.Action{"permissions.allow": tool.Allow, "permissions.ask": tool.Ask, "permissions.deny": tool.Deny}
	to := k.at(r.loaded).(*[]toolyard.Rule)
	for i, rule := range parsed {
		item := v.list[i]
		one := policy.Rule{Action: actions[k.Path], Text: rule.Text, Scope: r.from.layer.scope(), Source: rule.Source, Match: rule.Match, NotMatch: rule.NotMatch}
		_, err := policy.ParseRule(one.Action, one.Text, one.Scope, one.Source)
		if e := tool.AsError(err); e != nil {
			r.faultAt(item.line, item.col, full, "a permission rule", e.Message)
			continue
		}
		if _, err := policy.New([]policy.Rule{one}); err != nil {
			for _, f := range tool.AsError(err).Faults {
				r.faultAt(item.line, item.col, fmt.Sprintf("%s: %q", full, rule.Text), f.Expected, f.Got)
			}
			continue
		}
		*to = append(*to, rule)
	}
	r.loaded.Origins[full] = where
}

// unknown reports a key that there is not, with the nearest that there is.
func (r *reader) unknown(n ast.Node, at *tree, full, key string) {
	expected := "a known key"
	if near := nearest(key, at.names); near != "" {
		expected += " (did you mean " + near + "?)"
	}
	r.fault(n, full, expected, fmt.Sprintf("%q", key))
}

func (r *reader) fault(n ast.Node, path, expected, got string) {
	line, col := positionOf(n)
	r.faultAt(line, col, path, expected, got)
}

func (r *reader) faultAt(line, col int, path, expected, got string) {
	where := r.from.place(line)
	if r.from.file != "" && line > 0 {
		where = fmt.Sprintf("%s:%d", where, col)
	}
	if path != "" {
		where += ": " + path
	}
	r.faults = append(r.faults, tool.Fault{Path: where, Expected: expected, Got: got})
}

// value reads a scalar, a list, or a mapping (of a rule).
func (r *reader) value(n ast.Node, depth int) value {
	n = r.resolve(n)
	v := value{}
	v.line, v.col = positionOf(n)
	if r.nodes++; r.nodes > maxNodes || depth > maxDepth || n == nil {
		v.empty = n == nil
		return v
	}
	if pairs, ok := pairsOf(n); ok {
		v.kind, v.rule = mapping, map[string]value{}
		for _, pair := range pairs {
			v.rule[keyText(pair.Key)] = r.value(pair.Value, depth+1)
		}
		return v
	}
	switch n := n.(type) {
	case *ast.NullNode:
		v.empty = true
	case *ast.SequenceNode:
		v.kind = list
		for _, item := range n.Values {
			v.list = append(v.list, r.value(item, depth+1))
		}
	case *ast.StringNode:
		v.text = n.Value
	case *ast.LiteralNode:
		v.text = n.Value.Value
	default:
		if t := n.GetToken(); t != nil {
			v.text = t.Value
		}
	}
	return v
}

// resolve takes tags and anchors off and follows aliases.
func (r *reader) resolve(n ast.Node) ast.Node {
	for range maxDepth {
		switch at := n.(type) {
		case *ast.AnchorNode:
			r.anchors[nodeText(at.Name)] = at.Value
			n = at.Value
		case *ast.AliasNode:
			n = r.anchors[nodeText(at.Value)]
		case *ast.TagNode:
			n = at.Value
		default:
			return n
		}
	}
	return nil
}

func nodeText(n ast.Node) string {
	if n == nil || n.GetToken() == nil {
		return ""
	}
	return n.GetToken().Value
}

func keyText(n ast.MapKeyNode) string {
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value
	}
	return nodeText(n)
}

func pairsOf(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func positionOf(n ast.Node) (line, col int) {
	if n == nil {
		return 0, 0
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return 0, 0
	}
	if _, isMapping := n.(*ast.MappingNode); isMapping || n.Type() == ast.MappingValueType {
		// A mapping's token is the first colon; its first key says where it begins.
		if pairs, _ := pairsOf(n); len(pairs) > 0 && pairs[0].Key.GetToken() != nil {
			t = pairs[0].Key.GetToken()
		}
	}
	return t.Position.Line, t.Position.Column
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// parse reads YAML. The parser is known to panic on some broken input.
func parse(content []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, fmt.Errorf("this is not YAML")
		}
	}()
	if depth := flowDepth(content); depth > maxDepth {
		return nil, fmt.Errorf("brackets are nested more than %d deep", maxDepth)
	}
	return parser.ParseBytes(content, 0)
}

// flowDepth is how deep brackets are nested, those in texts included.
func flowDepth(content []byte) int {
	deepest, depth := 0, 0
	for _, c := range content {
		switch c {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		}
	}
	return deepest
}

// syntaxFault turns an error of the parser into a fault with its place.
func syntaxFault(from origin, err error) tool.Fault {
	where := from.name
	message := err.Error()
	if e, ok := err.(interface{ GetToken() *token.Token }); ok && e.GetToken() != nil && e.GetToken().Position != nil {
		where = fmt.Sprintf("%s:%d:%d", from.name, e.GetToken().Position.Line, e.GetToken().Position.Column)
	}
	if e, ok := err.(interface{ GetMessage() string }); ok {
		message = e.GetMessage()
	}
	message, _, _ = strings.Cut(message, "\n")
	return tool.Fault{Path: where, Expected: "YAML", Got: message}
}

// named is the child's name as the table writes it.
func (t *tree) named(key string) string {
	for _, name := range t.names {
		if fold(name) == fold(key) {
			return name
		}
	}
	return key
}

// find is the key at a path of the table.
func (t *tree) find(path string) *Key {
	for name := range strings.SplitSeq(path, ".") {
		t = t.children[fold(name)]
	}
	return t.key
}
