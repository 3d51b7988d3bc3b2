package cli

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/lmittmann/tint"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/sqlite"
)

// yard is the runtime of one command, with its store.
type yard struct {
	*toolyard.Toolyard
	store     store.Store
	config    toolyard.Config
	home      string
	workspace string // the default one; "" if there is none
}

// openOptions say what a command needs beyond its flags.
type openOptions struct {
	keepJobs    bool // commands may run on after their call
	noWorkspace bool // the current directory is not one unless it is named
	chatty      bool // what happens is logged, not only what goes wrong
	serving     bool // calls come from elsewhere until the end
	later       bool // the store may be opened while other things go on
}

// open reads the configuration, opens the store and makes the runtime. The
// caller closes the yard.
func (p *program) open(ctx context.Context, o openOptions) (*yard, error) {
	settings, db, err := p.record(ctx, o)
	if err != nil {
		return nil, err
	}
	return p.start(settings, db, o)
}

// record reads the configuration and opens the store. A project's file counts if
// the store says that it is trusted. The caller closes the store.
func (p *program) record(ctx context.Context, o openOptions) (*config.Loaded, *sqlite.DB, error) {
	settings, err := p.settings(o, nil)
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(settings.Home, "toolyard.db")
	undecided := slices.ContainsFunc(settings.Files, func(f config.File) bool { return f.State == config.Untrusted })
	if o.later && !undecided {
		return settings, sqlite.OpenInBackground(path), nil
	}
	db, err := sqlite.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if !undecided {
		return settings, db, nil
	}
	// Only now can be known whether the project's file is trusted.
	if settings, err = p.settings(o, trustedIn(ctx, db)); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	for _, note := range settings.Notes {
		p.note("note: %s", note)
	}
	return settings, db, nil
}

// start makes the runtime. It closes db if it cannot.
func (p *program) start(settings *config.Loaded, db *sqlite.DB, o openOptions) (*yard, error) {
	y := &yard{store: db, config: settings.Config, home: settings.Home}
	y.config.Store, y.config.KeepJobs, y.config.Log = db, o.keepJobs, p.logger(settings, o.chatty)
	if !o.serving {
		y.config.Toolbox.Preload = "off" // only what this command needs
	}
	if o.later {
		y.config.Opened = db.Opened
	}
	var err error
	if y.Toolyard, err = toolyard.New(y.config); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if roots := y.Workspaces(); len(roots) > 0 {
		y.workspace = roots[0]
	}
	return y, nil
}

// trustedIn gives the sum at which a directory was trusted.
func trustedIn(ctx context.Context, db store.Settings) func(dir string) (string, error) {
	return func(dir string) (string, error) {
		sum, err := db.Setting(ctx, config.TrustKey(dir))
		if errors.Is(err, store.ErrNotFound) {
			return "", nil
		}
		return sum, err
	}
}

// close ends the runtime, then the store. What goes wrong is in the log: the
// command has done its work by then.
func (y *yard) close() {
	if err := errors.Join(y.Toolyard.Close(), y.store.Close()); err != nil {
		y.config.Log.Error("closing", "err", err)
	}
}

// settings reads the configuration with the flags over it.
func (p *program) settings(o openOptions, trusted func(dir string) (string, error)) (*config.Loaded, error) {
	return config.Load(config.Options{
		Flags: config.Flags{
			Home: p.flags.home, File: p.flags.config, Workspaces: p.flags.workspaces, Mode: p.flags.mode, Profile: p.flags.profile, LogLevel: p.flags.logLevel,
			Allow: p.flags.allow, Ask: p.flags.ask, Deny: p.flags.deny,
		},
		NoWorkspace: o.noWorkspace,
		Trusted:     trusted,
	})
}

// logger writes to stderr: with colours on a terminal, else as text. Unless a
// level was set, only what goes wrong is logged.
func (p *program) logger(settings *config.Loaded, chatty bool) *slog.Logger {
	level := slog.LevelWarn
	if chatty {
		level = slog.LevelInfo
	}
	if set, ok := settings.Origins["log.level"]; ok && set.Layer != config.BuiltIn {
		_ = level.UnmarshalText([]byte(settings.LogLevel)) // checked when it was loaded
	}
	if p.err.on {
		return slog.New(tint.NewTextHandler(p.stderr, &tint.Options{Level: level, TimeFormat: "15:04:05"}))
	}
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: level}))
}
