package deps

import (
	"context"
	"net/url"
	"strings"
)

// Origin is the registry that packages come from, without credentials, and the
// header that its host wants; "" if none. The header is for that host only, and
// never to be shown.
func (i *Installer) Origin(ctx context.Context) (address, authorization string, err error) {
	r, err := i.registry(ctx)
	if err != nil {
		return "", "", err
	}
	u, err := url.Parse(r.address)
	if err != nil {
		return "", "", err
	}
	for path := u.Path; ; {
		place := "//" + u.Host + path
		for _, line := range r.lines {
			if token, ok := strings.CutPrefix(line, place+":_authToken="); ok {
				return r.address, "Bearer " + token, nil
			}
			if basic, ok := strings.CutPrefix(line, place+":_auth="); ok {
				return r.address, "Basic " + basic, nil
			}
		}
		if path == "/" || path == "" {
			return r.address, "", nil
		}
		path = path[:strings.LastIndexByte(strings.TrimSuffix(path, "/"), '/')+1]
	}
}
