package deps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// ended turns the end of a context into the error that it stands for.
func (i *Installer) ended(ctx, limited context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return cancelled(ctx)
	case errors.Is(err, errLimit), errors.Is(context.Cause(limited), errLimit):
		e := tool.Errorf(tool.DependencyError, "the installation of dependencies took longer than %v", i.c.Limit).
			WithHint("Call again: what was fetched so far is kept. If the registry is slow, choose another in the configuration.")
		e.Err, e.Retryable = err, true
		return e
	}
	var known *tool.Error
	if errors.As(err, &known) {
		return known
	}
	e := tool.Errorf(tool.DependencyError, "the dependencies could not be installed: %v", err).WithHint("Call again; if it stays so, look into the log of toolyard.")
	e.Err = err
	return e
}

// kind of failure: how it shows, and what is said about it.
type kind struct {
	// code matches pnpm's code, or that of an error of npm (npm error code E404).
	code string
	// text matches in what was printed, where no code is known.
	text string
	// what is a sentence; $p is the package or address that it is about, $r the
	// registry.
	what, hint string
	retry      bool
}

// kinds are looked through in order. To add one: a line here, and a case in the
// test with the real installer.
var kinds = []kind{
	{code: `ENOSPC|EDQUOT`, text: `ENOSPC|EDQUOT|No space left on device|os error 28\b|disk quota exceeded`, what: "the disk is full", hint: "Make room and call again; what was installed before is as it was."},
	{code: `INTEGRITY`, text: `EINTEGRITY|[Ii]ntegrity check(sum)? failed`, what: "what $r sent for $p is not what its checksum promises",
		hint: "Do not use it before you know why: the package may have been tampered with, or the registry's copy is broken. Try another registry."},
	{code: `NO_OFFLINE|ENOTCACHED`, text: `ENOTCACHED`, what: "$p is not in the cache, and the installation is offline", hint: "Install once with a network, then it works offline."},
	{code: `NO_MATURE|MINIMUM_RELEASE_AGE`, what: "the only version that fits $p is too new: it was published less than a day ago", hint: "Wait, or widen the range in package.json: young versions are where attacks are found."},
	{code: `NO_MATCHING_VERSION|ETARGET|NO_VERSIONS`, text: `No version matching`, what: "no version of $p is in $r that fits", hint: "Change the range in package.json or getDependencies to one that exists."},
	{code: `E401|E403|ENEEDAUTH|FETCH_40[13]|UNAUTHORIZED|FORBIDDEN`, text: `HTTP 40[13]\b|- 40[13]\b`, what: "$r does not let this machine have $p", hint: "Put a token for the registry into the .npmrc of the operator."},
	{code: `FETCH_404|E404`, text: `HTTP 404\b|- 404\b`, what: "$r has no $p", hint: "Check the spelling of the package, and that the registry is the right one."},
	{code: `ERESOLVE|PEER_DEP`, what: "packages ask for versions of each other that do not go together: $p", hint: "Change the ranges in package.json so that one version fits all, or name it under overrides."},
	{code: `OUTDATED_LOCKFILE|EUSAGE|LOCKFILE`, what: "the lockfile does not go with package.json", hint: "Make the lockfile anew, or remove it to let versions be chosen."},
	{code: `EBADENGINE|UNSUPPORTED_ENGINE`, what: "$p does not run with this Node", hint: "Choose a version of the package that does, or another Node."},
	{code: `EBADPLATFORM|UNSUPPORTED_PLATFORM`, what: "$p does not run on this machine", hint: "Choose another package, or put it under optionalDependencies."},
	{code: `FETCH_5\d\d|E5\d\d`, text: `HTTP 5\d\d|- 5\d\d\b`, what: "$r failed when it was asked for $p", hint: "Try again later, or choose another registry in the configuration.", retry: true},
	{code: `TARBALL_FETCH|Z_BUF|Z_DATA`, text: `reading a body|end of file before|network aborted|[Pp]remature close`, what: "$r broke off while it sent $p", hint: "Try again, or choose another registry in the configuration.", retry: true},
	{code: `NETWORK_ERROR|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ERR_PNPM_FETCH|META_FETCH|ENETUNREACH|EHOSTUNREACH|TIMEOUT|ECONNRESET|ERR_SOCKET|EPROTO`, text: `ConnectionRefused|ECONNREFUSED|error sending request|tcp connect error|dns error`,
		what: "$r cannot be reached", hint: "Check the network and the registry's address, or install offline from the cache.", retry: true},
}

