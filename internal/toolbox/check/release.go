package check

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// maxPackage is how large a package had better be, in bytes.
const maxPackage = 10 << 20

// verdict is what became of one item of the checklist.
type verdict struct {
	state  State
	detail words
}

func pass(en, zh string) verdict    { return verdict{Passed, words{en, zh}} }
func fail(en, zh string) verdict    { return verdict{Failed, words{en, zh}} }
func unknown(en, zh string) verdict { return verdict{Skipped, words{en, zh}} }

// release adds the checklist. To add an item: a row here.
func (r *run) release() {
	for _, row := range []struct {
		id    string
		title words
		check func(*run) verdict
	}{
		{"layers", words{"no layer finds an error", "各层均无错误"}, (*run).cleanLayers},
		{"readme", words{"the README says what the tool does", "README 说明了工具用途"}, (*run).readme},
		{"version", words{"the version is semantic", "版本号符合语义化规范"}, (*run).semantic},
		{"version-raised", words{"the version is above the one before", "版本号高于上一版本"}, (*run).raised},
		{"version-same", words{"the manifest has the same version", "清单中的版本号一致"}, (*run).sameVersion},
		{"licence", words{"a licence is named", "已注明许可证"}, (*run).licence},
		{"tests-present", words{"there are tests", "有测试"}, (*run).testsPresent},
		{"tests-passing", words{"the tests pass", "测试通过"}, (*run).testsPassing},
		{"manual", words{"the manual is complete", "手册完整"}, (*run).manual},
		{"rights", words{"the README explains what the tool asks for", "README 说明了所需权限"}, (*run).rights},
		{"lockfile", words{"the versions of packages are locked", "依赖版本已锁定"}, (*run).lockfile},
		{"licences-known", words{"the licences of the packages are known", "依赖的许可证已知"}, (*run).licencesKnown},
		{"secrets", words{"no secret stands in the files", "文件中没有机密"}, (*run).secrets},
		{"package-clean", words{"the package holds only what belongs to the tool", "包中只有工具自身的内容"}, (*run).packageClean},
		{"package-size", words{"the package is of a moderate size", "包的大小适中"}, (*run).packageSize},
	} {
		v := row.check(r)
		r.report.Release = append(r.report.Release, Item{
			ID: row.id, Title: row.title[en], State: v.state, Detail: v.detail[en], title: row.title, detail: v.detail,
		})
	}
}

func (r *run) cleanLayers() verdict {
	errors := 0
	for _, l := range r.report.Layers {
		for _, f := range l.Findings {
			if f.Severity == Error {
				errors++
			}
		}
	}
	switch {
	case errors > 0:
		return fail(fmt.Sprintf("errors: %d", errors), fmt.Sprintf("错误：%d", errors))
	case len(r.report.Layers) < len(layers()) || r.Trial == nil:
		return unknown("not all layers were run", "未运行全部检查层")
	}
	return pass("", "")
}

// readmeText is the README's content; "" if there is none.
func (r *run) readmeText() string {
	entries, _ := os.ReadDir(r.Dir)
	for _, e := range entries {
		if isReadme(e.Name()) {
			content, _ := readFile(filepath.Join(r.Dir, e.Name()), maxSource)
			return string(content)
		}
	}
	return ""
}

func (r *run) readme() verdict {
	text := r.readmeText()
	switch words := len([]rune(strings.TrimSpace(text))); {
	case text == "":
		return fail("there is no README.md", "没有 README.md")
	case words < 40:
		return fail(fmt.Sprintf("it has only %d characters", words), fmt.Sprintf("只有 %d 个字符", words))
	}
	return pass("", "")
}

func (r *run) version() (*semver.Version, bool) {
	if r.Definition == nil {
		return nil, false
	}
	v, err := semver.StrictNewVersion(r.Definition.Metadata.Version)
	return v, err == nil
}

func (r *run) semantic() verdict {
	v, ok := r.version()
	if !ok {
		return fail("it has none", "没有有效版本号")
	}
	return pass(v.Original(), v.Original())
}

func (r *run) raised() verdict {
	v, ok := r.version()
	if r.Previous == "" || !ok {
		return unknown("the version before is not known", "上一版本未知")
	}
	old, err := semver.NewVersion(r.Previous)
	if err != nil {
		return unknown(fmt.Sprintf("the version before is %q", r.Previous), fmt.Sprintf("上一版本为 %q", r.Previous))
	}
	change := fmt.Sprintf("%s → %s", r.Previous, v.Original())
	if v.GreaterThan(old) {
		return pass(change, change)
	}
	return fail(change, change)
}

