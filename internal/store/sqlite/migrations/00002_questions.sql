-- Questions to people, and the calls that a client follows by an ID.

-- +goose Up

CREATE TABLE questions (
    id        TEXT PRIMARY KEY NOT NULL,
    kind      TEXT NOT NULL,
    session   TEXT NOT NULL,
    call      TEXT NOT NULL,
    tool      TEXT NOT NULL,
    workspace TEXT NOT NULL,
    title     TEXT NOT NULL,
    text      TEXT NOT NULL,
    options   TEXT NOT NULL,
    preset    TEXT NOT NULL, -- the default
    details   TEXT NOT NULL,
    binding   TEXT NOT NULL,
    fresh     INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    deadline  INTEGER NOT NULL,
    state     TEXT NOT NULL,
    option    TEXT NOT NULL,
    answer    TEXT NOT NULL,
    by        TEXT NOT NULL,
    answered  INTEGER NOT NULL,
    used      INTEGER NOT NULL
);
CREATE INDEX questions_created ON questions (created, id);
CREATE INDEX questions_session ON questions (session, created, id);
CREATE INDEX questions_pending ON questions (created, id) WHERE state = 'pending';
CREATE INDEX questions_binding ON questions (binding, answered) WHERE binding <> '';

CREATE TABLE tasks (
    id      TEXT PRIMARY KEY NOT NULL,
    session TEXT NOT NULL,
    call    TEXT NOT NULL,
    tool    TEXT NOT NULL,
    status  TEXT NOT NULL,
    message TEXT NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    result  TEXT NOT NULL,
    error   TEXT NOT NULL,
    runtime TEXT NOT NULL
);
CREATE INDEX tasks_created ON tasks (created, id);
CREATE INDEX tasks_session ON tasks (session, created, id);
CREATE INDEX tasks_open    ON tasks (runtime) WHERE status IN ('working', 'input_required');
