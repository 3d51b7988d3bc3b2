package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/flock"
	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/tool"
)

// What a tool has without anybody's grant.
const (
	freeMemory = 512 << 20 // bytes
	freeTime   = 30 * time.Second
)

// Grant is what a person or the operator gave a tool beyond its own data. The
// zero value is nothing.
type Grant struct {
	Read    []string `json:"read,omitempty"`    // absolute directories
	Write   []string `json:"write,omitempty"`   // absolute directories
	Network []string `json:"network,omitempty"` // hosts, "*.host", or "all"
	// Memory is in bytes; zero is the 512 MiB that every tool has.
	Memory int64 `json:"memory,omitempty"`
	// Time is how long one call may take; zero is the 30 s that every tool has.
	Time time.Duration `json:"time,omitempty"`
	// Scripts are the packages whose install scripts may run, as name or
	// name@version. A tool cannot ask for them.
	Scripts []string `json:"scripts,omitempty"`
}

// IsZero reports whether it grants nothing.
func (g Grant) IsZero() bool {
	return len(g.Read)+len(g.Write)+len(g.Network)+len(g.Scripts) == 0 && g.Memory == 0 && g.Time == 0
}

// join is what either grants.
func (g Grant) join(h Grant) Grant {
	union := func(a, b []string) []string {
		both := slices.Concat(a, b)
		slices.Sort(both)
		return slices.Compact(both)
	}
	return Grant{
		Read: union(g.Read, h.Read), Write: union(g.Write, h.Write), Network: union(g.Network, h.Network),
		Scripts: union(g.Scripts, h.Scripts), Memory: max(g.Memory, h.Memory), Time: max(g.Time, h.Time),
	}
}

// without is what g asks for and h does not give.
func (g Grant) without(h Grant) Grant {
	missing := func(asked []string, has func(string) bool) []string {
		return slices.DeleteFunc(slices.Clone(asked), has)
	}
	below := func(dirs []string) func(string) bool {
		return func(path string) bool {
			return slices.ContainsFunc(dirs, func(dir string) bool { return within(path, dir) })
		}
	}
	left := Grant{
		Read:  missing(g.Read, below(slices.Concat(h.Read, h.Write))),
		Write: missing(g.Write, below(h.Write)),
		Network: missing(g.Network, func(host string) bool {
			return slices.ContainsFunc(h.Network, func(granted string) bool { return covers(granted, host) })
		}),
	}
	if g.Memory > max(h.Memory, freeMemory) {
		left.Memory = g.Memory
	}
	if g.Time > max(h.Time, freeTime) {
		left.Time = g.Time
	}
	return left
}

// within reports whether path is dir or lies below it; both are clean.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// covers reports whether a granted network entry includes an asked one.
func covers(granted, asked string) bool {
	if granted == "all" || strings.EqualFold(granted, asked) {
		return true
	}
	suffix, wild := strings.CutPrefix(granted, "*")
	return wild && strings.HasPrefix(suffix, ".") && strings.HasSuffix(strings.ToLower(asked), strings.ToLower(suffix))
}

// Lines describes a grant to a person, one line a thing.
func (g Grant) Lines() []string {
	var lines []string
	for _, dir := range g.Read {
		lines = append(lines, "read "+dir)
	}
	for _, dir := range g.Write {
		lines = append(lines, "write "+dir)
	}
	for _, host := range g.Network {
		if host == "all" {
			host = "every public host"
		}
		lines = append(lines, "network "+host)
	}
	for _, name := range g.Scripts {
		lines = append(lines, "install scripts of "+name)
	}
	if g.Memory > 0 {
		lines = append(lines, fmt.Sprintf("memory %d MiB", g.Memory>>20))
	}
	if g.Time > 0 {
		lines = append(lines, fmt.Sprintf("time %s a call", g.Time))
	}
	return lines
}

