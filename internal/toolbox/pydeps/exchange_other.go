//go:build !linux

package pydeps

import "errors"

func exchange(_, _ string) error { return errors.ErrUnsupported }
