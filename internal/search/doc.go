// Package search finds files and text in a tree of files: a gitignore matcher
// that decides as git does, an ordered walk, glob and grep. It knows nothing of
// tools, sessions or permission, and it takes directories that are already
// open, so that it cannot be led out of them.
//
// # Walk
//
// [Walk] reads directories with openat and O_NOFOLLOW relative to their parent
// (through [os.Root] where there is no openat), so a directory that is swapped
// for a symlink is not entered. It goes depth first in the order of the names'
// bytes, which is the order of ripgrep's --sort path, and holds one directory
// per level in memory.
//
// # Grep
//
// A regular expression is RE2 syntax. Where RE2 and ripgrep differ, ripgrep's
// answer is given: \w, \d, \s and \b are those of Unicode, "^" and "$" are those
// of a line, and a byte that is not UTF-8 matches nothing. Every expression is
// matched a line at a time by a lazily built automaton; where a literal must
// occur in each match, only lines that hold it are looked at. In multi-line mode
// package regexp does the matching, and there \b is that of ASCII and an invalid
// byte counts as U+FFFD.
package search
