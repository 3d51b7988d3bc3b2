package host_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/toolbox/host"
	"github.com/toolyard/toolyard/tool"
)

// TestOlder: a tool written for the Prompt Manager runs as it is.
func TestOlder(t *testing.T) {
	text, err := os.ReadFile("testdata/older/older.tool.js")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, box(t), "older", "older.tool.js", map[string]string{
		"older.tool.js": string(text), "package.json": `{"name":"older","type":"module"}`,
		"node_modules/named/index.js": `class Named { constructor (o) { this.text = 'named ' + o.data } }; exports.Named = Named; exports.VERSION = '2'`,
		"node_modules/plain/index.js": `module.exports = n => 'plain ' + n`,
		"node_modules/both/index.js":  `exports.lookup = s => 'found ' + s`,
	}, func(b *bench) {
		schema := json.RawMessage(`{"properties":{"ALLOWED_DIRECTORIES":{"default":"[\"~/.prompt-manager\"]"}}}`)
		b.setup.Environment = host.Environment(map[string]string{"OLDER_LIMIT": "9"}, host.SchemaDefaults(schema))
	})
	d := b.describe()
	if len(d.Problems) != 0 || d.Metadata.Name != "旧工具" || len(d.BusinessErrors) != 3 {
		t.Errorf("described as %+v", d)
	}
	data, home := b.setup.Data, b.setup.Home
	both := `["` + data + `","` + home + `/shared"]`
	var session string
	for _, c := range []struct{ params, want string }{
		{`{"method":"directories"}`, both},
		{`{"method":"own"}`, both},
		{`{"method":"write","path":"deep/er/ü.txt","content":"写"}`, `{"bytesWritten":3,"path":"deep/er/ü.txt"}`},
		{`{"method":"read","path":"deep/er/ü.txt"}`, `写`},
		{`{"method":"read","path":"~/.prompt-manager/toolbox/older/data/deep/er/ü.txt"}`, `写`},
		{`{"method":"list"}`, `[{"name":"deep","type":"directory"}]`},
		{`{"method":"relative","path":"deep/x"}`, `deep/x`},
		{`{"method":"session"}`, ``},
		{`{"method":"session"}`, `=`},
		{`{"method":"add","content":"a"}`, `{"total":1,"limit":9}`},
		{`{"method":"add","content":"b"}`, `{"total":2,"limit":9}`},
		{`{"method":"kept"}`, `1`},
		{`{"method":"kept"}`, `2`},
		{`{"method":"modules"}`, `["named 1","plain 2","found x","plain 3"]`},
		{`{"method":"child"}`, `2`},
		{`{"method":"content"}`, `# 旧工具`},
	} {
		switch got := b.text(c.params); {
		case c.want == "=" && got != session:
			t.Errorf("%s: got %s, want %s", c.params, got, session)
		case c.want == "":
			session = got
		case c.want != "=" && got != c.want:
			t.Errorf("%s: got %s, want %s", c.params, got, c.want)
		}
	}
	for _, c := range []struct {
		params, business string
		code             tool.Code
	}{
		{`{"method":"read","path":"/etc/passwd"}`, "PATH_OUTSIDE_SCOPE", tool.PermissionDenied},
		{`{"method":"read","path":"none.txt"}`, "FILE_NOT_FOUND", tool.NotFound},
		{`{"method":"write","path":"x"}`, "MISSING", tool.ExecutionError},
		{`{"method":"none"}`, "", tool.ExecutionError},
	} {
		_, err := b.call(c.params)
		business, _ := err.Details["business"].(map[string]any)
		if code, _ := business["code"].(string); err.Code != c.code || code != c.business {
			t.Errorf("%s: got %s %q, want %s %q", c.params, err.Code, code, c.code, c.business)
		}
	}
	_, failed := b.call(`{"method":"batch"}`)
	if failed == nil || failed.Details["result"] == nil || !strings.Contains(string(failed.Details["result"].(json.RawMessage)), "任务不存在") {
		t.Errorf("a batch that failed: %+v", failed)
	}
	if err := os.WriteFile(filepath.Join(data, "a.png"), []byte("a picture"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, failed := b.call(`{"method":"media","path":"a.png"}`)
	if failed != nil {
		t.Fatal(failed)
	}
	want := tool.Content{Kind: tool.KindImage, Data: []byte("a picture"), MIME: "image/png"}
	if diff := cmp.Diff(want, r.Content[0]); diff != "" {
		t.Errorf("an image (-want +got):\n%s", diff)
	}
}

// TestPackages: a tool with real packages from the registry: CommonJS, one that is
// only an ES module, and one that is native code.
func TestPackages(t *testing.T) {
	t.Parallel()
	need(t, "npm")
	b := newBench(t, box(t), "packages", "packages.tool.js", map[string]string{
		"package.json": `{"name":"packages","private":true,"type":"module","dependencies":{"lodash":"4.17.21","nanoid":"5.1.5","@node-rs/crc32":"1.10.6"}}`,
		"packages.tool.js": `import lodash from 'lodash'
import { customAlphabet } from 'nanoid'
export default {
  async execute () {
    const { crc32 } = this.requireToolModule('@node-rs/crc32')
    const esm = await this.importToolModule('nanoid')
    const { default: again } = await import('lodash')
    return [lodash.chunk([1, 2, 3], 2), customAlphabet('a', 3)(), esm.nanoid(5).length, crc32('123456789'), again === lodash]
  }
}`}, func(b *bench) {
		install := exec.CommandContext(t.Context(), "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
		install.Dir = b.setup.Dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm install: %v\n%s", err, out)
		}
	})
	if got, want := b.text(`{}`), `[[[1,2],[3]],"aaa",5,3421780262,true]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
