package docker

// WithoutCgroup is c on a machine where the daemon's control groups cannot be
// seen.
func (c Config) WithoutCgroup() Config {
	c.noCgroup = true
	return c
}

// BeforeStart is c with something that happens between the look at a command's
// files and the start of its container.
func (c Config) BeforeStart(f func()) Config {
	c.beforeStart = f
	return c
}

// Begun is c with something that happens between the start of a command and the
// first look at what it uses.
func (c Config) Begun(f func()) Config {
	c.begun = f
	return c
}
