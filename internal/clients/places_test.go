package clients_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/clients"
)

func TestPlaces(t *testing.T) {
	linux := clients.Machine{OS: "linux", Home: "/home/ann", Project: "/src/app"}
	for _, c := range []struct {
		name    string
		machine clients.Machine
		want    string
	}{
		{"linux", linux, `
claude-code local /home/ann/.claude.json
claude-code project /src/app/.mcp.json
claude-code user /home/ann/.claude.json
claude-desktop user /home/ann/.config/Claude/claude_desktop_config.json
codex project /src/app/.codex/config.toml
codex user /home/ann/.codex/config.toml
cursor project /src/app/.cursor/mcp.json
cursor user /home/ann/.cursor/mcp.json
gemini project /src/app/.gemini/settings.json
gemini user /home/ann/.gemini/settings.json
opencode project /src/app/opencode.jsonc
opencode project /src/app/opencode.json
opencode user /home/ann/.config/opencode/opencode.jsonc
opencode user /home/ann/.config/opencode/opencode.json
vscode project /src/app/.vscode/mcp.json
vscode user /home/ann/.config/Code/User/mcp.json
windsurf user /home/ann/.codeium/windsurf/mcp_config.json
zed project /src/app/.zed/settings.json
zed user /home/ann/.config/zed/settings.json`},
		{"variables", clients.Machine{OS: "linux", Home: "/home/ann", XDGConfigHome: "/cfg", CodexHome: "/codex", ClaudeDir: "/claude", GeminiHome: "/gem"}, `
claude-code user /claude/.claude.json
claude-desktop user /cfg/Claude/claude_desktop_config.json
codex user /codex/config.toml
cursor user /home/ann/.cursor/mcp.json
gemini user /gem/.gemini/settings.json
opencode user /cfg/opencode/opencode.jsonc
opencode user /cfg/opencode/opencode.json
vscode user /cfg/Code/User/mcp.json
windsurf user /home/ann/.codeium/windsurf/mcp_config.json
zed user /cfg/zed/settings.json`},
		{"macOS", clients.Machine{OS: "darwin", Home: "/Users/ann"}, `
claude-code user /Users/ann/.claude.json
claude-desktop user /Users/ann/Library/Application Support/Claude/claude_desktop_config.json
codex user /Users/ann/.codex/config.toml
cursor user /Users/ann/.cursor/mcp.json
gemini user /Users/ann/.gemini/settings.json
opencode user /Users/ann/.config/opencode/opencode.jsonc
opencode user /Users/ann/.config/opencode/opencode.json
vscode user /Users/ann/Library/Application Support/Code/User/mcp.json
windsurf user /Users/ann/.codeium/windsurf/mcp_config.json
zed user /Users/ann/.config/zed/settings.json`},
		{"Windows", clients.Machine{OS: "windows", Home: `C:\Users\ann`, AppData: `C:\Users\ann\AppData\Roaming`}, `
claude-code user C:\Users\ann\.claude.json
claude-desktop user C:\Users\ann\AppData\Roaming\Claude\claude_desktop_config.json
codex user C:\Users\ann\.codex\config.toml
cursor user C:\Users\ann\.cursor\mcp.json
gemini user C:\Users\ann\.gemini\settings.json
opencode user C:\Users\ann\.config\opencode\opencode.jsonc
opencode user C:\Users\ann\.config\opencode\opencode.json
vscode user C:\Users\ann\AppData\Roaming\Code\User\mcp.json
windsurf user C:\Users\ann\.codeium\windsurf\mcp_config.json
zed user C:\Users\ann\AppData\Roaming\Zed\settings.json`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			for _, client := range clients.All() {
				for _, p := range client.Places(c.machine) {
					fmt.Fprintf(&b, "\n%s %s %s", client.Name, p.Scope, p.Path)
				}
			}
			if diff := cmp.Diff(c.want, b.String()); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
		})
	}
}

// An existing file is taken, and the newer name where there are none.
func TestPlaceOfSeveral(t *testing.T) {
	c, _ := clients.Find("opencode")
	m := clients.Machine{OS: "linux", Home: "/home/ann"}
	for _, there := range []string{"", "/home/ann/.config/opencode/opencode.json", "/home/ann/.config/opencode/opencode.jsonc"} {
		p, ok := c.Place(m, clients.User, func(path string) bool { return path == there })
		want := there
		if want == "" {
			want = "/home/ann/.config/opencode/opencode.json"
		}
		if !ok || p.Path != want {
			t.Errorf("with %q: %q, %v, want %q", there, p.Path, ok, want)
		}
	}
}

