//go:build amd64 || arm64

package sandbox

// View says what a profile makes visible on this machine as it is now: the grants
// that exist, without symlinks, parents before what lies in them. The error is
// the one that Start would return.
func View(p Profile) ([]Place, error) {
	p = p.Defaults()
	t, err := newTree(&p)
	if err != nil {
		return nil, err
	}
	places := make([]Place, 0, len(t.places))
	for i, from := range t.places {
		place := Place{Path: from.target, Access: AccessRead}
		if from.source != from.target {
			place.Source = from.source
		}
		above := covering(t.places[:i], from.target)
		switch {
		case from.access == hidden:
			place.Access, place.Source = AccessHidden, ""
		case from.access == readWrite && above != nil && above.access == readWrite && above.target != p.Home:
			continue // it only keeps a directory around a protected path in its place
		case from.access == readWrite:
			place.Access = AccessWrite
		case above != nil && above.access == readWrite:
			place.Access = AccessProtected
		}
		places = append(places, place)
	}
	return places, nil
}
