package dotenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/joho/godotenv"

	"github.com/toolyard/toolyard/tool"
)

var now = time.Date(2026, 11, 18, 3, 0, 8, 0, time.FixedZone("", 3600))

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Values
		faults     []string
	}{
		{"empty", "", Values{}, nil},
		{"plain", "A=1\nB_2 = two words \n", Values{"A": "1", "B_2": "two words"}, nil},
		{"no line feed at the end", "A=1", Values{"A": "1"}, nil},
		{"crlf", "A=1\r\nB='x\r\ny'\r\n", Values{"A": "1", "B": "x\ny"}, nil},
		{"byte order mark", "\ufeffA=1\n", Values{"A": "1"}, nil},
		{"export", "export A=1\n  export\tB='2'\nexport=3\n", Values{"A": "1", "B": "2", "export": "3"}, []string{"line 3: export: " + faultKey}},
		{"yaml", "A: 1\nB : 'x'\nC:\n", Values{"A": "1", "B": "x", "C": ""}, nil},
		{"comments", "# x=1\n\n  # y\nA=1 # one\nB='#' # two\nC=a#b\nD=#c\n", Values{"A": "1", "B": "#", "C": "a#b", "D": ""}, nil},
		{"single quotes are literal", `A='a\n$B"c` + "`d'", Values{"A": `a\n$B"c` + "`d"}, nil},
		{"double quotes", `A="a\nb\r\"c\" \\ \$HOME \t \x41 'd'"`, Values{"A": "a\nb\r\"c\" \\ $HOME \\t \\x41 'd'"}, nil},
		{"backquotes", "A=`it's \"so\"`", Values{"A": `it's "so"`}, nil},
		{"several lines", "A=\"x\ny # no comment\nB=1\"\nC='1\n\n2'\n", Values{"A": "x\ny # no comment\nB=1", "C": "1\n\n2"}, nil},
		{"escaped single quote", `A='it\'s'`, Values{"A": `it\'s`}, nil},
		{"windows folder", "A='C:\\dir\\'\nB=\"D:\\\" # that\nC='x'\n", Values{"A": `C:\dir\`, "B": `D:\`, "C": "x"}, nil},
		{"last one holds", "A=1\nA=2\n", Values{"A": "2"}, nil},
		{"no assignment", "A=1\nhello\nhttp://x\nB=2", Values{"A": "1", "B": "2"}, []string{"line 2: there is no KEY=value", "line 3: there is no KEY=value"}},
		{"keys", "1A=x\n=x\nA B=x\nlower=y\na.b-c=z\n", Values{"lower": "y", "a.b-c": "z"}, []string{
			"line 1: " + faultKey, "line 2: " + faultKey, "line 3: " + faultKey,
			"line 4: lower: " + faultKey, "line 5: a.b-c: " + faultKey,
		}},
		{"open quote", "A=\"x\nB=2\n", Values{"B": "2"}, []string{"line 1: A: " + faultOpen}},
		{"text after the quote", "A='x'y\nB=2\n", Values{"A": "x", "B": "2"}, []string{"line 1: A: " + faultAfter}},
		{"nul", "A=x\x00y\nB=2\n", Values{"B": "2"}, []string{"line 1: A: the value holds a NUL byte"}},
		{"no utf-8", "A=\xff\nB=2\n", Values{"B": "2"}, []string{"line 1: A: the value is no UTF-8"}},
		{"line numbers after several lines", "A='\n\n'\nfoo\n", Values{"A": "\n\n"}, []string{"line 4: there is no KEY=value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, faults := Parse([]byte(c.text))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("values of %q (-want +got):\n%s", c.text, d)
			}
			var said []string
			for _, f := range faults {
				said = append(said, f.String())
			}
			if d := cmp.Diff(c.faults, said); d != "" {
				t.Errorf("faults of %q (-want +got):\n%s", c.text, d)
			}
		})
	}
}

// hard are values that something breaks on.
var hard = []string{
	"", " ", "\t", " lead", "trail ", "a\nB=1", "\n", "\r", "\r\n", "a\r\nb", "'", `"`, "`", "''", `""`, "'\"`", `\`, `\\`, `a\`, `'\`, `"\`, "`\\", "'\"`\\", `\'`, `\"`,
	`C:\dir\`, `C:\new\x`, "it's", `say "x"`, "$HOME", "${HOME}", "$(id)", `\$HOME`, "it's $5", "#", "a #b", "a#b", "# x", "=", "a=b", "==", "export A=1",
	`{"a":"it's \"x\"","b":[1,2]}`, "{\n  \"a\": 'x'\n}", "ü 漢字 🎉", "\u2028", "\u00a0x\u00a0", "\ufeff", "\x01\x1b[31m\x7f", "\v\f", `\n`, `\\n`, `\x5c`, `\x5c"`, `'\x5c`, `"a" #b`, "'\n\"\n`", `"a\" #`, "'\"`\n\\\n", "end'\"`\\",
}

func TestRoundTrip(t *testing.T) {
	all := Values{}
	for i, v := range hard {
		all[fmt.Sprintf("K%02d", i)] = v
	}
	for i, v := range hard {
		cycle(t, Values{"A": "before", "B": v, "C": hard[(i+7)%len(hard)]}, 3)
	}
	cycle(t, all, 3)
}

// cycle saves and loads without a disk, n times.
func cycle(t *testing.T, want Values, n int) {
	t.Helper()
	values := want
	for range n {
		text, err := Format("x", "X", values, now)
		if err != nil {
			t.Fatal(err)
		}
		got, faults := Parse(text)
		if len(faults) > 0 || !maps.Equal(got, want) {
			t.Fatalf("%q became, with faults %v:\n%s\n%s", want, faults, text, cmp.Diff(want, got))
		}
		values = got
	}
}

func randomValue(r *rand.Rand) string {
	alphabet := []string{"a", "Z", "0", " ", "\t", "\n", "\r", "'", `"`, "`", `\`, "$", "#", "=", ":", "{", "}", "[", ",", "é", "漢", "\x01", "\u2028", `\n`, "A=1", "\n#", "\nB='", `\"`, "export "}
	if r.IntN(8) == 0 {
		return hard[r.IntN(len(hard))]
	}
	var b strings.Builder
	for range r.IntN(24) {
		b.WriteString(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

func randomValues(r *rand.Rand) Values {
	values := Values{}
	for range r.IntN(6) {
		key := []byte("_")
		for range 1 + r.IntN(6) {
			key = append(key, "ABCXYZ_019"[r.IntN(10)])
		}
		values[string(key[r.IntN(2):])] = randomValue(r)
	}
	maps.DeleteFunc(values, func(k, _ string) bool { return !ValidKey(k) })
	return values
}

func TestRandomMapsSurvive(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		cycle(t, randomValues(r), 20)
	}
}

func TestFilesSurvive(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	path := filepath.Join(t.TempDir(), ".env")
	for range 10 {
		want := randomValues(r)
		values := want
		for range 20 {
			if err := Save(path, "x", "X", values, now); err != nil {
				t.Fatal(err)
			}
			got, faults, err := Load(path)
			if err != nil || len(faults) > 0 || !maps.Equal(got, want) {
				t.Fatalf("got %q, %v, %v, want %q", got, faults, err, want)
			}
			values = got
		}
	}
}

func TestFormat(t *testing.T) {
	got, err := Format("demo\nEVIL=1", "My\r\nEVIL=2 Tool\x00", Values{"B": "2", "A": "one two", "C": "x\ny"}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := "# My  EVIL=2 Tool\n# Tool: demo EVIL=1\n" + headGenerator + "\n# Last modified: 2026-11-18T03:00:08+01:00\nA='one two'\nB=2\nC='x\ny'\n"
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, key, value string
		code             tool.Code
		says             string
	}{
		{"lower case", "key", "x", tool.ValidationError, `"key"`},
		{"empty key", "", "x", tool.ValidationError, `""`},
		{"digit first", "1A", "x", tool.ValidationError, `"1A"`},
		{"line feed in the key", "A\nB", "x", tool.ValidationError, `"A\nB"`},
		{"nul", "A", "x\x00", tool.ValidationError, "A holds a NUL byte"},
		{"no utf-8", "A", "x\xff", tool.ValidationError, "A holds bytes that are no UTF-8"},
		{"too large", "A", strings.Repeat("x", MaxFile), tool.ResourceExhausted, "more than 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), ".env")
			_, _, update := Update(path, "x", "X", map[string]*string{c.key: &c.value}, now)
			for _, err := range []error{Save(path, "x", "X", Values{c.key: c.value}, now), update} {
				e, ok := errors.AsType[*tool.Error](err)
				if !ok || e.Code != c.code || !strings.Contains(e.Message, c.says) || e.Hint == "" {
					t.Errorf("got %v, want %s with %q", err, c.code, c.says)
				}
			}
			if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
				t.Errorf("files were left: %v", left)
			}
		})
	}
}

func TestLoadNothing(t *testing.T) {
	values, faults, err := Load(filepath.Join(t.TempDir(), ".env"))
	if err != nil || len(values) != 0 || len(faults) != 0 {
		t.Errorf("got %v, %v, %v", values, faults, err)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need rights on windows")
	}
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, ".env")
	if err := os.WriteFile(victim, []byte("A=secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	_, _, err := Load(path)
	if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code != tool.PermissionDenied {
		t.Errorf("Load of a link: %v", err)
	}
	one := "1"
	if _, _, err := Update(path, "x", "X", map[string]*string{"B": &one}, now); err == nil {
		t.Error("Update read through a link")
	}
	if err := Save(path, "x", "X", Values{"B": "1"}, now); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(victim); string(got) != "A=secret\n" {
		t.Errorf("the link's target became %q", got)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v, want a file of 0600", info.Mode(), err)
	}
}

func TestUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".env")
	text := "# kept by hand\nA=1 # one\n\n  export B='2'\nA=again\nwhat is this\nlower=x\nD=4\nC=\"open\nE=5"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	a, n, gone := "new\nX=1", "fresh", (*string)(nil)
	changes := map[string]*string{"A": &a, "N": &n, "D": gone, "Z": gone}
	got, faults, err := Update(path, "x", "X", changes, now)
	if err != nil {
		t.Fatal(err)
	}
	want := Values{"A": a, "B": "2", "N": n, "lower": "x", "E": "5"}
	if d := cmp.Diff(want, got); d != "" || len(faults) != 2 {
		t.Errorf("faults %v, values (-want +got):\n%s", faults, d)
	}
	head := header("x", "X", now)
	body := "# kept by hand\n\n  export B='2'\nA='new\nX=1'\nwhat is this\nlower=x\n# not readable: C=\"open\nE=5\nN=fresh\n"
	data, _ := os.ReadFile(path)
	if d := cmp.Diff(head+body, string(data)); d != "" {
		t.Errorf("file (-want +got):\n%s", d)
	}
	later := now.Add(time.Hour)
	if _, _, err := Update(path, "x", "X", nil, later); err != nil {
		t.Fatal(err)
	}
	data, _ = os.ReadFile(path)
	if d := cmp.Diff(header("x", "X", later)+body, string(data)); d != "" {
		t.Errorf("second update (-want +got):\n%s", d)
	}
	if info, _ := os.Stat(path); runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("files were left: %v", left)
	}
}

func TestUpdatesAtOnceAreAllKept(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no lock on windows")
	}
	path := filepath.Join(t.TempDir(), ".env")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 4 {
				v := "x"
				if _, _, err := Update(path, "x", "X", map[string]*string{fmt.Sprintf("K%d_%d", i, j): &v}, now); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, _, err := Load(path); err != nil || len(got) != 32 {
		t.Errorf("%d values, %v, want 32", len(got), err)
	}
}

func TestList(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{" , : ", nil},
		{"/a", []string{"/a"}},
		{"/a:/b: ~/c", []string{"/a", "/b", "~/c"}},
		{"/a, /b,/a", []string{"/a", "/b"}},
		{"/a,/b:/c", []string{"/a", "/b", "/c"}},
		{`C:\dir:D:/x,e:\y`, []string{`C:\dir`, "D:/x", `e:\y`}},
		{`["/a,b:c", " /d ", ""]`, []string{"/a,b:c", "/d"}},
		{`[]`, nil},
		{`[/a`, []string{"[/a"}},
		{`[1]`, []string{"[1]"}},
		{"~/.prompt-manager:data", []string{"~/.prompt-manager", "data"}},
	} {
		if d := cmp.Diff(c.want, List(c.in)); d != "" {
			t.Errorf("List(%q) (-want +got):\n%s", c.in, d)
		}
	}
}

