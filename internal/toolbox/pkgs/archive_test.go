package pkgs_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/toolbox/pkgs"
	"github.com/toolyard/toolyard/tool"
)

// zipOf writes entries as they are, whatever their headers say.
func zipOf(t testing.TB, headers ...*zip.FileHeader) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, h := range headers {
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(h.Name, "/") {
			if _, err := io.WriteString(w, h.Comment); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipMode(name string, mode fs.FileMode, text string) *zip.FileHeader {
	h := &zip.FileHeader{Name: name, Comment: text}
	h.SetMode(mode)
	return h
}

// bombZip is a small zip of large files with nothing in them.
func bombZip(t testing.TB, files int, each int64, block ...byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 9) })
	if block == nil {
		block = make([]byte, 1<<20)
	} else {
		z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 1) })
	}
	for i := range files {
		w, err := z.Create(fmt.Sprintf("f%d", i))
		if err != nil {
			t.Fatal(err)
		}
		for n := each; n > 0; n -= int64(len(block)) {
			w.Write(block[:min(n, int64(len(block)))])
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// text is something that packs to a tenth or so.
func text(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < n; i += 16 {
		b[i] = byte(r.Uint32())
	}
	return b
}

func manyTar(t testing.TB, n int, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range n {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf(name, i), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return b.Bytes()
}

// lyingZip says that its only file is empty.
func lyingZip(t testing.TB) []byte {
	b := zipOf(t, zipMode("hello.tool.js", 0o644, strings.Repeat("x", 3000)))
	i := bytes.LastIndex(b, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(b[i+24:], 1)
	return b
}

// hiddenZip says that it has one entry, and has many.
func hiddenZip(t testing.TB) []byte {
	var headers []*zip.FileHeader
	for i := range 20_000 {
		headers = append(headers, &zip.FileHeader{Name: fmt.Sprint("f", i)})
	}
	b := zipOf(t, headers...)
	i := bytes.LastIndex(b, []byte("PK\x05\x06"))
	start := bytes.Index(b, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint16(b[i+8:], 1)
	binary.LittleEndian.PutUint16(b[i+10:], 1)
	binary.LittleEndian.PutUint32(b[i+12:], 60)
	binary.LittleEndian.PutUint32(b[i+16:], uint32(start))
	return b
}

// TestHostileArchives: each is refused with what is wrong with it, nothing is
// installed and nothing is written outside of the staging area.
func TestHostileArchives(t *testing.T) {
	link := func(kind byte, name, to string) []byte {
		return tarred(t, append(files(hello("1.0.0")), tar.Header{Name: name, Linkname: to, Typeflag: kind})...)
	}
	with := func(name string) []byte {
		return tarred(t, append(files(hello("1.0.0")), tar.Header{Name: name, Uname: "x", Typeflag: tar.TypeReg})...)
	}
	type row struct {
		name    string
		archive []byte
		code    tool.Code
		part    string
	}
	rows := []row{
		{"dots", with("../evil"), tool.ParameterError, `"../evil" leads out of its folder by ".."`},
		{"dots within", with("lib/../../evil"), tool.ParameterError, "leads out of its folder"},
		{"harmless dots", with("lib/../evil"), tool.ParameterError, "leads out of its folder"},
		{"absolute", with("/etc/evil"), tool.ParameterError, "absolute path"},
		{"drive", with("C:/evil"), tool.ParameterError, "colon"},
		{"drive with backslash", with(`C:\evil`), tool.ParameterError, "backslash"},
		{"backslash", with(`lib\..\..\evil`), tool.ParameterError, "backslash"},
		{"stream", with("a.txt:hidden"), tool.ParameterError, "colon"},
		{"newline", with("a\nb"), tool.ParameterError, "cannot be seen"},
		{"right to left", with("a\u202ejs.exe"), tool.ParameterError, "cannot be seen"},
		{"not UTF-8", with("a\xff"), tool.ParameterError, "not UTF-8"},
		{"device name", with("lib/NUL.js"), tool.ParameterError, "reserved for a device"},
		{"device name without extension", with("com1"), tool.ParameterError, "reserved for a device"},
		{"trailing dot", with("lib./x"), tool.ParameterError, "ends with a dot"},
		{"trailing blank", with("x "), tool.ParameterError, "blank"},
		{"empty component", with("lib//x"), tool.ParameterError, "empty component"},
		{"long component", with(strings.Repeat("x", 256)), tool.ParameterError, "255 bytes"},
		{"long path", with(strings.Repeat("x/", 600) + "y"), tool.ParameterError, "1,024 bytes"},
		{"deep", with(strings.Repeat("x/", 40) + "y"), tool.ParameterError, "32 folders"},
		{"case", with("HELLO.tool.js"), tool.ParameterError, "differs from"},
		{"case of a folder", with("LIB/other.js"), tool.ParameterError, `differs from "lib"`},
		{"normalisation", tarred(t, append(files(hello("1.0.0")), tar.Header{Name: "caf\u00e9", Uname: "x", Typeflag: tar.TypeReg}, tar.Header{Name: "cafe\u0301", Uname: "y", Typeflag: tar.TypeReg})...), tool.ParameterError, "form of its characters"},
		{"Kelvin", tarred(t, append(files(hello("1.0.0")), tar.Header{Name: "k", Uname: "x", Typeflag: tar.TypeReg}, tar.Header{Name: "\u212a", Uname: "y", Typeflag: tar.TypeReg})...), tool.ParameterError, "differs from"},
		{"twice", with("package.json"), tool.ParameterError, "is there twice"},
		{"file and folder", with("lib"), tool.ParameterError, "file and a folder"},
		{"below a file", with("package.json/x"), tool.ParameterError, "file and a folder"},
		{"symlink out", link(tar.TypeSymlink, "evil", "/etc"), tool.ParameterError, `is a symlink, to "/etc"`},
		{"symlink in", link(tar.TypeSymlink, "evil", "lib"), tool.ParameterError, "is a symlink"},
		{"hard link", link(tar.TypeLink, "evil", "/etc/passwd"), tool.ParameterError, "is a hard link"},
		{"character device", link(tar.TypeChar, "evil", ""), tool.ParameterError, "device"},
		{"block device", link(tar.TypeBlock, "evil", ""), tool.ParameterError, "device"},
		{"pipe", link(tar.TypeFifo, "evil", ""), tool.ParameterError, "pipe"},
		{"zip symlink", zipOf(t, zipMode("hello.tool.js", 0o644, ""), zipMode("evil", fs.ModeSymlink|0o777, "/etc")), tool.ParameterError, "is a symlink"},
		{"zip device", zipOf(t, zipMode("hello.tool.js", 0o644, ""), zipMode("evil", fs.ModeDevice|0o777, "")), tool.ParameterError, "neither a file nor a folder"},
		{"zip dots", zipOf(t, zipMode("hello.tool.js", 0o644, ""), zipMode("../evil", 0o644, "")), tool.ParameterError, "leads out"},
		{"zip backslash", zipOf(t, zipMode("hello.tool.js", 0o644, ""), zipMode(`..\evil`, 0o644, "")), tool.ParameterError, "backslash"},
		{"zip absolute", zipOf(t, zipMode("hello.tool.js", 0o644, ""), zipMode("/evil", 0o644, "")), tool.ParameterError, "absolute"},
		{"zip case", zipOf(t, zipMode("hello.tool.js", 0o644, ""), zipMode("Hello.tool.js", 0o644, "")), tool.ParameterError, "differs from"},
		{"zip encrypted", func() []byte {
			b := zipOf(t, &zip.FileHeader{Name: "hello.tool.js", Flags: 0, Comment: "x"})
			for _, at := range []int{6, bytes.LastIndex(b, []byte("PK\x01\x02")) + 8} {
				b[at] |= 1
			}
			return b
		}(), tool.ParameterError, "is encrypted"},
		{"zip that lies about sizes", lyingZip(t), tool.ParameterError, "cannot be unpacked"},
		{"zip with a wrong checksum", func() []byte {
			b := zipOf(t, &zip.FileHeader{Name: "hello.tool.js", Comment: "content"})
			return bytes.Replace(b, []byte("content"), []byte("c0ntent"), 1)
		}(), tool.ParameterError, "checksum"},
		{"zip with hidden entries", hiddenZip(t), tool.ResourceExhausted, "more than 1000 files"},
		{"zip64", func() []byte {
			b := zipped(t, hello("1.0.0"))
			binary.LittleEndian.PutUint16(b[len(b)-12:], 0xffff)
			return b
		}(), tool.ResourceExhausted, "zip64"},
		{"too many in a zip", bombZip(t, 1001, 0), tool.ResourceExhausted, "more than 1000 files"},
		{"too many in a tar", manyTar(t, 1001, "f%d"), tool.ResourceExhausted, "more than 1000 files"},
		{"too many folders", manyTar(t, 900, "a%d/b/c/d/e/f"), tool.ResourceExhausted, "more than 1000 files"},
		{"too large", bombZip(t, 3, 5<<20, text(1<<20)...), tool.ResourceExhausted, "larger than 12 MB"},
		{"too large in a tar", gzipped(t, tarred(t, tar.Header{Name: "x", Uname: strings.Repeat("\x00", 12_500_000), Typeflag: tar.TypeReg})), tool.ResourceExhausted, "larger than 12 MB"},
		{"bomb", bombZip(t, 1, 11<<20), tool.ResourceExhausted, "more than 200 times its size"},
		{"headers that are a bomb", gzipped(t, func() []byte {
			// One file whose extended header is longer than anything may be.
			b := make([]byte, 0, 31<<20)
			h := tarred(t, tar.Header{Name: "x", Uname: "y", Typeflag: tar.TypeReg})
			for len(b) < 30<<20 {
				b = append(b, make([]byte, 1<<20)...)
			}
			return append(h[:1024], b...)
		}()), tool.ResourceExhausted, "larger than 12 MB"},
		{"archive too long", append(tarred(t, files(hello("1.0.0"))...), make([]byte, 5_000_000)...), tool.ResourceExhausted, "larger than 4 MB"},
		{"cut tar", tarred(t, files(hello("1.0.0"))...)[:700], tool.ParameterError, "broken"},
		{"cut gzip", gzipped(t, tarred(t, files(hello("1.0.0"))...))[:100], tool.ParameterError, "broken"},
		{"wrong gzip checksum", func() []byte {
			b := gzipped(t, tarred(t, files(hello("1.0.0"))...))
			b[len(b)-6] ^= 1
			return b
		}(), tool.ParameterError, "broken"},
		{"cut zip", zipped(t, hello("1.0.0"))[:200], tool.ParameterError, "broken"},
		{"no archive", []byte("hello"), tool.ParameterError, "broken"},
		{"empty", nil, tool.ParameterError, "cut off"},
		{"no tool", zipped(t, map[string]string{"README": "x"}), tool.ParameterError, "has no tool"},
		{"two tools", zipped(t, map[string]string{"a.tool.js": "x", "b.tool.js": ""}), tool.ParameterError, "more than one tool: a.tool.js, b.tool.js"},
		{"tool with other letters", zipped(t, map[string]string{"Hello.Tool.JS": "x"}), tool.ParameterError, "Rename it to hello.tool.js"},
		{"tool too deep", zipped(t, map[string]string{"a/b/c.tool.js": "x"}), tool.ParameterError, "has no tool"},
		{"bad name", zipped(t, map[string]string{"tool.js": "", "package.json": `{"name": "@x/.y"}`}), tool.ParameterError, `".y" is no name`},
		{"name of a device", zipped(t, map[string]string{"tool.js": "", "package.json": `{"name": "con"}`}), tool.ParameterError, `"con" is no name`},
	}
	for _, c := range rows {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			outer := memory(t)
			p := open(t, func(o *pkgs.Config) {
				o.Home = filepath.Join(outer, "toolbox")
				o.Limits = pkgs.Limits{Archive: 4_000_000, Unpacked: 12_000_000, Entries: 1000}
			})
			file := filepath.Join(t.TempDir(), "hello.tgz")
			if err := os.WriteFile(file, c.archive, 0o644); err != nil {
				t.Fatal(err)
			}
			before := len(tree(t, outer))
			f, err := p.Fetch(t.Context(), file, nil)
			if err == nil {
				f.Close()
			}
			wantError(t, err, c.code, c.part)
			noStage(t, p)
			if after := tree(t, outer); len(after) != before {
				t.Errorf("%d files before, after %v", before, after)
			}
		})
	}
}

// TestPackageIsCleaned: what a package must not bring is left out, and modes are
// plain.
func TestPackageIsCleaned(t *testing.T) {
	p := open(t, nil)
	headers := files(hello("1.0.0"))
	for i := range headers {
		headers[i].Mode = 0o7777
	}
	headers = append(headers,
		tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}},
		tar.Header{Name: "data/storage.json", Uname: "x", Typeflag: tar.TypeReg}, tar.Header{Name: ".env", Uname: "x", Typeflag: tar.TypeReg},
		tar.Header{Name: "run.log", Uname: "x", Typeflag: tar.TypeReg}, tar.Header{Name: "node_modules/x.js", Uname: "x", Typeflag: tar.TypeReg},
		tar.Header{Name: ".git/hooks/post-checkout", Uname: "x", Typeflag: tar.TypeReg}, tar.Header{Name: "lib/.git/config", Uname: "x", Typeflag: tar.TypeReg},
		tar.Header{Name: "plain.js", Mode: 0o600, Uname: "x", Typeflag: tar.TypeReg}, tar.Header{Name: "empty/", Mode: 0o700, Typeflag: tar.TypeDir},
	)
	dir := t.TempDir()
	plant(t, dir, map[string]string{"hello.tgz": string(gzipped(t, tarred(t, headers...)))})
	f := fetch(t, p, filepath.Join(dir, "hello.tgz"))
	want := hello("1.0.0")
	want["plain.js"], want["lib/"], want["empty/"] = "x", "", ""
	got := tree(t, f.Dir)
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s came with it", name)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if slices.Sort(f.Left); !slices.Equal(slices.Compact(f.Left), []string{".env", ".git", "data", "lib/.git", "node_modules", "run.log"}) {
		t.Errorf("left out: %v", f.Left)
	}
	for name, mode := range map[string]fs.FileMode{"hello.tool.js": 0o755, "plain.js": 0o644, "empty": fs.ModeDir | 0o755, "lib": fs.ModeDir | 0o755} {
		if info, err := os.Stat(filepath.Join(f.Dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s is %v, %v, want %v", name, info.Mode(), err, mode)
		}
	}
}

// TestBundles: a bundle is installed if it has a tool; one that has a server is
// pointed elsewhere.
func TestBundles(t *testing.T) {
	p := open(t, nil)
	dir := t.TempDir()
	server := `{"manifest_version": "0.3", "name": "weather", "version": "2.0.0", "server": {"type": "node", "entry_point": "server/index.js"}}`
	plant(t, dir, map[string]string{
		"server.mcpb": string(zipped(t, map[string]string{"manifest.json": server, "server/index.js": "x"})),
		"tool.mcpb":   string(zipped(t, map[string]string{"manifest.json": server, "tool.js": "x"})),
		"none.mcpb":   string(zipped(t, hello("1.0.0"))),
		"broken.mcpb": string(zipped(t, map[string]string{"manifest.json": "[]", "tool.js": ""})),
		"tar.mcpb":    string(tarred(t, files(hello("1.0.0"))...)),
		"server.zip":  string(zipped(t, map[string]string{"manifest.json": server, "server/index.js": "x"})),
	})
	for name, part := range map[string]string{
		"server.mcpb": "a bundle with an MCP server (node, server/index.js), not with a tool of the toolbox. Add it as a server: toolyard gateway add",
		"server.zip":  "toolyard gateway add", "none.mcpb": "no manifest.json", "broken.mcpb": "no manifest.json", "tar.mcpb": "an .mcpb is a zip archive",
	} {
		f, err := p.Fetch(t.Context(), filepath.Join(dir, name), nil)
		if err == nil {
			f.Close()
		}
		wantError(t, err, tool.ParameterError, part)
	}
	if f := fetch(t, p, filepath.Join(dir, "tool.mcpb")); f.Name != "weather" || f.Version != "2.0.0" || f.File != "tool.js" || f.Kind != pkgs.KindBundle {
		t.Errorf("fetched %+v", f)
	}
}

// TestSources: what a source is taken for, and what is wrong with others.
func TestSources(t *testing.T) {
	p := open(t, nil)
	dir := t.TempDir()
	linked := plant(t, filepath.Join(dir, "linked"), hello("1.0.0"))
	if err := os.Symlink("hello.tool.js", filepath.Join(linked, "lib", "x.js")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, source string
		code         tool.Code
		part         string
	}{
		{"empty", " ", tool.ParameterError, "no source was given"},
		{"option", "--help", tool.ParameterError, "begins with a dash"},
		{"control character", "./a\x00b", tool.ParameterError, "control character"},
		{"missing", filepath.Join(dir, "none"), tool.NotFound, "there is no"},
		{"missing archive", "none.zip", tool.NotFound, "there is no none.zip"},
		{"plain http", "http://example.org/x.tgz", tool.ParameterError, "cannot be fetched by http"},
		{"ftp", "ftp://example.org/x.tgz", tool.ParameterError, "cannot be fetched by ftp"},
		{"a symlink in it", linked, tool.ParameterError, `"lib/x.js" is a symlink`},
		{"the toolbox", filepath.Dir(p.Dir("x")), tool.ParameterError, "around or deep in the toolbox"},
		{"all", "/", tool.ParameterError, "around or deep in the toolbox"},
		{"no npm name", "npm:../x", tool.ParameterError, "no name of an npm package"},
		{"repository with no sandbox", "https://example.org/x.git", tool.SandboxUnavailable, "fetched in the sandbox"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			f, err := p.Fetch(t.Context(), c.source, nil)
			if err == nil {
				f.Close()
			}
			wantError(t, err, c.code, c.part)
		})
	}
	noStage(t, p)
}

