package check_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/check"
)

// greet is a tool that nothing can be said against.
func greet() map[string]string {
	return map[string]string{
		"greet.tool.js": `import { words } from './words.js'

export default {
  getMetadata() {
    return { id: 'greet', name: 'Greet', description: 'Writes a greeting. Use it when someone is to be welcomed.',
      version: '1.2.0', category: 'text', author: 'A. Author', tags: ['text'],
      scenarios: ['Welcome a new member'], limitations: ['Knows two languages'] }
  },
  getSchema() {
    return {
      parameters: { type: 'object', required: ['who'], properties: {
        who: { type: 'string', minLength: 2, maxLength: 40, description: 'whom to greet' },
        times: { type: 'integer', minimum: 1, maximum: 5, default: 1, description: 'how often' },
        language: { type: 'string', enum: ['en', 'zh'], default: 'en', description: 'in which language' },
        notes: { type: 'array', maxItems: 3, items: { type: 'string' }, description: 'what else to say' },
      } },
      environment: { type: 'object', required: ['SIGNATURE'], properties: {
        SIGNATURE: { type: 'string', description: 'who greets', default: 'me' },
      } },
    }
  },
  getDependencies() { return { './words.js': 'local' } },
  getBusinessErrors() {
    return [{ code: 'NOT_WELCOME', description: 'someone is not to be greeted', match: /not welcome/, solution: 'Greet someone else.', retryable: false }]
  },
  getRuntimeConfig() { return { maxMemory: 64, networkAccess: false } },
  async execute(params) {
    if (params.who === 'nobody') throw new Error('nobody is not welcome here')
    if (typeof params.who !== 'string') throw new TypeError('who must be a text')
    this.api.logger.info('greeting', { length: params.who.length })
    return { text: (words[params.language] + ', ' + params.who + '! ').repeat(params.times ?? 1) + this.api.environment.get('SIGNATURE') }
  },
}
`,
		"words.js":      "export const words = { en: 'Hello', zh: '你好' }\n",
		"package.json":  `{"name": "@toolyard/greet", "version": "1.2.0", "type": "module", "license": "MIT", "private": true, "dependencies": {}}`,
		"README.md":     "# Greet\n\nWrites a greeting.\n\n## Configuration\n\nSIGNATURE: who greets.\n",
		"greet.test.js": "import test from 'node:test'\ntest('nothing', () => {})\n",
		".gitignore":    "node_modules/\n.env\n",
	}
}

// change is files with changes: a name with a text replaces the file; a text of the
// form "old → new" replaces within it; "-" removes it. For a symbolic link the name
// ends with @.
func change(t *testing.T, files, changes map[string]string) map[string]string {
	t.Helper()
	files = maps.Clone(files)
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		text := changes[name]
		name, _, _ = strings.Cut(name, "#")
		switch before, after, within := strings.Cut(text, " → "); {
		case text == "-":
			delete(files, name)
		case within:
			if !strings.Contains(files[name], before) {
				t.Fatalf("%s has no %q", name, before)
			}
			files[name] = strings.Replace(files[name], before, after, 1)
		default:
			files[name] = text
		}
	}
	return files
}

// write makes a folder of files.
func write(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		link, isLink := strings.CutSuffix(name, "@")
		path := filepath.Join(dir, filepath.FromSlash(link))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if filepath.Base(path) == ".env" {
			mode = 0o600
		}
		err := os.WriteFile(path, []byte(text), mode)
		if isLink {
			os.Remove(path)
			err = os.Symlink(text, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// subject asks the module of a folder what it is, with node or python3.
func subject(t *testing.T, dir string) check.Subject {
	t.Helper()
	s := check.Subject{Dir: dir, Name: filepath.Base(dir)}
	for _, name := range []string{s.Name + ".tool.js", "tool.js", s.Name + ".tool.py", "tool.py"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		said, err := describe(t, path)
		if err != nil {
			s.LoadError = err
			return s
		}
		said.Name, said.Dir, said.File = s.Name, dir, name
		s.Definition = said
		s.Trial = newNode(t, said)
		return s
	}
	s.LoadError = errors.New("no module")
	return s
}

func splitLines(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return c == '\n' })
}

func cut(line string) (name, value string, ok bool) { return strings.Cut(line, "=") }
