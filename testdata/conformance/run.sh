#!/bin/sh
# Runs the official MCP conformance suite against a server.
#
#   run.sh BINARY [SCENARIO...]  starts BINARY serve in an empty workspace
#   run.sh URL [SCENARIO...]     URL of /mcp, served with --auth none
#
# NPM_DIR    where the suite is installed and kept; a temporary directory if unset
# FIXTURE=1  BINARY is testdata/conformance/fixture
#
# Each scenario must pass every check, without warnings, and every message on
# the wire must fit the schema of its version.
set -eu

target=${1:?usage: run.sh BINARY|URL [SCENARIO...]}
shift
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

suite='@modelcontextprotocol/conformance@0.2.0-alpha.12'
scenarios_2025_11_25='server-initialize server-session-lifecycle logging-set-level ping tools-list
	resources-list prompts-list dns-rebinding-protection server-sse-multiple-streams'
scenarios_2026_07_28='tools-list resources-list sep-2164-resource-not-found prompts-list
	dns-rebinding-protection caching server-sse-multiple-streams http-header-validation
	input-required-result-unsupported-methods'
offered='completion-complete resources-read-text resources-read-binary resources-templates-read prompts-get-simple
	prompts-get-with-args prompts-get-embedded-resource prompts-get-with-image'
if [ "${FIXTURE:-}" = 1 ]; then
	# The fixture has what the suite looks for: all that is required of each version.
	scenarios_2025_11_25="$scenarios_2025_11_25 tools-call-simple-text tools-call-image tools-call-audio
		tools-call-embedded-resource tools-call-mixed-content tools-call-with-logging tools-call-error
		tools-call-with-progress tools-call-sampling tools-call-elicitation elicitation-sep1034-defaults
		elicitation-sep1330-enums json-schema-2020-12 $offered resources-subscribe resources-unsubscribe"
	scenarios_2026_07_28="$scenarios_2026_07_28 server-stateless tools-call-simple-text tools-call-image tools-call-audio
		tools-call-embedded-resource tools-call-mixed-content tools-call-error tools-call-with-progress
		json-schema-2020-12 $offered input-required-result-non-tool-request input-required-result-basic-elicitation input-required-result-basic-sampling
		input-required-result-basic-list-roots input-required-result-request-state
		input-required-result-multiple-input-requests input-required-result-multi-round
		input-required-result-missing-input-response input-required-result-result-type
		input-required-result-tampered-state input-required-result-capability-check
		input-required-result-ignore-extra-params input-required-result-validate-input"
	scenarios_tasks='tasks-lifecycle tasks-capability-negotiation tasks-wire-fields tasks-request-state-removal
		tasks-mrtr-input tasks-request-headers tasks-dispatch-and-envelope tasks-status-notifications
		tasks-required-task-error tasks-mrtr-composition'
fi

npm_dir=${NPM_DIR:-$temp/npm}
mkdir -p "$npm_dir"
if [ ! -x "$npm_dir/node_modules/.bin/conformance" ] || [ ! -x "$npm_dir/node_modules/node/bin/node" ]; then
	(cd "$npm_dir" && { [ -f package.json ] || echo '{"private": true}' >package.json; } &&
		npm install --no-fund --no-audit --silent node@22 "$suite")
fi
node=$npm_dir/node_modules/node/bin/node
conformance=$npm_dir/node_modules/.bin/conformance

case $target in
http://* | https://*) url=$target ;;
*)
	mkdir "$temp/workspace" "$temp/home"
	: >"$temp/out"
	echo 'A file.' >"$temp/workspace/a.txt"
	if [ "${FIXTURE:-}" = 1 ]; then
		(cd "$temp/workspace" && exec "$target" -addr 127.0.0.1:0 -auth none) >"$temp/out" &
	else
		TOOLYARD_HOME=$temp/home "$target" serve --addr 127.0.0.1:0 --auth none --workspace "$temp/workspace" >"$temp/out" &
	fi
	pid=$!
	tries=0
	until url=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' "$temp/out") && [ -n "$url" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || { echo 'the server did not start' >&2; exit 1; }
		sleep 0.1
	done
	url=$url/mcp
	;;
esac

failed=0
passed=0
run() { # version scenario
	# --force: the suite has no version for an extension's scenarios.
	out=$("$node" "$conformance" server --url "$url" --scenario "$2" --spec-version "$1" --force 2>&1) || true
	summary=$(printf '%s\n' "$out" | sed -n 's/^Passed: //p')
	bad=$(printf '%s\n' "$out" | grep -cE 'FAILURE|WARNING' || true)
	case $2 in
	# These send raw HTTP, or nothing, and check no schema.
	dns-rebinding-protection | server-session-lifecycle | server-stateless | *-multiple-streams | tasks-status-notifications) wire=yes ;;
	*) wire=$(printf '%s\n' "$out" | grep -c 'wire-schema-valid.*SUCCESS' || true) ;;
	esac
	if [ -n "$summary" ] && [ "$bad" = 0 ] && [ "$wire" != 0 ]; then
		passed=$((passed + 1))
		printf 'ok    %s %-46s %s\n' "$1" "$2" "$summary"
	else
		failed=$((failed + 1))
		printf 'FAIL  %s %-46s %s\n%s\n' "$1" "$2" "$summary" "$out"
	fi
}

if [ $# -gt 0 ]; then
	for s in "$@"; do
		run 2025-11-25 "$s"
		run 2026-07-28 "$s"
	done
else
	for s in $scenarios_2025_11_25; do run 2025-11-25 "$s"; done
	for s in $scenarios_2026_07_28 ${scenarios_tasks:-}; do run 2026-07-28 "$s"; done
fi
printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
