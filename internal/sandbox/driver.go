package sandbox

// CleanEnv is env without the variables that change what a program loads, and
// without what is not NAME=value: what [Cmd.Env] comes to. It is for drivers.
func CleanEnv(env []string) []string { return cleanEnv(env) }

// LookupEnv is the value of a variable in env, the last one if there are several;
// "" if there is none.
func LookupEnv(env []string, name string) string { return lookupEnv(env, name) }

// Require returns SANDBOX_UNAVAILABLE if what the report says is weaker than the
// floor. It is for drivers.
func (r Report) Require(floor Level) error {
	if r.Level.AtLeast(floor) {
		return nil
	}
	return unavailable(floor, r)
}
