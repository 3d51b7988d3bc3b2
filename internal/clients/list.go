package clients

import "strings"

// All lists the clients. To add one: a function below, a line here, its files in
// testdata, and a row in docs/quick-start.md.
func All() []*Client {
	return []*Client{
		claudeCode(), claudeDesktop(), codex(), cursor(), gemini(), opencode(), vscode(), windsurf(), zed(),
	}
}

func inProject(Scope) string { return "project" }
func nowhere(Scope) string   { return "" }

// noVariable is a client that replaces nothing in arguments.
func noVariable(Scope) string { return "" }

// workspaceFolder is the variable of the clients that descend from VS Code.
func workspaceFolder(Scope) string { return "${workspaceFolder}" }

// claudeCode: https://code.claude.com/docs/en/mcp. Its user file is rewritten by
// the client itself, without comments.
func claudeCode() *Client {
	return &Client{
		Name: "claude-code", Title: "Claude Code", Program: "claude", Starts: inProject, Variable: noVariable,
		Signs: func(m Machine) []string {
			return []string{m.claude(".claude.json"), m.join(m.Home, ".claude")}
		},
		Next: func(_ Machine, s Scope) []string {
			if s == Project {
				return []string{"Claude Code asks once whether it may use the servers of a project's .mcp.json: start it in the project, or look with `claude mcp list`."}
			}
			return []string{"`claude mcp list` shows whether it connects."}
		},
		places: func(m Machine) []Place {
			return []Place{
				{Path: m.claude(".claude.json"), Scope: Local, Format: JSON, Keys: []string{"projects", m.Project, "mcpServers"}},
				{Path: m.join(m.Project, ".mcp.json"), Scope: Project, Format: JSON, Keys: []string{"mcpServers"}},
				{Path: m.claude(".claude.json"), Scope: User, Format: JSON, Keys: []string{"mcpServers"}},
			}
		},
		dialect: dialect{kind: "type", stdio: "stdio", http: "http", sse: "sse"},
	}
}

func (m Machine) claude(name string) string {
	if m.ClaudeDir != "" {
		return m.join(m.ClaudeDir, name)
	}
	return m.join(m.Home, name)
}

// claudeDesktop: https://modelcontextprotocol.io/docs/develop/connect-local-servers.
func claudeDesktop() *Client {
	return &Client{
		Name: "claude-desktop", Title: "Claude Desktop", ReadOnly: true, Starts: nowhere, Variable: noVariable,
		Signs: func(m Machine) []string { return []string{m.settings("Claude", "claude_desktop_config.json")} },
		Next:  func(Machine, Scope) []string { return nil },
		places: func(m Machine) []Place {
			return []Place{{Path: m.settings("Claude", "claude_desktop_config.json"), Scope: User, Format: JSON, Keys: []string{"mcpServers"}}}
		},
		dialect: dialect{},
	}
}

// codex: https://developers.openai.com/codex/mcp. A project's file counts in a
// trusted project only.
func codex() *Client {
	home := func(m Machine) string {
		if m.CodexHome != "" {
			return m.CodexHome
		}
		return m.join(m.Home, ".codex")
	}
	return &Client{
		Name: "codex", Title: "Codex", Program: "codex", Starts: inProject, Variable: noVariable,
		Signs: func(m Machine) []string { return []string{home(m)} },
		Next: func(m Machine, s Scope) []string {
			if s == Project {
				return []string{"Codex reads a project's file only if the project is trusted: it asks when it is started there."}
			}
			return []string{"`codex mcp list` shows it."}
		},
		places: func(m Machine) []Place {
			return []Place{
				{Path: m.join(m.Project, ".codex", "config.toml"), Scope: Project, Format: TOML, Keys: []string{"mcp_servers"}},
				{Path: m.join(home(m), "config.toml"), Scope: User, Format: TOML, Keys: []string{"mcp_servers"}},
			}
		},
		dialect: dialect{headers: "http_headers", more: fields{{"tool_timeout_sec", callSeconds}}},
	}
}

// cursor: https://cursor.com/docs/mcp.
func cursor() *Client {
	return &Client{
		Name: "cursor", Title: "Cursor", Program: "cursor", Starts: nowhere, Variable: workspaceFolder,
		Signs: func(m Machine) []string {
			return []string{m.join(m.Home, ".cursor"), m.settings("Cursor")}
		},
		Next: func(Machine, Scope) []string {
			return []string{"Switch it on in Cursor: Settings, MCP."}
		},
		places: func(m Machine) []Place {
			return []Place{
				{Path: m.join(m.Project, ".cursor", "mcp.json"), Scope: Project, Format: JSONC, Keys: []string{"mcpServers"}},
				{Path: m.join(m.Home, ".cursor", "mcp.json"), Scope: User, Format: JSONC, Keys: []string{"mcpServers"}},
			}
		},
		dialect: dialect{},
	}
}

