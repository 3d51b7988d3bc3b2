# What is done often. `go run ./cmd/toolyard demo` and `go test ./...` need no make.

GO ?= go
TESTFLAGS ?=
BENCHFLAGS ?=
SOAKFLAGS ?=
FRAMESFLAGS ?=
EVERYTHING := github.com/modelcontextprotocol/go-sdk/conformance/everything-server

.PHONY: build demo test e2e e2e-clients conformance bench bench-core bench-faults bench-files bench-mcp bench-sandbox bench-toolbox soak fuzz-frames generate

# build makes the program, static where the platform allows.
build:
	CGO_ENABLED=0 $(GO) build -trimpath -o toolyard ./cmd/toolyard

# demo is a guided run on a small real repository, with no network and no agent.
demo: build
	./toolyard demo

# test runs every test that this machine can run.
test:
	$(GO) test $(TESTFLAGS) ./...

# e2e does a real job on a real module over MCP, and runs the scripts of
# testdata/script, both with the built program.
e2e:
	$(GO) test -count=1 ./cmd/toolyard ./internal/cli -run 'Job|Scripts'

# e2e-clients drives the program with real MCP clients from npm.
e2e-clients: build
	testdata/clients/run.sh $(CURDIR)/toolyard

# conformance runs the official MCP suite: against the program; against the fixture,
# which has the tools that the suite looks for; through the gateway, against the
# SDK's own server; and against the gateway's client. docs/conformance.md has figures.
conformance: build
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && export NPM_DIR="$${NPM_DIR:-$$dir/npm}" && \
		$(GO) build -o "$$dir" ./testdata/conformance/fixture ./testdata/conformance/client $(EVERYTHING) && \
		testdata/conformance/run.sh $(CURDIR)/toolyard && \
		FIXTURE=1 testdata/conformance/run.sh "$$dir/fixture" && \
		testdata/conformance/run-gateway.sh $(CURDIR)/toolyard "$$dir/everything-server" && \
		testdata/conformance/run-client.sh "$$dir/client"

# bench measures the program beside its peers; bench/RESULTS.md has a run. BENCHFLAGS
# go to a single one of these: make bench-core BENCHFLAGS=-big=false
bench: bench-core bench-faults bench-files bench-mcp bench-sandbox bench-toolbox

bench-core: build
	$(GO) run ./bench/core -toolyard $(CURDIR)/toolyard $(BENCHFLAGS)

# bench-faults puts a bad MCP server beside nine good ones, kind by kind.
bench-faults: build
	$(GO) run ./bench/faults -toolyard $(CURDIR)/toolyard $(BENCHFLAGS)

bench-files:
	$(GO) run ./bench/files $(BENCHFLAGS)

bench-mcp: build
	$(GO) run ./bench/mcp -toolyard $(CURDIR)/toolyard $(BENCHFLAGS)

bench-sandbox:
	$(GO) run ./bench/sandbox $(BENCHFLAGS)
	$(GO) run ./bench/sandbox -workers $(BENCHFLAGS)

# bench-toolbox needs node, python3, npm and the npm registry.
bench-toolbox:
	$(GO) run ./bench/toolbox $(BENCHFLAGS)
	$(GO) run ./bench/toolbox -install

# soak runs confined commands, 20 a second, and fails if anything grows:
# make soak SOAKFLAGS='-duration 5m'
soak:
	$(GO) run ./bench/soak $(SOAKFLAGS)

# fuzz-frames sends damaged messages to the program over every transport at once,
# and fails if it dies or anything grows: make fuzz-frames FRAMESFLAGS='-duration 1m'
fuzz-frames: build
	$(GO) run ./bench/frames -toolyard $(CURDIR)/toolyard $(FRAMESFLAGS)

# generate writes docs/ and the generated parts of the README.
generate:
	$(GO) generate ./...
