package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultHost is where a daemon listens unless it was told otherwise.
const DefaultHost = "unix:///var/run/docker.sock"

// The versions of the API that this package speaks. 1.41 is Docker 20.10, the
// first with private cgroup namespaces; the newest is the last that was looked
// at. https://docs.docker.com/reference/api/engine/version-history/
const (
	oldestAPI = "1.41"
	newestAPI = "1.47"
)

const (
	maxAnswer   = 8 << 20 // bytes of one answer
	dialTimeout = 5 * time.Second
)

// client asks one daemon over its unix socket. It is safe for concurrent use.
type client struct {
	socket string
	http   *http.Client

	mu      sync.Mutex
	version string // "" until negotiated
}

// newClient makes a client of a host such as "unix:///var/run/docker.sock".
func newClient(host string) (*client, error) {
	if host == "" {
		host = DefaultHost
	}
	socket, ok := strings.CutPrefix(host, "unix://")
	if !ok || !strings.HasPrefix(socket, "/") {
		return nil, fmt.Errorf("docker host %q: only unix:///path is supported, because files of this machine are mounted", host)
	}
	c := &client{socket: socket}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     30 * time.Second,
	}}
	return c, nil
}

func (c *client) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, "unix", c.socket)
}

func (c *client) close() { c.http.CloseIdleConnections() }

// apiError is a refusal in the daemon's words.
type apiError struct {
	Status  int
	Message string
}

func (e *apiError) Error() string { return fmt.Sprintf("docker: %s (%d)", e.Message, e.Status) }

// is reports whether err is the daemon's answer with a status.
func is(err error, status int) bool {
	var e *apiError
	return errors.As(err, &e) && e.Status == status
}

// negotiate agrees with the daemon on a version of the API, once.
func (c *client) negotiate(ctx context.Context) (string, error) {
	c.mu.Lock()
	known := c.version
	c.mu.Unlock()
	if known != "" {
		return known, nil
	}
	var server struct{ ApiVersion, MinAPIVersion string }
	resp, err := c.send(ctx, http.MethodGet, "/version", nil, nil, "")
	if err != nil {
		return "", err
	}
	if err := decode(resp, &server); err != nil {
		return "", err
	}
	version := server.ApiVersion
	if older(newestAPI, version) {
		version = newestAPI
	}
	if older(version, oldestAPI) {
		return "", fmt.Errorf("the daemon speaks version %s of the Docker API and at least %s is needed: use Docker 20.10 or newer", server.ApiVersion, oldestAPI)
	}
	if older(version, server.MinAPIVersion) {
		return "", fmt.Errorf("the daemon speaks no version of the Docker API before %s and %s is the newest known here", server.MinAPIVersion, newestAPI)
	}
	c.mu.Lock()
	c.version = version
	c.mu.Unlock()
	return version, nil
}

// atLeast reports whether the negotiated version is version or newer.
func (c *client) atLeast(version string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version != "" && !older(c.version, version)
}

// older compares "1.9" and "1.41" by their numbers. What is no version is the
// oldest of all.
func older(a, b string) bool {
	an, am := versionOf(a)
	bn, bm := versionOf(b)
	return an < bn || an == bn && am < bm
}

func versionOf(text string) (major, minor int) {
	left, right, _ := strings.Cut(text, ".")
	major, err := strconv.Atoi(left)
	if err != nil {
		return 0, 0
	}
	minor, _ = strconv.Atoi(right)
	return major, minor
}

// call sends in as JSON, if it is not nil, and reads the answer into out, if
// that is not nil.
func (c *client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	kind := ""
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body, kind = bytes.NewReader(text), "application/json"
	}
	resp, err := c.request(ctx, method, path, query, body, kind)
	if err != nil {
		return err
	}
	return decode(resp, out)
}

// request sends a request in the negotiated version. The caller closes the body.
func (c *client) request(ctx context.Context, method, path string, query url.Values, body io.Reader, kind string) (*http.Response, error) {
	version, err := c.negotiate(ctx)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, method, "/v"+version+path, query, body, kind)
}

func (c *client) send(ctx context.Context, method, path string, query url.Values, body io.Reader, kind string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address(path, query), body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			return nil, fmt.Errorf("no Docker daemon answers at %s: %w", c.socket, dial.Err)
		}
		return nil, fmt.Errorf("docker: %w", err)
	}
	if resp.StatusCode >= 300 {
		return nil, refusal(resp)
	}
	return resp, nil
}

// address is a URL whose host means nothing.
func address(path string, query url.Values) string {
	u := url.URL{Scheme: "http", Host: "docker", Path: path, RawQuery: query.Encode()}
	return u.String()
}

// refusal reads the daemon's message and closes the body.
func refusal(resp *http.Response) error {
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	e := &apiError{Status: resp.StatusCode}
	var answer struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &answer) == nil && answer.Message != "" {
		e.Message = answer.Message
	} else {
		e.Message = strings.TrimSpace(string(text))
	}
	if e.Message == "" {
		e.Message = http.StatusText(resp.StatusCode)
	}
	return e
}

// decode reads a bounded answer and closes it.
func decode(resp *http.Response, out any) error {
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("docker: reading the answer: %w", err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("docker: the daemon's answer: %w", err)
	}
	return nil
}

// hijacked is a connection that was HTTP and is a plain stream now.
type hijacked struct {
	net.Conn
	r *bufio.Reader // may hold what came with the header
}

func (h *hijacked) Read(p []byte) (int, error) { return h.r.Read(p) }

// CloseWrite tells the other side that nothing more will come.
func (h *hijacked) CloseWrite() error {
	if c, ok := h.Conn.(*net.UnixConn); ok {
		return c.CloseWrite()
	}
	return nil
}

// hijack sends a POST and keeps its connection as a stream.
// https://docs.docker.com/reference/api/engine/version/v1.41/#operation/ContainerAttach
func (c *client) hijack(ctx context.Context, path string, query url.Values) (*hijacked, error) {
	version, err := c.negotiate(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("no Docker daemon answers at %s: %w", c.socket, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	resp, h, err := upgrade(ctx, conn, address("/v"+version+path, query))
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode != http.StatusOK {
		err = refusal(resp)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return h, nil
}

func upgrade(ctx context.Context, conn net.Conn, address string) (*http.Response, *hijacked, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")
	if err := req.Write(conn); err != nil {
		return nil, nil, fmt.Errorf("docker: %w", err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, nil, fmt.Errorf("docker: %w", err)
	}
	return resp, &hijacked{conn, r}, nil
}
