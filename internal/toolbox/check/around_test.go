package check_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/check"
)

const (
	withPackage  = "return { './words.js': 'local' } → return { './words.js': 'local', left: '^1.2.0' }"
	manifest     = `{"name": "x", "version": "1.2.0", "type": "module", "license": "MIT", "dependencies": {"left": "^1.2.0"}}`
	leftOne      = "node_modules/left/package.json"
	leftManifest = `{"name": "left", "version": "1.3.0", "license": "ISC"}`
)

func uninstalled(s *check.Subject, _ *check.Options) { s.Uninstalled = true }

// parse is a reader of .env that knows KEY=value alone.
func parse(_ *check.Subject, o *check.Options) {
	o.ParseEnv = func(content []byte) (map[string]string, []check.EnvFault) {
		values, faults := map[string]string{}, []check.EnvFault(nil)
		for i, line := range splitLines(string(content)) {
			name, value, ok := cut(line)
			if !ok {
				faults = append(faults, check.EnvFault{Line: i + 1, Message: "there is no = in it"})
				continue
			}
			values[name] = value
		}
		return values, faults
	}
}

func TestAroundRules(t *testing.T) {
	for _, r := range aroundRows() {
		t.Run(r.name(), func(t *testing.T) {
			t.Parallel()
			r.test(t)
		})
	}
}