func (r *run) sameVersion() verdict {
	v, ok := r.version()
	manifest, has := r.manifestVersion()
	switch {
	case !ok || !has:
		return unknown("there is no manifest with a version", "没有带版本号的清单")
	case manifest != v.Original():
		text := fmt.Sprintf("%s ≠ %s", manifest, v.Original())
		return fail(text, text)
	}
	return pass("", "")
}

func (r *run) manifestVersion() (string, bool) {
	if r.project != nil && r.project.Version != "" {
		return r.project.Version, true
	}
	return r.pyproject("version")
}

// pyproject is a text of the section project of pyproject.toml.
func (r *run) pyproject(key string) (string, bool) {
	content, err := readFile(filepath.Join(r.Dir, "pyproject.toml"), maxSource)
	if err != nil {
		return "", false
	}
	value, ok := projectValue(content, key)
	m := tomlText().FindStringSubmatch(value)
	if !ok || m == nil {
		return "", false
	}
	return m[1] + m[2], true
}

func (r *run) licence() verdict {
	if r.project != nil && r.project.license() != "" {
		return pass(r.project.license(), r.project.license())
	}
	if text, ok := r.pyproject("license"); ok {
		return pass(text, text)
	}
	entries, _ := os.ReadDir(r.Dir)
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "LICENCE") || strings.HasPrefix(name, "COPYING") {
			return pass(e.Name(), e.Name())
		}
	}
	return fail("no field license in package.json or pyproject.toml, and no file LICENSE", "package.json 或 pyproject.toml 中没有 license 字段，也没有 LICENSE 文件")
}

func (r *run) testsPresent() verdict {
	if _, tests := r.code(); !tests {
		return fail("none found", "未找到")
	}
	return pass("", "")
}

func (r *run) testsPassing() verdict {
	tester, ok := r.Trial.(Tester)
	if !ok {
		return unknown("tests cannot be run here", "此处无法运行测试")
	}
	if _, tests := r.code(); !tests {
		return unknown("there are none", "没有测试")
	}
	ctx, cancel := context.WithTimeout(r.ctx, trialsTime)
	defer cancel()
	got, err := tester.Test(ctx)
	if err != nil {
		return unknown(brief([]byte(err.Error())), brief([]byte(err.Error())))
	}
	if !got.Passed {
		return fail(got.Summary, got.Summary)
	}
	return pass(got.Summary, got.Summary)
}

// manual looks at what a manual is made of, for one is always made.
func (r *run) manual() verdict {
	if r.Definition == nil {
		return unknown("the module does not load", "模块无法加载")
	}
	var missing []string
	d := r.Definition
	for _, row := range []struct {
		name string
		ok   bool
	}{
		{"description", d.Metadata.Description != ""}, {"scenarios", len(d.Metadata.Scenarios) > 0},
		{"limitations", len(d.Metadata.Limitations) > 0}, {"author", d.Metadata.Author != ""}, {"category", d.Metadata.Category != ""},
		{"parameters", d.Parameters != nil},
	} {
		if !row.ok {
			missing = append(missing, row.name)
		}
	}
	for where, raw := range map[string][]byte{"parameters": d.Parameters, "environment": d.Environment} {
		missing = append(missing, undescribed(where, raw)...)
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		list := strings.Join(missing, ", ")
		return fail("missing: "+list, "缺少："+list)
	}
	return pass("", "")
}

func undescribed(where string, raw []byte) []string {
	value, err := decoded(raw)
	root, ok := value.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(node(root).properties())) {
		property, _ := node(root).properties()[name].(map[string]any)
		if text, _ := property["description"].(string); strings.TrimSpace(text) == "" {
			names = append(names, where+"."+name)
		}
	}
	return names
}

func (r *run) rights() verdict {
	if r.Definition == nil {
		return unknown("the module does not load", "模块无法加载")
	}
	rt := r.Definition.Runtime
	readme := strings.ToLower(r.readmeText())
	var silent []string
	for _, row := range []struct {
		right string
		asked bool
		terms string
	}{
		{"network", rt.Network.All || len(rt.Network.Domains) > 0, `network|internet|http|online|api\b|网络|联网`},
		{"directories", foreign(rt.Directories), `director|folder|path|目录|文件夹|路径`},
		{"memory", rt.MaxMemory > 512<<20, `memory|内存`},
		{"time", rt.MaxExecutionTime > defaultTime, `time|seconds|minutes|long|时间|秒|分钟`},
		{"docker", rt.SandboxType == "docker", `docker|container|容器`},
	} {
		if row.asked && !regexp.MustCompile(row.terms).MatchString(readme) {
			silent = append(silent, row.right)
		}
	}
	if len(silent) > 0 {
		list := strings.Join(silent, ", ")
		return fail("not mentioned: "+list, "未提及："+list)
	}
	return pass("", "")
}