// Files as people write them, on which godotenv, Node and we agree.
var agreed = "# comment\n\nA=1\nB=two words\nexport C='single $x \\n'\nD=\"double\\nline\"\nE= spaced # comment\nF='x # no comment' # comment\nG=\nH=''\nI=\"a\nb\"\nJ='{\"a\": [1, 2]}'\nK=a=b=c\nL=C:\\dir\\x\n"

func TestReadsAsGodotenv(t *testing.T) {
	got, faults := Parse([]byte(agreed))
	want, err := godotenv.UnmarshalBytes([]byte(agreed))
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	if d := cmp.Diff(want, map[string]string(got)); d != "" {
		t.Errorf("(-godotenv +ours):\n%s", d)
	}
}

// godotenv reads what is written but for backquotes, which it does not know,
// and a last backslash or double quote inside escaped double quotes, which it
// takes off.
func TestWrittenForGodotenv(t *testing.T) {
	for _, v := range hard {
		q := quote(v)
		if q[0] == '`' || q[0] == '"' && strings.Trim(v, `\"`) != v {
			continue
		}
		text, err := Format("x", "X", Values{"A": v, "B": "after"}, now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := godotenv.UnmarshalBytes(text)
		if d := cmp.Diff(map[string]string{"A": v, "B": "after"}, got); err != nil || d != "" {
			t.Errorf("%q, written as %s: %v (-want +godotenv):\n%s", v, q, err, d)
		}
	}
}

// Node reads all forms but the last one. Of that it sees at least the same
// keys, so that no value adds one.
func TestWrittenForNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not there")
	}
	r := rand.New(rand.NewPCG(5, 6))
	values := Values{}
	for i := 0; len(values) < 300; i++ {
		v := randomValue(r)
		if i < len(hard) {
			v = hard[i]
		}
		if q := quote(v); q[0] != '"' || q == `"`+v+`"` {
			values[fmt.Sprintf("KEY%03d", i)] = v
		}
	}
	for k, v := range nodeReads(t, node, values) {
		if v != values[k] {
			t.Errorf("%s=%s: node reads %q, want %q", k, quote(values[k]), v, values[k])
		}
	}
	if d := cmp.Diff("3", nodeReads(t, node, Values{"A": "3", "B": agreed})["A"]); d != "" {
		t.Error(d)
	}
}

