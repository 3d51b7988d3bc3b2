package deps

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// defaultRegistry is npm's own.
const defaultRegistry = "https://registry.npmjs.org/"

// registry is where packages come from, and what it takes to ask there.
type registry struct {
	address string   // with a slash at the end, without credentials
	lines   []string // of the installer's .npmrc
	hosts   []string // entries of a network
	reads   []string // files: certificates
	secrets []string // never to be shown
}

// setting is one line of an .npmrc.
type setting struct{ key, value string }

var variable = regexp.MustCompile(`\$\{([^}:]+)\}`)

// parseNPMRC reads the form of npm's configuration. Values may name variables of
// env as ${NAME}; one that is not set stays as it is, as in npm.
func parseNPMRC(text string, env []string) []setting {
	var found []setting
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == ';' || line[0] == '#' || line[0] == '[' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		value = variable.ReplaceAllStringFunc(value, func(name string) string {
			if v := sandbox.LookupEnv(env, name[2:len(name)-1]); v != "" {
				return v
			}
			return name
		})
		found = append(found, setting{strings.TrimSpace(key), value})
	}
	return found
}

// registry puts together where packages come from.
func (i *Installer) registry(ctx context.Context) (*registry, error) {
	var all []setting
	for _, file := range i.c.NPMRC {
		if text, err := os.ReadFile(file); err == nil && len(text) < maxManifest {
			all = append(all, parseNPMRC(string(text), i.c.Env)...)
		}
	}
	last := func(key string) (value string) {
		for _, s := range all {
			if s.key == key {
				value = s.value
			}
		}
		return value
	}
	address := i.c.Registry
	if address == "" {
		address = i.quickest(ctx)
	}
	for _, other := range []string{last("registry"), sandbox.LookupEnv(i.c.Env, "npm_config_registry"), sandbox.LookupEnv(i.c.Env, "NPM_CONFIG_REGISTRY"), defaultRegistry} {
		if address == "" {
			address = other
		}
	}
	r := &registry{hosts: slices.Clone(i.c.Hosts)}
	var err error
	if r.address, err = r.add(address); err != nil {
		return nil, err
	}
	r.lines = append(r.lines, "registry="+r.address)
	for _, s := range all {
		if strings.HasPrefix(s.key, "@") && strings.HasSuffix(s.key, ":registry") {
			scoped, err := r.add(s.value)
			if err != nil {
				return nil, err
			}
			r.lines = append(r.lines, s.key+"="+scoped)
		}
	}
	for _, s := range all {
		switch s.key {
		case "cafile":
			r.reads = append(r.reads, s.value)
			fallthrough
		case "ca", "ca[]", "strict-ssl":
			r.lines = append(r.lines, s.key+"="+s.value)
			continue
		}
		if strings.HasPrefix(s.key, "//") && r.known(s.key) {
			r.lines = append(r.lines, s.key+"="+s.value)
			if strings.HasSuffix(s.key, "file") {
				r.reads = append(r.reads, s.value)
			} else if !strings.HasSuffix(s.key, ":username") && !strings.HasSuffix(s.key, ":always-auth") {
				r.secrets = append(r.secrets, s.value)
			}
		}
	}
	return r, nil
}

// add grants the host of a registry and takes credentials out of its address.
func (r *registry) add(address string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", tool.Errorf(tool.DependencyError, "%q is no address of an npm registry", hideUser(address)).
			WithHint("Set the registry as https://host/, in the configuration or with npm config set registry.")
	}
	r.hosts = append(r.hosts, hostEntry(u))
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	u.RawQuery, u.Fragment = "", ""
	if user := u.User; user != nil {
		u.User = nil
		password, _ := user.Password()
		r.secrets = append(r.secrets, password, user.Username())
		r.lines = append(r.lines, "//"+u.Host+u.Path+":_auth="+basic(user.Username(), password))
		r.secrets = append(r.secrets, basic(user.Username(), password))
	}
	return u.String(), nil
}

