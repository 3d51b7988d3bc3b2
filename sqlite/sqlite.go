// Package sqlite gives an embedded Toolyard a durable store in one SQLite file:
//
//	db, err := sqlite.Open("toolyard.db")
//	if err != nil { … }
//	defer db.Close() // after the Toolyard
//	t, err := toolyard.New(toolyard.Config{Store: db})
//
// It is a package of its own so that a program which keeps nothing does not
// link a database.
package sqlite

import "github.com/toolyard/toolyard/internal/store/sqlite"

// DB is a store for toolyard.Config.Store. It is safe for concurrent use, and
// several processes may use the same file at once. Its methods are the
// runtime's; a program only opens and closes it.
type DB = sqlite.DB

// Open opens or makes the database at path, an ordinary file name. Missing
// folders are made with mode 0700, the file with 0600; an older database is
// migrated. The error says what to do if the file is not a Toolyard database,
// comes from a newer version or cannot be written. The caller closes the DB,
// after the Toolyard that uses it.
func Open(path string) (*DB, error) { return sqlite.Open(path) }

// OpenInBackground is Open for a program that has other things to do meanwhile:
// the DB can be given to toolyard.New at once. Calls wait until it is open; if it
// cannot be opened each is refused with Open's error. The caller closes the DB in
// either case.
func OpenInBackground(path string) *DB { return sqlite.OpenInBackground(path) }
