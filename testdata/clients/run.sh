#!/bin/sh
# Drives the program with real MCP clients from npm: a session of the
# TypeScript SDK over stdio, HTTP and WebSocket, the MCP Inspector, and Claude
# Code, the Gemini CLI, Codex and opencode, which `toolyard connect` configures;
# published servers from npm and one in Python behind the gateway.
#
#   run.sh BINARY
#
# NPM_DIR    where the clients are installed and kept; a temporary directory if unset
# FIXTURE=1  BINARY is testdata/conformance/fixture
set -eu

binary=${1:?usage: run.sh BINARY}
here=$(cd "$(dirname "$0")" && pwd)
temp=$(mktemp -d)
pid=
cleanup() {
	if [ -n "$pid" ]; then
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	fi
	rm -rf "$temp"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

npm_dir=${NPM_DIR:-$temp/npm}
modules=$npm_dir/node_modules
mkdir -p "$npm_dir"
if [ ! -x "$modules/node/bin/node" ] || [ ! -e "$modules/.bin/gemini" ] || [ ! -d "$modules/@modelcontextprotocol/sdk" ] || [ ! -e "$modules/.bin/codex" ] || [ ! -e "$modules/.bin/opencode" ]; then
	(cd "$npm_dir" && { [ -f package.json ] || echo '{"private": true}' >package.json; } &&
		npm install --no-fund --no-audit --silent node@22 @modelcontextprotocol/sdk@1.32.2 \
			@modelcontextprotocol/inspector@2.12.0 @anthropic-ai/claude-code@2.1.329 @google/gemini-cli@0.61.0 \
			@openai/codex@0.169.0 opencode-ai@1.18.33)
fi

# Nothing of the person's own configuration is read or written.
export TOOLYARD_EDIT__STRICTNESS=anchored
export HOME="$temp/home" TOOLYARD_HOME="$temp/toolyard" NPM_DIR="$npm_dir" PATH="$modules/node/bin:$PATH"
mkdir -p "$HOME/.gemini" "$TOOLYARD_HOME" "$temp/work"
work=$(cd "$temp/work" && pwd -P)
echo 'hello from a file' >"$work/hello.txt"
cd "$work"

if [ "${FIXTURE:-}" != 1 ]; then
	# Servers behind the gateway. A registry that is not on the public Internet is
	# opened by its address, as whoever runs one would do.
	TOOLYARD_SANDBOX__ALLOWRANGES=$(node -e '
		const host = new URL(process.argv[1]).hostname;
		require("dns").lookup(host, { all: true }, (err, all) => {
			if (err) throw err;
			console.log(all.map((a) => a.address + (a.family === 6 ? "/128" : "/32")).join(","));
		})' "$(npm config get registry 2>/dev/null)")
	export TOOLYARD_SANDBOX__ALLOWRANGES
	add() { "$binary" gateway add "$@" >/dev/null 2>&1; }
	# A Python in the person's own home is not seen from the other home.
	python=/usr/bin/python3
	[ -x "$python" ] || python=python3
	cp "$here/plain.py" "$temp/plain.py"
	add plain -- "$python" "$temp/plain.py"
	add everything -- npx -y @modelcontextprotocol/server-everything
	add filesystem -- npx -y @modelcontextprotocol/server-filesystem "$work"
	add memory -- npx -y @modelcontextprotocol/server-memory
	add thinking -- npx -y @modelcontextprotocol/server-sequential-thinking
	allowed='--allow plain:* --allow everything:* --allow filesystem:* --allow memory:* --allow thinking:*'
fi

# Clients differ in how they pass arguments on, so they get one word.
server=$temp/server
if [ "${FIXTURE:-}" = 1 ]; then
	printf '#!/bin/sh\ncd %s && exec %s\n' "$work" "$binary" >"$server"
	serve="$binary -addr 127.0.0.1:0 -home $TOOLYARD_HOME"
else
	# Clients give a server few of their variables, so the script sets ours.
	printf '#!/bin/sh\nset -f\nexport TOOLYARD_HOME=%s TOOLYARD_EDIT__STRICTNESS=anchored TOOLYARD_SANDBOX__ALLOWRANGES=%s\nexec %s mcp --workspace %s %s\n' \
		"$TOOLYARD_HOME" "$TOOLYARD_SANDBOX__ALLOWRANGES" "$binary" "$work" "$allowed" >"$server"
	serve="$binary serve --addr 127.0.0.1:0 --workspace $work $allowed"
fi
printf '#!/bin/sh\nexport TOOLYARD_PROFILE=full\nexec %s\n' "$server" >"$server-full"
chmod +x "$server" "$server-full"

failed=0
expect() { # name pattern command...
	name=$1 pattern=$2
	shift 2
	out=$("$@" 2>&1) || true
	if printf '%s\n' "$out" | grep -q "$pattern"; then
		echo "ok    $name"
	else
		failed=$((failed + 1))
		printf 'FAIL  %s: no %s in\n%s\n' "$name" "$pattern" "$out"
	fi
}

sandboxed() { "$binary" gateway inspect "$1" | tr '\n' ' '; }

node "$here/session.mjs" stdio "$server" || failed=$((failed + 1))

: >"$temp/out"
$serve >"$temp/out" &
pid=$!
tries=0
until url=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' "$temp/out") && [ -n "$url" ]; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || { echo 'the server did not start' >&2; exit 1; }
	sleep 0.1
done
token=$(cat "$(sed -n 's/.*"token_file": *"\([^"]*\)".*/\1/p' "$temp/out")")
node "$here/session.mjs" http "$url/mcp" "$token" || failed=$((failed + 1))
node "$here/session.mjs" ws "ws${url#http}/ws" "$token" || failed=$((failed + 1))

if [ "${FIXTURE:-}" != 1 ]; then
	for one in plain everything filesystem memory thinking; do
		expect "gateway start $one" "ready" "$binary" gateway start "$one"
		expect "gateway inspect $one: sandboxed" 'sandbox .*L[2-9]: user_ns, mount_ns, pid_ns, net_ns.*landlock' sandboxed "$one"
	done
	node "$here/gateway.mjs" http "$url/mcp" "$token" || failed=$((failed + 1))
	node "$here/gateway.mjs" ws "ws${url#http}/ws" "$token" || failed=$((failed + 1))
	node "$here/gateway.mjs" stdio "$server" || failed=$((failed + 1))
fi

# Each call of the Inspector is a session of its own, so it edits without having
# read: the server runs with edit.strictness anchored.
inspect_stdio() { node "$modules/.bin/mcp-inspector" --cli "$server" "$@"; }
inspect_http() {
	node "$modules/.bin/mcp-inspector" --cli "$url/mcp" --transport http --header "Authorization: Bearer $token" "$@"
}
# It calls only what is listed, and so many tools are listed only in the profile full.
inspect_all_stdio() { node "$modules/.bin/mcp-inspector" --cli "$server-full" "$@"; }
inspect_all_http() {
	node "$modules/.bin/mcp-inspector" --cli "$url/mcp/full" --transport http --header "Authorization: Bearer $token" "$@"
}
for transport in stdio http; do
	expect "inspector $transport tools/list" '"name": "read"' "inspect_$transport" --method tools/list
	expect "inspector $transport read" 'hello from a' "inspect_$transport" --method tools/call \
		--tool-name read --tool-arg file_path=hello.txt
	[ "${FIXTURE:-}" = 1 ] && continue
	expect "inspector $transport plain" 'HI' "inspect_all_$transport" --method tools/call \
		--tool-name plain__shout --tool-arg text=hi
	expect "inspector $transport everything" 'Echo: hi' "inspect_all_$transport" --method tools/call \
		--tool-name everything__echo --tool-arg message=hi
	expect "inspector $transport filesystem" 'hello from a' "inspect_all_$transport" --method tools/call \
		--tool-name filesystem__read_text_file --tool-arg "path=$work/hello.txt"
	expect "inspector $transport memory" 'Ada' "inspect_all_$transport" --method tools/call --tool-name memory__read_graph
	expect "inspector $transport thinking" 'thoughtNumber' "inspect_all_$transport" --method tools/call \
		--tool-name thinking__sequentialthinking --tool-arg thought=one --tool-arg nextThoughtNeeded=false \
		--tool-arg thoughtNumber=1 --tool-arg totalThoughts=1
	expect "inspector $transport edit" '1 replacement' "inspect_$transport" --method tools/call \
		--tool-name edit --tool-arg file_path=hello.txt --tool-arg 'old_str=from a' --tool-arg "new_str=from a $transport"
	expect "inspector $transport grep" "hello.txt:1:hello from a $transport" "inspect_$transport" --method tools/call \
		--tool-name grep --tool-arg "pattern=from a $transport"
	expect "inspector $transport bash" "hello from a $transport" "inspect_$transport" --method tools/call \
		--tool-name bash --tool-arg 'command=cat hello.txt'
done

if [ "${FIXTURE:-}" = 1 ]; then
	# The fixture is not the program that connect writes: the clients' own commands do it.
	expect 'claude mcp add stdio' 'Added' "$modules/.bin/claude" mcp add toolyard-stdio -- "$server"
	expect 'claude mcp add http' 'Added' "$modules/.bin/claude" mcp add --transport http toolyard-http "$url/mcp" --header "Authorization: Bearer $token"
	printf '{"%s": "TRUST_FOLDER"}\n' "$work" >"$HOME/.gemini/trustedFolders.json"
	expect 'gemini mcp add stdio' 'added' node "$modules/.bin/gemini" mcp add toolyard-stdio "$server"
	expect 'gemini mcp add http' 'added' node "$modules/.bin/gemini" mcp add --transport http --header "Authorization: Bearer $token" toolyard-http "$url/mcp"
else
	# Each client twice: a process that it starts, and the server that runs here.
	connect() { # client
		expect "connect $1" 'is connected' "$binary" connect "$1" --name toolyard-stdio --yes
		expect "connect $1 again" 'connected already' "$binary" connect "$1" --name toolyard-stdio --yes
		expect "connect $1 http" 'is connected' "$binary" connect "$1" --name toolyard-http --url "$url/mcp" --header "Authorization=Bearer $token" --yes
		expect "doctor $1" 'Ready' "$binary" doctor "$1"
	}
	for client in claude-code gemini codex opencode; do
		connect "$client"
	done
	expect 'doctor gemini names the folder' 'trustedFolders.json' "$binary" doctor gemini --json
	printf '{"%s": "TRUST_FOLDER"}\n' "$work" >"$HOME/.gemini/trustedFolders.json"
	expect 'connect project' 'is connected' "$binary" connect claude-code --project --name toolyard-project --yes
	expect 'claude reads the project' 'toolyard-project' "$modules/.bin/claude" mcp list

	expect 'codex mcp list stdio' "toolyard-stdio.*enabled" "$modules/.bin/codex" mcp list
	expect 'codex mcp list http' "toolyard-http.*enabled" "$modules/.bin/codex" mcp list
	expect 'codex mcp get' "command: $binary" "$modules/.bin/codex" mcp get toolyard-stdio
	expect 'opencode mcp list stdio' 'toolyard-stdio.*connected' "$modules/.bin/opencode" mcp list
	expect 'opencode mcp list http' 'toolyard-http.*connected' "$modules/.bin/opencode" mcp list
fi
expect 'claude mcp list stdio' 'toolyard-stdio.*Connected' "$modules/.bin/claude" mcp list
expect 'claude mcp list http' 'toolyard-http.*Connected' "$modules/.bin/claude" mcp list
expect 'gemini mcp list stdio' 'toolyard-stdio.*Connected' node "$modules/.bin/gemini" mcp list
expect 'gemini mcp list http' 'toolyard-http.*Connected' node "$modules/.bin/gemini" mcp list

if [ "${FIXTURE:-}" != 1 ]; then
	# The clients still read their files after the entry is taken out again.
	for client in claude-code gemini codex opencode; do
		expect "connect $client --remove" 'no longer starts' "$binary" connect "$client" --name toolyard-http --remove --yes
	done
	without_http() { if "$@" 2>&1 | tee "$temp/list" | grep -q toolyard-http; then cat "$temp/list"; else echo gone; grep toolyard-stdio "$temp/list"; fi; }
	expect 'codex without it' 'toolyard-stdio' without_http "$modules/.bin/codex" mcp list
	expect 'claude without it' 'toolyard-stdio.*Connected' without_http "$modules/.bin/claude" mcp list
fi

if [ "$failed" != 0 ]; then
	echo "$failed failed"
	exit 1
fi
echo 'all clients work'
