package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/tool"
)

// Bounds of resources.
const (
	maxResource  = 1 << 20 // bytes of one resource
	maxListed    = 2000    // entries of a workspace's root that are looked at
	maxArtifacts = 1000    // artifacts listed
	readPages    = 64      // calls of read that one resource may take
)

const (
	fileScheme     = "file://"
	artifactScheme = "artifact://"
)

// templates are the two kinds of resources that are our own.
func (s *Server) templates() []*sdk.ResourceTemplate {
	var list []*sdk.ResourceTemplate
	if len(s.config.Workspaces) > 0 {
		list = append(list, &sdk.ResourceTemplate{
			URITemplate: "file:///{+path}",
			Name:        "file",
			Title:       "File of a workspace",
			Description: "A file below " + strings.Join(s.config.Workspaces, " or ") + ", by its absolute path; at most 1 MiB.",
		})
	}
	if s.config.OpenArtifact != nil {
		list = append(list, &sdk.ResourceTemplate{
			URITemplate: "artifact://{id}",
			Name:        "artifact",
			Title:       "Artifact",
			Description: "What a call has kept: whole output or an exported file; at most 1 MiB. Use output_read for more.",
		})
	}
	return list
}

// addTemplates offers them.
func (s *Server) addTemplates() {
	for _, t := range s.templates() {
		read := s.readFile
		if strings.HasPrefix(t.URITemplate, artifactScheme) {
			read = s.readArtifact
		}
		s.sdk.AddResourceTemplate(t, read)
	}
}

// listResources lists the files at the top of the workspaces, the session's
// artifacts and what the upstream has, a page at a time.
func (s *Server) listResources(ctx context.Context, r *sdk.ListResourcesRequest) (sdk.Result, error) {
	sess := s.sessionBySDK(r.Session)
	v := s.viewFor(sess, r.Extra)
	var all []*sdk.Resource
	if s.reads(v) {
		all = s.files()
	}
	session := ""
	if sess != nil {
		session = sess.id
	}
	if s.config.ListArtifacts != nil && session != "" {
		if err := s.config.Ready(ctx); err == nil {
			all = append(all, s.artifacts(ctx, session)...)
		}
	}
	entries := encoded(all)
	if u := s.config.Upstream; u != nil {
		entries = append(entries, u.Resources(ctx, v.allowed)...)
	}
	cursor := ""
	if r.Params != nil {
		cursor = r.Params.Cursor
	}
	return s.page("resources/list", "resources", r.ProtocolVersion(), cursor, entries)
}

// reads reports whether a client may read the files of the workspaces.
func (s *Server) reads(v *view) bool { return v.allowed == nil || s.toolIn(v, "read") != nil }

// hides tells of a file of a workspace whether tools could not show it.
func (s *Server) hides(root string) func(path string) bool {
	var byRule func(path string) bool
	if s.config.Closed != nil {
		byRule = s.config.Closed(root)
	}
	return func(path string) bool {
		if byRule != nil && byRule(path) {
			return true
		}
		if s.config.Stat == nil {
			return false
		}
		_, err := s.config.Stat(root, path)
		return err != nil
	}
}

// files lists the regular files at the top of each workspace, by name.
func (s *Server) files() []*sdk.Resource {
	var list []*sdk.Resource
	for _, root := range s.config.Workspaces {
		dir, err := os.Open(root)
		if err != nil {
			continue // the workspace's own tools say what is wrong with it
		}
		entries, _ := dir.ReadDir(maxListed)
		_ = dir.Close()
		hidden := s.hides(root)
		slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, entry := range entries {
			if !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			full := filepath.Join(root, entry.Name())
			if hidden(full) {
				continue
			}
			list = append(list, &sdk.Resource{
				URI: fileURI(full), Name: entry.Name(), MIMEType: mimeType(entry.Name()),
			})
		}
	}
	return list
}

