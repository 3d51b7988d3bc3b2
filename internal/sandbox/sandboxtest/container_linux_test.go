package sandboxtest

import (
	"os"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/sandbox"
)

// insideLevel is set in a container: the level that is to be had there.
const insideLevel = "SANDBOXTEST_INSIDE"

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// TestInContainer runs the attacks in containers, of an image that is imported
// from a root file system made here. What a container may do by default is enough
// for L1, with the two documented options for L2.
func TestInContainer(t *testing.T) {
	if level := os.Getenv(insideLevel); level != "" {
		s := sandbox.New(sandbox.Config{})
		defer s.Close()
		NewCorpus(t).Attack(t, s, sandbox.Level(level))
		return
	}
	if testing.Short() {
		t.Skip("-short: the attacks have run outside of containers")
	}
	d := Dockerd(t)
	image := d.RootImage(t)
	const ordinary = "65534"
	two := []string{"--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined"}
	for _, c := range []struct {
		name, user, level string
		options           []string
	}{
		{"default_options", "0", "L1", nil},
		{"default_options_ordinary_user", ordinary, "L1", nil},
		{"two_options", "0", "L2", two},
		{"two_options_ordinary_user", ordinary, "L2", two},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{
				"run", "--rm", "--init", "--network", "none", "--user", c.user + ":" + c.user, "--workdir", "/tmp",
				"--env", "PATH=/usr/bin:/bin", "--env", insideLevel + "=" + c.level,
			}, c.options...)
			args = append(args, image, "/test", "-test.run", "^TestInContainer$", "-test.v")
			out, err := d.CLI(t.Context(), args...).CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
			if want := "level " + c.level + " as user " + c.user + ": "; !strings.Contains(string(out), want) {
				t.Errorf("the output has no line %q: the level cannot be had in the container", want)
			}
		})
	}
}
