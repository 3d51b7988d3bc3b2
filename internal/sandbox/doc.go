// Package sandbox runs a command that nobody trusts: confined by the kernel, to
// the files, the network and the resources that a [Profile] grants. It knows
// commands, mounts and limits; it does not know tools, sessions or permissions.
//
// What protects a command is measured, never assumed: [Sandbox.Probe] applies
// every layer in a child and reports the [Level] that holds here, what is
// missing, why, and how to have it. A command whose profile asks for more than
// there is does not run.
//
//	s := sandbox.New(sandbox.Config{})
//	p, err := s.Start(ctx, sandbox.Cmd{
//		Args:    []string{"/bin/bash", "-c", "make test"},
//		Dir:     workspace,
//		Env:     []string{"PATH=/usr/bin:/bin", "HOME=" + home},
//		Stdout:  w,
//		Profile: sandbox.Profile{Kind: "bash", Write: []string{workspace, home}},
//	})
//	...
//	defer p.Close()
//	result := p.Wait(ctx)
//
// The program becomes its own launcher (package launch), so a process that uses
// this package re-executes itself; nothing else need be installed.
package sandbox
