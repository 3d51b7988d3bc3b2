package deps

import "os"

func programSuffixes() []string { return []string{".exe", ".cmd", ".bat"} }

func executable(os.FileInfo) bool { return true }
