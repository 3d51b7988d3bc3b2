package toolyard_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/tool"
)

func TestReload(t *testing.T) {
	off := false
	var config toolyard.Config
	yard, _ := open(t, map[string]string{"a.txt": "alpha\n"}, func(c *toolyard.Config) {
		c.ToolSettings = map[string]toolyard.ToolSettings{"glob": {Enabled: &off}}
		config = *c
	})
	code := func(name string, args map[string]any) tool.Code {
		t.Helper()
		if r := call(t, yard, name, args); r.Err != nil {
			return r.Err.Code
		}
		return ""
	}
	read, glob := map[string]any{"file_path": "a.txt"}, map[string]any{"pattern": "*"}
	expect := func(when string, forRead, forGlob tool.Code) {
		t.Helper()
		if got := []tool.Code{code("read", read), code("glob", glob)}; !cmp.Equal(got, []tool.Code{forRead, forGlob}) {
			t.Errorf("%s: read and glob give %q, want %q and %q", when, got, forRead, forGlob)
		}
	}
	expect("at the start", "", tool.ToolDisabled)

	denied := config
	denied.ToolSettings = nil
	denied.Permissions.Deny = []toolyard.Rule{{Text: "read(a.txt)"}}
	if restart, err := yard.Reload(t.Context(), denied); err != nil || restart != nil {
		t.Fatalf("Reload: %v, %v", restart, err)
	}
	expect("with a rule and no setting", tool.PermissionDenied, "")

	wrong := config
	wrong.Permissions.Allow = []toolyard.Rule{{Text: "read("}}
	if _, err := yard.Reload(t.Context(), wrong); err == nil {
		t.Error("a rule that does not parse is taken")
	}
	expect("after a wrong one", tool.PermissionDenied, "")

	other := config
	other.DoomLoop = "off"
	restart, err := yard.Reload(t.Context(), other)
	if err != nil || !cmp.Equal(restart, []string{"doomLoop"}) {
		t.Errorf("Reload: %v, %v; want doomLoop to take a new start", restart, err)
	}
	expect("as at the start", "", tool.ToolDisabled)
}
