// Command client drives the gateway's MCP client through the official
// conformance suite's client role:
//
//	conformance client --command client --scenario tools_call
//
// The suite appends the URL of its server, and names the scenario and what it
// needs in MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_CONTEXT.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/gateway/oauth"
	"github.com/toolyard/toolyard/internal/gateway/upstream"
	"github.com/toolyard/toolyard/internal/netguard"
)

// limit is how long one scenario may take.
const limit = time.Minute

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client URL")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	name := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	if err := run(ctx, os.Args[1], name, []byte(os.Getenv("MCP_CONFORMANCE_CONTEXT"))); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// scenario is what a client does with a server.
type scenario func(ctx context.Context, p *peer) error

// scenarios is the list. To add one of the suite's: a line here. Those that
// begin with "auth/" all do the same.
func scenarios() map[string]scenario {
	return map[string]scenario{
		"initialize":                          list,
		"tools_call":                          calling("add_numbers", `{"a":5,"b":3}`),
		"request-metadata":                    list,
		"elicitation-sep1034-client-defaults": calling("test_client_elicitation_defaults", `{}`),
		"sse-retry":                           calling("test_reconnection", `{}`),
		"json-schema-ref-no-deref":            list,
		"json-schema-2020-12-preservation":    echoSchema,
		"sep-2322-client-request-state":       callMany("test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"),
		"http-standard-headers":               everyMethod,
		"http-custom-headers":                 suggestedCalls,
		"http-invalid-tool-headers":           callAll,
	}
}

func run(ctx context.Context, url, name string, settings []byte) error {
	do, ok := scenarios()[name]
	if strings.HasPrefix(name, "auth/") {
		do, ok = calling("test-tool", `{}`), true
	}
	if !ok {
		return errors.New("no such scenario")
	}
	p := &peer{}
	if len(settings) > 0 {
		if err := json.Unmarshal(settings, &p.context); err != nil {
			return fmt.Errorf("MCP_CONFORMANCE_CONTEXT: %w", err)
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	auth, err := authorizer(url, p, log)
	if err != nil {
		return err
	}
	defer auth.Close()
	p.Client, err = upstream.Connect(ctx, upstream.Config{
		HTTP:         &upstream.HTTP{URL: url, Auth: auth},
		Info:         json.RawMessage(`{"name":"toolyard-conformance","version":"1.0.0"}`),
		Capabilities: json.RawMessage(`{"elicitation":{}}`),
		Request:      answer,
		Log:          log,
	})
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer p.Close()
	return do(ctx, p)
}

// authorizer logs in as the gateway would. The suite's servers are all on this
// machine, so it is allowed as an operator would allow it.
func authorizer(url string, p *peer, log *slog.Logger) (*oauth.Authorizer, error) {
	var here []netguard.Allow
	for _, host := range []string{"localhost", "127.0.0.0/8", "::1"} {
		a, err := netguard.ParseAllow(host)
		if err != nil {
			return nil, err
		}
		here = append(here, a)
	}
	return oauth.New(oauth.Config{
		Server: "suite", URL: url, Log: log,
		ClientID: p.context.ClientID, ClientSecret: p.context.ClientSecret, Issuer: p.context.Issuer,
		ClientMetadata: "https://conformance-test.local/client-metadata.json",
		Network:        netguard.Config{Allow: here},
		Open:           browse,
	})
}

// browse is the person: the suite's authorization server sends the browser back
// at once.
func browse(ctx context.Context, page string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
