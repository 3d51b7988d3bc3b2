package sandbox

// AtMost is c for a sandbox that is no stronger than l. Only tests can ask for
// it: nothing else may lower a level.
func (c Config) AtMost(l Level) Config {
	c.atMost = l
	return c
}