func aroundRows() []row {
	required := "SIGNATURE: { type: 'string', description: 'who greets', default: 'me' } → SIGNATURE: { type: 'string', description: 'who greets' }"
	shell := func(code string) map[string]string {
		return map[string]string{"run.js": "import { exec, execFile, spawn } from 'node:child_process'\nimport cp from 'node:child_process'\nexport function run (params) {\n" + code + "\n}\n"}
	}
	log := func(code string) map[string]string {
		return map[string]string{"run.js": "export function run (params, self) {\n  const { logger } = self.api\n" + code + "\n}\n"}
	}
	return []row{
		{id: "dep-declared", of: "not in package.json", change: map[string]string{js: withPackage, leftOne: leftManifest}, want: "left", as: check.Error},
		{id: "dep-declared", of: "not installed yet", change: map[string]string{js: withPackage}, set: uninstalled, as: check.Info},
		{id: "dep-installed", of: "absent", change: map[string]string{js: withPackage, "package.json": manifest}, want: "left", as: check.Error},
		{id: "dep-installed", of: "not yet", change: map[string]string{js: withPackage, "package.json": manifest}, set: uninstalled, as: check.Info},
		{id: "dep-installed", of: "there", change: map[string]string{js: withPackage, "package.json": manifest, leftOne: leftManifest}, never: true},
		{id: "dep-satisfied", of: "older", change: map[string]string{js: withPackage, "package.json": manifest, leftOne: `{"name": "left", "version": "1.1.9", "license": "ISC"}`}, want: `version 1.1.9 is installed, outside of "^1.2.0"`, as: check.Error},
		{id: "dep-satisfied", of: "by the caller's comparison", change: map[string]string{js: withPackage, "package.json": manifest, leftOne: leftManifest},
			set: func(_ *check.Subject, o *check.Options) { o.Satisfies = func(string, string) bool { return false } }},
		{id: "dep-satisfied", of: "in range", change: map[string]string{js: withPackage, "package.json": manifest, leftOne: leftManifest}, never: true},
		{id: "dep-differs", of: "ranges", change: map[string]string{js: "return { './words.js': 'local' } → return { './words.js': 'local', left: '^1.0.0' }", "package.json": manifest, leftOne: leftManifest}, want: `package.json has "^1.2.0" and getDependencies has "^1.0.0"`, as: check.Warning},
		{id: "dep-differs", of: "only in package.json", change: map[string]string{"package.json": manifest, leftOne: leftManifest}, want: "getDependencies has nothing"},
		{id: "dep-differs", of: "blanks", change: map[string]string{js: "return { './words.js': 'local' } → return { './words.js': 'local', left: '>=1 <2' }", "package.json": `{"type": "module", "dependencies": {"left": ">= 1 < 2"}}`, leftOne: leftManifest}, never: true},
		{id: "dep-local", of: "absent", change: map[string]string{js: "'./words.js': 'local' → './words.js': 'local', './more.js': 'local'"}, want: "./more.js", as: check.Error},
		{id: "dep-local", of: "outside", change: map[string]string{js: "'./words.js': 'local' → '../greet/words.js': 'local'"}},
		{id: "dep-command", of: "older", change: map[string]string{js: "'./words.js': 'local' → docker: '>=20'"}, want: "found: 19.3.0", as: check.Warning,
			set: func(_ *check.Subject, o *check.Options) {
				o.Command = func(string) (string, bool) { return "19.3.0", true }
			}},
		{id: "dep-command", of: "there", change: map[string]string{js: "'./words.js': 'local' → docker: '>=20'"}, never: true,
			set: func(_ *check.Subject, o *check.Options) {
				o.Command = func(string) (string, bool) { return "24.0.7", true }
			}},
		{id: "dep-licences", of: "some", change: map[string]string{js: withPackage, "package.json": manifest, leftOne: leftManifest, "node_modules/left/node_modules/@a/b/package.json": `{"name": "@a/b", "version": "2.0.0"}`},
			want: "ISC 1 (left@1.3.0); unknown 1 (@a/b@2.0.0)", as: check.Info},
		{id: "dep-licences", of: "pnpm", change: map[string]string{js: withPackage, "package.json": manifest, "node_modules/.pnpm/left@1.3.0/node_modules/left/package.json": leftManifest, "node_modules/left@": ".pnpm/left@1.3.0/node_modules/left"},
			want: "ISC 1 (left@1.3.0)"},
		{id: "dep-scripts", of: "one", change: map[string]string{js: withPackage, "package.json": manifest, leftOne: `{"name": "left", "version": "1.3.0", "scripts": {"postinstall": "node x.js", "test": "y"}}`}, want: "left@1.3.0: the package has install scripts, which are not run unless you allow it: postinstall: node x.js", as: check.Info},
		{id: "dep-scripts", of: "none", change: map[string]string{js: withPackage, "package.json": manifest, leftOne: leftManifest}, never: true},

		{id: "env-file", of: "a line", change: map[string]string{".env": "SIGNATURE=x\noops\n"}, set: parse, want: ".env:2: there is no =", as: check.Error},
		{id: "env-file", of: "good", change: map[string]string{".env": "SIGNATURE=x\n"}, set: parse, never: true},
		{id: "env-mode", of: "open", change: map[string]string{".env": "SIGNATURE=x\n"}, want: "0644", as: check.Warning,
			set: func(s *check.Subject, o *check.Options) {
				parse(s, o)
				if err := os.Chmod(filepath.Join(s.Dir, ".env"), 0o644); err != nil {
					panic(err)
				}
			}},
		{id: "env-required", of: "unset", change: map[string]string{js: required}, set: parse, want: "SIGNATURE", as: check.Warning},
		{id: "env-required", of: "empty", change: map[string]string{js: required, ".env": "SIGNATURE=\n"}, set: parse},
		{id: "env-required", of: "set", change: map[string]string{js: required, ".env": "SIGNATURE=x\n"}, set: parse, never: true},
		{id: "env-required", of: "by the runtime config", change: map[string]string{js: required, js + "#2": "maxMemory: 64, → maxMemory: 64, environment: { SIGNATURE: 'x' },"}, set: parse, never: true},

		{id: "when", of: "only what", change: map[string]string{js: "Writes a greeting. Use it when someone is to be welcomed. → Writes a greeting."}, as: check.Warning},
		{id: "when", of: "chinese", change: map[string]string{js: "Writes a greeting. Use it when someone is to be welcomed. → 生成问候语，适用于欢迎新成员。"}, never: true},
		{id: "scenario", of: "none", change: map[string]string{js: "scenarios: ['Welcome a new member'] → scenarios: []"}, as: check.Warning},
		{id: "limit", of: "none", change: map[string]string{js: ", limitations: ['Knows two languages'] → "}, as: check.Warning},
		{id: "idempotent", of: "counts", change: map[string]string{js: "tags: ['text'] → tags: ['read']", js + "#2": "async execute(params) { → async execute(params) { this.api.storage.setItem('n', (this.api.storage.getItem('n') ?? 0) + 1);"}, want: "storage.json", as: check.Warning},
		{id: "idempotent", of: "the same again", change: map[string]string{js: "tags: ['text'] → tags: ['read']", js + "#2": "async execute(params) { → async execute(params) { this.api.storage.setItem('last', params.who);"}, never: true},
		{id: "idempotent", of: "no reader", change: inside("this.api.storage.setItem('n', (this.api.storage.getItem('n') ?? 0) + 1);"), never: true},

		{id: "secret-logged", of: "a parameter", change: log("  logger.info('login', { user: params.user, password: params.password })"), want: "run.js:3: password", as: check.Warning},
		{id: "secret-logged", of: "a variable", change: log("  console.log('with', self.api.environment.get('API_KEY'))"), want: "API_KEY"},
		{id: "secret-logged", of: "a template", change: log("  console.log(`with ${params.token}`)"), want: "token"},
		{id: "secret-logged", of: "only named", change: log("  logger.info('the password is set', { hasToken: true, tokens: 5 })"), never: true},
		{id: "secret-logged", of: "in a comment", change: log("  // console.log(password)"), never: true},
		{id: "secret-logged", of: "at run time", change: map[string]string{
			js:        "SIGNATURE: { type: 'string', description: 'who greets', default: 'me' } → SIGNATURE: { type: 'string', description: 'who greets', default: 'me' }, API_KEY: { type: 'string', description: 'a key' }",
			js + "#2": "required: ['SIGNATURE'] → required: ['SIGNATURE', 'API_KEY']",
			js + "#3": "async execute(params) { → async execute(params) { const all = this.api.environment; this.api.logger.info('all', { k: all.get('API_' + 'KEY') });"},
			want: "the value of API_KEY"},

		{id: "shell-string", of: "a template", change: shell("  exec(`ls ${params.dir}`)"), want: "run.js:4", as: check.Warning},
		{id: "shell-string", of: "joined", change: shell("  cp.execSync('ls ' + params.dir)")},
		{id: "shell-string", of: "made before", change: shell("  const cmd = `ls ${params.dir}`\n  exec(cmd)"), want: "cmd"},
		{id: "shell-string", of: "spawned", change: shell("  spawn(`ls ${params.dir}`, { shell: true })")},
		{id: "shell-string", of: "a constant", change: shell("  exec('ls -l')"), never: true},
		{id: "shell-string", of: "a list", change: shell("  execFile('ls', [params.dir])\n  spawn('ls', [`${params.dir}`])"), never: true},
		{id: "shell-string", of: "a regular expression", change: shell("  return /x/.exec(`${params.dir}`)"), never: true},
		{id: "shell-string", of: "python", change: map[string]string{"helper.py": "import os\ndef run(path):\n    os.system(f\"ls {path}\")\n", js: "-", "greet.tool.py": ""}, want: "helper.py:3",
			set: func(s *check.Subject, _ *check.Options) { s.Definition, s.LoadError = nil, errors.New("no module") }},
		{id: "shell-string", of: "python list", change: map[string]string{"helper.py": "import subprocess\ndef run(path):\n    subprocess.run([\"ls\", f\"{path}\"], check=True)\n", js: "-", "greet.tool.py": ""}, never: true,
			set: func(s *check.Subject, _ *check.Options) { s.Definition, s.LoadError = nil, errors.New("no module") }},

		{id: "progress", of: "silent", change: map[string]string{js: "maxMemory: 64, → maxMemory: 64, maxExecutionTime: 120000,"}, want: "asks for 2m0s a call", as: check.Warning},
		{id: "progress", of: "said", change: map[string]string{js: "maxMemory: 64, → maxMemory: 64, maxExecutionTime: 120000,", js + "#2": "async execute(params) { → async execute(params) { this.api.progress(0, 1);"}, never: true},
		{id: "tests", of: "none", change: map[string]string{"greet.test.js": "-"}, as: check.Warning},
		{id: "tests", of: "a folder", change: map[string]string{"greet.test.js": "-", "test/all.js": "1"}, never: true},
	}
}
