package pkgs

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/toolyard/toolyard/internal/sandbox"
	"github.com/toolyard/toolyard/tool"
)

// Config of Packages. Home is needed; the rest works when zero.
type Config struct {
	// Home is the toolbox: the directory of the tools' folders.
	Home string
	// State is where records, versions and journals lie. It must be on the same
	// file system as Home. Empty is .state in Home.
	State string

	// Runner runs git. Nil refuses repositories.
	Runner sandbox.Runner
	// Git says how repositories are fetched.
	Git Git
	// HTTP fetches packages and archives. Nil is a client with its own connections
	// that waits at most a minute for an answer to begin.
	HTTP *http.Client
	// Registry is where npm packages are. Empty is https://registry.npmjs.org.
	Registry string
	// Authorization is the header for the registry, and goes to no other host.
	Authorization string

	Limits Limits
	// Keep is how many versions before the current one stay for rollback. Zero is
	// 3.
	Keep int
	// Wait is how long an operation waits for another one on the same tool before
	// it is refused with CONFLICT. Zero is 10 s, negative does not wait.
	Wait time.Duration
	// Now tells the time. Nil is time.Now.
	Now func() time.Time
}

// Limits of what is fetched. Zero takes the default.
type Limits struct {
	Archive  int64 // bytes of an archive, 100 MB
	Unpacked int64 // bytes of all files together, 500 MB
	Entries  int   // files and directories, 20,000
	// Ratio is how many times larger than the archive the files may be, once they
	// are over 10 MB. 200.
	Ratio int64
	// Time is how long fetching may take. 5 minutes.
	Time time.Duration
}

const (
	megabyte  = 1_000_000
	ratioFrom = 10 * megabyte // small archives of blank files are no bombs
)

func (l Limits) defaults() Limits {
	if l.Archive == 0 {
		l.Archive = 100 * megabyte
	}
	if l.Unpacked == 0 {
		l.Unpacked = 500 * megabyte
	}
	if l.Entries == 0 {
		l.Entries = 20_000
	}
	if l.Ratio == 0 {
		l.Ratio = 200
	}
	if l.Time == 0 {
		l.Time = 5 * time.Minute
	}
	return l
}

// Packages is a toolbox as a set of packages. It is safe for concurrent use, by
// several processes as well. It holds nothing open and need not be closed.
type Packages struct {
	c Config
	// step is called before each change to the disk that another process could
	// see, for tests that end the process there. Nil outside of tests.
	step func(what string)
	// noExchange has files change places by two renames, as where the system has
	// no better way.
	noExchange bool
}

func (p *Packages) at(what string) {
	if p.step != nil {
		p.step(what)
	}
}

// Open makes the directories of a toolbox where they are missing. It does not
// call [Packages.Recover].
func Open(c Config) (*Packages, error) {
	home, err := filepath.Abs(c.Home)
	if err != nil || c.Home == "" {
		return nil, tool.Errorf(tool.ParameterError, "the toolbox has no directory")
	}
	c.Home = home
	if c.State == "" {
		c.State = filepath.Join(home, ".state")
	}
	if c.HTTP == nil {
		c.HTTP = newClient()
	}
	if c.Registry == "" {
		c.Registry = "https://registry.npmjs.org"
	}
	c.Limits = c.Limits.defaults()
	if c.Keep == 0 {
		c.Keep = 3
	}
	if c.Wait == 0 {
		c.Wait = 10 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.HTTP = secure(c.HTTP)
	p := &Packages{c: c}
	for _, dir := range []string{c.Home, c.State, p.staging(), p.state("versions"), p.state("journal"), p.state("locks"), p.state("kept")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, failure(err, "making the toolbox")
		}
	}
	for _, dir := range []*string{&p.c.Home, &p.c.State} { // a sandbox is shown real paths
		if *dir, err = filepath.EvalSymlinks(*dir); err != nil {
			return nil, failure(err, "making the toolbox")
		}
	}
	return p, nil
}

// secure is a client that is not led from https to something else.
func secure(client *http.Client) *http.Client {
	c := *client
	before := c.CheckRedirect
	c.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return fmt.Errorf("it was led to %s, away from https", next.URL.Host)
		}
		if before != nil {
			return before(next, via)
		}
		if len(via) >= 10 {
			return errors.New("it was led on more than 10 times")
		}
		return nil
	}
	return &c
}

// newClient is a client for registries.
func newClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = time.Minute
	return &http.Client{Transport: t}
}

// Dir is the folder of a tool, whether or not it exists: what its user edits.
func (p *Packages) Dir(name string) string { return filepath.Join(p.c.Home, name) }

func (p *Packages) staging() string { return filepath.Join(p.c.Home, ".staging") }

func (p *Packages) state(elem ...string) string {
	return filepath.Join(append([]string{p.c.State}, elem...)...)
}

func (p *Packages) record(name string) string   { return p.state(name + ".json") }
func (p *Packages) journal(name string) string  { return p.state("journal", name+".json") }
func (p *Packages) kept(name string) string     { return p.state("kept", name) }
func (p *Packages) versions(name string) string { return p.state("versions", name) }

// Progress is how far a long operation has come.
type Progress struct {
	// Stage is "download", "unpack", "copy", "clone", "validate", "confirm",
	// "dependencies", "test" or "switch".
	Stage string `json:"stage"`
	// Done and Total are bytes; Total is 0 where it is not known.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
}

func report(f func(Progress), p Progress) {
	if f != nil {
		f(p)
	}
}

// failure makes a *tool.Error of what a file system said.
func failure(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	e := tool.Errorf(tool.Internal, format, args...)
	e.Message += ": " + err.Error()
	e.Err = err
	switch {
	case full(err):
		e.Code = tool.ResourceExhausted
		e.Hint = "Make room on the disk of the toolbox and try again; nothing was changed."
	case errors.Is(err, fs.ErrPermission):
		e.Code = tool.PermissionDenied
		e.Hint = "Look whose the files are and what their mode is."
	}
	return e
}