var (
	npmCode = regexp.MustCompile(`(?m)^npm (?:error|ERR!) code (\S+)`)
	// npm's own words of a conflict.
	peers      = regexp.MustCompile(`peer(?:Optional)? (\S+?)@"([^"]*)" from (\S+)`)
	peersFound = regexp.MustCompile(`Found: (\S+)`)
	bunCode    = regexp.MustCompile(`error: (\w+) (?:downloading|fetching|resolving|extracting)`)
	tarball    = regexp.MustCompile(`/((?:@[\w.~-]+/)?[\w.~-]+)/-/([\w.~-]+)\.tgz`)
	subjects   = []*regexp.Regexp{
		regexp.MustCompile(`tarball data for ((?:@[\w.~-]+/)?[\w.~-]+@(?:\d[\w.+-]*)?)`),
		regexp.MustCompile(`[Nn]o matching version found for ((?:@[\w.~-]+/)?[\w.~-]+@[^\s,]+)`),
		regexp.MustCompile(`Failed to resolve ((?:@[\w.~-]+/)?[\w.~-]+@\S+)`),
		regexp.MustCompile(`error: ((?:@[\w.~-]+/)?[\w.~-]+@\S+) failed to resolve`),
		regexp.MustCompile(`'((?:@[\w.~-]+/)?[\w.~-]+@[^']+)' is not in this registry`),
		regexp.MustCompile(`The requested resource '([^']+)'`),
		regexp.MustCompile(`GET https?://[^/\s]+/(\S+?):? `),
		regexp.MustCompile(`(?:fetch|request to) https?://[^/\s]+/(\S+)`),
		regexp.MustCompile(`Unsupported (?:engine|platform) for ((?:@[\w.~-]+/)?[\w.~-]+@[\w.+-]+)`),
		regexp.MustCompile(`While resolving: (\S+)`),
		regexp.MustCompile(`GET https?://[^/\s]+/(\S+) -`),
	}
)

// failure says why an installer failed.
func (i *Installer) failure(ctx context.Context, b *build, out outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	code, text := said(out.output)
	text = b.registry.hide(text)
	e := tool.Errorf(tool.DependencyError, "the dependencies could not be installed: %s", plain(text, out)).
		WithHint("Correct package.json and call again; what was installed before is as it was.")
	switch out.Ending.Reason {
	case sandbox.EndDisk:
		return tool.Errorf(tool.DependencyError, "the packages take more room than one install may, %d GiB", maxDisk/sandbox.GiB).WithHint("Ask for fewer or smaller packages.")
	case sandbox.EndMemory:
		return tool.Errorf(tool.DependencyError, "%s needed more memory than it may have", b.installer).WithHint("Ask for fewer packages in one tool.")
	case sandbox.EndWall:
		return errLimit
	}
	for _, k := range kinds {
		if code != "" && k.code != "" && regexp.MustCompile(k.code).MatchString(code) || k.text != "" && regexp.MustCompile(k.text).MatchString(text) {
			e = tool.Errorf(tool.DependencyError, "%s", k.sentence(text, b.registry.host())).WithHint("%s", k.hint)
			e.Retryable = k.retry
			break
		}
	}
	for _, v := range out.Violations {
		if v.Kind == "network" && !strings.Contains(v.Rule, "update") {
			e = tool.Errorf(tool.DependencyError, "the installer was kept from %s: %s", v.Target, v.Rule).
				WithHint("toolbox.registry names where packages come from; sandbox.allowRanges opens an address that is not public.")
			break
		}
	}
	e.Err = errors.New(text)
	if code != "" {
		e = e.WithDetail("installer_code", code)
	}
	return e.WithDetail("installer", b.installer)
}

// said finds the error in what an installer printed.
func said(output string) (code, text string) {
	var plain []string
	for line := range strings.SplitSeq(output, "\n") {
		if !strings.HasPrefix(line, "{") {
			plain = append(plain, line)
			continue
		}
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Level == "error" && e.Message != "" {
			code, text = e.Code, e.Message
		}
	}
	if text != "" {
		return code, text
	}
	text = strings.Join(plain, "\n")
	if m := npmCode.FindStringSubmatch(text); m != nil {
		code = m[1]
	} else if m := bunCode.FindStringSubmatch(text); m != nil {
		code = m[1]
	}
	return code, text
}

func (k kind) sentence(text, registry string) string {
	what := "a package"
	if m := tarball.FindStringSubmatch(text); m != nil {
		base := m[1][strings.LastIndexByte(m[1], '/')+1:]
		what = m[1] + "@" + strings.TrimPrefix(m[2], base+"-")
	}
	for _, re := range subjects {
		if m := re.FindStringSubmatch(text); m != nil && what == "a package" {
			what = strings.TrimRight(strings.ReplaceAll(m[1], "%2f", "/"), ".,:")
			break
		}
	}
	if m := peers.FindStringSubmatch(text); m != nil && strings.HasPrefix(k.code, "ERESOLVE") {
		what = m[3] + " wants " + m[1] + "@" + m[2]
		if found := peersFound.FindStringSubmatch(text); found != nil {
			what += ", and " + found[1] + " is asked for"
		}
	}
	if strings.Contains(k.what, "has no $p") && what == "a package" {
		what = "package of that name"
	}
	return strings.NewReplacer("$p", what, "$r", fmt.Sprintf("the registry %s", registry)).Replace(k.what)
}

// plain is what is said where no kind fits.
func plain(text string, out outcome) string {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(line, "npm error"), "npm ERR!"))
		if line != "" && !strings.HasPrefix(line, "code ") {
			return strings.ToValidUTF8(line[:min(len(line), 300)], "")
		}
	}
	return fmt.Sprintf("the installer ended with %s %d", out.Ending.Reason, out.Ending.Code)
}
