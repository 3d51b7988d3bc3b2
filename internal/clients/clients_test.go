package clients_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/clients"
)

var ours = clients.Entry{Name: "toolyard", Type: "stdio", Command: "/opt/toolyard", Args: []string{"mcp"}}

// place gives the file of a client's user.
func place(t *testing.T, client string, s clients.Scope) clients.Place {
	t.Helper()
	c, ok := clients.Find(client)
	if !ok {
		t.Fatalf("there is no client %s", client)
	}
	p, ok := c.Place(clients.Machine{OS: "linux", Home: "/home/ann", Project: "/src/app"}, s, nil)
	if !ok {
		t.Fatalf("%s has no file of scope %s", client, s)
	}
	return p
}

// puts are files before and after the entry was written.
var puts = []struct {
	name, client string
	scope        clients.Scope
	before, want string
}{
	{"no file", "claude-code", clients.Project, "",
		"{\n  \"mcpServers\": {\n    \"toolyard\": {\n      \"type\": \"stdio\",\n      \"command\": \"/opt/toolyard\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n"},
	{"an empty object", "cursor", clients.User, "{}\n",
		"{\n  \"mcpServers\": {\n    \"toolyard\": {\n      \"command\": \"/opt/toolyard\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n"},
	{"one line stays one", "claude-code", clients.User, `{"a":1,"mcpServers":{"b":{"command":"c"}},"z":[1, 2]}`,
		`{"a":1,"mcpServers":{"b":{"command":"c"},"toolyard":{"type":"stdio","command":"/opt/toolyard","args":["mcp"]}},"z":[1, 2]}`},
	{"comments, tabs, trailing commas, no line end at the end", "vscode", clients.Project,
		"{\n\t// mine\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"b\"}, // the first\n\t\t/* none */\n\t},\n\t\"inputs\": [],\n}",
		"{\n\t// mine\n\t\"servers\": {\n\t\t\"a\": {\"command\": \"b\"}, // the first\n\t\t\"toolyard\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\"command\": \"/opt/toolyard\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t},\n\t\t/* none */\n\t},\n\t\"inputs\": [],\n}"},
	{"a comment behind the last entry", "zed", clients.User,
		"{\n    \"theme\": \"x\", // dark\n    \"context_servers\": {\n        \"a\": {} // empty\n    }\n}\n",
		"{\n    \"theme\": \"x\", // dark\n    \"context_servers\": {\n        \"a\": {}, // empty\n        \"toolyard\": {\n            \"command\": \"/opt/toolyard\",\n            \"args\": [\"mcp\"]\n        }\n    }\n}\n"},
	{"CRLF and a byte order mark", "gemini", clients.User, "\ufeff{\r\n  \"theme\": \"x\"\r\n}\r\n",
		"\ufeff{\r\n  \"theme\": \"x\",\r\n  \"mcpServers\": {\r\n    \"toolyard\": {\r\n      \"command\": \"/opt/toolyard\",\r\n      \"args\": [\"mcp\"],\r\n      \"timeout\": 660000\r\n    }\r\n  }\r\n}\r\n"},
	{"an entry of before keeps what is not ours", "opencode", clients.User,
		"{\n  \"mcp\": {\n    \"toolyard\": {\n      // off for now\n      \"enabled\": false,\n      \"type\": \"remote\",\n      \"url\": \"http://x\",\n      \"headers\": {}\n    }\n  }\n}\n",
		"{\n  \"mcp\": {\n    \"toolyard\": {\n      // off for now\n      \"enabled\": false,\n      \"type\": \"local\",\n      \"command\": [\"/opt/toolyard\", \"mcp\"],\n      \"timeout\": 660000\n    }\n  }\n}\n"},
	{"a list that is null", "cursor", clients.User, "{\n  \"mcpServers\": null,\n  \"b\": null\n}\n",
		"{\n  \"mcpServers\": {\n    \"toolyard\": {\n      \"command\": \"/opt/toolyard\",\n      \"args\": [\"mcp\"]\n    }\n  },\n  \"b\": null\n}\n"},
	{"an entry that is null", "cursor", clients.User, "{\"mcpServers\": {\"toolyard\": null}}",
		"{\"mcpServers\": {\"toolyard\": {\"command\":\"/opt/toolyard\",\"args\":[\"mcp\"]}}}"},
	{"nothing but a comment", "windsurf", clients.User, "{ // nothing yet\n}\n",
		"{ // nothing yet\n  \"mcpServers\": {\n    \"toolyard\": {\n      \"command\": \"/opt/toolyard\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n"},
	{"local scope of claude", "claude-code", clients.Local,
		"{\n  \"projects\": {\n    \"/src/app\": {\n      \"mcpServers\": {},\n      \"history\": []\n    }\n  }\n}\n",
		"{\n  \"projects\": {\n    \"/src/app\": {\n      \"mcpServers\": {\n        \"toolyard\": {\n          \"type\": \"stdio\",\n          \"command\": \"/opt/toolyard\",\n          \"args\": [\"mcp\"]\n        }\n      },\n      \"history\": []\n    }\n  }\n}\n"},
	{"the later of two lists counts", "cursor", clients.User, "{\"mcpServers\": {\"a\": 1}, \"mcpServers\": {\"b\": 1}}",
		"{\"mcpServers\": {\"a\": 1}, \"mcpServers\": {\"b\": 1, \"toolyard\":{\"command\":\"/opt/toolyard\",\"args\":[\"mcp\"]}}}"},

	{"toml: no file", "codex", clients.User, "",
		"[mcp_servers.toolyard]\ncommand = \"/opt/toolyard\"\nargs = [\"mcp\"]\ntool_timeout_sec = 660\n"},
	{"toml: after all else", "codex", clients.User, "# mine\nmodel = 'x' # good\n\n[mcp_servers.a]\ncommand = \"b\"",
		"# mine\nmodel = 'x' # good\n\n[mcp_servers.a]\ncommand = \"b\"\n\n[mcp_servers.toolyard]\ncommand = \"/opt/toolyard\"\nargs = [\"mcp\"]\ntool_timeout_sec = 660\n"},
	{"toml: a section of before", "codex", clients.User,
		"[mcp_servers.toolyard] # ours\r\nurl = \"http://x\"\r\n  tool_timeout_sec = 5 # short\r\n# end\r\n\r\n[mcp_servers.toolyard.env]\r\nA = \"b\"\r\n[tui]\r\nx = \"\"\"\r\n[mcp_servers.toolyard]\r\n\"\"\"\r\n",
		"[mcp_servers.toolyard] # ours\r\n  tool_timeout_sec = 5 # short\r\n  command = \"/opt/toolyard\"\r\n  args = [\"mcp\"]\r\n# end\r\n\r\n[mcp_servers.toolyard.env]\r\nA = \"b\"\r\n[tui]\r\nx = \"\"\"\r\n[mcp_servers.toolyard]\r\n\"\"\"\r\n"},
	{"toml: inline tables", "codex", clients.User, "mcp_servers = { a = { command = \"b\" } } # all\n",
		"mcp_servers = { a = { command = \"b\" }, toolyard = { command = \"/opt/toolyard\", args = [\"mcp\"], tool_timeout_sec = 660 } } # all\n"},
	{"toml: an inline entry", "codex", clients.User, "[mcp_servers]\ntoolyard = { command = \"old\", enabled = false }\n",
		"[mcp_servers]\ntoolyard = { command = \"/opt/toolyard\", enabled = false, args = [\"mcp\"], tool_timeout_sec = 660 }\n"},
	{"toml: keys with dots", "codex", clients.User, "[mcp_servers]\n\"toolyard\".command = \"old\"\nb.command = \"c\"\n",
		"[mcp_servers]\n\"toolyard\".command = \"/opt/toolyard\"\n\"toolyard\".args = [\"mcp\"]\n\"toolyard\".tool_timeout_sec = 660\nb.command = \"c\"\n"},
}

