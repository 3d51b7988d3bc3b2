// Package deploy holds what an operator installs around the program: the files
// beside it, which `toolyard doctor --print` prints. It knows nothing of the
// program.
package deploy

import "embed"

//go:embed apparmor/toolyard docker/seccomp.json systemd/toolyard.service systemd/toolyard-user.service
var files embed.FS

// names of the files, by what they are asked for as. To add one: a line here and
// in the pattern above.
var names = []struct{ name, path string }{
	{"apparmor", "apparmor/toolyard"},
	{"seccomp", "docker/seccomp.json"},
	{"systemd", "systemd/toolyard.service"},
	{"systemd-user", "systemd/toolyard-user.service"},
}

// Names lists what File takes.
func Names() []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n.name
	}
	return list
}

// File is the content of a file; nil if there is none of that name.
func File(name string) []byte {
	for _, n := range names {
		if n.name == name {
			content, err := files.ReadFile(n.path)
			if err != nil {
				panic(err) // it is embedded
			}
			return content
		}
	}
	return nil
}
