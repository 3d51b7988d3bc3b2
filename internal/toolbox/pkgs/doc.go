// Package pkgs keeps the folders of a toolbox as packages: it fetches, installs,
// updates, rolls back, removes, verifies and packs them. It knows files, archives,
// registries and git; it does not know what a tool is or how one runs, for which
// its callers give it [Hooks].
//
//	p, err := pkgs.Open(pkgs.Config{Home: "/home/me/.toolyard/toolbox", Runner: box})
//	...
//	_, err = p.Recover(ctx)                          // at the start
//	_, err = p.Sync(ctx, system, pkgs.SyncOptions{}) // before the first list of tools
//	f, err := p.Fetch(ctx, "@scope/hello@^1", nil)
//	defer f.Close()
//	installed, err := p.Install(ctx, f, pkgs.Hooks{Validate: …, Confirm: …})
//
// # What lies where
//
//	toolbox/<name>/               what its user sees and edits
//	toolbox/.staging/<random>/    what is being made; <random>.lock says that its maker lives
//	toolbox/.state/<name>.json    the [Record]: which version is installed, which one runs
//	    versions/<name>/<n>/      a version's sources, which nobody changes; <n>.json what it contains
//	    versions/<name>/trees/    node_modules and .venv of versions
//	    journal/<name>.json       a switch that was decided on
//	    kept/<name>/              what was the user's in a tool that was removed
//	    locks/
//
// Of a tool's folder
//
//	data/ logs/ .env run.log .git       are the user's: no package brings them, no update touches them
//	node_modules/ .venv/                are installed: they go with a version, and are no part of its hash
//	.DS_Store, __pycache__, *.tmp, …    are nobody's: neither packed nor touched
//	everything else                     is a version's sources, and has the hash
//
// # Why a tool does not run from its folder
//
// Four things are wanted of an update at once: who reads the old version goes on
// reading it; who begins after it reads the new one; no reader gets a mix; and the
// data, which running calls write to, are at one place all the time, before,
// during and after.
//
// Exchanging toolbox/<name> as a whole for a new folder gives the first three and
// not the last. Data cannot be in both folders, so they would have to be moved
// after the exchange: a crash between leaves a tool without its data, a .env that
// is being written lands in the old folder, and a sandbox that mounted data/ in
// the old folder has its mount point taken away under a running call (tried: the
// mount goes with the directory that moved, and the path is no longer there). A symlink for data/ breaks tools
// that compare real paths with their allowed directories.
//
// So a folder stays, with its inode, its data and whoever watches it; what changes
// is what is in it. That takes one rename for each name at its top, each at once
// (renameat2 with RENAME_EXCHANGE; two renames where that cannot be), not all at
// once. Hence nobody who must not see a mix reads the folder. What runs is a
// [Version]: a copy of the sources that nobody changes, with a number. Which one
// is said by the record, and the rename of the record is the instant of the switch.
// [Packages.Current] gives it, and it is not taken away before it is closed; its
// [Version.Mounts] show it to a sandbox where the folder is, with the one data/
// granted in it:
//
//	v, err := p.Current(name)
//	defer v.Close() // when the pool that runs it is closed
//	worker.Config{
//		Module: v.Module(), Dir: v.Seen,
//		Profile: sandbox.Profile{Mounts: v.Mounts(), Write: []string{v.Seen + "/data"}},
//	}
//
// The same serves edits. When the user saves, [Packages.Snapshot] makes a version of
// the folder (10 ms; 0.1 ms if nothing changed; dependencies are shared, not
// copied), which is validated, and [Packages.Accept] makes it the current one. A
// broken edit is a version that nobody accepted, so the last good one runs on, in
// new processes too and after a restart.
//
// # Crashes
//
// A switch writes the new version, then everything that is to be put into the
// folder, then the journal. Before the journal nothing was changed that anybody
// reads; with the journal the switch is decided on. Each step after it can be
// repeated: an entry whose inode is in the folder is done. Whoever comes next, be
// it [Packages.Recover], Snapshot or another operation, goes on where it was left,
// and if what was prepared is gone makes it anew from the version. An error in the
// middle, as opposed to a crash, is undone by the same marks. Removing has a journal
// too: the folder goes to kept/ by one rename, and is cleaned there.
//
// Locks are flock's, which end with their process: one for each tool and
// operation, one for moments when a folder is switched or read as a whole, one for
// each staging directory. They are by name in small letters, so tools that differ
// by case are one to them.
//
// Against power failures the sources, records and journals are synced; what is
// installed is not, since it can be installed again.
//
// # What a package is
//
// A folder, or an archive of one with at most one folder around it, that has a
// tool at its top: <name>.tool.js, tool.js, <name>.tool.py or tool.py. Its name is
// that of the file, else that in package.json, manifest.json, or of the source.
// A bundle (.mcpb, a zip with a manifest.json) is a package if there is such a
// file: it is installed as a tool, and manifest.json is one of its files. If
// there is none it describes a server, which is the gateway's to run, and it is
// refused with a word about that.
//
// Archives, folders and repositories are held to the same: no links, no devices,
// nothing that leads out, no names that are the same on some file system, limits
// on number, size and ratio that are counted, not believed.
package pkgs
