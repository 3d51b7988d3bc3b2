package pkgs

// SetStep has f called before each change to the disk.
func (p *Packages) SetStep(f func(what string)) { p.step = f }

// NoExchange has files change places by two renames.
func (p *Packages) NoExchange() { p.noExchange = true }

// CleanEntry and Fold are for fuzz tests.
var (
	CleanEntry = cleanEntry
	Fold       = fold
	Untar      = untar
	Unzip      = unzip
)

// ParseRepository gives the parts of a repository's URL.
func ParseRepository(source string) (url, remembered, host, ref string, err error) {
	r, err := parseRepository(source)
	if err != nil {
		return "", "", "", "", err
	}
	return r.url, r.source, r.host, r.ref, nil
}

// SystemPackage is for a fuzz test.
var SystemPackage = systemPackage