// flags is the grant as arguments of `toolyard toolbox grant`.
func (g Grant) flags() string {
	var b strings.Builder
	for _, dir := range g.Read {
		fmt.Fprintf(&b, " --read %s", dir)
	}
	for _, dir := range g.Write {
		fmt.Fprintf(&b, " --write %s", dir)
	}
	for _, host := range g.Network {
		fmt.Fprintf(&b, " --net %s", host)
	}
	if g.Memory > 0 {
		fmt.Fprintf(&b, " --memory %dMiB", g.Memory>>20)
	}
	if g.Time > 0 {
		fmt.Fprintf(&b, " --time %s", g.Time)
	}
	return b.String()
}

// consent is what is stored of one tool.
type consent struct {
	// Operator is what was granted beforehand, whatever the tool's version.
	Operator Grant `json:"operator,omitzero"`
	// Answered is what a person said about what the tool asked, by the hash of the
	// version that asked.
	Answered map[string]answered `json:"answered,omitempty"`
}

type answered struct {
	Asked   Grant     `json:"asked"`
	Granted bool      `json:"granted"`
	By      string    `json:"by,omitempty"`
	When    time.Time `json:"when"`
}

// keptAnswers is how many versions' answers are kept.
const keptAnswers = 16

// of is what a version of the tool holds.
func (c consent) of(hash string) Grant {
	if a, ok := c.Answered[hash]; ok && a.Granted {
		return c.Operator.join(a.Asked)
	}
	return c.Operator
}

// answeredBefore reports whether a person has been asked about this already.
func (c consent) answeredBefore(hash string, asked Grant) bool {
	a, ok := c.Answered[hash]
	return ok && asked.without(a.Asked).IsZero()
}

func (c *consent) answer(hash string, a answered) {
	if c.Answered == nil {
		c.Answered = map[string]answered{}
	}
	if old, ok := c.Answered[hash]; ok && old.Granted && a.Granted {
		a.Asked = a.Asked.join(old.Asked)
	}
	c.Answered[hash] = a
	for len(c.Answered) > keptAnswers {
		oldest := ""
		for hash, a := range c.Answered {
			if oldest == "" || a.When.Before(c.Answered[oldest].When) {
				oldest = hash
			}
		}
		delete(c.Answered, oldest)
	}
}

func (b *Box) consentPath(name string) string {
	return filepath.Join(b.state, name+".grants.json")
}

// consent reads what is stored. A file that cannot be understood grants nothing
// and is an error: it is not overwritten.
func (b *Box) consent(name string) (consent, error) {
	var c consent
	data, err := os.ReadFile(b.consentPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return consent{}, tool.Errorf(tool.ExecutionError, "the grants of tool %s cannot be read: %v", name, err).
			WithHint("Look at %s, or remove it to take all grants back.", b.consentPath(name))
	}
	return c, nil
}

