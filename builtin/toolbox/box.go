package toolbox

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
	"github.com/toolyard/toolyard/internal/toolbox/page"
)

// Box is the toolbox as these tools need it. All methods are safe for
// concurrent use; names are the tools' own ("pdf-reader"), found as given or
// with case, '_' and '-' ignored if only one fits. A tool that there is not is a
// *tool.Error TOOL_NOT_FOUND whose hint and details.nearest name the nearest
// ones.
type Box interface {
	// Lookup finds a tool, also one that did not load.
	Lookup(ctx context.Context, name string) (Entry, error)
	// Environment gives the values in a tool's .env; empty, not nil, if it has none.
	Environment(ctx context.Context, name string) (map[string]string, error)
	// Configure replaces the values in a tool's .env, atomically and one change at
	// a time: change gets the present ones and gives the new ones, or an error that
	// is returned and leaves everything as it was. It returns what is in the file
	// then. The tool's next call sees it.
	Configure(ctx context.Context, name string, change func(current map[string]string) (map[string]string, error)) (map[string]string, error)
	// Log reads a tool's run.log, secrets masked.
	Log(ctx context.Context, name string, q LogQuery) (LogExcerpt, error)
	// Validate runs the eleven layers on a tool of the toolbox or on a folder, with
	// release the release checklist too.
	Validate(ctx context.Context, nameOrPath string, release bool) (Report, error)
	// Install takes a tool from a folder, an archive, an npm package, a git URL or
	// an .mcpb into the toolbox. It asks through ask what a person must confirm and
	// reports how far it is; both may be called from other goroutines, one at a
	// time, and not after it has returned.
	Install(ctx context.Context, source string, o InstallOptions) (Installed, error)
}

// Entry is a tool of the toolbox at one moment.
type Entry struct {
	// Definition is that of the version which is running; of a tool that never
	// loaded it has name, folder and file only. It is never nil.
	Definition *definition.Definition
	// Granted is what the tool may use of what it asks for.
	Granted page.Limits
	// Failure is why the tool, or its latest edit, does not load; nil if it does.
	Failure error
	// Usable says that a version of it can be called, perhaps an older one than
	// the files' (Failure says why).
	Usable bool
	// EnvPath is the path of its .env, also of one that is not there yet.
	EnvPath string
}

// LogQuery chooses entries of a run.log.
type LogQuery struct {
	Action string // tail, head, all or grep
	Lines  int    // at most; 0 for all means as many as the log's reader gives
	Level  string // leaves out what is below DEBUG, INFO, WARN or ERROR; "" is all
	// Since leaves out older entries; zero is all.
	Since time.Time
	// Pattern is a regular expression (RE2) that a line must match; "" is all.
	Pattern string
}

// LogExcerpt is what a query found.
type LogExcerpt struct {
	Path string
	// Lines are whole lines as they stand in the log, oldest first.
	Lines []string
	// Matched is how many entries fit the query, with those that are not in Lines.
	Matched int
	// More says that there are, or may be, more than these.
	More bool
}

// Report is what a validation found.
type Report struct {
	Text string          // for people, last line "N passed, N warnings, N failed"
	JSON json.RawMessage // an object with the same
	OK   bool            // no errors
}

// InstallOptions steer an installation.
type InstallOptions struct {
	// Confirm puts what the tool asks for to a person; false or an error stops the
	// installation with nothing changed. Nil means yes.
	Confirm func(ctx context.Context, title, text string) (bool, error)
	// Progress tells how far it is; total is 0 if that is not known. May be nil.
	Progress func(done, total int64, text string)
}

// Installed is a tool that was taken into the toolbox.
type Installed struct {
	Name      string   `json:"name"`
	Version   string   `json:"version,omitempty"`
	Source    string   `json:"source"`
	Integrity string   `json:"integrity,omitempty"`
	Path      string   `json:"path"`
	Replaced  string   `json:"replaced,omitempty"` // the version that was there before
	Warnings  []string `json:"warnings,omitempty"`
}
