package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/clients"
)

// answerWithin is how long a client's entry may take to answer initialize. Most
// clients give up after 30 s or more; this program answers in far less than one.
const answerWithin = 10 * time.Second

// clientChecks looks at each client that is on this machine, or at the one named
// although it is not.
func (p *program) clientChecks(ctx context.Context, only string) ([]check, error) {
	m, err := p.machine()
	if err != nil {
		return nil, err
	}
	var checks []check
	for _, c := range clients.All() {
		if only != "" && c.Name != only || only == "" && (c.ReadOnly || !onMachine(c, m)) {
			continue
		}
		d := &clientDoctor{client: c, machine: m, name: c.Title}
		checks = append(checks, d.look(ctx)...)
		if only != "" && !onMachine(c, m) {
			checks = append([]check{{Name: c.Title, Status: "warn", Detail: "nothing of it was found on this machine"}}, checks...)
		}
	}
	return checks, nil
}

// onMachine reports whether a client seems to be installed, or was used.
func onMachine(c *clients.Client, m clients.Machine) bool {
	return slices.ContainsFunc(c.Signs(m), isThere) || c.Program != "" && lookPath(c.Program) != ""
}

// clientDoctor looks at one client.
type clientDoctor struct {
	client  *clients.Client
	machine clients.Machine
	name    string
}

// listed is an entry of this program, with where it stands.
type listed struct {
	clients.Entry
	place clients.Place
}

func (d *clientDoctor) look(ctx context.Context) []check {
	found, checks := d.entries()
	if len(found) == 0 {
		if len(checks) == 0 {
			none := check{Name: d.name, Status: "ok", Detail: "is not connected"}
			if !d.client.ReadOnly {
				none.Fix = "`toolyard connect " + d.client.Name + "` connects it."
			}
			checks = append(checks, none)
		}
		return checks
	}
	seen := map[string]bool{}
	for _, e := range found {
		if seen[e.Name] {
			continue // a file that counts more has it too
		}
		seen[e.Name] = true
		checks = append(checks, d.entry(ctx, e))
	}
	return append(checks, d.trust()...)
}

// entries finds the entries of this program; a file that does not parse is a
// check that failed.
func (d *clientDoctor) entries() ([]listed, []check) {
	var found []listed
	var checks []check
	for _, place := range d.client.Places(d.machine) {
		data, there, err := clients.Read(place.Path)
		if err == nil && there {
			var list []clients.Entry
			list, err = place.Entries(data)
			for _, e := range list {
				if isOurs(e) {
					found = append(found, listed{e, place})
				}
			}
		}
		if err != nil && !slices.ContainsFunc(checks, func(c check) bool { return strings.HasPrefix(c.Detail, place.Path) }) {
			checks = append(checks, check{Name: d.name, Status: "fail", Detail: place.Path + ": " + err.Error(), Fix: "Correct the file: " + d.client.Title + " cannot read it either."})
		}
	}
	return found, checks
}

// isOurs reports whether an entry starts this program, or has its name.
func isOurs(e clients.Entry) bool {
	if e.Name == "toolyard" {
		return true
	}
	base := strings.TrimSuffix(filepath.Base(filepath.ToSlash(e.Command)), ".exe")
	return base == "toolyard" && slices.Contains(e.Args, "mcp")
}

// entry looks at one entry: whether it is there, can be started, and answers.
func (d *clientDoctor) entry(ctx context.Context, e listed) check {
	c := check{Name: d.name, Status: "ok", Detail: fmt.Sprintf("%s in %s", e.Name, e.place.Path)}
	again := "Write it anew: `toolyard connect " + d.client.Name + d.flags(e) + "`."
	if e.Disabled {
		c.Status, c.Detail, c.Fix = "warn", c.Detail+" is switched off", "Switch it on in "+d.client.Title+"."
		return c
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin, fmt.Errorf("no answer to initialize within %s", answerWithin))
	defer cancel()
	var server string
	var err error
	if e.Type == "stdio" {
		server, err = d.tryProcess(ctx, e)
	} else {
		server, err = d.tryURL(ctx, e.Entry)
		again = "Start `toolyard serve`, or correct the URL and its headers."
	}
	if err != nil {
		c.Status, c.Detail, c.Fix = "fail", c.Detail+": "+err.Error(), again
		return c
	}
	c.Detail += fmt.Sprintf(" answers in %s as %s", durationText(time.Since(begin)), server)
	return c
}

func (d *clientDoctor) flags(e listed) string {
	flags := ""
	if e.place.Scope == clients.Project {
		flags += " --project"
	}
	if e.Name != "toolyard" {
		flags += " --name " + e.Name
	}
	return flags
}