// gemini: https://geminicli.com/docs/tools/mcp-server. It starts no server in a
// folder that it does not trust.
func gemini() *Client {
	dir := func(m Machine) string {
		if m.GeminiHome != "" {
			return m.join(m.GeminiHome, ".gemini")
		}
		return m.join(m.Home, ".gemini")
	}
	return &Client{
		Name: "gemini", Title: "Gemini CLI", Program: "gemini", Starts: inProject, Variable: noVariable,
		Signs: func(m Machine) []string { return []string{dir(m)} },
		Next: func(m Machine, _ Scope) []string {
			return []string{"Gemini CLI connects to servers only in folders that it trusts: it asks when it is started in one, and keeps the answer in " + m.join(dir(m), "trustedFolders.json") + "."}
		},
		places: func(m Machine) []Place {
			return []Place{
				{Path: m.join(m.Project, ".gemini", "settings.json"), Scope: Project, Format: JSONC, Keys: []string{"mcpServers"}},
				{Path: m.join(dir(m), "settings.json"), Scope: User, Format: JSONC, Keys: []string{"mcpServers"}},
			}
		},
		dialect: dialect{kind: "type", http: "http", sse: "sse", more: fields{{"timeout", callSeconds * 1000}}},
	}
}

// opencode: https://opencode.ai/docs/mcp-servers. It looks in the same folder on
// every system.
func opencode() *Client {
	return &Client{
		Name: "opencode", Title: "opencode", Program: "opencode", Starts: inProject, Variable: noVariable,
		Signs: func(m Machine) []string { return []string{m.xdg("opencode")} },
		Next:  func(Machine, Scope) []string { return []string{"`opencode mcp list` shows whether it connects."} },
		places: func(m Machine) []Place {
			return []Place{
				{Path: m.join(m.Project, "opencode.jsonc"), Scope: Project, Format: JSONC, Keys: []string{"mcp"}},
				{Path: m.join(m.Project, "opencode.json"), Scope: Project, Format: JSONC, Keys: []string{"mcp"}},
				{Path: m.xdg("opencode", "opencode.jsonc"), Scope: User, Format: JSONC, Keys: []string{"mcp"}},
				{Path: m.xdg("opencode", "opencode.json"), Scope: User, Format: JSONC, Keys: []string{"mcp"}},
			}
		},
		dialect: dialect{kind: "type", stdio: "local", http: "remote", sse: "remote", line: true, env: "environment",
			more: fields{{"enabled", true}, {"timeout", callSeconds * 1000}}},
	}
}

// vscode: https://code.visualstudio.com/docs/copilot/reference/mcp-configuration.
func vscode() *Client {
	return &Client{
		Name: "vscode", Title: "VS Code", Program: "code", Starts: nowhere, Variable: workspaceFolder,
		Signs: func(m Machine) []string { return []string{m.settings("Code")} },
		Next: func(Machine, Scope) []string {
			return []string{"VS Code asks whether it may trust the server when it is first used: `MCP: List Servers` starts it."}
		},
		places: func(m Machine) []Place {
			return []Place{
				{Path: m.join(m.Project, ".vscode", "mcp.json"), Scope: Project, Format: JSONC, Keys: []string{"servers"}},
				{Path: m.settings("Code", "User", "mcp.json"), Scope: User, Format: JSONC, Keys: []string{"servers"}},
			}
		},
		dialect: dialect{kind: "type", stdio: "stdio", http: "http", sse: "sse"},
	}
}

// windsurf: https://docs.windsurf.com/windsurf/cascade/mcp. It has one file for
// all projects.
func windsurf() *Client {
	return &Client{
		Name: "windsurf", Title: "Windsurf", Program: "windsurf", Starts: nowhere, Variable: noVariable,
		Signs: func(m Machine) []string { return []string{m.join(m.Home, ".codeium", "windsurf")} },
		Next: func(Machine, Scope) []string {
			return []string{"Press the refresh button in Windsurf: Cascade, MCP servers."}
		},
		places: func(m Machine) []Place {
			return []Place{{Path: m.join(m.Home, ".codeium", "windsurf", "mcp_config.json"), Scope: User, Format: JSONC, Keys: []string{"mcpServers"}}}
		},
		dialect: dialect{url: "serverUrl"},
	}
}

// zed: https://zed.dev/docs/ai/mcp. On macOS it keeps its settings as on Linux.
func zed() *Client {
	dir := func(m Machine) string {
		if m.OS == "windows" {
			return m.settings("Zed")
		}
		if m.OS == "darwin" {
			return m.join(m.Home, ".config", "zed")
		}
		return m.xdg("zed")
	}
	return &Client{
		Name: "zed", Title: "Zed", Program: "zed", Starts: inProject, Variable: noVariable,
		Signs: func(m Machine) []string { return []string{dir(m)} },
		Next: func(Machine, Scope) []string {
			return []string{"Zed starts it at once: the Agent Panel's settings show its state."}
		},
		places: func(m Machine) []Place {
			return []Place{
				{Path: m.join(m.Project, ".zed", "settings.json"), Scope: Project, Format: JSONC, Keys: []string{"context_servers"}},
				{Path: m.join(dir(m), "settings.json"), Scope: User, Format: JSONC, Keys: []string{"context_servers"}},
			}
		},
		dialect: dialect{},
	}
}

// Any gives where servers may be listed in a file of no known client: by its
// ending TOML or JSON, in any of the clients' lists.
func Any(path string) []Place {
	nobody := &Client{Name: "file", Title: "the file", ReadOnly: true, Starts: nowhere, Variable: noVariable}
	if strings.HasSuffix(path, ".toml") {
		return []Place{{Client: nobody, Path: path, Scope: Project, Format: TOML, Keys: []string{"mcp_servers"}}}
	}
	var places []Place
	for _, key := range []string{"mcpServers", "servers", "context_servers", "mcp"} {
		places = append(places, Place{Client: nobody, Path: path, Scope: Project, Format: JSONC, Keys: []string{key}})
	}
	return places
}
