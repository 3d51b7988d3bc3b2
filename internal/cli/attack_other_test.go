//go:build !linux

package cli_test

// attackHelper: there is no attack here.
func attackHelper() {}
