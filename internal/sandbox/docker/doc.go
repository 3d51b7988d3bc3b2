// Package docker runs each command in a container of its own, through the API of
// a Docker daemon on this machine. It knows commands, mounts and limits, as
// package sandbox does; it does not know tools, sessions or permissions.
//
//	r := docker.New(docker.Config{})
//	p, err := r.Start(ctx, sandbox.Cmd{Args: []string{"make"}, Dir: workspace,
//		Profile: sandbox.Profile{Write: []string{workspace}, Mounts: toolchain.Mounts}})
//
// Without an image of the operator's the container's root is empty, and what a
// command needs of the machine is mounted into it, read-only, as the profile
// says: nothing is ever fetched from a registry.
//
// A command runs as the user to whom what it may write belongs, else as 1001,
// without a capability, under no_new_privs, with the sandbox's own filter of
// system calls, on a read-only root, with no network. Where the profile cannot be
// held the command does not run.
package docker