// checkUnpacked is what holds for every archive that was let in.
func checkUnpacked(t *testing.T, dir string, err error) {
	t.Helper()
	entries, readErr := os.ReadDir(filepath.Dir(dir))
	if readErr != nil || len(entries) != 1 {
		t.Fatalf("beside the folder: %v, %v", entries, readErr)
	}
	folded := map[string]string{}
	var total int64
	count := 0
	walkErr := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		rel = filepath.ToSlash(rel)
		if !info.IsDir() && !info.Mode().IsRegular() || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
			t.Errorf("%q is %v", rel, info.Mode())
		}
		if other, ok := folded[pkgs.Fold(rel)]; ok {
			t.Errorf("%q and %q", rel, other)
		}
		folded[pkgs.Fold(rel)] = rel
		if clean, reason := pkgs.CleanEntry(rel); clean != rel || reason != "" {
			t.Errorf("%q would be %q, %s", rel, clean, reason)
		}
		count++
		total += info.Size()
		return nil
	})
	if walkErr != nil {
		t.Fatal(walkErr)
	}
	if count > 200 || total > 200_000+64*4096 {
		t.Errorf("%d files of %d bytes", count, total)
	}
	if err != nil {
		if e, ok := errors.AsType[*tool.Error](err); !ok || e.Code == tool.Internal {
			t.Errorf("%#v", err)
		}
	}
}

