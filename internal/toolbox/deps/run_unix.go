//go:build !windows

package deps

import "os"

func programSuffixes() []string { return []string{""} }

func executable(info os.FileInfo) bool { return info.Mode()&0o111 != 0 }
