package runtimes

import "io"

// Extract unpacks with small limits.
func Extract(archive io.Reader, dir string, bytes int64, files int) error {
	return extract(archive, dir, limits{bytes, files})
}

// Needed are the libraries that an ELF file names.
func Needed(r io.ReaderAt) ([]string, error) {
	o, err := parseObject(r)
	if err != nil {
		return nil, err
	}
	return o.needed, nil
}

var (
	ParseCache = parseCache
	PackageOf  = packageOf
	Shebang    = shebang
	SHA512Of   = sha512Of
	Inside     = inside
)

// Closure is what some programs link.
func Closure(files ...string) []string { return newLinker().closure(files) }
