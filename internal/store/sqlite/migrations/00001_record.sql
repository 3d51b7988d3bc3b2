-- Times are integer microseconds since 1970, UTC; 0 is "not set". Columns that
-- hold JSON are text. A file's own times are nanoseconds, as the file has them.

-- +goose Up

-- "Tool": a file of another program is never taken for ours.
PRAGMA application_id = 1416589164;

-- Two processes that migrate at once: the second insert fails, and with it the
-- transaction that would have run the same migration again.
CREATE UNIQUE INDEX goose_db_version_once ON goose_db_version (version_id);

CREATE TABLE sessions (
    id        TEXT PRIMARY KEY NOT NULL,
    client    TEXT NOT NULL,
    workspace TEXT NOT NULL,
    mode      TEXT NOT NULL,
    started   INTEGER NOT NULL,
    seen      INTEGER NOT NULL,
    ended     INTEGER NOT NULL,
    turn      TEXT NOT NULL
);
CREATE INDEX sessions_started ON sessions (started, id);

CREATE TABLE seen (
    session TEXT NOT NULL,
    path    TEXT NOT NULL,
    hash    TEXT NOT NULL,
    size    INTEGER NOT NULL,
    mtime   INTEGER NOT NULL, -- nanoseconds
    lines   TEXT NOT NULL,
    whole   INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (session, path)
) WITHOUT ROWID;

CREATE TABLE calls (
    id          TEXT PRIMARY KEY NOT NULL,
    parent      TEXT NOT NULL,
    session     TEXT NOT NULL,
    turn        TEXT NOT NULL,
    workspace   TEXT NOT NULL,
    tool        TEXT NOT NULL,
    arguments   TEXT NOT NULL,
    status      TEXT NOT NULL,
    code        TEXT NOT NULL,
    message     TEXT NOT NULL,
    verdict     TEXT NOT NULL,
    rule        TEXT NOT NULL,
    started     INTEGER NOT NULL,
    duration_ms REAL NOT NULL,
    bytes_in    INTEGER NOT NULL,
    bytes_out   INTEGER NOT NULL,
    meta        TEXT NOT NULL
);
-- Each index costs every call about 3 µs. So the calls of one tool are found in
-- the order of time, by an index that names the tool, and only the rare states
-- have an index of their own.
CREATE INDEX calls_started ON calls (started, id, tool);
CREATE INDEX calls_session ON calls (session, started, id);
CREATE INDEX calls_status  ON calls (status, started, id) WHERE status <> 'ok';

CREATE TABLE events (
    id   INTEGER PRIMARY KEY NOT NULL,
    time INTEGER NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE metrics (
    tool   TEXT NOT NULL,
    minute INTEGER NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tool, minute)
) WITHOUT ROWID;
CREATE INDEX metrics_minute ON metrics (minute);

CREATE TABLE changes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    call        TEXT NOT NULL,
    session     TEXT NOT NULL,
    turn        TEXT NOT NULL,
    workspace   TEXT NOT NULL,
    path        TEXT NOT NULL,
    kind        TEXT NOT NULL,
    old_path    TEXT NOT NULL,
    before      TEXT NOT NULL,
    after       TEXT NOT NULL,
    before_mode INTEGER NOT NULL,
    after_mode  INTEGER NOT NULL,
    before_link TEXT NOT NULL,
    after_link  TEXT NOT NULL,
    at          INTEGER NOT NULL,
    state       TEXT NOT NULL
);
CREATE INDEX changes_session   ON changes (session, id);
CREATE INDEX changes_call      ON changes (call, id);
CREATE INDEX changes_workspace ON changes (workspace, id);
CREATE INDEX changes_path      ON changes (path, id);
CREATE INDEX changes_at        ON changes (at);
CREATE INDEX changes_begun     ON changes (id) WHERE state = 'begun';

CREATE TABLE artifacts (
    id       TEXT PRIMARY KEY NOT NULL,
    session  TEXT NOT NULL,
    call     TEXT NOT NULL,
    name     TEXT NOT NULL,
    mime     TEXT NOT NULL,
    category TEXT NOT NULL,
    size     INTEGER NOT NULL,
    sha256   TEXT NOT NULL,
    created  INTEGER NOT NULL
);
CREATE INDEX artifacts_created ON artifacts (created, id);
CREATE INDEX artifacts_session ON artifacts (session, created, id);
CREATE INDEX artifacts_sha256  ON artifacts (sha256);

CREATE TABLE jobs (
    id          TEXT PRIMARY KEY NOT NULL,
    call        TEXT NOT NULL,
    session     TEXT NOT NULL,
    workspace   TEXT NOT NULL,
    command     TEXT NOT NULL,
    status      TEXT NOT NULL,
    exit_code   INTEGER NOT NULL,
    signal      TEXT NOT NULL,
    reason      TEXT NOT NULL,
    runtime_pid INTEGER NOT NULL,
    runtime     TEXT NOT NULL,
    handle      TEXT NOT NULL,
    bytes       INTEGER NOT NULL,
    started     INTEGER NOT NULL,
    ended       INTEGER NOT NULL
);
CREATE INDEX jobs_started ON jobs (started, id);
CREATE INDEX jobs_session ON jobs (session, started, id);
CREATE INDEX jobs_running ON jobs (runtime) WHERE status = 'running';

CREATE TABLE rules (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    scope     TEXT NOT NULL,
    scope_key TEXT NOT NULL,
    action    TEXT NOT NULL,
    rule      TEXT NOT NULL,
    overrides TEXT NOT NULL,
    by        TEXT NOT NULL,
    created   INTEGER NOT NULL,
    UNIQUE (scope, scope_key, rule)
);

CREATE TABLE settings (
    name  TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) WITHOUT ROWID;