func (s *Server) artifacts(ctx context.Context, session string) []*sdk.Resource {
	rows, err := s.config.ListArtifacts(ctx, session, maxArtifacts)
	if err != nil {
		s.config.Log.Warn("artifacts cannot be listed", "session", session, "err", err)
		return nil
	}
	list := make([]*sdk.Resource, len(rows))
	for i, a := range rows {
		list[i] = &sdk.Resource{
			URI: artifactScheme + a.ID, Name: a.Name, MIMEType: a.MIME, Size: a.Size,
			Description: a.Category + " of call " + a.Call,
		}
	}
	return list
}

// readFile reads a file through the tool read, so that rules, audit and
// redaction hold for it as for any other read.
func (s *Server) readFile(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	name, err := filePath(r.Params.URI)
	if err != nil {
		return nil, &jsonrpc.Error{Code: codeInvalidParams, Message: err.Error()}
	}
	p := callParams{name: "read"}
	if len(r.Params.Meta) > 0 {
		if meta, err := json.Marshal(r.Params.Meta); err == nil {
			_ = p.parseMeta(meta)
		}
	}
	p.token = nil
	p.workspace = s.workspaceOf(name)
	if p.workspace == "" {
		return nil, sdk.ResourceNotFoundError(r.Params.URI)
	}
	sess := s.sessionOf(&sdk.CallToolRequest{Session: r.Session, Extra: r.Extra}, &p)
	p.view = s.viewFor(sess, r.Extra)
	contents := &sdk.ResourceContents{URI: r.Params.URI, MIMEType: mimeType(name)}
	if err := s.readAll(ctx, sess, &p, name, contents); err != nil {
		return nil, resourceError(r.Params.URI, err)
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
}

// readAll reads a file page by page, and an image whole.
func (s *Server) readAll(ctx context.Context, sess *session, p *callParams, name string, to *sdk.ResourceContents) error {
	var text strings.Builder
	for offset, page := 0, 0; ; page++ {
		content, at, err := s.readPage(ctx, sess, p, map[string]any{"file_path": name, "offset": offset, "raw": true})
		if err != nil {
			return err
		}
		if at.Kind == "binary" {
			content, _, err = s.readPage(ctx, sess, p, map[string]any{"file_path": name})
			if err != nil {
				return err
			}
			if len(content.Data) == 0 {
				return tool.Errorf(tool.ParameterError, "%s is binary and no image", filepath.Base(name)).WithHint("Use bash with a program that knows its format.")
			}
		}
		if len(content.Data) > 0 {
			to.Blob, to.MIMEType = content.Data, content.MIME
			return nil
		}
		text.WriteString(content.Text)
		offset = at.Offset + at.Returned
		if at.Returned == 0 || offset >= at.Total {
			break
		}
		if text.Len() > maxResource || page >= readPages {
			return tooLarge(name)
		}
	}
	to.Text = text.String()
	if !isText(to.MIMEType) {
		to.MIMEType = "text/plain"
	}
	return nil
}

// pageOf is what read says about what it returned.
type pageOf struct {
	Total    int    `json:"total_lines"`
	Offset   int    `json:"offset"`
	Returned int    `json:"lines_returned"`
	Kind     string `json:"kind"`
}

// readPage runs one call of read. Its first block is the content; further ones
// are remarks.
func (s *Server) readPage(ctx context.Context, sess *session, p *callParams, arguments map[string]any) (first tool.Content, at pageOf, err error) {
	if p.arguments, err = json.Marshal(arguments); err != nil {
		return first, at, err
	}
	result, wire := s.result(ctx, sess, p, &operation{}, s.viewIn(sess, p.view))
	switch {
	case wire != nil:
		return first, at, tool.Errorf(tool.NotFound, "%s", wire.message)
	case result.Err != nil:
		return first, at, result.Err
	case result.IsError:
		return first, at, tool.Errorf(tool.ExecutionError, "%s", result.TextContent())
	case len(result.Content) > 0:
		first = result.Content[0]
	}
	if result.Structured != nil {
		err = json.Unmarshal(result.Structured, &at)
	}
	return first, at, err
}

// workspaceOf is the named workspace that a path lies in; "" if none.
func (s *Server) workspaceOf(name string) string {
	for _, root := range s.config.Workspaces {
		if rel, err := filepath.Rel(root, name); err == nil && filepath.IsLocal(rel) {
			return root
		}
	}
	return ""
}

func (s *Server) readArtifact(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	id := strings.TrimPrefix(r.Params.URI, artifactScheme)
	if err := s.config.Ready(ctx); err != nil {
		return nil, resourceError(r.Params.URI, err)
	}
	data, row, err := s.config.OpenArtifact(ctx, id)
	if err != nil {
		return nil, resourceError(r.Params.URI, err)
	}
	defer data.Close()
	if !s.mayOpen(r, row.Session) {
		return nil, sdk.ResourceNotFoundError(r.Params.URI)
	}
	if row.Size > maxResource {
		return nil, resourceError(r.Params.URI, tooLarge(row.Name))
	}
	body, err := io.ReadAll(io.LimitReader(data, maxResource))
	if err != nil {
		return nil, resourceError(r.Params.URI, err)
	}
	contents := &sdk.ResourceContents{URI: r.Params.URI, MIMEType: row.MIME}
	if isText(row.MIME) && utf8.Valid(body) {
		contents.Text = string(body)
	} else {
		contents.Blob = body
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
}

// mayOpen reports whether what a session made is open to a request: to one of that
// session, and in the stateless era to the same caller, or to the owner.
func (s *Server) mayOpen(r *sdk.ReadResourceRequest, madeIn string) bool {
	if sess := s.sessionBySDK(r.Session); sess != nil {
		return madeIn == sess.id || madeIn == "" && sess.principal == ""
	}
	var who string
	if r.Extra != nil {
		who = owned(principal(r.Extra.Header))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	made := s.stateless[madeIn]
	return who == "" || made != nil && made.principal == who
}

func tooLarge(name string) error {
	return tool.Errorf(tool.ResourceExhausted, "%s is larger than %d bytes", path.Base(filepath.ToSlash(name)), maxResource).
		WithHint("Use the tool read, or output_read for an artifact, with offset and limit.")
}

// resourceError is err as an answer to resources/read.
func resourceError(uri string, err error) error {
	e := tool.AsError(err)
	switch e.Code {
	case tool.NotFound, tool.ToolNotFound:
		return sdk.ResourceNotFoundError(uri)
	case tool.Internal:
		return &jsonrpc.Error{Code: codeInternal, Message: e.Text()}
	}
	return &jsonrpc.Error{Code: codeInvalidParams, Message: e.Text(), Data: appendJSON(nil, map[string]any{"code": e.Code, "uri": uri})}
}

// filePath is the path in a file URI of this machine.
func filePath(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || (u.Host != "" && u.Host != "localhost") || !path.IsAbs(u.Path) {
		return "", fmt.Errorf("%q is not a file URI of this machine", uri)
	}
	name := u.Path
	if len(name) > 3 && name[2] == ':' && filepath.Separator == '\\' {
		name = name[1:] // file:///C:/dir
	}
	return filepath.Clean(filepath.FromSlash(name)), nil
}

func fileURI(name string) string {
	slashed := filepath.ToSlash(name)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	return (&url.URL{Scheme: "file", Path: slashed}).String()
}

func mimeType(name string) string {
	if kind := mime.TypeByExtension(filepath.Ext(name)); kind != "" {
		kind, _, _ = strings.Cut(kind, ";")
		return kind
	}
	return "text/plain"
}

func isText(mimeType string) bool {
	base, _, _ := strings.Cut(mimeType, ";")
	return strings.HasPrefix(base, "text/") || strings.HasSuffix(base, "json") || strings.HasSuffix(base, "xml")
}

// asWire finds the JSON-RPC error in err; nil if there is none.
func asWire(err error) *jsonrpc.Error {
	wire, _ := errors.AsType[*jsonrpc.Error](err)
	return wire
}