// nodeReads writes values to a file and has node read it: those whose keys
// are in values, which must be all and no others.
func nodeReads(t *testing.T, node string, values Values) Values {
	t.Helper()
	path := filepath.Join(t.TempDir(), ".env")
	if err := Save(path, "x", "It's a \"tool\"", values, now); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "--env-file="+path, "-e", "process.stdout.write(JSON.stringify(process.env))")
	cmd.Env = []string{}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	got := Values{}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	for k := range values {
		if _, ok := got[k]; !ok {
			t.Errorf("node does not see %s", k)
		}
	}
	maps.DeleteFunc(got, func(k, _ string) bool { return k == "LD_LIBRARY_PATH" || k == "PWD" || k == "SHLVL" || k == "_" })
	for k := range got {
		if _, ok := values[k]; !ok {
			t.Errorf("node sees %s, which is no key", k)
		}
	}
	return got
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(agreed))
	for _, v := range hard {
		f.Add([]byte("A=" + v + "\nB=\"" + v + "\"\nC='" + v))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		list := scan(data)
		pos, line := 0, 1
		for _, s := range list {
			if s.start != pos || s.end <= pos || s.line != line {
				t.Fatalf("segment %+v at %d, line %d", s, pos, line)
			}
			line += bytes.Count(data[s.start:s.end], []byte("\n"))
			pos = s.end
		}
		if pos != len(data) {
			t.Fatalf("%d of %d bytes read", pos, len(data))
		}
		values, _ := Parse(data)
		value := string(data)
		changes := map[string]*string{"ADDED": &value}
		merged, err := Merge(data, "x", "X", changes, now)
		if err != nil {
			if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code == tool.Internal {
				t.Fatal(err)
			}
			return
		}
		values["ADDED"] = value
		if got, _ := Parse(merged); !maps.Equal(got, values) {
			t.Fatalf("merged %q, want %q", got, values)
		}
	})
}

func FuzzValue(f *testing.F) {
	for _, v := range hard {
		f.Add(v, v)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if check("A", a) != nil || check("A", b) != nil || len(a)+len(b) > 1<<16 {
			return
		}
		cycle(t, Values{"A": a, "B": b, "C": "after"}, 2)
	})
}

func FuzzList(f *testing.F) {
	for _, v := range []string{"/a:/b, ~/c", `C:\x:D:/y`, `["/a", "b:c"]`, `["a`, ":,:", `[""]`} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		list := List(value)
		for i, item := range list {
			if item == "" || item != strings.TrimSpace(item) || slices.Contains(list[:i], item) {
				t.Fatalf("List(%q) = %q", value, list)
			}
		}
		if !utf8.ValidString(value) || len(list) == 0 {
			return
		}
		again, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(list, List(string(again))); d != "" {
			t.Fatalf("List(%q), as JSON (-want +got):\n%s", value, d)
		}
	})
}
