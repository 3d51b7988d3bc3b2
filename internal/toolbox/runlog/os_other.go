//go:build !unix

package runlog

const openFlags = 0
