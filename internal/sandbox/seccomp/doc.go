// Package seccomp assembles the system-call filter of a sandbox. It knows system
// calls; it does not know why a command is confined.
package seccomp
