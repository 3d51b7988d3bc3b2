// Command toolyard gives AI agents a safe, fast tool box. See package cli.
package main

import (
	"os"

	"github.com/toolyard/toolyard/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
