package runtimes

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/toolyard/toolyard/tool"
)

const (
	maxPackument = 64 << 20  // bytes of what the registry says of a package
	maxTarball   = 512 << 20 // bytes
	stallLimit   = 60 * time.Second
	fetchLimit   = 15 * time.Minute
	fetchTries   = 3
)

// authorized adds the registry's authorization to requests to the registry
// itself, and to nothing else that a redirect or a tarball's address leads to.
type authorized struct {
	next          http.RoundTripper
	scheme, host  string
	authorization string
}

func newAuthorized(c *Config) *authorized {
	a := &authorized{next: c.Transport, authorization: c.Authorization}
	u, err := url.Parse(c.Registry)
	if err != nil {
		return a // every request will fail with the reason
	}
	if u.User != nil {
		if a.authorization == "" {
			password, _ := u.User.Password()
			a.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
		}
		u.User = nil
		c.Registry = u.String()
	}
	a.scheme, a.host = u.Scheme, u.Host
	return a
}

func (a *authorized) RoundTrip(q *http.Request) (*http.Response, error) {
	own := a.authorization != "" && strings.EqualFold(q.URL.Host, a.host) && q.URL.Scheme == a.scheme
	if own || q.Header.Get("Authorization") != "" {
		q = q.Clone(q.Context())
		q.Header.Del("Authorization")
	}
	if own {
		q.Header.Set("Authorization", a.authorization)
	}
	return a.next.RoundTrip(q)
}

// release is one version of a package as the registry has it.
type release struct {
	Package, Version string
	Tarball          string
	Integrity        string
}

type packument struct {
	Tags     map[string]string `json:"dist-tags"`
	Versions map[string]struct {
		Dist struct {
			Tarball   string `json:"tarball"`
			Integrity string `json:"integrity"`
		} `json:"dist"`
	} `json:"versions"`
}

// releaseOf finds the version of a package: an exact one, the newest in a range,
// or what a tag such as "latest" names.
func (r *Runtimes) releaseOf(ctx context.Context, pkg, version string) (release, error) {
	base, err := url.Parse(r.c.Registry)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return release{}, tool.Errorf(tool.DependencyError, "the npm registry %q is no URL", r.c.Registry).
			WithHint("Set the registry to an address such as %s.", DefaultRegistry)
	}
	// A scoped name is one component: the registry has @pnpm%2fexe, not @pnpm/exe.
	at := strings.TrimRight(base.String(), "/") + "/" + strings.ReplaceAll(pkg, "/", "%2f")
	body, err := r.get(ctx, at, "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8")
	if err != nil {
		return release{}, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxPackument+1))
	if err != nil {
		return release{}, r.unreachable(err)
	}
	var doc packument
	if len(text) > maxPackument || json.Unmarshal(text, &doc) != nil {
		return release{}, tool.Errorf(tool.DependencyError, "what the npm registry says of %s is no package description", pkg).
			WithHint("Check that %s is the address of an npm registry.", r.c.Registry)
	}
	exact, err := choose(&doc, version)
	if err != nil {
		return release{}, tool.Errorf(tool.DependencyError, "the npm registry has no %s in version %s", pkg, version).
			WithHint("Name a version that it has: npm view %s versions.", pkg)
	}
	found := release{Package: pkg, Version: exact, Integrity: doc.Versions[exact].Dist.Integrity}
	tarball, err := base.Parse(doc.Versions[exact].Dist.Tarball)
	if err != nil || tarball.Host == "" || tarball.Scheme != "https" && tarball.Scheme != base.Scheme {
		return release{}, tool.Errorf(tool.DependencyError, "the npm registry gives no usable address for %s %s", pkg, exact).
			WithHint("Set another registry.")
	}
	found.Tarball = tarball.String()
	if known := pinned[pkg+"@"+exact]; known != "" {
		found.Integrity = known
	}
	return found, nil
}

func choose(doc *packument, version string) (string, error) {
	if _, ok := doc.Versions[version]; ok {
		return version, nil
	}
	if tagged, ok := doc.Tags[version]; ok {
		if _, ok := doc.Versions[tagged]; ok {
			return tagged, nil
		}
	}
	within, err := semver.NewConstraint(version)
	if err != nil {
		return "", err
	}
	var best *semver.Version
	for text := range doc.Versions {
		v, err := semver.StrictNewVersion(text)
		if err == nil && within.Check(v) && (best == nil || v.GreaterThan(best)) {
			best = v
		}
	}
	if best == nil {
		return "", errors.New("no such version")
	}
	return best.Original(), nil
}

// get asks for an address and gives the body of the answer, trying again where
// the failure may pass.
func (r *Runtimes) get(ctx context.Context, address, accept string) (*watched, error) {
	if r.c.Offline {
		return nil, tool.Errorf(tool.DependencyError, "nothing is fetched while offline").
			WithHint("Go online once, or put the program on PATH.")
	}
	var last error
	for try := range fetchTries {
		if try > 0 {
			select {
			case <-time.After(time.Duration(try) * 500 * time.Millisecond):
			case <-ctx.Done():
				return nil, cancelled(context.Cause(ctx))
			}
		}
		body, again, err := r.getOnce(ctx, address, accept)
		if err == nil {
			return body, nil
		}
		last = err
		if ctx.Err() != nil {
			return nil, cancelled(context.Cause(ctx))
		}
		if !again {
			break
		}
		r.c.Log.Debug("the npm registry is asked again", "error", err)
	}
	return nil, last
}

