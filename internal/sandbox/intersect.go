package sandbox

import (
	"path/filepath"
	"slices"
	"time"
)

// Intersect is what is left of asked within grant: it only narrows. A path that
// is asked for stays if the grant has it or something above it; where the grant
// has less than was asked for, that less is given. Limits are the lower of the
// two, MinLevel is the stronger, and what either denies or protects is denied or
// protected. Both are taken with the defaults of the grant's kind.
func Intersect(asked, grant Profile) Profile {
	asked.Kind = grant.Kind
	protected := union(asked.Protected, grant.Protected)
	if grant.Protected == nil {
		protected = union(asked.Protected, DefaultProtected())
	}
	a, g := asked.Defaults(), grant.Defaults()
	p := g
	p.Read = common(a.Read, append(slices.Clone(g.Read), g.Write...))
	p.Write = common(a.Write, g.Write)
	// What was asked for writing and is granted for reading can at least be read.
	p.Read = union(p.Read, without(common(a.Write, g.Read), p.Write))
	p.Deny = union(a.Deny, g.Deny)
	p.Protected = protected
	if a.Home != g.Home {
		p.Home = ""
	}
	p.Mounts = commonMounts(a.Mounts, g.Mounts)
	p.Network = g.Network.Narrow(a.Network)
	p.Memory = lower(a.Memory, g.Memory)
	p.PIDs = lower(a.PIDs, g.PIDs)
	p.CPU = time.Duration(lower(int64(a.CPU), int64(g.CPU)))
	p.CPUShare = lower(a.CPUShare, g.CPUShare)
	p.Wall = time.Duration(lower(int64(a.Wall), int64(g.Wall)))
	p.Files = lower(a.Files, g.Files)
	p.Disk = lower(a.Disk, g.Disk)
	p.Inodes = lower(a.Inodes, g.Inodes)
	p.Output = lower(a.Output, g.Output)
	p.Tmp = lower(a.Tmp, g.Tmp)
	p.MinLevel = stronger(a.MinLevel, g.MinLevel)
	return p
}

// lower is the lower limit, where zero and less is none.
func lower[T int | int64 | float64](a, b T) T {
	switch {
	case a <= 0:
		return b
	case b <= 0:
		return a
	}
	return min(a, b)
}

// common lists each asked path that lies in a granted one, and each granted one
// that lies in an asked path.
func common(asked, granted []string) []string {
	var paths []string
	add := func(path string) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for _, a := range asked {
		for _, g := range granted {
			a, g := filepath.Clean(a), filepath.Clean(g)
			switch {
			case inside(a, g):
				add(a)
			case inside(g, a):
				add(g)
			}
		}
	}
	return paths
}

func commonMounts(asked, granted []Mount) []Mount {
	var mounts []Mount
	for _, a := range asked {
		for _, g := range granted {
			if a.Source == g.Source && a.target() == g.target() {
				a.Write = a.Write && g.Write
				mounts = append(mounts, a)
				break
			}
		}
	}
	return mounts
}

func union(a, b []string) []string {
	list := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	if list == nil {
		list = []string{}
	}
	return list
}

func without(list, drop []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(drop, s) })
}