func TestPut(t *testing.T) {
	for _, c := range puts {
		t.Run(c.name, func(t *testing.T) {
			p := place(t, c.client, c.scope)
			got, err := p.Put([]byte(c.before), ours)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("Put (-want +got):\n%s", diff)
			}
			again, err := p.Put(got, ours)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got), string(again)); diff != "" {
				t.Errorf("a second Put changes something (-first +second):\n%s", diff)
			}
			list, err := p.Entries(got)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, e := range list {
				if e.Name == ours.Name {
					found = true
					e.Env, e.Disabled = nil, false
					if diff := cmp.Diff(ours, e); diff != "" {
						t.Errorf("the entry reads differently (-want +got):\n%s", diff)
					}
				}
			}
			if !found {
				t.Error("the entry is not read back")
			}
		})
	}
}

func TestRemove(t *testing.T) {
	for _, c := range []struct {
		name, client string
		before, want string
	}{
		{"the last of several", "cursor", "{\n  \"mcpServers\": {\n    \"a\": {}, // first\n    \"toolyard\": {\n      \"command\": \"x\"\n    }\n  }\n}\n",
			"{\n  \"mcpServers\": {\n    \"a\": {} // first\n  }\n}\n"},
		{"the first of several", "cursor", "{\"mcpServers\": { \"toolyard\": {}, \"a\": {} }}", "{\"mcpServers\": { \"a\": {} }}"},
		{"the last on a line", "cursor", "{\"mcpServers\": { \"a\": {}, \"toolyard\": {} }}", "{\"mcpServers\": { \"a\": {} }}"},
		{"the only one", "cursor", "{\n  \"mcpServers\": {\n    \"toolyard\": {}\n  }\n}\n", "{\n  \"mcpServers\": {}\n}\n"},
		{"twice the same", "cursor", "{\"mcpServers\":{\"toolyard\":1,\"toolyard\":2}}", "{\"mcpServers\":{}}"},
		{"not there", "cursor", "{\"mcpServers\": []}", "{\"mcpServers\": []}"},
		{"no file", "cursor", "", ""},
		{"toml: a section", "codex", "a = 1\n\n[mcp_servers.toolyard]\ncommand = \"x\"\n[mcp_servers.toolyard.env]\nA = \"b\"\n\n[tui]\nb = 1\n", "a = 1\n\n[tui]\nb = 1\n"},
		{"toml: at the end", "codex", "a = 1\r\n\r\n[mcp_servers.toolyard]\r\ncommand = \"x\"\r\n", "a = 1\r\n"},
		{"toml: inline", "codex", "mcp_servers = { a = {}, toolyard = { command = \"x\" }, b = {} }\n", "mcp_servers = { a = {}, b = {} }\n"},
		{"toml: the last inline", "codex", "mcp_servers = { a = {}, toolyard = { command = \"x\" } }\n", "mcp_servers = { a = {} }\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := place(t, c.client, clients.User).Remove([]byte(c.before), "toolyard")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("Remove (-want +got):\n%s", diff)
			}
		})
	}
}

