package deps_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/deps"
)

// TestCompiled builds an addon from source with the node-gyp that npm brings, in
// the sandbox and without a network.
func TestCompiled(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"make", "g++", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("not applicable: no %s", program)
			return
		}
	}
	program, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node")
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(program)), "include", "node", "node.h")); err != nil {
		t.Log("not applicable: node came without its headers")
		return
	}
	s := serve(t)
	s.add("addon", "1.0.0", map[string]string{
		"package.json": `{"name": "addon", "version": "1.0.0", "main": "index.js"}`,
		"index.js":     "module.exports = require('./build/Release/addon.node')",
		"binding.gyp":  `{"targets": [{"target_name": "addon", "sources": ["addon.c"]}]}`,
		"addon.c": `#include <node_api.h>
static napi_value init(napi_env env, napi_value exports) { napi_value v; napi_create_int32(env, 42, &v); return v; }
NAPI_MODULE(addon, init)`,
	})
	dir := t.TempDir()
	put(t, dir, map[string]string{"tool.js": ""})
	report, err := deps.New(local(t, s)).Install(t.Context(), deps.Request{Dir: dir, Definition: define(dir, "addon@1"), Allow: map[string]bool{"addon": true}})
	if err != nil {
		t.Fatal(err)
	}
	if got := node(t, dir, "import a from 'addon'; console.log(a)"); got != "42" || len(report.Scripts) != 1 || !report.Scripts[0].Ran {
		t.Errorf("it prints %q; %+v", got, report.Scripts)
	}
}
