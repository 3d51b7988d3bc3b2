//go:build !unix

package cli

import "os/exec"

// apart does nothing: there are no process groups here.
func apart(*exec.Cmd) {}

// killApart ends the command.
func killApart(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
