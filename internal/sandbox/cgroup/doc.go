// Package cgroup makes control groups for sandboxes, in version 2 where its
// controllers are to be had, else in version 1. It knows groups and limits; it
// does not know what runs in them.
package cgroup