// Entries as the clients' own documentation has them.
func TestEntries(t *testing.T) {
	for _, c := range []struct {
		name, client, data string
		want               []clients.Entry
	}{
		{"claude", "claude-code", `{"mcpServers": {
			"a": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"K": "${V}"}},
			"b": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer t"}},
			"c": {"type": "sse", "url": "https://x/sse"}, "d": 1, "e": {}}}`, []clients.Entry{
			{Name: "a", Type: "stdio", Command: "npx", Args: []string{"-y", "x"}, Env: map[string]string{"K": "${V}"}},
			{Name: "b", Type: "http", URL: "https://x/mcp", Headers: map[string]string{"Authorization": "Bearer t"}},
			{Name: "c", Type: "sse", URL: "https://x/sse"},
		}},
		{"codex", "codex", "[mcp_servers.a]\ncommand = 'npx'\nargs = ['x']\ncwd = '/w'\nenabled = false\n[mcp_servers.a.env]\nK = 'v'\n[mcp_servers.b]\nurl = 'https://x'\nbearer_token_env_var = 'T'\nhttp_headers = { H = 'h' }\nenv_http_headers = { E = 'V' }\n", []clients.Entry{
			{Name: "a", Type: "stdio", Command: "npx", Args: []string{"x"}, Cwd: "/w", Env: map[string]string{"K": "v"}, Disabled: true},
			{Name: "b", Type: "http", URL: "https://x", Headers: map[string]string{"Authorization": "Bearer ${T}", "H": "h", "E": "${V}"}},
		}},
		{"gemini", "gemini", `{"mcpServers": {"a": {"httpUrl": "https://x/sse"}, "b": {"url": "https://x/sse"}, "c": {"url": "wss://x"}}}`, []clients.Entry{
			{Name: "a", Type: "http", URL: "https://x/sse"}, {Name: "b", Type: "sse", URL: "https://x/sse"}, {Name: "c", Type: "ws", URL: "wss://x"},
		}},
		{"opencode", "opencode", `{"mcp": {"a": {"type": "local", "command": ["npx", "-y"], "environment": {"A": "b"}, "enabled": false}, "b": {"type": "remote", "url": "https://x"}}}`, []clients.Entry{
			{Name: "a", Type: "stdio", Command: "npx", Args: []string{"-y"}, Env: map[string]string{"A": "b"}, Disabled: true},
			{Name: "b", Type: "http", URL: "https://x"},
		}},
		{"windsurf", "windsurf", `{"mcpServers": {"a": {"serverUrl": "https://x", "disabled": true}}}`, []clients.Entry{{Name: "a", Type: "http", URL: "https://x", Disabled: true}}},
		{"zed of before", "zed", `{"context_servers": {"a": {"source": "custom", "command": {"path": "npx", "args": ["-y"], "env": {"A": "b"}}}, "b": {"source": "extension", "settings": {}}}}`, []clients.Entry{
			{Name: "a", Type: "stdio", Command: "npx", Args: []string{"-y"}, Env: map[string]string{"A": "b"}},
		}},
		{"vscode", "vscode", "{\n  // mine\n  \"servers\": {\"a\": {\"type\": \"stdio\", \"command\": \"x\",},},\n}", []clients.Entry{{Name: "a", Type: "stdio", Command: "x"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := place(t, c.client, clients.User).Entries([]byte(c.data))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// Over HTTP each client has its own words; what belonged to a process goes.
func TestPutURL(t *testing.T) {
	e := clients.Entry{Name: "toolyard", Type: "http", URL: "http://127.0.0.1:8765/mcp", Headers: map[string]string{"Authorization": "Bearer t"}}
	want := map[string]string{
		"claude-code": `"type":"http","url":"http://127.0.0.1:8765/mcp","headers":{"Authorization":"Bearer t"}`,
		"cursor":      `"url":"http://127.0.0.1:8765/mcp","headers":{"Authorization":"Bearer t"}`,
		"gemini":      `"type":"http","url":"http://127.0.0.1:8765/mcp","headers":{"Authorization":"Bearer t"},"timeout":660000`,
		"opencode":    `"type":"remote","url":"http://127.0.0.1:8765/mcp","headers":{"Authorization":"Bearer t"},"enabled":true,"timeout":660000`,
		"vscode":      `"type":"http","url":"http://127.0.0.1:8765/mcp","headers":{"Authorization":"Bearer t"}`,
		"windsurf":    `"serverUrl":"http://127.0.0.1:8765/mcp","headers":{"Authorization":"Bearer t"}`,
		"zed":         `"url":"http://127.0.0.1:8765/mcp","headers":{"Authorization":"Bearer t"}`,
		"codex":       "[mcp_servers.toolyard]\nurl = \"http://127.0.0.1:8765/mcp\"\nhttp_headers = { Authorization = \"Bearer t\" }\ntool_timeout_sec = 660\n",
	}
	for _, name := range clients.Names(true) {
		t.Run(name, func(t *testing.T) {
			p := place(t, name, clients.User)
			empty := `{"x":1}`
			if p.Format == clients.TOML {
				empty = ""
			}
			got, err := p.Put([]byte(empty), e)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(got), want[name]) {
				t.Errorf("got %s, want %s in it", got, want[name])
			}
			process, err := p.Put(got, ours)
			if err != nil {
				t.Fatal(err)
			}
			for _, gone := range []string{"http://", "Bearer"} {
				if strings.Contains(string(process), gone) {
					t.Errorf("as a process it has %s: %s", gone, process)
				}
			}
			back, err := p.Put(process, e)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(back), "/opt/toolyard") {
				t.Errorf("over HTTP again it has a command: %s", back)
			}
		})
	}
}