// changeConsent reads, changes and writes what is stored, one process at a time.
func (b *Box) changeConsent(name string, change func(*consent)) error {
	unlock, err := flock.Open(context.Background(), filepath.Join(b.state, name+".grants.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	c, err := b.consent(name)
	if err != nil {
		return err
	}
	change(&c)
	return writeJSON(b.consentPath(name), c)
}

// Grants is what the operator granted a tool and what a person answered for its
// present version; asked is what it asks beyond that.
func (b *Box) Grants(name string) (given, asked Grant, err error) {
	e, err := b.entry(name)
	if err != nil {
		return Grant{}, Grant{}, err
	}
	c, err := b.consent(name)
	if err != nil {
		return Grant{}, Grant{}, err
	}
	v := e.good.Load()
	if v == nil {
		return c.Operator, Grant{}, nil
	}
	given = c.of(*v.hash.Load())
	env, err := b.environment(v.def)
	if err != nil {
		return given, Grant{}, err
	}
	return given, b.asks(v.def, env).without(given), nil
}

// Grant gives a tool more, before anybody was asked.
func (b *Box) Grant(name string, g Grant) error { return b.regrant(name, g, false) }

// Revoke takes from what was granted; the zero Grant takes everything, answers
// of a person too.
func (b *Box) Revoke(name string, g Grant) error { return b.regrant(name, g, true) }

func (b *Box) regrant(name string, g Grant, revoke bool) error {
	if _, err := b.entry(name); err != nil {
		return err
	}
	if err := b.checkGrant(&g); err != nil {
		return err
	}
	err := b.changeConsent(name, func(c *consent) {
		switch {
		case !revoke:
			c.Operator = c.Operator.join(g)
		case g.IsZero():
			*c = consent{}
		default:
			c.take(g)
		}
	})
	if err == nil {
		b.renew(name)
	}
	return err
}

// take takes what g names from everything that was given.
func (c *consent) take(g Grant) {
	rest := func(from Grant) Grant {
		less := func(a, b []string) []string {
			return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
		}
		from.Read, from.Write = less(from.Read, g.Read), less(from.Write, g.Write)
		from.Network, from.Scripts = less(from.Network, g.Network), less(from.Scripts, g.Scripts)
		if g.Memory > 0 {
			from.Memory = 0
		}
		if g.Time > 0 {
			from.Time = 0
		}
		return from
	}
	c.Operator = rest(c.Operator)
	for hash, a := range c.Answered {
		a.Asked = rest(a.Asked)
		c.Answered[hash] = a
	}
}

// checkGrant makes the directories absolute and refuses what nobody may have.
func (b *Box) checkGrant(g *Grant) error {
	for _, dirs := range []*[]string{&g.Read, &g.Write} {
		for i, dir := range *dirs {
			path := b.expand(dir)
			if !filepath.IsAbs(path) {
				return tool.Errorf(tool.ParameterError, "a directory to grant must be absolute, and %q is not", dir).WithHint("Write the whole path, or one that begins with ~/.")
			}
			if reason := b.ungrantable(path); reason != "" {
				return tool.Errorf(tool.PermissionDenied, "%s cannot be granted to a tool: %s", dir, reason).WithHint("Name the directory that the tool needs itself.")
			}
			(*dirs)[i] = path
		}
	}
	return networkFault(g.Network)
}

// ungrantable says why no tool may have a path: the runtime's own home with its
// token, its record and the other tools, and what holds it.
func (b *Box) ungrantable(path string) string {
	home := b.config.Home
	switch {
	case within(path, filepath.Join(home, "shared")):
		return ""
	case within(path, home):
		return "it belongs to the runtime"
	case within(home, path):
		return "the runtime's own home lies in it"
	}
	return ""
}

// asks is what a tool asks for beyond what every tool has: its runtime config and
// the ALLOWED_DIRECTORIES of its configuration.
func (b *Box) asks(def *definition.Definition, env map[string]string) Grant {
	var g Grant
	own := filepath.Join(b.dir, def.Name)
	for _, dir := range b.directories(def, env) {
		if within(dir, own) || within(dir, def.Dir) || within(dir, filepath.Join(b.config.Home, "shared")) || b.ungrantable(dir) != "" {
			continue
		}
		g.Write = append(g.Write, dir)
	}
	slices.Sort(g.Write)
	g.Write = slices.Compact(g.Write)
	switch n := def.Runtime.Network; {
	case n.All:
		g.Network = []string{"all"}
	default:
		g.Network = slices.Sorted(slices.Values(n.Domains))
	}
	if networkFault(g.Network) != nil {
		g.Network = nil // what is no host cannot be asked for; the validator says so
	}
	if def.Runtime.MaxMemory > freeMemory {
		g.Memory = def.Runtime.MaxMemory
	}
	if def.Runtime.MaxMemory == 0 && drivesBrowser(def) {
		g.Memory = browserMemory
	}
	if def.Runtime.MaxExecutionTime > freeTime {
		g.Time = def.Runtime.MaxExecutionTime
	}
	return g
}

// networkFault says what is wrong with hosts to be granted or asked for.
func networkFault(hosts []string) error {
	_, err := sandbox.NetworkOf(hosts).Entries()
	return err
}