// What was put is taken away again without a trace, wherever there was a list.
func TestPutThenRemove(t *testing.T) {
	for _, c := range puts {
		if strings.Contains(c.before, "toolyard") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			p := place(t, c.client, c.scope)
			removed, err := p.Remove([]byte(c.want), "toolyard")
			if err != nil {
				t.Fatal(err)
			}
			if p.Format == clients.TOML && strings.TrimSpace(c.before) != strings.TrimSpace(string(removed)) {
				t.Errorf("got %q, want %q", removed, c.before)
			}
			if list, err := p.Entries(removed); err != nil || len(list) > 1 {
				t.Errorf("entries %v, %v after the removal", list, err)
			}
		})
	}
}

func TestBrokenFiles(t *testing.T) {
	for _, c := range []struct {
		name, client, data string
		line, column       int
	}{
		{"no end", "cursor", "{\n  \"a\": 1", 2, 9},
		{"a comment where there may be none", "claude-code", "{\n  // c\n}", 2, 3},
		{"a trailing comma where there may be none", "claude-code", "{\"é\": 1,}", 1, 8},
		{"two documents", "zed", "{}\n{}", 2, 1},
		{"a list", "zed", "\ufeff []", 1, 2},
		{"servers as a list", "cursor", "{\n \"mcpServers\": []\n}", 2, 16},
		{"not UTF-8", "cursor", "{\"a\": \"\xff\"}", 1, 8},
		{"a bad escape", "cursor", "{\"a\": \"\\x\"}", 1, 7},
		{"a string over two lines", "cursor", "{\"a\": \"b\n\"}", 1, 9},
		{"toml: no end", "codex", "a = 1\n[mcp_servers.b\n", 2, 15},
		{"toml: twice", "codex", "a = 1\na = 2\n", 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := place(t, c.client, clients.User).Put([]byte(c.data), ours)
			e, ok := errors.AsType[*clients.SyntaxError](err)
			if !ok {
				t.Fatalf("error %v, want a SyntaxError", err)
			}
			if e.Line != c.line || e.Column != c.column {
				t.Errorf("%v, want line %d, column %d", e, c.line, c.column)
			}
		})
	}
}