// initialize is what a client sends first.
const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"toolyard-doctor","version":"1"}}}`

// serverOf reads the answer to initialize.
func serverOf(raw []byte) (string, error) {
	var answer struct {
		Result *struct {
			ServerInfo struct{ Name, Version string } `json:"serverInfo"`
		} `json:"result"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", fmt.Errorf("it does not answer in MCP but with %q", oneLine(string(raw), 80))
	}
	switch {
	case answer.Error != nil:
		return "", fmt.Errorf("it refuses initialize: %s", oneLine(answer.Error.Message, 200))
	case answer.Result == nil:
		return "", fmt.Errorf("it does not answer initialize but with %q", oneLine(string(raw), 80))
	}
	return strings.TrimSpace(answer.Result.ServerInfo.Name + " " + answer.Result.ServerInfo.Version), nil
}

// tryURL sends initialize to a server elsewhere, as streamable HTTP.
func (d *clientDoctor) tryURL(ctx context.Context, e clients.Entry) (string, error) {
	if e.Type != "http" {
		return "over " + e.Type + ", which is not tried here", nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, strings.NewReader(initialize))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for key, value := range e.Headers {
		req.Header.Set(key, d.expand(value))
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return "", fmt.Errorf("%s cannot be reached: %w", e.URL, err)
	}
	defer resp.Body.Close()
	if session := resp.Header.Get("Mcp-Session-Id"); session != "" {
		defer endSession(e.URL, session, req.Header)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s", e.URL, resp.Status)
	}
	return serverOf(firstMessage(resp))
}

// endSession tells a server that its session is over; what it says does not
// matter.
func endSession(url, session string, header http.Header) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, url, nil)
	if err != nil {
		return
	}
	req.Header = header.Clone()
	req.Header.Set("Mcp-Session-Id", session)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
	}
}

// firstMessage reads the first message of an answer, which may be a stream.
func firstMessage(resp *http.Response) []byte {
	body := io.LimitReader(resp.Body, 1<<20)
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		raw, _ := io.ReadAll(body) // what is cut off does not parse
		return raw
	}
	var all []byte
	piece := make([]byte, 4096)
	for {
		n, err := body.Read(piece)
		all = append(all, piece[:n]...)
		for _, event := range bytes.Split(bytes.ReplaceAll(all, []byte("\r\n"), []byte("\n")), []byte("\n\n")) {
			for line := range bytes.Lines(event) {
				if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); ok && json.Valid(data) {
					return data
				}
			}
		}
		if err != nil {
			return all
		}
	}
}

// inClients is ${NAME}, ${env:NAME}, ${NAME:-otherwise} or {env:NAME}.
var inClients = regexp.MustCompile(`\$\{[^{}]*\}|\{env:[^{}]*\}`)

// expand replaces variables in the ways of the clients. What it does not know
// stays as it is.
func (d *clientDoctor) expand(s string) string {
	return inClients.ReplaceAllStringFunc(s, func(match string) string {
		name := strings.TrimPrefix(strings.Trim(match, "${}"), "env:")
		switch name {
		case "workspaceFolder":
			return d.machine.Project
		case "userHome":
			return d.machine.Home
		}
		name, otherwise, has := strings.Cut(name, ":-")
		if value, ok := os.LookupEnv(name); ok {
			return value
		}
		if has {
			return otherwise
		}
		return match
	})
}

// trust says what Gemini CLI thinks of the project.
func (d *clientDoctor) trust() []check {
	if d.client.Name != "gemini" {
		return nil
	}
	dir := d.machine.Home
	if d.machine.GeminiHome != "" {
		dir = d.machine.GeminiHome
	}
	dir = filepath.Join(dir, ".gemini")
	if raw, there, err := clients.Read(filepath.Join(dir, "settings.json")); err == nil && there && !asksForTrust(raw) {
		return nil
	}
	path := filepath.Join(dir, "trustedFolders.json")
	if raw, there, err := clients.Read(path); err == nil && there {
		folders, err := clients.Object(raw)
		if err == nil && trustedFolder(folders, d.machine.Project) {
			return nil
		}
	}
	return []check{{Name: d.name, Status: "warn", Detail: d.machine.Project + " is not in " + path,
		Fix: "Gemini CLI starts no servers in a folder that it does not trust: start it there and say that it may."}}
}

// asksForTrust reports whether Gemini CLI looks at trusted folders at all.
func asksForTrust(settings []byte) bool {
	root, err := clients.Object(settings)
	if err != nil {
		return true
	}
	security, _ := root["security"].(map[string]any)
	trust, _ := security["folderTrust"].(map[string]any)
	return trust["enabled"] != false
}

// trustedFolder reads the rules of Gemini CLI: a folder counts with all below it,
// and TRUST_PARENT means the one above; the longest rule decides.
func trustedFolder(folders map[string]any, dir string) bool {
	longest, trusted := -1, false
	for rule, level := range folders {
		path := rule
		if level == "TRUST_PARENT" {
			path = filepath.Dir(path)
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		rel, err := filepath.Rel(path, dir)
		if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			continue
		}
		if len(rule) > longest {
			longest, trusted = len(rule), level == "TRUST_FOLDER" || level == "TRUST_PARENT"
		}
	}
	return trusted
}
