//go:build amd64 || arm64

package launch

import "syscall"

// tidy removes the directories that [Leftovers] names: control groups, which are
// empty as soon as the inits have seen that the runtime is gone. Nobody else does
// until another runtime starts. What is not empty within a second stays.
func tidy() {
	value, _ := syscall.Getenv(Leftovers)
	prefix, dirs := cut(value)
	if prefix == "" {
		return
	}
	const step, most = 10_000_000, 90 // ns, and how many of them
	for range most {
		left := false
		for rest := dirs; rest != ""; {
			var dir string
			dir, rest = cut(rest)
			for _, name := range names(dir) {
				if len(name) > len(prefix) && name[:len(prefix)] == prefix {
					err := syscall.Rmdir(dir + "/" + name)
					left = left || err == syscall.EBUSY
				}
			}
		}
		if !left {
			return
		}
		pause := syscall.Timespec{Nsec: step}
		_ = syscall.Nanosleep(&pause, nil)
	}
}

// cut splits a text at its first colon.
func cut(text string) (first, rest string) {
	for i := range len(text) {
		if text[i] == ':' {
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// names lists a directory; nothing if it cannot be read.
func names(dir string) []string {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	var list []string
	chunk := make([]byte, 16<<10)
	for {
		n, err := syscall.ReadDirent(fd, chunk)
		if err != nil || n <= 0 {
			return list
		}
		_, _, list = syscall.ParseDirent(chunk[:n], -1, list)
	}
}
