//go:build !linux

package pkgs

func exchange(string, string) (bool, error) { return false, nil }

func renameNew(from, to string) error { return renameChecked(from, to) }

func syncFS(string) (bool, error) { return false, nil }