func (r *Runtimes) getOnce(ctx context.Context, address, accept string) (body *watched, again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stalled := time.AfterFunc(stallLimit, func() { cancel(fmt.Errorf("nothing came for %s", stallLimit)) })
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		cancel(nil)
		return nil, false, r.unreachable(err)
	}
	q.Header.Set("Accept", accept)
	resp, err := r.client.Do(q)
	if err != nil {
		stalled.Stop()
		cancel(nil)
		return nil, true, r.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		stalled.Stop()
		cancel(nil)
		return nil, resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests, r.refused(resp)
	}
	return &watched{ReadCloser: resp.Body, ctx: ctx, stalled: stalled, cancel: cancel, length: max(resp.ContentLength, 0)}, false, nil
}

// watched is a body that ends with an error when nothing comes for too long.
type watched struct {
	io.ReadCloser
	ctx     context.Context
	stalled *time.Timer
	cancel  context.CancelCauseFunc
	length  int64 // in bytes; 0 if it is not known
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.stalled.Reset(stallLimit)
	}
	if err != nil && err != io.EOF && w.ctx.Err() != nil {
		err = context.Cause(w.ctx)
	}
	return n, err
}

func (w *watched) Close() error {
	w.stalled.Stop()
	w.cancel(nil)
	return w.ReadCloser.Close()
}

func (r *Runtimes) refused(resp *http.Response) error {
	what := resp.Request.URL.EscapedPath()
	e := tool.Errorf(tool.DependencyError, "the npm registry answered %d to %s", resp.StatusCode, what)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return e.WithHint("The registry wants credentials, or these are not enough: see the registry's token in the configuration.")
	case http.StatusNotFound:
		return e.WithHint("This registry does not have it. Set another registry, or put the program on PATH.")
	}
	return e.WithHint("Try again later, or set another registry.")
}

func (r *Runtimes) unreachable(err error) error {
	return tool.Errorf(tool.DependencyError, "the npm registry cannot be reached: %v", err).
		WithHint("Check the network and the registry's address; without a network put the program on PATH.")
}

// download writes a release's tarball to f and compares it with its integrity.
func (r *Runtimes) download(ctx context.Context, rel release, f *os.File, progress func(Progress)) error {
	want, err := sha512Of(rel.Integrity)
	if err != nil {
		return tool.Errorf(tool.DependencyError, "the integrity of %s %s cannot be checked: %v", rel.Package, rel.Version, err).
			WithHint("Set a registry that gives SHA-512 sums, as npm's own does.")
	}
	body, err := r.get(ctx, rel.Tarball, "*/*")
	if err != nil {
		return err
	}
	defer body.Close()
	sum := sha512.New()
	seen := &counter{total: body.length, text: rel.Package + " " + rel.Version, progress: progress}
	n, err := io.Copy(io.MultiWriter(f, sum, seen), io.LimitReader(body, maxTarball+1))
	switch {
	case err != nil && isDisk(err):
		return tool.Errorf(tool.DependencyError, "writing %s: %v", rel.Package, err).WithHint("Make room on the disk and try again.")
	case err != nil && ctx.Err() != nil:
		return cancelled(context.Cause(ctx))
	case err != nil:
		return r.unreachable(err)
	case n > maxTarball:
		return tool.Errorf(tool.DependencyError, "%s %s is larger than %d MiB", rel.Package, rel.Version, maxTarball>>20).
			WithHint("Nothing was installed. Name another version.")
	}
	if got := sum.Sum(nil); string(got) != string(want) {
		return tool.Errorf(tool.DependencyError, "%s %s is not what it should be: its integrity is sha512-%s and not %s",
			rel.Package, rel.Version, base64.StdEncoding.EncodeToString(got), rel.Integrity).
			WithHint("Nothing was installed. Try again; if it stays so, the registry or something on the way to it gives a changed file.")
	}
	return nil
}

// sha512Of is the SHA-512 in a Subresource Integrity string, which may hold
// several sums: https://www.w3.org/TR/SRI/. Weaker ones do not count.
func sha512Of(integrity string) ([]byte, error) {
	for _, part := range strings.Fields(integrity) {
		text, ok := strings.CutPrefix(part, "sha512-")
		if !ok {
			continue
		}
		text, _, _ = strings.Cut(text, "?")
		sum, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(sum) != sha512.Size {
			return nil, fmt.Errorf("%q is no SHA-512", part)
		}
		return sum, nil
	}
	return nil, fmt.Errorf("the registry gives no SHA-512 but %s", strconv.Quote(integrity))
}

// counter tells how many bytes went through it, at most every 256 KiB.
type counter struct {
	done, told, total int64
	text              string
	progress          func(Progress)
}

func (c *counter) Write(p []byte) (int, error) {
	c.done += int64(len(p))
	if c.progress != nil && (c.done-c.told >= 256<<10 || c.done == c.total) {
		c.told = c.done
		c.progress(Progress{Done: c.done, Total: c.total, Text: c.text})
	}
	return len(p), nil
}