var fuzzLimits = pkgs.Limits{Archive: 1 << 20, Unpacked: 100_000, Entries: 50, Ratio: 200}

func FuzzTar(f *testing.F) {
	f.Add(tarred(f, files(hello("1.0.0"))...))
	f.Add(gzipped(f, tarred(f, files(hello("1.0.0"))...)))
	f.Add(tarred(f, tar.Header{Name: "../x", Uname: "x", Typeflag: tar.TypeReg}))
	f.Add(tarred(f, tar.Header{Name: "a", Linkname: "/", Typeflag: tar.TypeSymlink}, tar.Header{Name: "a/b", Uname: "x", Typeflag: tar.TypeReg}))
	f.Add(tarred(f, tar.Header{Name: strings.Repeat("long", 60), Uname: "x", Typeflag: tar.TypeReg, Format: tar.FormatPAX}))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := filepath.Join(memory(t), "folder")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		err := pkgs.Untar(t.Context(), bytes.NewReader(b), int64(len(b)), dir, "archive", fuzzLimits, nil)
		checkUnpacked(t, dir, err)
	})
}

func FuzzZip(f *testing.F) {
	f.Add(zipped(f, hello("1.0.0")))
	f.Add(zipOf(f, zipMode("a", fs.ModeSymlink|0o777, "/"), zipMode("a/b", 0o644, "x")))
	f.Add(zipOf(f, zipMode("../x", 0o4755, "x"), zipMode("d/", fs.ModeDir|0o755, "")))
	f.Add(lyingZip(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := filepath.Join(memory(t), "folder")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		err := pkgs.Unzip(t.Context(), bytes.NewReader(b), int64(len(b)), dir, "archive", fuzzLimits, nil)
		checkUnpacked(t, dir, err)
	})
}

func FuzzCleanEntry(f *testing.F) {
	for _, s := range []string{"a/b", "../a", "/a", `a\b`, "./a/", "C:x", "a/./b", "nul.txt", "é", "a//b", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		clean, reason := pkgs.CleanEntry(raw)
		if reason != "" || clean == "" {
			return
		}
		if !filepath.IsLocal(clean) || path.Clean(clean) != clean || !utf8.ValidString(clean) || strings.ContainsAny(clean, "\\:\x00") {
			t.Errorf("%q became %q", raw, clean)
		}
		if again, reason := pkgs.CleanEntry(clean); again != clean || reason != "" {
			t.Errorf("%q became %q, and that %q, %s", raw, clean, again, reason)
		}
		if a := pkgs.Fold(clean); pkgs.Fold(a) != a && pkgs.Fold(pkgs.Fold(a)) != pkgs.Fold(a) {
			t.Errorf("%q folds to %q, and that to %q", clean, a, pkgs.Fold(a))
		}
	})
}
