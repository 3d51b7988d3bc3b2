//go:build !unix

package search

const nonBlock = 0
