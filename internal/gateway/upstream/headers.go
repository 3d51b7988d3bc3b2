package upstream

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// The headers of MCP over HTTP, in the form that net/http keeps.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
	headerLast    = "Last-Event-Id"
)

// The form of a header's value that is no plain text.
const (
	base64Prefix = "=?base64?"
	base64Suffix = "?="
)

// maxHeaders bounds how many arguments of a tool become headers.
const maxHeaders = 64

// ParamHeaders says which arguments of a tool are sent as headers too, for those
// who route requests (2026-07-28, x-mcp-header). It is safe for concurrent use;
// nil has none.
type ParamHeaders struct {
	params []paramHeader
}

type paramHeader struct {
	path   []string
	header string
}

// HeadersOf reads the annotations of a tool's input schema; nil if there are
// none. An error says that they are not as the protocol demands: such a tool is
// not to be offered over HTTP.
func HeadersOf(schema json.RawMessage) (*ParamHeaders, error) {
	h := &ParamHeaders{}
	if err := h.find(schema, nil, 0); err != nil {
		return nil, err
	}
	if len(h.params) == 0 {
		return nil, nil
	}
	return h, nil
}

func (h *ParamHeaders) find(schema json.RawMessage, path []string, depth int) (err error) {
	properties := member(schema, "properties")
	if properties == nil || depth > 32 {
		return nil
	}
	object(properties, 0, 0, func(key []byte, start, end int) {
		if err != nil {
			return
		}
		property := properties[start:end]
		at := append(append([]string(nil), path...), Unquote(key))
		if mark := member(property, "x-mcp-header"); mark != nil {
			if err = h.add(at, Unquote(mark), Unquote(member(property, "type"))); err != nil {
				return
			}
		}
		err = h.find(property, at, depth+1)
	})
	return err
}

func (h *ParamHeaders) add(path []string, header, kind string) error {
	where := strings.Join(path, ".")
	switch kind {
	case "string", "integer", "boolean":
	default:
		return tool.Errorf(tool.ParameterError, "argument %s has x-mcp-header and the type %q", where, kind).WithHint("Only string, integer and boolean can be headers.")
	}
	if !token(header) {
		return tool.Errorf(tool.ParameterError, "argument %s has x-mcp-header %q", where, header).WithHint("It must be a name that a header may have.")
	}
	if len(h.params) >= maxHeaders {
		return tool.Errorf(tool.ParameterError, "more than %d arguments have x-mcp-header", maxHeaders)
	}
	for _, p := range h.params {
		if strings.EqualFold(p.header, header) {
			return tool.Errorf(tool.ParameterError, "arguments %s and %s have the same x-mcp-header %q", strings.Join(p.path, "."), where, header)
		}
	}
	h.params = append(h.params, paramHeader{path, header})
	return nil
}

// set sets the headers of the arguments that are there.
func (h *ParamHeaders) set(head http.Header, arguments json.RawMessage) {
	if h == nil {
		return
	}
	for _, p := range h.params {
		v := arguments
		for _, name := range p.path {
			v = member(v, name)
		}
		if s, ok := headerText(v); ok {
			head.Set(headerParam+p.header, encodeHeader(s))
		}
	}
}

// headerText is the value of an argument as a header: strings, booleans and
// integers that every reader of JSON holds exactly.
func headerText(v json.RawMessage) (string, bool) {
	const exact = 1<<53 - 1
	switch {
	case len(v) == 0:
		return "", false
	case v[0] == '"':
		return Unquote(v), true
	case string(v) == "true" || string(v) == "false":
		return string(v), true
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return strconv.FormatInt(n, 10), n >= -exact && n <= exact
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != float64(int64(f)) || f < -exact || f > exact {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

// encodeHeader gives s in a form that a header can carry.
func encodeHeader(s string) string {
	plain := s == "" || s[0] != ' ' && s[len(s)-1] != ' '
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= 0x20 && s[i] <= 0x7e
	}
	if plain && !(strings.HasPrefix(s, base64Prefix) && strings.HasSuffix(s, base64Suffix)) {
		return s
	}
	return base64Prefix + base64.StdEncoding.EncodeToString([]byte(s)) + base64Suffix
}

// token reports whether s can be the name of a header.
func token(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// standardHeaders are the headers of a request of the stateless era.
func standardHeaders(head http.Header, version string, r *Request) (http.Header, error) {
	if head == nil {
		head = make(http.Header, 4)
	}
	head.Set(headerVersion, version)
	head.Set(headerMethod, encodeHeader(r.Method))
	name := r.Name
	if name == "" {
		switch r.Method {
		case "tools/call", "prompts/get":
			name = Unquote(member(r.Params, "name"))
		case "resources/read":
			name = Unquote(member(r.Params, "uri"))
		}
	}
	if name != "" {
		head.Set(headerName, encodeHeader(name))
	}
	r.Headers.set(head, member(r.Params, "arguments"))
	return head, nil
}
