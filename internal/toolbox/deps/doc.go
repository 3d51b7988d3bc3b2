// Package deps gives a JavaScript tool the packages that it depends on, in its
// own folder. It knows package.json, version ranges and installers; it does not
// know what tools are, who may call them, or how programs are fetched.
//
//	in, err := deps.New(deps.Config{Runner: box, Cache: filepath.Join(home, "cache"), Program: find, Env: os.Environ()})
//	report, err := in.Install(ctx, deps.Request{Dir: d.Dir, Definition: d})
//
// [Installer.Install] is cheap where nothing changed (one file is compared), so
// it may be called before every first call of a worker.
//
// # What is on disk
//
// All lies in the tool's folder: package.json, which is made if there is none and
// else keeps its order and what we do not know; a lockfile, the author's or
// pnpm-lock.yaml; and node_modules, flat as npm lays it out, because tools were
// written for that. An install is built in a directory of its own, in the cache
// or as .deps-… in the folder, checked, and takes the place of node_modules in one rename, so whatever ends it leaves
// the old one or the new one, whole. Directories left by an install that was
// killed are removed by the next.
//
// # What is defended
//
// The installer runs in a sandbox: it sees programs, the staging directory and
// the cache, and reaches the registry's host only. Install scripts are off. Those
// that somebody allowed run afterwards, each package in a sandbox of its own that
// writes nothing but the staged node_modules, has no network unless that was
// granted, and sees neither the cache nor the registry's token.
//
// pnpm clones files out of its store where the file system can, and makes hard
// links where it cannot. A tool cannot write what is linked: its sandbox shows
// node_modules read-only, and a link from there to its data directory is refused
// by Landlock and by the mounts; pnpm looks at what it links and fetches anew what
// is not as it was. Where a script runs that may write in node_modules, the files
// are copies. To copy always was measured: with a thousand files an install from
// the lockfile took 0.9 s instead of 0.2 s, most of it to make inodes; whoever
// wants it has [Config.Copy].
package deps
