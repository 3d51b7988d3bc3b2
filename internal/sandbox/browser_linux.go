//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
)

// Browsers made of Chromium put an Encrypted Client Hello into every handshake,
// a meaningless one where a server has none. The network's proxy refuses that for
// named hosts, since nobody can tell it from one that names another host. The
// browsers leave it out where a policy of the machine says so, and a sandbox with
// named hosts has that policy.
const (
	browserPolicy = `{"EncryptedClientHelloEnabled": false}` + "\n"
	// Of files that say the same the browser believes the last.
	browserPolicyFile = "zz-toolyard-sandbox.json"
)

// browserDirs are where each keeps what it is configured with, below /etc. To
// add one: a line here.
var browserDirs = []string{
	"/etc/chromium", "/etc/opt/chrome", "/etc/opt/chrome_for_testing", "/etc/opt/edge", "/etc/brave",
}

const managedPolicies = "policies/managed" // below each

// grantBrowser adds what a browser is configured with, file by file along the
// way to its policies, so that one can be put beside those of the machine. It
// reports false for any other mount, and where that is not possible.
func (t *tree) grantBrowser(m Mount) bool {
	for _, dir := range browserDirs {
		if m.target() != dir || m.Write || filepath.Clean(m.Source) != dir {
			continue
		}
		if real, isDir, _, err := resolve(dir); err != nil || !isDir || real != dir {
			return false
		}
		t.grantAround(dir, filepath.Join(dir, managedPolicies))
		return true
	}
	return false
}

// grantAround adds what a directory holds, but not itself nor the directories
// down to hole, which are to be the sandbox's own.
func (t *tree) grantAround(dir, hole string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Type()&os.ModeSymlink != 0:
			if to, err := os.Readlink(path); err == nil && !inside(hole, path) {
				t.links[path] = to
			}
		case inside(hole, path):
			t.grantAround(path, hole)
		default:
			_ = t.grant(Mount{Source: path}, true) // of a file that is there it fails for none
		}
	}
}

// browserPolicies makes the policies. Where all of /etc was granted there is no
// place for them, and the machine's own count.
func (b *builder) browserPolicies() {
	if b.profile.Network.Mode != NetworkDomains {
		return
	}
	for _, dir := range browserDirs {
		dir = filepath.Join(dir, managedPolicies)
		file := filepath.Join(dir, browserPolicyFile)
		if covering(b.tree.places, file) != nil || b.tree.linked(file) {
			continue
		}
		b.mkdirAll(dir)
		b.create(file, browserPolicy, 0o444)
	}
}

// linked reports whether a path goes through a symlink that the sandbox makes.
func (t *tree) linked(path string) bool {
	for name := range t.links {
		if inside(path, name) {
			return true
		}
	}
	return false
}
