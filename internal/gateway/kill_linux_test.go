package gateway_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/gateway"
)

// helperVariable makes TestHelper hold a gateway until it is killed.
const helperVariable = "GATEWAY_TEST_HELPER"

// TestHelper is the process that [TestKilled] kills; by itself it does nothing.
func TestHelper(t *testing.T) {
	if os.Getenv(helperVariable) == "" {
		return
	}
	y := open(t, map[string]gateway.Server{"plain": plain(t, "good")})
	y.start(t, "plain")
	y.must(t, "plain", "child", `{}`, nil)
	fmt.Println("pid", y.status(t, "plain").PID)
	select {}
}

// TestKilled: nothing of a server is left when the program itself is killed.
func TestKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelper$")
	cmd.Env = append(os.Environ(), helperVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "pid "); ok {
			pid, _ = strconv.Atoi(text)
		}
	}
	if pid == 0 {
		t.Fatal("the helper named no server")
	}
	tree := descendants(t, pid)
	if len(tree) < 2 {
		t.Fatalf("the tree of %d is %v", pid, tree)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for _, one := range tree {
		until(t, fmt.Sprintf("process %d to be gone", one), func() bool { return !alive(one) })
	}
}
