package sandboxtest

import (
	"archive/tar"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rootPrograms are what the attacks run, rootTrees what they load besides
// libraries. What the machine does not have is left out.
var (
	rootPrograms = strings.Fields(`bash sh cat chmod chown chroot cmp cp cut date dd env false find grep head id install ionice kill ls mkdir mkfifo
		mknod mktemp mount mv nohup nsenter perl ps python3 python3.11 python3.12 python3.13 readlink renice rm sed seq setpriv setsid sleep sort stat tail tar
		test touch tr true umount uname unshare wc ln printf rmdir dirname basename tee timeout stty git make xargs script`)
	rootTrees = []string{"/usr/lib/python3", "/usr/lib/python3.11", "/usr/lib/python3.12", "/usr/lib/python3.13"}
)

var library = regexp.MustCompile(`(/\S+) \(0x`)

// RootImage makes an image of a small root file system: the machine's own
// programs that the attacks need, the test's program as /test, and nothing from
// anywhere else.
func (d *Daemon) RootImage(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{self: "/test"} // source → name
	programs := []string{self}
	for _, name := range rootPrograms {
		for _, dir := range []string{"/usr/bin/", "/usr/sbin/"} {
			if path, err := exec.LookPath(dir + name); err == nil {
				files[path] = path
				programs = append(programs, path)
			}
		}
	}
	for _, root := range rootTrees {
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() && (e.Name() == "test" || e.Name() == "__pycache__" || strings.HasPrefix(e.Name(), "config-")) {
				return fs.SkipDir
			}
			if err == nil && e.Type().IsRegular() {
				files[path] = path
				if strings.HasSuffix(path, ".so") {
					programs = append(programs, path)
				}
			}
			return nil
		})
	}
	for _, path := range libraries(programs) {
		files[path] = path
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeRoot(w, files)) }()
	const repository, tag = "sandboxtest", "root"
	query := url.Values{"fromSrc": {"-"}, "repo": {repository}, "tag": {tag}}
	if answer, err := d.do(t.Context(), http.MethodPost, "/images/create?"+query.Encode(), r); err != nil {
		t.Fatalf("importing an image: %v: %s", err, answer)
	}
	return repository + ":" + tag
}

// libraries are what programs load.
func libraries(programs []string) []string {
	out, _ := exec.Command("ldd", programs...).CombinedOutput()
	var paths []string
	for _, m := range library.FindAllStringSubmatch(string(out), -1) {
		paths = append(paths, m[1])
	}
	return paths
}

func writeRoot(w io.Writer, files map[string]string) error {
	a := tar.NewWriter(w)
	for _, dir := range []string{"etc/", "root/", "tmp/", "var/", "var/tmp/", "run/", "usr/", "usr/local/", "usr/local/bin/", "usr/local/sbin/", "proc/", "sys/", "dev/"} {
		mode := int64(0o755)
		if strings.HasSuffix(dir, "tmp/") {
			mode = 0o1777
		}
		if err := a.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: mode}); err != nil {
			return err
		}
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if to, err := os.Readlink("/" + link); err == nil {
			if err := a.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: link, Linkname: to, Mode: 0o777}); err != nil {
				return err
			}
		}
	}
	for source, name := range files {
		if real, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil && name == source {
			name = filepath.Join(real, filepath.Base(name)) // below /usr, where /lib leads
		}
		if err := addFile(a, source, name); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"etc/passwd": "root:x:0:0::/root:/bin/bash\ndaemon:x:1:1::/:/bin/sh\n", "etc/shadow": "root:*:1::::::\n", "etc/machine-id": "0123\n"} {
		if err := a.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		if _, err := io.WriteString(a, text); err != nil {
			return err
		}
	}
	return a.Close()
}

func addFile(a *tar.Writer, source, name string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := a.WriteHeader(&tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: int64(info.Mode().Perm()), Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(a, f)
	return err
}