// foreign reports whether directories are asked for beside the tool's own data and
// what tools share.
func foreign(dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		dir = strings.TrimSuffix(dir, "/")
		return !strings.HasSuffix(dir, "data") && !strings.HasSuffix(dir, "/shared") && dir != "shared"
	})
}

func (r *run) lockfile() verdict {
	if r.Definition == nil {
		return unknown("the module does not load", "模块无法加载")
	}
	if len(r.packages()) == 0 && (r.project == nil || len(r.project.Dependencies) == 0) {
		return pass("no packages", "没有依赖包")
	}
	if r.lang == definition.Python {
		manifest, declared := requirements(r.Dir)
		for _, name := range slices.Sorted(maps.Keys(declared)) {
			if !strings.HasPrefix(declared[name], "==") {
				return fail(fmt.Sprintf("%s: %s is not pinned with ==", manifest, name), fmt.Sprintf("%s：%s 未用 == 固定版本", manifest, name))
			}
		}
		return pass("", "")
	}
	for _, name := range []string{"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock"} {
		if _, err := os.Stat(filepath.Join(r.Dir, name)); err == nil {
			return pass(name, name)
		}
	}
	return fail("there is no lockfile", "没有锁文件")
}

func (r *run) licencesKnown() verdict {
	all := nodeModules(r.Dir)
	if r.lang == definition.Python {
		all = sitePackages(r.Dir)
	}
	if len(all) == 0 {
		if r.Definition != nil && len(r.packages()) == 0 {
			return pass("no packages", "没有依赖包")
		}
		return unknown("no packages are installed", "未安装依赖包")
	}
	var none []string
	for _, p := range all {
		if p.license == "" {
			none = append(none, p.name)
		}
	}
	if len(none) > 0 {
		list := strings.Join(slices.Compact(none), ", ")
		return fail("not known: "+brief([]byte(list)), "未知："+brief([]byte(list)))
	}
	return pass("", "")
}

// secretText finds what can only be a secret.
var secretText = lazily(`-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bsk-[A-Za-z0-9_-]{32,}\b|\bxox[abprs]-[A-Za-z0-9-]{20,}`)

func (r *run) secrets() verdict {
	var places []string
	entries, _ := os.ReadDir(r.Dir)
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == ".env" || strings.HasPrefix(e.Name(), "run.log") {
			continue
		}
		content, err := readFile(filepath.Join(r.Dir, e.Name()), maxSource)
		if err == nil && secretText().Match(content) {
			places = append(places, e.Name())
		}
	}
	sources, _ := r.code()
	for _, s := range sources {
		if strings.Contains(s.name, "/") && secretText().MatchString(s.text) {
			places = append(places, s.name)
		}
	}
	if len(places) > 0 {
		list := strings.Join(places, ", ")
		return fail("in "+list, "位于 "+list)
	}
	return pass("", "")
}

var notPacked = lazily(`(^|/)(node_modules|\.venv|venv|__pycache__|\.git)/|^(data|logs)/|(^|/)\.env($|\.local$)|^run\.log`)

func (r *run) packageClean() verdict {
	if r.Packed == nil {
		return unknown("what the package holds is not known here", "包的内容未知")
	}
	var wrong []string
	for _, f := range r.Packed {
		if m := notPacked().FindString(f.Path); m != "" && !slices.Contains(wrong, strings.Trim(m, "/")) {
			wrong = append(wrong, strings.Trim(m, "/"))
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		list := strings.Join(wrong, ", ")
		return fail("it holds "+list, "包含 "+list)
	}
	return pass(fmt.Sprintf("files: %d", len(r.Packed)), fmt.Sprintf("文件：%d", len(r.Packed)))
}

func (r *run) packageSize() verdict {
	if r.Packed == nil {
		return unknown("what the package holds is not known here", "包的内容未知")
	}
	var size int64
	for _, f := range r.Packed {
		size += f.Size
	}
	text := fmt.Sprintf("%.1f KiB", float64(size)/1024)
	if size > maxPackage {
		return fail(fmt.Sprintf("%s, more than %d MiB", text, maxPackage>>20), fmt.Sprintf("%s，超过 %d MiB", text, maxPackage>>20))
	}
	return pass(text, text)
}
