#!/bin/sh
# Runs the official MCP conformance suite through the gateway: toolyard passes the
# names of a foreign server through, and all that a revision requires of a server
# must hold of the two together.
#
#   run-gateway.sh TOOLYARD SERVER   SERVER is go-sdk's conformance/everything-server
#
# NPM_DIR     where the suite is installed and kept; a temporary directory if unset
#
# Each revision is run with the server over stdio, and over HTTP in the era that
# the revision is of. What the suite scores is read from its requirements.
set -eu

toolyard=${1:?usage: run-gateway.sh TOOLYARD SERVER}
server=${2:?usage: run-gateway.sh TOOLYARD SERVER}
temp=$(mktemp -d)
pids=
stop() {
	for pid in $pids; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	pids=
}
trap 'stop; rm -rf "$temp"' EXIT
trap 'exit 130' INT TERM

suite='@modelcontextprotocol/conformance@0.2.0-alpha.12'
npm_dir=${NPM_DIR:-$temp/npm}
mkdir -p "$npm_dir"
if [ ! -x "$npm_dir/node_modules/.bin/conformance" ] || [ ! -x "$npm_dir/node_modules/node/bin/node" ]; then
	(cd "$npm_dir" && { [ -f package.json ] || echo '{"private": true}' >package.json; } &&
		npm install --no-fund --no-audit --silent node@22 "$suite")
fi
node=$npm_dir/node_modules/node/bin/node
conformance=$npm_dir/node_modules/.bin/conformance
requirements=$npm_dir/node_modules/@modelcontextprotocol/conformance/requirements
required() { sed -n '/^server:/,/^[a-z_]*:$/s/^  - //p' "$requirements/$1.yaml"; }

# until_so CONDITION... waits for it, at most 60 s.
until_so() {
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || { echo "not in 60 s: $*" >&2; cat "$temp/err" >&2; exit 1; }
		sleep 0.1
	done
}
serving() { url=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' "$temp/out") && [ -n "$url" ]; }
listed() { curl -fsS -m 10 "$url/api/v1/gateway" 2>/dev/null | grep -q '"tools":[1-9]'; }
answers() { curl -s -m 5 -o "$temp/answer" "$1"; }

# open starts toolyard in front of the server that an entry of mcpServers names.
open() {
	home=$(mktemp -d "$temp/home.XXXXXX")
	mkdir -p "$temp/workspace"
	printf '{"mcpServers": {"everything": {%s, "namespace": "", "sampling": {"allowed": true}, "permissions": {"allow": ["*"]}}}}\n' "$1" >"$home/mcp.json"
	echo 'profile: full' >"$home/config.yaml"
	chmod 600 "$home/mcp.json" "$home/config.yaml"
	: >"$temp/out"
	TOOLYARD_HOME=$home "$toolyard" serve --addr 127.0.0.1:0 --auth none --workspace "$temp/workspace" >"$temp/out" 2>"$temp/err" &
	pids="$pids $!"
	until_so serving
	until_so listed
}

failed=0
run() { # revision label
	"$node" "$conformance" server --url "$url/mcp" --requirements "$1" >"$temp/suite" 2>&1 || true
	passed=0 count=0
	for s in $(required "$1"); do
		count=$((count + 1))
		# A scenario that warns has passed for the suite, as one that is required may.
		if grep -qE "^✓ $s: [1-9][0-9]* passed, 0 failed" "$temp/suite"; then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			printf 'FAIL  %s %s %s\n' "$1" "$2" "$s"
			awk -v name="$s" '/^=== Running scenario: /{ on = $0 ~ ": " name " ===$" } /^=== SUMMARY/{ on = 0 } on' "$temp/suite"
			grep -F " $s: " "$temp/suite" || true
		fi
	done
	[ "$count" -gt 0 ] || { echo "$requirements/$1.yaml names no scenarios" >&2; exit 1; }
	printf '%s, server over %s: %s of %s passed\n' "$1" "$2" "$passed" "$count"
}

open "\"command\": \"$server\", \"sandbox\": {\"read\": [\"$server\"]}"
run 2025-11-25 stdio
run 2026-07-28 stdio
stop

free_port() { "$node" -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })'; }
for revision in 2025-11-25 2026-07-28; do
	port=$(free_port)
	case $revision in 2025-11-25) stateless=false ;; *) stateless=true ;; esac
	"$server" -http "127.0.0.1:$port" -stateless=$stateless 2>"$temp/server" &
	pids="$pids $!"
	until_so answers "http://127.0.0.1:$port/"
	open "\"url\": \"http://127.0.0.1:$port\""
	run "$revision" HTTP
	stop
done
[ "$failed" = 0 ]
