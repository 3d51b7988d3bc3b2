#!/bin/sh
# Runs the client role of the official MCP conformance suite against the
# gateway's client.
#
#   run-client.sh BINARY [SCENARIO...]   BINARY is testdata/conformance/client
#
# NPM_DIR    where the suite is installed and kept; a temporary directory if unset
#
# Without scenarios, all that the suite requires of a client in either revision
# are run, each at the revision that requires it. Each must pass every check,
# without warnings.
set -eu

client=${1:?usage: run-client.sh BINARY [SCENARIO...]}
shift
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
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

# required prints the scenarios that a revision requires of a client.
required() { sed -n '/^client:/,/^[a-z_]*:$/s/^  - //p' "$requirements/$1.yaml"; }

failed=0
run() { # version scenario
	out=$("$node" "$conformance" client --command "$client" --scenario "$2" --spec-version "$1" 2>&1) && ok=yes || ok=
	summary=$(printf '%s\n' "$out" | sed -n 's/^Passed: //p')
	bad=$(printf '%s\n' "$out" | grep -cE 'FAILURE|WARNING' || true)
	if [ -n "$ok" ] && [ -n "$summary" ] && [ "$bad" = 0 ]; then
		passed=$((passed + 1))
		printf 'ok    %s %-46s %s\n' "$1" "$2" "$summary"
	else
		failed=$((failed + 1))
		printf 'FAIL  %s %-46s %s\n%s\n' "$1" "$2" "$summary" "$out"
	fi
}

for version in 2025-11-25 2026-07-28; do
	passed=0
	scenarios=${*:-$(required "$version")}
	[ -n "$scenarios" ] || { echo "$requirements/$version.yaml names no scenarios" >&2; exit 1; }
	for s in $scenarios; do run "$version" "$s"; done
	printf '%s: %s of %s passed\n' "$version" "$passed" "$(echo "$scenarios" | wc -w)"
done
[ "$failed" = 0 ]