// known reports whether a key such as "//host/path/:_authToken" is of a host that
// is granted.
func (r *registry) known(key string) bool {
	host, _, _ := strings.Cut(strings.TrimPrefix(key, "//"), "/")
	host, _, _ = strings.Cut(host, ":")
	return slices.ContainsFunc(r.hosts, func(entry string) bool {
		name, _, _ := strings.Cut(entry, ":")
		return name == host || strings.HasPrefix(entry, "[") && strings.HasPrefix(key, "//"+entry[:strings.IndexByte(entry, ']')+1])
	})
}

// hostEntry is an address's host as an entry of a network.
func hostEntry(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

var userInfo = regexp.MustCompile(`://[^/@\s"']+@`)

func hideUser(text string) string { return userInfo.ReplaceAllString(text, "://***@") }

// hide takes out of a text what nobody may see.
func (r *registry) hide(text string) string {
	text = hideUser(text)
	for _, secret := range r.secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

// host is the registry's name, for people.
func (r *registry) host() string {
	u, err := url.Parse(r.address)
	if err != nil {
		return r.address
	}
	return u.Host
}

// How long registries are waited for, and how long the answer is good.
const (
	quickestWait = 3 * time.Second
	quickestKept = time.Hour
)

// quickest is the registry that answers first; "" if there is no choice, and the
// first of them if none answers.
func (i *Installer) quickest(ctx context.Context) string {
	if len(i.c.Registries) < 2 {
		return strings.Join(i.c.Registries, "")
	}
	i.mu.Lock()
	known, at := i.fastest, i.measured
	i.mu.Unlock()
	if known != "" && time.Since(at) < quickestKept {
		return known
	}
	ctx, stop := context.WithTimeout(ctx, quickestWait)
	defer stop()
	answers := make(chan string, len(i.c.Registries))
	for _, address := range i.c.Registries {
		go func() { answers <- ping(ctx, address) }() // ended by ctx; the channel holds all
	}
	best := ""
	for range i.c.Registries {
		if best = <-answers; best != "" {
			break
		}
	}
	if best == "" {
		return i.c.Registries[0]
	}
	i.mu.Lock()
	i.fastest, i.measured = best, time.Now()
	i.mu.Unlock()
	return best
}

// ping is the address if it answers as a registry does, "" if not.
func ping(ctx context.Context, address string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/-/ping", nil)
	if err != nil {
		return ""
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	res.Body.Close()
	if res.StatusCode >= 500 {
		return ""
	}
	return address
}

// granted checks that whoever a package comes from may be asked.
func (r *registry) granted(m *Manifest) error {
	for name, value := range m.Packages() {
		s, err := parseSpec(name, value)
		if err != nil {
			continue
		}
		var host string
		switch s.kind {
		case specGit:
			host = s.host()
		case specURL:
			if u, err := url.Parse(s.target); err == nil {
				host = u.Hostname()
			}
		default:
			continue
		}
		if host != "" && !r.covers(host) {
			return tool.Errorf(tool.DependencyError, "%s comes from %s, which installs may not reach", name, host).
				WithHint("Allow that host for installs in the configuration, or use a version from the registry.")
		}
	}
	return nil
}

func (r *registry) covers(host string) bool {
	return slices.ContainsFunc(r.hosts, func(entry string) bool {
		entry, _, _ = strings.Cut(entry, "=")
		name := entry
		if h, _, err := net.SplitHostPort(entry); err == nil {
			name = h
		}
		suffix, wild := strings.CutPrefix(name, "*")
		return strings.EqualFold(name, host) || wild && strings.HasSuffix(strings.ToLower(host), strings.ToLower(suffix))
	})
}

// npmrc is the installer's own configuration.
func (r *registry) npmrc() []byte {
	return fmt.Appendf(nil, "%s\n", strings.Join(r.lines, "\n"))
}
