//go:build !unix

package dotenv

const openFlags = 0

// locked runs do. There is no lock here: of two updates at the same moment the
// last one holds, whole.
func locked(_ string, do func() error) error { return do() }

func syncDir(string) error { return nil }
