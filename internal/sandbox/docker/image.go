package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// repository names the images that this package imports. What is in one is in
// its tag, so one that exists need not be made again.
const repository = "toolyard/sandbox"

// root is what the otherwise empty root of a container holds.
type root struct {
	uid, gid int
	links    map[string]string // path → what it points to
}

// archive is the root as a tar file: always the same bytes for the same root.
func (r root) archive() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{"/": true}
	var mkdir func(dir string) error
	mkdir = func(dir string) error {
		if made[dir] {
			return nil
		}
		if err := mkdir(path.Dir(dir)); err != nil {
			return err
		}
		made[dir] = true
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755})
	}
	for _, f := range r.files() {
		if err := mkdir(path.Dir(f[0])); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f[0][1:], Mode: 0o644, Size: int64(len(f[1]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(f[1])); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.links)) {
		if err := mkdir(path.Dir(name)); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name[1:], Linkname: r.links[name], Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// files are name and text of what a program may expect below /etc.
func (r root) files() [][2]string {
	passwd, group := "root:x:0:0::/:/bin/sh\n", "root:x:0:\n"
	if r.uid != 0 {
		passwd += fmt.Sprintf("user:x:%d:%d::/:/bin/sh\n", r.uid, r.gid)
	}
	if r.gid != 0 {
		group += fmt.Sprintf("user:x:%d:\n", r.gid)
	}
	return [][2]string{
		{"/etc/group", group}, {"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"}, {"/etc/passwd", passwd},
	}
}

// image returns the name of an image with that root, and imports it if the
// daemon has none.
func (c *client) image(ctx context.Context, r root) (string, error) {
	content, err := r.archive()
	if err != nil {
		return "", fmt.Errorf("building an image: %w", err)
	}
	sum := sha256.Sum256(content)
	tag := hex.EncodeToString(sum[:8])
	name := repository + ":" + tag
	err = c.call(ctx, http.MethodGet, "/images/"+name+"/json", nil, nil, nil)
	if !is(err, http.StatusNotFound) {
		return name, err
	}
	resp, err := c.request(ctx, http.MethodPost, "/images/create",
		url.Values{"fromSrc": {"-"}, "repo": {repository}, "tag": {tag}}, bytes.NewReader(content), "application/x-tar")
	if err != nil {
		return "", err
	}
	// The answer is a stream of progress that ends with the import, and may end
	// with an error although it began with 200.
	var said bytes.Buffer
	_, err = said.ReadFrom(http.MaxBytesReader(nil, resp.Body, maxAnswer))
	resp.Body.Close()
	if err == nil && strings.Contains(said.String(), `"error"`) {
		err = fmt.Errorf("docker: importing an image: %s", said.String())
	}
	return name, err
}
