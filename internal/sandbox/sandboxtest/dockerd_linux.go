package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// How long a Docker daemon may take to start and to end.
const (
	dockerdStart = 60 * time.Second
	dockerdStop  = 20 * time.Second
)

// Daemon is a Docker daemon of a test's own, with its own files, socket and
// containerd; no other daemon of the machine knows of it.
type Daemon struct {
	// Socket is the path of its API.
	Socket string

	dir    string
	cmd    *exec.Cmd
	exited chan struct{}
}

// Dockerd starts a daemon that ends with the test. It skips the test where there
// is no dockerd or where the user may not start one.
func Dockerd(t *testing.T) *Daemon {
	t.Helper()
	if reason := NoDockerd(); reason != "" {
		t.Skip(reason)
	}
	d, err := StartDockerd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// NoDockerd says why a daemon cannot be started here; empty if it can.
func NoDockerd() string {
	if _, err := exec.LookPath("dockerd"); err != nil {
		return "no dockerd is installed: apt-get install docker.io"
	}
	if os.Getuid() != 0 {
		return "only root can start dockerd"
	}
	return ""
}

// StartDockerd starts a daemon for a TestMain, which calls Stop.
func StartDockerd(ctx context.Context) (*Daemon, error) {
	// Short, for the daemon puts sockets below it, whose paths have room for 107
	// bytes.
	dir, err := os.MkdirTemp("/tmp", "dockerd")
	if err != nil {
		return nil, err
	}
	d := &Daemon{Socket: filepath.Join(dir, "sock"), dir: dir, exited: make(chan struct{})}
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	return d, nil
}

func (d *Daemon) start(ctx context.Context) error {
	// An empty configuration instead of the machine's. No bridge and no iptables:
	// containers have no network, and the machine's stays as it is.
	config := filepath.Join(d.dir, "config.json")
	if err := os.WriteFile(config, []byte("{}"), 0o600); err != nil {
		return err
	}
	out, err := os.Create(d.log())
	if err != nil {
		return err
	}
	defer out.Close()
	d.cmd = exec.Command("dockerd", "--config-file", config, "--host", "unix://"+d.Socket,
		"--data-root", filepath.Join(d.dir, "data"), "--exec-root", filepath.Join(d.dir, "exec"), "--pidfile", filepath.Join(d.dir, "pid"),
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false")
	d.cmd.Env = append(os.Environ(), "SANDBOXTEST_DOCKERD="+d.dir) // its containerd has it too: see Carriers
	d.cmd.Stdout, d.cmd.Stderr = out, out
	// It ends in good order if the test's process does not get to end it.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := d.cmd.Start(); err != nil {
		d.cmd = nil
		return err
	}
	go func() {
		_ = d.cmd.Wait()
		close(d.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, dockerdStart)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-d.exited:
			return fmt.Errorf("dockerd ended: %s", d.tail())
		case <-ctx.Done():
			return fmt.Errorf("dockerd does not answer: %s", d.tail())
		case <-tick.C:
			if _, err := d.do(ctx, http.MethodGet, "/_ping", nil); err == nil {
				return nil
			}
		}
	}
}

// Stop ends the daemon with its containers, and removes its files.
func (d *Daemon) Stop() error {
	if d.cmd != nil {
		// It stops the containers and its own containerd.
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-d.exited:
		case <-time.After(dockerdStop):
			_ = d.cmd.Process.Kill() // its containerd dies with it
			<-d.exited
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], d.dir+"/") {
			_ = unix.Unmount(f[4], unix.MNT_DETACH)
		}
	}
	return os.RemoveAll(d.dir)
}

// EmptyImage makes an image with nothing in it and returns its name: a container
// of it shows what is mounted into it, and nothing was fetched from anywhere.
func (d *Daemon) EmptyImage(t *testing.T) string {
	t.Helper()
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	const repository, tag = "sandboxtest", "empty"
	query := url.Values{"fromSrc": {"-"}, "repo": {repository}, "tag": {tag}}
	if answer, err := d.do(t.Context(), http.MethodPost, "/images/create?"+query.Encode(), &empty); err != nil {
		t.Fatalf("importing an image: %v: %s", err, answer)
	}
	return repository + ":" + tag
}

// CLI is the docker program set to talk to the daemon: CLI(ctx, "run", "--rm",
// image, …). Its own configuration is empty.
func (d *Daemon) CLI(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "docker", append([]string{"--config", d.dir, "--host", "unix://" + d.Socket}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir}
	return cmd
}

// do asks the daemon one thing.
func (d *Daemon) do(ctx context.Context, method, path string, body io.Reader) (string, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.Socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, body)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-tar")
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode >= 300 {
		err = errors.New(resp.Status)
	}
	return string(answer), err
}

func (d *Daemon) log() string { return filepath.Join(d.dir, "log") }

// tail is the end of what the daemon has written.
func (d *Daemon) tail() string {
	text, _ := os.ReadFile(d.log())
	return string(text[max(len(text)-2000, 0):])
}
